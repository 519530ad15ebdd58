"""The kills of the self-test: conversations with a daemon that dies again and again, and what came of each message.

What was acknowledged is written down here, never by the daemon. Each message is a sum, which the offline responder
works out, so an answer says what it answers, also where several messages were answered in one turn.
"""

import json
import random
import re
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import apsw
import httpx
import trio

from daycare.store.sqlite import packing
from daycare.testing.daemon_process import BrokenDaemonError, DaemonProcess, ThrowawayHome, client_of, status

CONVERSATIONS: Final = 4
CONFIG: Final = '[models]\ndefault = "offline/rules"\n'
_START_SHARE: Final = 0.25  # of the kills come while the daemon starts
_PAUSE_S: Final = 0.1  # at most, between two messages of one conversation
_RETRY_S: Final = 0.05
_AGAIN_SHARE: Final = 0.1  # of the acknowledged messages are sent again on purpose
_WORK_MIN_S: Final = 0.5
_READY_S: Final = 120.0  # a slow disk is no fault
_HUSH_S: Final = 60.0
_QUIET_S: Final = 120.0
_ANSWER: Final = re.compile(r"^(\d+\+\d+) = (\d+)$", re.MULTILINE)
KillFinding = tuple[str, str]  # `lost`, `doubled`, `reordered` or `broken`, and what was seen


@dataclass
class SaidMessage:
    """A message as its writer knows it. `seq` is the number in its receipt; None: not acknowledged."""

    path: str
    number: int
    sum: str
    seq: int | None = None

    @property
    def key(self) -> str:
        """The idempotency key, the same for each repeat."""
        return f"selftest-{self.path}-{self.number}"

    @property
    def text(self) -> str:
        """What is sent."""
        return f"what is {self.sum}?"


@dataclass
class KillFigures:
    """What was done, and what became of it."""

    kills: int = 0
    while_starting: int = 0
    acknowledged: int = 0
    receipts_taken: int = 0  # of messages that were committed when a kill came; recognised as they were repeated
    repeated: int = 0  # sent again after their receipt, on purpose, and recognised
    interrupted: int = 0  # turns that a kill met at work
    answered: int = 0
    set_aside: int = 0  # in work alone at five deaths: a dead letter, as promised
    start_s: float = 0.0  # the median
    findings: list[KillFinding] = field(default_factory=list)


class KillTrial:
    """One home, its daemons and the people who write to them."""

    def __init__(self, home: ThrowawayHome, rng: random.Random) -> None:
        self.figures = KillFigures()
        self._home = home
        self._rng = rng
        self._starts: list[float] = []
        self._said: list[SaidMessage] = []
        self._paths = ["/me/direct", *(f"/me/agent/a{number}" for number in range(1, CONVERSATIONS))]
        self._hushed = trio.Event()
        self._talking = 0

    async def begin(self) -> float:
        """Start the daemon for the first time, create the agents, kill it; return the seconds until it was ready."""
        process = DaemonProcess(self._home)
        try:
            ready_s = await process.ready(_READY_S)
            async with client_of(self._home.socket) as client:
                for path in self._paths[1:]:
                    (await client.post("/v1/agents", json={"path": path})).raise_for_status()
        finally:
            with trio.CancelScope(shield=True):
                await process.kill()
        assert ready_s is not None
        self._starts.append(ready_s)
        return ready_s

    async def run(self, kills: int, stop_at: float, told: Callable[[int], None]) -> KillFigures:
        """Kill so often, or until `stop_at` (`time.perf_counter`); let all come to rest; compare."""
        try:
            async with trio.open_nursery() as nursery:
                for place, path in enumerate(self._paths, 1):
                    self._talking += 1
                    nursery.start_soon(self._talk, path, place, random.Random(self._rng.random()))
                while self.figures.kills < kills and time.perf_counter() < stop_at:
                    await self._life()
                    told(self.figures.kills)
                await self._rest()
            self.figures.findings += judged(self._home, self._said, self.figures)
        except* (BrokenDaemonError, httpx.HTTPError) as errors:
            self.figures.findings += [("broken", str(error)) for error in errors.exceptions]
        self.figures.acknowledged = sum(said.seq is not None for said in self._said)
        self.figures.start_s = statistics.median(self._starts)
        return self.figures

    async def _life(self) -> None:
        """Start the daemon and kill it: while it starts, or at some moment after it is ready."""
        start_s = statistics.median(self._starts)
        starting = self._rng.random() < _START_SHARE
        process = DaemonProcess(self._home)
        try:
            if starting:
                await trio.sleep(self._rng.uniform(0.0, start_s))
            else:
                if (ready_s := await process.ready(_READY_S)) is not None:
                    self._starts.append(ready_s)
                await trio.sleep(self._rng.uniform(0.0, max(start_s, _WORK_MIN_S)))
        finally:
            with trio.CancelScope(shield=True):
                await process.kill()
        self.figures.kills += 1
        self.figures.while_starting += starting

    async def _rest(self) -> None:
        """Start it a last time, let everybody finish, wait until nothing is left to do, stop it in order."""
        process = DaemonProcess(self._home)
        try:
            await process.ready(_READY_S)
            self._hushed.set()
            with trio.move_on_after(_HUSH_S):
                while self._talking:
                    await trio.sleep(_RETRY_S)
            if self._talking:
                raise BrokenDaemonError(f"after {_HUSH_S:g} s some messages are not acknowledged")
            await self._quiet()
            await process.stop()
        finally:
            with trio.CancelScope(shield=True):
                await process.kill()

    async def _quiet(self) -> None:
        """Wait as long as what waits becomes less."""
        least: int | None = None
        with trio.move_on_after(_QUIET_S) as waiting:
            while True:
                now = await status(self._home.socket)
                if now["inbox_waiting"] == 0 and now["agents"]["in_turn"] == 0:
                    return
                if least is None or now["inbox_waiting"] < least:
                    least = now["inbox_waiting"]
                    waiting.deadline = trio.current_time() + _QUIET_S
                await trio.sleep(_RETRY_S)
        raise BrokenDaemonError(f"{least} messages still wait after {_QUIET_S:g} s")

    # -- a conversation ----------------------------------------------------------------------------------------------

    async def _talk(self, path: str, place: int, rng: random.Random) -> None:
        """Write one message after the other, each until it is acknowledged."""
        number = 0
        async with client_of(self._home.socket) as client:
            while not self._hushed.is_set():
                number += 1
                said = SaidMessage(path, number, f"{number}+{place}")
                self._said.append(said)
                await self._say(client, said)
                if rng.random() < _AGAIN_SHARE:
                    await self._say(client, said)
                with trio.move_on_after(rng.uniform(0.0, _PAUSE_S)):
                    await self._hushed.wait()
        self._talking -= 1

    async def _say(self, client: httpx.AsyncClient, said: SaidMessage) -> None:
        while True:
            try:
                answer = await client.post("/v1/messages", json={"path": said.path, "text": said.text, "key": said.key})
            except httpx.TransportError:
                await trio.sleep(_RETRY_S)
                continue
            if answer.status_code in (200, 202):
                self._acknowledged(said, answer.json())
                return
            if answer.status_code not in (429, 503):
                raise BrokenDaemonError(f"{said.text!r} was refused: {answer.status_code} {answer.text}")
            await trio.sleep(_RETRY_S)

    def _acknowledged(self, said: SaidMessage, receipt: dict[str, object]) -> None:
        seq, known = receipt["seq"], bool(receipt["duplicate"])
        if said.seq is None:
            self.figures.receipts_taken += known
        elif seq == said.seq and known:
            self.figures.repeated += 1
        else:
            what = f"{said.text!r} to {said.path} was acknowledged as {said.seq}, and taken again as {seq}"
            self.figures.findings.append(("doubled", what))
        assert isinstance(seq, int)
        said.seq = seq


