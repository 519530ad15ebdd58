"""Random interleavings of posting and falling asleep in one house: no wake is lost, nobody is awake twice.

`python -m tests.simulation.wakes --count 100000 --seed S --json`. Many people's messages come to few agents that are
told to sleep at every other moment. A witness hears of each commit before the house does and knows at that instant
which agents have something to do and no lane.
"""

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random, SystemRandom
from typing import Any
from unittest.mock import patch

import trio
import trio.testing

from daycare.actors.supervisor import Supervisor
from daycare.base.events import AgentSlept, AgentWoke, LaneBroke, TurnFinished
from daycare.plugin import InferRequest, StreamEvent
from daycare.store.records import AgentConfig, Commit, Policy
from daycare.testing.clock import patient_clock
from daycare.testing.daemon import TestDaemon, open_daemon
from daycare.testing.scripted import Scripted

from .days import deterministic

POSTERS = 16
AGENTS = 12
POLICIES = (Policy.STEER, Policy.FOLLOWUP, Policy.INTERRUPT)  # `collect` waits for time, which hardly passes here
IDLE_TICKS_MAX = 20_000  # rounds without any commit before the house counts as stuck
ANSWER_S = 60.0  # of virtual time, which passes only while everybody waits


@dataclass
class Figures:
    """What came of it. All but `posts`, `commands`, `turns` and `activations` must be zero."""

    seed: int
    posts: int = 0
    commands: int = 0
    turns: int = 0
    activations: int = 0
    lost: int = 0
    doubles: int = 0
    overlaps: int = 0
    repeated: int = 0
    unhandled: int = 0
    broken: int = 0

    @property
    def faults(self) -> int:
        """How much went wrong."""
        return self.lost + self.doubles + self.overlaps + self.repeated + self.unhandled + self.broken


def interleave(seed: int, count: int, supervisor: type[Supervisor] = Supervisor) -> Figures:
    """Post `count` messages and return what happened to them; everything follows from `seed`."""
    with deterministic(seed), tempfile.TemporaryDirectory() as folder:
        return trio.run(_interleave, seed, count, supervisor, Path(folder), clock=patient_clock())


async def _interleave(seed: int, count: int, supervisor: type[Supervisor], folder: Path) -> Figures:
    rng = Random(seed)
    figures = Figures(seed)
    model = _Model(rng, figures)
    with patch("daycare.kernel.Supervisor", supervisor):
        async with open_daemon(folder, model, work=False) as house:
            daemon = house.daemon
            for number in range(AGENTS):
                await house.agent(f"/ann/agent/a{number}", AgentConfig(policy=rng.choice(POLICIES)))
            witness = _Witness(house, figures)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(daemon.work)
                await trio.testing.wait_all_tasks_blocked()
                async with trio.open_nursery() as posters:
                    nursery.start_soon(_sandman, house, witness, rng)
                    for number in range(POSTERS):
                        share = range(number, count, POSTERS)
                        posters.start_soon(_poster, house, figures, rng, f"poster{number}", share)
                while witness.waiting() and not witness.stuck:
                    await trio.lowlevel.checkpoint()
                nursery.cancel_scope.cancel()
            witness.look()
    figures.unhandled = witness.waiting()
    return figures


async def _poster(house: TestDaemon, figures: Figures, rng: Random, name: str, share: range) -> None:
    for number in share:
        command = rng.random() < 0.1
        figures.posts += 1
        figures.commands += command
        receipt = await house.post(
            f"/ann/agent/a{rng.randrange(AGENTS)}",
            rng.choice(("/new", "/new", "/new", "/help", "/stop")) if command else str(number),
            sender=name,
            key=str(number),
            control=command,
        )
        if rng.random() < 0.7:
            await house.daemon.router.wait(receipt, ANSWER_S)
        for _ in range(rng.choice((0, 1, 2, 5, 30))):
            await trio.lowlevel.checkpoint()


