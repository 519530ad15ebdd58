"""Sending: the daemon is killed around the moment in which an answer, or a part of a long one, reaches Telegram.

Sends to one chat follow each other, so a kill interrupts one of them at most, and one part may come twice. Several
chats are sent to at the same time: with more of them a kill may cost each one a duplicate.
"""

import random
import time
from collections import Counter
from typing import Final, Literal

import trio

from daycare_plugins.telegram.testing.server import BotCall, Moment, TelegramFault
from tests.telegram.campaign import judge
from tests.telegram.campaign.mind import units
from tests.telegram.campaign.report import Report, percentile, say
from tests.telegram.campaign.stage import Room, Stage, rooms_of, staged

POLL_S: Final = 2
WAITING_MAX: Final = 3  # messages of one room without an answer: there is always something to send
LONG_SHARE: Final = 0.35  # of the messages want an answer of several parts
LINES: Final = (60, 90, 140)  # of about 110 characters: two to four parts
LATE_MAX_S: Final = 0.03  # after an answer, in which its receipt is committed or not
SENDS_MAX: Final = 4  # that a daemon may finish before it is hit
STRIKE_S: Final = 25.0  # by then there was a send
_QUIET_S: Final = 300.0
_PAUSE_S: Final = 0.02

# `never` reaches Telegram: the connection is cut before; after `late` the receipt may be committed
When = Literal["never", "arrived", "executed", "answered", "late"]
WHEN: Final[tuple[When, ...]] = ("never", "arrived", "executed", "answered", "late")
_MOMENT: Final[dict[When, Moment]] = {
    "never": "arrived",
    "arrived": "arrived",
    "executed": "executed",
    "answered": "answered",
    "late": "answered",
}


class _Assassin:
    """Hits the daemon at a chosen moment of a chosen send."""

    def __init__(self, stage: Stage, rng: random.Random) -> None:
        self.hits: Counter[str] = Counter()
        self.open: set[int] = set()  # sends between their arrival and their answer
        self.interrupted = 0  # sends that were open when the daemon died, or whose receipt may not be committed
        self.struck = trio.Event()
        self.last: When | None = None
        self._stage = stage
        self._rng = rng
        self._when: When | None = None
        self._skip = 0

    def arm(self) -> None:
        """Choose the next moment."""
        self.struck = trio.Event()
        self.open.clear()
        self._skip = self._rng.randrange(SENDS_MAX)
        self._when = self._rng.choice(WHEN)

    def disarm(self) -> None:
        """Let the daemon live."""
        self._when = None

    def see(self, call: BotCall, moment: Moment) -> None:
        """Strike, if this is the moment."""
        if call.method != "sendMessage":
            return
        if moment == "arrived":
            self.open.add(id(call))
        when = self._when
        if when is not None and moment == _MOMENT[when]:
            if self._skip:
                self._skip -= 1
            else:
                self._strike(when)
        if moment == "answered":
            self.open.discard(id(call))

    def _strike(self, when: When) -> None:
        self._when, self.last = None, when
        self.hits[when] += 1
        self.interrupted += len(self.open)
        if when == "never":
            self._stage.server.fault("sendMessage", TelegramFault(drop="before"))
        if when != "late":
            self._hit()
        self.struck.set()

    def _hit(self) -> None:
        if self._stage.process is not None:
            self._stage.process.hit()


async def run(kills: int, chats: int, seed: int) -> Report:
    """Run a campaign."""
    began = time.perf_counter()
    report = Report("send", seed)
    rng = random.Random(f"send/{seed}")
    async with staged(report, poll_s=POLL_S) as stage:
        await stage.introduce(rooms_of(stage.server, chats))
        said: dict[str, tuple[Room, list[str]]] = {}  # what is to come of each message
        killed_at: list[float] = []
        assassin = _Assassin(stage, rng)
        stage.server.on_call.append(assassin.see)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_talk, stage, rng, said)
            await stage.down()
            for number in range(kills):
                assassin.arm()
                process = stage.start()
                with trio.move_on_after(STRIKE_S):
                    await assassin.struck.wait()
                if not assassin.struck.is_set():
                    assassin.hits["missed"] += 1
                    assassin.disarm()
                elif assassin.last == "late":
                    await trio.sleep(rng.uniform(0.0, LATE_MAX_S))
                await process.kill()
                killed_at.append(trio.current_time())
                if (number + 1) % 25 == 0:
                    say(f"{number + 1} of {kills} kills, {len(said)} messages, {report.harm} findings")
            nursery.cancel_scope.cancel()
        assassin.disarm()
        stage.server.no_more_faults()
        await stage.up()
        if await stage.quiet(_QUIET_S):
            assert stage.process is not None
            await stage.process.stop()
        _judge(stage, said, killed_at, report)
        report.figures = {
            "kills": kills,
            "chats": chats,
            "hits": dict(sorted(assassin.hits.items())),
            "interrupted": assassin.interrupted,
            **report.figures,
            "ready_p50_s": percentile(stage.ready_s, 50),
            "seconds": round(time.perf_counter() - began, 1),
        }
    return report


async def _talk(stage: Stage, rng: random.Random, said: dict[str, tuple[Room, list[str]]]) -> None:
    """Keep some messages of each room waiting for their answers."""
    answered: set[str] = set()
    stage.server.on_sent.append(lambda message: answered.update(units(message.text)))
    waiting: dict[int, list[str]] = {room.number: [] for room in stage.rooms}
    while True:
        for room in stage.rooms:
            left = waiting[room.number] = [last for last in waiting[room.number] if last not in answered]
            if len(left) < WAITING_MAX:
                name = room.name()
                lines = rng.choice(LINES) if rng.random() < LONG_SHARE else 0
                stage.server.say(room.place, room.writers[0], f"{name} long {lines}" if lines else name)
                expected = [f"{name}/{number:04}" for number in range(1, lines + 1)] or [name]
                said[name] = room, expected
                left.append(expected[-1])
        await trio.sleep(_PAUSE_S)


def _judge(stage: Stage, said: dict[str, tuple[Room, list[str]]], killed_at: list[float], report: Report) -> None:
    with stage.store() as db:
        store = judge.read(db)
        judge.left_over(db, report)
    found = judge.delivered(stage.server, stage.rooms, report)
    newest: dict[int, tuple[int, str]] = {}
    for room, expected in said.values():
        for unit in expected:
            message = found.first.get(unit)
            before = newest.get(room.number, (0, ""))
            if message is None:
                report.find("lost", f"{unit} in room {room.number}")
            elif message.id < before[0]:
                report.find("reordered", f"{unit} came before {before[1]}")
            else:
                newest[room.number] = message.id, unit
    per_kill = Counter(sum(at < message.at for at in killed_at) for message in found.repeats)
    per_chat = Counter((sum(at < message.at for at in killed_at), message.chat_id) for message in found.repeats)
    for (kill, chat), times in per_chat.items():
        if times > 1:
            report.find("doubled", f"{times} parts came once more in chat {chat} after kill {kill}")
    report.figures = {
        "messages": len(said),
        "parts": found.messages,
        "turns": store.turns,
        "marked": found.marked,
        "duplicates": len(found.repeats),
        "duplicates_per_kill": dict(sorted(Counter(per_kill.values()).items())),
        "parked": store.parked,
    }