def judged(home: ThrowawayHome, everything: list[SaidMessage], figures: KillFigures) -> Iterator[KillFinding]:
    """Compare what the store holds, once the daemon has stopped, with what was acknowledged; count what is right.

    Reads with SQL of its own, not with the store's.
    """
    db = apsw.Connection(str(home.database), flags=apsw.SQLITE_OPEN_READONLY)
    packing.add_functions(db)
    try:
        [(sound,)] = db.execute("PRAGMA integrity_check(1)").fetchall()
        if sound != "ok":
            yield "broken", f"the database is damaged: {sound}"
        rows: dict[tuple[str, str], list[int]] = {}
        for path, key, seq in db.execute("SELECT path, key, seq FROM inbox NOT INDEXED ORDER BY seq"):
            rows.setdefault((str(path), str(key)), []).append(int(str(seq)))
        given_up = {int(str(seq)): str(code) for seq, code in db.execute("SELECT seq, code FROM dead_letters")}
        heard = Counter(_heard(db))
        [(interrupted,)] = db.execute("SELECT count(*) FROM turns WHERE interrupted > 0").fetchall()
        figures.interrupted = int(str(interrupted))
        answers: dict[str, list[tuple[str, str]]] = {}
        for path, text in db.execute("SELECT path, text FROM outbox ORDER BY seq"):
            answers.setdefault(str(path), []).extend(_ANSWER.findall(str(text)))
    finally:
        db.close()
    for said in everything:
        if said.seq is None:
            continue
        what = f"{said.text!r} to {said.path}, acknowledged as {said.seq}"
        seqs = rows.get((said.path, said.key), [])
        told = [result for asked, result in answers.get(said.path, ()) if asked == said.sum]
        if not seqs:
            yield "lost", f"{what}: it is not in the inbox"
        elif len(seqs) > 1:
            yield "doubled", f"{what}: it is {len(seqs)} times in the inbox"
        elif seqs[0] != said.seq:
            yield "reordered", f"{what}: it has the number {seqs[0]} now"
        if given_up.get(said.seq) == "TURN_POISON":
            figures.set_aside += 1
        elif said.seq in given_up:
            yield "lost", f"{what}: it was given up ({given_up[said.seq]})"
        elif not told:
            yield "lost", f"{what}: it was never answered"
        elif len(told) > 1 or heard[said.path, said.text] > 1:
            yield (
                "doubled",
                f"{what}: it was answered {len(told)} times, and is {heard[said.path, said.text]} times there",
            )
        elif int(told[0]) != sum(map(int, said.sum.split("+"))):
            yield "broken", f"{what}: it was answered {told[0]}"
        else:
            figures.answered += 1
    for path, found in answers.items():
        numbers = [int(asked.split("+")[0]) for asked, _ in found]
        late = next((now for before, now in pairwise(numbers) if now < before), None)
        if late is not None:
            yield "reordered", f"message {late} to {path} was answered after a later one"


def _heard(db: apsw.Connection) -> Iterator[tuple[str, str]]:
    """Yield what was said in the conversations, as often as it stands there."""
    kept = (
        "SELECT path, unpacked(messages) FROM history JOIN agents ON agents.id = agent_id"
        " WHERE history.state <> 'continued'"
    )
    for path, messages in db.execute(kept):
        for message in json.loads(str(messages)):
            if message["role"] == "user":
                yield from ((str(path), part["text"]) for part in message["parts"] if part["type"] == "text")