async def _sandman(house: TestDaemon, witness: "_Witness", rng: Random) -> None:
    """Let whoever is idle sleep, again and again, at any moment."""
    while not witness.stuck:
        for _ in range(rng.randrange(5)):
            await trio.lowlevel.checkpoint()
        house.daemon.supervisor.sleep_idle(0)
        await trio.lowlevel.checkpoint()
        witness.look()
    await trio.sleep_forever()  # now time passes, and whoever waits is told that it is late


class _Model(Scripted):
    """Answers after a moment, so that messages come while a turn runs, and sees turns that should not coexist."""

    def __init__(self, rng: Random, figures: Figures) -> None:
        super().__init__()
        self._rng = rng
        self._figures = figures
        self._busy: Counter[str] = Counter()

    async def infer(self, request: InferRequest) -> AsyncGenerator[StreamEvent, None]:
        """Echo."""
        self.history.clear()
        who = request.system.rpartition("Your address is ")[2]
        self._busy[who] += 1
        self._figures.overlaps += self._busy[who] > 1
        try:
            for _ in range(self._rng.randrange(6)):
                await trio.lowlevel.checkpoint()
            yield self.default(request)
        finally:
            self._busy[who] -= 1


class _Witness:
    """Stands between the store and the daemon."""

    def __init__(self, house: TestDaemon, figures: Figures) -> None:
        self.stuck = False
        self._house = house
        self._figures = figures
        self._open: dict[str, set[int]] = {}  # rows to be handled, by agent
        self._awake: set[str] = set()
        self._handled: set[int] = set()
        self._cursor = house.daemon.bus.cursor
        self._ticks = 0
        self._announce = house.daemon.commit_hooks.committed
        house.store.subscribe(self._committed)

    def waiting(self) -> int:
        """Return how many messages wait or are worked on."""
        return sum(map(len, self._open.values()))

    def look(self) -> None:
        """Count agents that have something to do and no lane, and help them, so that the rest can go on."""
        self._ticks += 1
        self.stuck = self._ticks > IDLE_TICKS_MAX
        supervisor = self._house.daemon.supervisor
        for agent_id, seqs in self._open.items():
            if seqs and agent_id not in supervisor.awake:
                self._figures.lost += 1
                supervisor.wake(agent_id)

    def _committed(self, commit: Commit) -> None:
        self.look()
        self._ticks = 0
        for row in commit.posted:
            self._open.setdefault(row.agent_id, set()).add(row.seq)
        for seq, _ in commit.completed:
            for seqs in self._open.values():
                seqs.discard(seq)
        self._announce(commit)
        self._hear()

    def _hear(self) -> None:
        bus = self._house.daemon.bus
        for position in range(max(self._cursor, bus.oldest), bus.cursor):
            event = bus.at(position)
            if isinstance(event, AgentWoke):
                self._figures.activations += 1
                self._figures.doubles += event.agent_id in self._awake
                self._awake.add(event.agent_id)
            elif isinstance(event, AgentSlept):
                self._awake.discard(event.agent_id)
            elif isinstance(event, LaneBroke):
                self._figures.broken += 1
                self._awake.discard(event.agent_id)
            elif isinstance(event, TurnFinished):
                self._figures.turns += 1
                self._figures.repeated += len(self._handled.intersection(event.seqs))
                self._handled.update(event.seqs)
        self._cursor = bus.cursor


def main() -> int:
    """Run one seed and print what came of it; 1 if anything went wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.wakes", description=__doc__)
    parser.add_argument("--count", type=int, default=100_000, help="messages to post")
    parser.add_argument("--seed", type=int, help="without it a fresh one is drawn and printed")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args()
    seed = args.seed if args.seed is not None else SystemRandom().randrange(2**32)
    began = time.perf_counter()
    figures = interleave(seed, args.count)
    result: dict[str, Any] = asdict(figures) | {"seconds": round(time.perf_counter() - began, 1)}
    print(json.dumps(result) if args.json else "\n".join(f"{name:12} {value}" for name, value in result.items()))
    return 1 if figures.faults else 0


if __name__ == "__main__":
    sys.exit(main())
