"""Kills between request, decision and effect: what a person allows happens once, or they are told that nobody knows.

Agents want to run commands, to write files and to post something outside; each needs a yes. People decide over the API,
again and again until that is acknowledged, and most kills come right after they have.
"""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import apsw
import httpx
import trio

from daycare.features.shell.sandbox import why_not
from daycare.testing.daemon_process import DaemonProcess, client_of
from tests.crash.approved import Asked, approved
from tests.crash.campaign import USER, Campaign, Delay, Killer, When
from tests.crash.figures import Figures
from tests.crash.judge import Verdict
from tests.crash.ledger import Ledger, tool_lines
from tests.crash.load import RETRY_S, Crowd
from tests.crash.process import Home

DECIDERS = 4
APPROVED_SHARE = 0.85
LOOK_S = 0.05  # between two looks at what waits
DECIDED_SHARE = 0.65  # of the kills at work come soon after a decision was sent
DECIDED_TIMES = 8  # ... one of the first
DECIDED_DEADLINE_S = 5.0
EFFECT_S = 0.3  # within which most of what was allowed is done
_CONFIG = f"""\
[models]
default = "mind/errands"

[providers.mind]
kind = "mind"

[plugins]
load = ["daycare.testing.tools:plugin", "tests.crash.mind:plugin", "tests.crash.wishes:plugin"]

[shell]
enabled = true

[[rules]]
subject = "/{USER}/**"
action = "tool:post"
decision = "ask"
"""


class Deciders(Crowd):
    """People who talk, and some who decide. Without a sandbox nobody wants a command to be run."""

    def __init__(self, home: Home, ledger: Ledger, seed: str, asked: Asked) -> None:
        super().__init__(home.socket, ledger, seed, USER, "approvals")
        self._asked = asked
        self._deciding = DECIDERS
        self._sent = trio.Event()
        if why_not()[0]:
            self._weights = {verb: weight for verb, weight in self._weights.items() if verb != "shell"}

    @property
    def silent(self) -> bool:
        """Whether nobody has anything left to say or to decide."""
        return super().silent and not self._deciding

    async def prepare(self) -> None:
        """Create the agents, each with a workspace of its own in which it is limited."""
        await super().prepare()
        async with client_of(self.socket) as client:
            for path in self.paths:
                body = {"workspace": path.rsplit("/", 1)[-1]}
                (await client.patch("/v1/agent", params={"path": path}, json=body)).raise_for_status()

    async def run(self) -> None:
        """Talk and decide until hushed."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(super().run)
            for number in range(DECIDERS):
                nursery.start_soon(self._decide_all, number, random.Random(f"{self._seed}/d{number}"))

    async def sent(self) -> None:
        """Wait until a decision is sent again."""
        await self._sent.wait()

    async def _decide_all(self, share: int, rng: random.Random) -> None:
        """Decide each request of a share of them, in any order."""
        async with client_of(self.socket) as client:
            while not self._hushed.is_set():
                for it in await self._waiting(client):
                    if it["no"] % DECIDERS == share and rng.random() < 0.7:
                        verdict = "approve" if rng.random() < APPROVED_SHARE else "reject"
                        await self._decide(client, it["no"], it["content_hash"], verdict)
                with trio.move_on_after(LOOK_S):
                    await self._hushed.wait()
        self._deciding -= 1

    async def _waiting(self, client: httpx.AsyncClient) -> list[dict[str, Any]]:
        try:
            answer = await client.get("/v1/approvals")
        except httpx.TransportError:
            return []
        found: list[dict[str, Any]] = answer.json()["approvals"] if answer.status_code == 200 else []
        for it in found:
            self._asked.seen.add(it["no"])
        return found

    async def _decide(self, client: httpx.AsyncClient, no: int, seen: str, verdict: str) -> None:
        """Decide again and again until that is acknowledged."""
        self._asked.sent[no] = verdict
        while True:
            self._sent.set()
            self._sent = trio.Event()
            try:
                answer = await client.post(f"/v1/approvals/{no}/decide", json={"verdict": verdict, "seen": seen})
            except httpx.TransportError:
                await trio.sleep(RETRY_S)
                continue
            if answer.status_code == 200:
                self._asked.decided[no] = verdict
                return
            if answer.status_code not in (429, 503):
                self.ledger.findings.append(("broken", f"{verdict} of {no}: {answer.status_code} {answer.text}"))
                return
            await trio.sleep(RETRY_S)


class AtDecision:
    """Kills like another killer does, but of those at work most soon after a decision was sent."""

    def __init__(self, other: Killer) -> None:
        self._other = other
        self.deciders: Deciders | None = None

    async def prepare(self, rng: random.Random) -> None:
        """As the other."""
        await self._other.prepare(rng)

    def start(self, home: Home, rng: random.Random, when: When) -> DaemonProcess:
        """As the other."""
        return self._other.start(home, rng, when)

    async def strike(self, process: DaemonProcess, rng: random.Random, when: When) -> None:
        """Kill."""
        at_will = when != "work" or not isinstance(self._other, Delay) or rng.random() >= DECIDED_SHARE
        if at_will or self.deciders is None:
            await self._other.strike(process, rng, when)
            return
        await process.ready()
        with trio.move_on_after(DECIDED_DEADLINE_S):
            for _ in range(rng.randint(1, DECIDED_TIMES)):
                await self.deciders.sent()
        await trio.sleep(rng.uniform(0.0, EFFECT_S))
        await process.kill()

    def summary(self) -> dict[str, Any]:
        """Return what the other says."""
        return self._other.summary()


class ApprovalsCampaign(Campaign):
    """A campaign with people who decide."""

    def __init__(self, mode: str, kills: int, seed: int, killer: Killer) -> None:
        self._at = AtDecision(killer)
        super().__init__(mode, kills, seed, self._at, "approvals")
        self._asked = Asked()
        self._counted: Counter[str] = Counter()

    async def run(self) -> Figures:
        """Say what was asked for and what became of it."""
        figures = await super().run()
        figures.more |= {"asked": self._counted}
        return figures

    def _furnished(self) -> Home:
        home = Home()
        (home.path / "config.toml").write_text(_CONFIG)
        return home

    def _people(self, seed: str) -> Crowd:
        self._at.deciders = Deciders(self.home, self.ledger, seed, self._asked)
        return self._at.deciders

    def _judge(self) -> Verdict:
        verdict = super()._judge()
        db = apsw.Connection(str(self.home.database), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            effects = effects_of(self.home.path, self.home.ledger_file)
            verdict.findings += approved(db, self._asked, effects, self._counted)
            verdict.uncertain_tools = sum(n for what, n in self._counted.items() if what.endswith(" uncertain"))
        finally:
            db.close()
        return verdict


def effects_of(home: Path, ledger: Path) -> Counter[tuple[str, str]]:
    """Return how often each tool has done what it was told, by tool and word."""
    found: Counter[tuple[str, str]] = Counter()
    for line, times in tool_lines(ledger).items():
        kind, _, word = line.partition(" ")
        found[kind, word] += times
    for folder in (home / "workspaces").glob("*"):
        for word, times in tool_lines(folder / "effects").items():
            found["shell", word] += times
        for file in folder.glob("*.txt"):
            found["file_write", file.stem] += 1 if file.read_text() == file.stem else 2
    return found
