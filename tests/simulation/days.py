"""Letting days pass: people talk, the house dies and comes back, and after each life its file is judged."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import trio
import trio.testing

from daycare.actors import directory
from daycare.agent.provenance import Provenance
from daycare.base import ids
from daycare.base.errors import UnavailableError
from daycare.base.events import AgentSlept, AgentWoke, LaneBroke
from daycare.base.messages import Origin
from daycare.observe.bus import Gap
from daycare.store.records import AgentConfig, NewAgent, User
from daycare.store.sqlite import agents
from daycare.testing.clock import VirtualClock, patient_clock
from daycare.testing.daemon import TestDaemon, open_daemon
from daycare.testing.faults import Killed, Switch
from tests.crash.mind import trusting

from . import judge
from .mind import TOOLS, Mind, tools
from .world import PEOPLE, Said, World

DAY_S = 86_400.0
WAKING_HOURS = (9, 14)  # else the machine is off: an idle hour costs as much to simulate as a busy one
CONVERSATIONS_A_DAY = 54  # of each person; those of the night wait for the morning
HANGS_UP = 0.2  # of the tries to say something; only where a write can lose its caller
QUIET_S = 12 * 3_600.0  # after the last day everything must have come to rest within this
GOES_ON_MAX = 3_000  # tries to send one message


class UnsoundError(AssertionError):
    """An invariant does not hold; the message says which, and how to replay it."""


@dataclass
class Figures:
    """What a simulation came to."""

    seed: int
    days: float
    lives: int = 0
    killed: int = 0
    said: int = 0
    repeats: int = 0
    answered: int = 0
    dead: int = 0
    turns: int = 0
    model_calls: int = 0
    timers: int = 0
    uncertain: int = 0
    unparked: int = 0
    helpers: int = 0
    results: int = 0  # that reached whoever asked, as a call's result or as a message
    read_late: int = 0  # of these, as a message
    continued: int = 0


def simulate(seed: int, days: float, folder: Path, *, threads: bool = False) -> Figures:
    """Run one simulation; everything in it follows from `seed`. Raises `UnsoundError`.

    With `threads` the store writes in its own, as a daemon's does, so that writes wait, share commits, and lose their
    callers. Then the seed repeats the choices, and not the exact course of events.
    """
    simulation = Simulation(seed, days, folder, threads=threads)
    trusted = patch.object(Provenance, "__init__", trusting(Provenance.__init__, *TOOLS))  # no errand asks
    with deterministic(seed), _counted_ids(), _ledger(folder / "ledger"), trusted:
        try:
            trio.run(simulation.run, clock=patient_clock())
        except* UnsoundError as group:
            raise UnsoundError(_first(group)) from None
    return simulation.figures


@contextmanager
def quick_folder() -> Iterator[Path]:
    """A folder for a run, in memory where the system has such a place: no power is cut here, only processes die."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


class Simulation:
    """One run over one folder."""

    def __init__(self, seed: int, days: float, folder: Path, *, threads: bool = False) -> None:
        self.seed = seed
        self._threads = threads
        self.days = days
        self.folder = folder
        self.figures = Figures(seed, days)
        self.world = World(Random(f"{seed}/world"))
        self.mind = Mind(self.world)
        self._weather = Random(f"{seed}/weather")
        self._house: TestDaemon | None = None
        self._door = trio.Event()
        self._talking = 0
        self._spell = 0  # lives still to die at once, one after the other

    async def run(self) -> None:
        """Let the days pass, then wait for rest."""
        self.wall = VirtualClock()
        end = self.days * DAY_S
        async with trio.open_nursery() as people:
            for user in PEOPLE:
                self._talking += 1
                people.start_soon(self._person, user, end)
            self._people = people
            while trio.current_time() < end:
                await self._live(end)
                self._judge(quiet=False)
                await self._downtime()
            await self._live(None)
        self._judge(quiet=True)

    # -- people ------------------------------------------------------------------------------------------------------

    async def _person(self, user: str, end: float) -> None:
        rng = Random(f"{self.seed}/{user}")
        while True:
            await trio.sleep(rng.expovariate(CONVERSATIONS_A_DAY / DAY_S))
            if trio.current_time() >= end:
                break
            path = rng.choice(PEOPLE[user])
            for _ in range(rng.choice((1, 2, 2, 3, 5, 8))):
                await self._say(rng, user, path if rng.random() < 0.8 else rng.choice(PEOPLE[user]))
                await trio.sleep(rng.choice((0.0, 0.0, 0.5, 5.0, 60.0)) * rng.random())
        self._talking -= 1

    async def _say(self, rng: Random, user: str, path: str) -> None:
        mine = [said for said in self.world.said if said.user == user]
        if mine and rng.random() < 0.2:
            self.figures.repeats += 1
            said = rng.choice(mine)
        elif rng.random() < 0.15:
            said = self.world.command(user, path)
        else:
            said = self.world.message(user, path)
        for _ in range(GOES_ON_MAX):
            if self._threads and rng.random() < HANGS_UP:
                await self._hang_up_on(said, rng.randint(1, 8))
            elif await self._try_to_say(said):
                return
            await trio.sleep(0.1 + 5 * rng.random())
        raise self._unsound([f"{said.name} was never accepted"])

    async def _hang_up_on(self, said: Said, steps: int) -> None:
        """Begin to say something, and be gone before anybody has answered: it was taken, or it was not."""
        async with trio.open_nursery() as saying:
            saying.start_soon(self._try_to_say, said)
            for _ in range(steps):
                await trio.lowlevel.checkpoint()
            saying.cancel_scope.cancel()

    async def _try_to_say(self, said: Said) -> bool:
        """Send once; False if the house died of it or meanwhile, so that nobody knows whether it was taken."""
        await self._door.wait()
        assert self._house is not None
        try:
            receipt = await self._house.say(said.text, key=said.key, path=said.path, user=said.user)
        except (Killed, UnavailableError):
            return False
        if said.seq is not None and (not receipt.duplicate or receipt.seq != said.seq):
            raise self._unsound([f"{said.name} was acknowledged as {said.seq}, its repeat as {receipt}"])
        said.seq = receipt.seq
        return True

    # -- the house ---------------------------------------------------------------------------------------------------

    async def _live(self, end: float | None) -> None:
        """Live once, to a crash, an orderly stop, the night, or (`end` is None) until all is quiet."""
        self.figures.lives += 1
        self.mind.restart()
        with trio.CancelScope() as life:
            try:
                async with open_daemon(
                    self.folder,
                    self.mind,
                    location="daycare.db",
                    plugins=[tools(self.world)],
                    work=False,
                    clock=self.wall,
                    inline=not self._threads,
                ) as house:
                    switch = Switch(house.store, life.cancel)
                    await self._settle(house)
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(house.daemon.work)
                        nursery.start_soon(self._follow, house)
                        watch = trio.CancelScope()
                        nursery.start_soon(self._watch, house, watch)
                        self._house = house
                        self._door.set()
                        if end is None:
                            await self._rest(house)
                        else:
                            await self._fate(house, switch, watch, end)
                        nursery.cancel_scope.cancel()
            except* Killed:
                self.figures.killed += 1
            finally:
                self._house = None
                self._door = trio.Event()

    async def _settle(self, house: TestDaemon) -> None:
        """Move in, the first time. Ids are given, as random ones would make every run another."""
        for user in PEOPLE:
            if await house.store.people.get(user) is None:
                await house.store.people.add(User(id=user, name=user, keys=(f"direct:{user}",)))
        for path, agent_id in self.world.ids.items():
            parsed = house.daemon.directory.parse(path)
            await house.store.agents.create(
                NewAgent(
                    id=agent_id,
                    path=path,
                    kind=parsed.kind,
                    role=parsed.role,
                    user=parsed.user,
                    origin=Origin.PERSON,
                    config=AgentConfig(policy=self.world.policies[path]),
                )
            )

    async def _fate(self, house: TestDaemon, switch: Switch, watch: trio.CancelScope, end: float) -> None:
        """Decide how this life ends, and wait for it."""
        rng = self._weather
        hour = trio.current_time() % DAY_S / 3_600
        until = min(end, trio.current_time() + min(WAKING_HOURS[1] - hour, 0.75) * 3_600)
        if rng.random() < 0.1:
            self._set_clock(rng.choice((-600, -5, 5, 3_600)) * rng.random())
        kind = rng.choice(("commit", "commit", "time", "stop"))
        self._spell = self._spell - 1 if self._spell else rng.choice((0,) * 11 + (7,))
        if self._spell:
            switch.kill_at(int(1 + 5 * rng.random()), rng.choice(("before", "after")))
        elif kind == "commit":
            switch.kill_at(int(1 + rng.choice((5, 20, 80)) * rng.random()), rng.choice(("before", "after")))
        else:
            until = min(until, trio.current_time() + rng.choice((10, 600, 3_600)) * rng.random())
        await trio.sleep_until(max(until, trio.current_time() + 0.001))
        if kind == "time":
            switch.kill()
            raise Killed
        watch.cancel()  # what is posted from now on waits for the next life
        await house.daemon.supervisor.stop(rng.choice((0.0, 5.0, 60.0)))

    def _set_clock(self, seconds: float) -> None:
        self.world.unsteady.append(self.wall.now_ms())
        self.wall.shift(seconds)
        self.world.unsteady.append(self.wall.now_ms())

    async def _downtime(self) -> None:
        hour = trio.current_time() % DAY_S / 3_600
        pause_s = 0.0 if self._spell else self._weather.choice((0.0, 2.0, 30.0, 1_800.0)) * self._weather.random()
        if not WAKING_HOURS[0] <= hour < WAKING_HOURS[1]:
            pause_s = ((WAKING_HOURS[0] - hour) % 24) * 3_600
        self.world.unsteady.append(self.wall.now_ms())
        await trio.sleep(pause_s)
        self.world.unsteady.append(self.wall.now_ms())

    async def _rest(self, house: TestDaemon) -> None:
        """Wait until nothing is left to do, which must not take forever."""
        store = house.store
        with trio.move_on_after(QUIET_S):
            while (
                self._talking
                or (await store.inbox.counts())["waiting"]
                or await store.timers.next_due() is not None
                or house.daemon.supervisor.awake  # also who is dismissed in this moment, as nobody asked for an hour
            ):
                await trio.sleep(60.0)
            return
        lanes = {agent: lane.life for agent, lane in house.daemon.supervisor.awake.items()}
        raise self._unsound(
            [f"no rest within {QUIET_S:g} s: {await store.inbox.counts()}, talking {self._talking}, {lanes}"]
        )

    # -- watching ----------------------------------------------------------------------------------------------------

    async def _follow(self, house: TestDaemon) -> None:
        """No agent wakes while it is awake, and no lane breaks."""
        awake: set[str] = set()
        names = frozenset(("agent.woke", "agent.slept", "lane.broke"))
        async with house.daemon.bus.subscribe(after=house.daemon.bus.start, types=names) as events:
            async for _, event in events:
                if isinstance(event, Gap | LaneBroke) or (isinstance(event, AgentWoke) and event.agent_id in awake):
                    raise self._unsound([f"{event} while awake are {sorted(awake)}"])
                if isinstance(event, AgentWoke):
                    awake.add(event.agent_id)
                elif isinstance(event, AgentSlept):
                    awake.discard(event.agent_id)

    async def _watch(self, house: TestDaemon, scope: trio.CancelScope) -> None:
        """What memory says of the lanes is what the store says. An operator unparks who was parked."""
        rng = Random(f"{self.seed}/watch/{self.figures.lives}")
        with scope:
            while True:
                await self._look(house, rng)

    async def _look(self, house: TestDaemon, rng: Random) -> None:
        await trio.sleep(1e-6 + rng.choice((1.0, 300.0)) * rng.random())
        helpers = [helper.id for helper in await house.store.agents.find(kinds=["sub"], limit=1_000)]
        problems = await judge.compare(house.store, house.daemon.supervisor, [*self.world.ids.values(), *helpers])
        if problems or self.mind.overlaps:
            raise self._unsound(problems + self.mind.overlaps)
        for path, agent_id in self.world.ids.items():
            agent = await house.store.agents.get(agent_id)
            if agent is not None and agent.state == "parked":
                self.figures.unparked += 1
                await house.store.agents.set_state(agent_id, "living")
                house.daemon.supervisor.wake((await house.daemon.directory.at(path)).id)

    def _judge(self, *, quiet: bool) -> None:
        found = judge.inspect(self.folder / "daycare.db", self.folder / "ledger", self.world, quiet=quiet)
        if found.problems or self.mind.overlaps:
            raise self._unsound(found.problems + self.mind.overlaps)
        for name, value in found.figures.items():
            setattr(self.figures, name, value)
        self.figures.model_calls = self.mind.calls

    def _unsound(self, problems: list[str]) -> UnsoundError:
        shown = "\n  ".join(problems[:12])
        return UnsoundError(
            f"seed {self.seed}: {len(problems)} problems in life {self.figures.lives}"
            f" at {trio.current_time():.3f} s of virtual time:\n  {shown}\n"
            f"replay: python -m tests.simulation --seed {self.seed} --days {self.days:g}"
        )


def _first(group: BaseExceptionGroup[UnsoundError]) -> str:
    error: Any = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error)


class deterministic:  # noqa: N801 - reads as a phrase: with deterministic(seed)
    """Let trio schedule the same way in every run with the same seed."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def __enter__(self) -> None:
        run: Any = trio._core._run
        self._before = run._ALLOW_DETERMINISTIC_SCHEDULING, run._r.getstate()
        run._ALLOW_DETERMINISTIC_SCHEDULING = True
        run._r.seed(self._seed)

    def __exit__(self, *_: object) -> None:
        run: Any = trio._core._run
        run._ALLOW_DETERMINISTIC_SCHEDULING = self._before[0]
        run._r.setstate(self._before[1])


@contextmanager
def _counted_ids() -> Iterator[None]:
    """Let the ids of helpers follow one another, as random ones would make every run another."""
    numbers = count()
    modules: tuple[Any, ...] = (directory, agents)
    before = ids.new_agent_id
    for module in modules:
        module.new_agent_id = lambda: f"helper{next(numbers):06}"
    try:
        yield
    finally:
        for module in modules:
            module.new_agent_id = before


class _ledger:  # noqa: N801 - reads as a phrase
    """Let the testing tools write to this file."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __enter__(self) -> None:
        self._before = os.environ.get("DAYCARE_TEST_LEDGER")
        os.environ["DAYCARE_TEST_LEDGER"] = str(self._file)

    def __exit__(self, *_: object) -> None:
        if self._before is None:
            del os.environ["DAYCARE_TEST_LEDGER"]
        else:
            os.environ["DAYCARE_TEST_LEDGER"] = self._before
