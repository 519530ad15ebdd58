"""A slice of the store-faults campaign: some places each day, all of them with `WHOLE=1`; and the judge sees harm."""

from collections import Counter
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import apsw
import pytest

from daycare.actors.supervisor import Supervisor
from daycare.base.errors import StoreAwayError
from daycare.ops.alarm import Alarm
from daycare.process import when_possible
from daycare.testing.clock import EPOCH_MS, VirtualClock
from daycare.testing.daemon import open_daemon
from tests.chance import SEED, WHOLE
from tests.storefaults import episodes
from tests.storefaults.campaign import Day, judge, live, run
from tests.storefaults.places import Disk, Fault, Place
from tests.storefaults.weather import ERRORS, Kind, Spell, Weather, forecast

PLACES = 2  # of these and of all; all of them take a quarter of an hour
EPISODES = 3  # of what the command does a thousand of in an hour
ALONE = r"^read (connectors/|schedule/|actors/supervisor|flow)"  # where nobody else tries again


@pytest.mark.parametrize("only", [""] if WHOLE else ["", ALONE], ids=lambda only: "alone" if only else "anywhere")
def test_a_database_that_fails_somewhere_costs_nobody_an_answer(only: str) -> None:
    print(f"SEED={SEED}")
    figures = run(SEED, None if WHOLE else PLACES, only)
    assert figures.harm == 0, figures.findings
    assert figures.runs == figures.struck, "each fault has met its place"
    assert figures.places_read > 100, "the day reads in all parts of the daemon"
    assert figures.places_write > 40


GOOD = Day(
    answers={"a": "hello"},
    arrived=Counter({("ann", "hello"): 1}),
    tools=Counter({"charge p1": 1}),
    kept=Counter({("memory", "a dog"): 1}),
    events={"reply.sent"},
)
BAD = {
    "ended": Day(ended="UnavailableError"),
    "unanswered": Day(answers={}),
    "wrong_answers": Day(answers={"a": "I do not know"}),
    "lost": Day(kept=Counter()),
    "doubled": Day(arrived=Counter({("ann", "hello"): 2})),
    "dead": Day(dead=Counter({"/ann/pigeon": 1})),
    "busy": Day(busy=True),
    "silent": Day(silent=["nothing was written, and the store is said to be well"]),
    "broken": Day(events={"lane.broke"}),
}


@pytest.mark.parametrize("kind", sorted(BAD))
def test_the_judge_sees_harm(kind: str) -> None:
    assert not judge(GOOD, GOOD)
    assert getattr(judge(GOOD, BAD[kind]), kind)


async def test_a_start_waits_until_the_disk_can_be_read_again(tmp_path: Path, autojump_clock: object) -> None:
    refusals: list[str] = []

    def waits(refusal: StoreAwayError) -> bool:
        refusals.append(refusal.code)
        return True

    clock = VirtualClock()
    disk = Weather(clock, (Spell("failing", EPOCH_MS, EPOCH_MS + 30_000),), seed=1)
    disk.on = True
    with disk.watched():
        async with AsyncExitStack() as opened:
            house = await when_possible(
                opened,
                lambda: open_daemon(tmp_path, location="daycare.db", clock=clock),
                waits,
            )
            disk.on = False
            assert await house.talk("hello") == "echo: hello"
    assert 20 < len(refusals) <= 31 and set(refusals) == {"STORE_IO"}


async def test_a_start_does_not_wait_for_the_disk_when_it_is_to_end(tmp_path: Path, autojump_clock: object) -> None:
    disk = Weather(VirtualClock(), (Spell("failing", EPOCH_MS, 2 * EPOCH_MS),), seed=1)
    disk.on = True
    with disk.watched():
        async with AsyncExitStack() as opened:
            with pytest.raises(StoreAwayError):
                await when_possible(opened, lambda: open_daemon(tmp_path, location="daycare.db"), lambda _: False)


async def test_health_is_told_of_a_disk_that_cannot_be_read(tmp_path: Path, autojump_clock: object) -> None:
    disk = Weather(VirtualClock(), (Spell("failing", 0, 2 * EPOCH_MS),), seed=1)
    with disk.watched():
        async with open_daemon(tmp_path, location="daycare.db") as house:
            disk.on = True
            report = await house.daemon.health.report()
            disk.on = False
    assert disk.met["failing"] > 0
    assert {it.name for it in report if not it.ok} >= {"messages", "upkeep"}
    assert {it.name for it in report} >= {"store", "loop", "parts", "connectors", "models"}, (
        "what needs no disk is told"
    )


class _Clock:
    """Stands where it is set."""

    at_ms = 0

    def now_ms(self) -> int:
        """Return that."""
        return self.at_ms

    def steady_s(self) -> float:
        """Return that, too."""
        return self.at_ms / 1000


def test_days_under_bad_weather_of_the_disk_cost_nobody_an_answer() -> None:
    print(f"SEED={SEED}")
    figures = episodes.run(1_000 if WHOLE else EPISODES, SEED)
    assert figures.harm == 0, figures.findings
    assert figures.struck > 0


def test_the_weather_is_the_same_for_a_seed_and_of_all_kinds() -> None:
    assert [forecast(seed) for seed in range(50)] == [forecast(seed) for seed in range(50)]
    assert {spell.kind for seed in range(50) for spell in forecast(seed)} == set(ERRORS)


@pytest.mark.parametrize("kind", ERRORS)
def test_a_full_disk_is_read_and_a_failing_one_is_not(kind: Kind) -> None:
    clock, write = _Clock(), PLACE._replace(kind="write")
    disk = Weather(clock, (Spell(kind, 10_000, 20_000),), seed=1)
    failed = []
    for clock.at_ms in (5_000, 15_000, 25_000):
        failed.append((_fails(disk), _fails(disk, write)))
        assert (disk.refused_ms is not None) is failed[-1][1]
    assert failed == [(False, False), (kind == "failing", True), (False, False)]
    assert set(disk.met) == {kind}


def test_a_disk_that_fails_now_and_then_does_so() -> None:
    disk = Weather(_Clock(), (Spell("failing", 0, 1_000, 0.3),), seed=1)
    assert 30 < sum(_fails(disk) for _ in range(200)) < 90


def test_a_store_that_says_nothing_of_a_full_disk_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    spells = (Spell("full", EPOCH_MS + 10_000, EPOCH_MS + 40_000),)
    told = live(partial(Weather, spells=spells, seed=1))
    assert told.met["full"] > 0 and told.silent == []
    monkeypatch.setattr(Alarm, "troubled", lambda self, error: None)
    assert live(partial(Weather, spells=spells, seed=1)).silent


def test_a_turn_that_goes_on_after_stop_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    good = live(Disk)
    assert not good.ended
    monkeypatch.setattr(Supervisor, "_disturb", lambda self, lane, row: None)
    harm = judge(good, live(Disk))
    assert any("echo: hello slow" in each for each in harm.doubled)
    assert any(each.startswith("slow:") for each in harm.wrong_answers)


PLACE = Place("read", "flow.py:1 deliver", "sqlite/outbox.py get")


def _fails(disk: Disk, place: Place = PLACE) -> bool:
    try:
        disk.use(place)
    except apsw.Error:
        return True
    return False


def test_a_disk_fails_once_or_for_a_while_and_at_one_place_only() -> None:
    clock = _Clock()
    once, long = Disk(clock, Fault(PLACE, nth=2)), Disk(clock, Fault(PLACE, nth=1, lasting_s=30.0))
    assert [_fails(once) for _ in range(4)] == [False, True, False, False]
    assert not _fails(long, PLACE._replace(kind="write"))
    failed = []
    for clock.at_ms in range(0, 40_000, 10_000):
        failed.append(_fails(long))
    assert failed == [True, True, True, False]
    assert (long.failures, long.busy) == (3, False)


def test_who_asks_again_without_waiting_is_seen() -> None:
    disk = Disk(_Clock(), Fault(PLACE, lasting_s=30.0))
    assert sum(_fails(disk) for _ in range(1_000)) < 300
    assert disk.busy


async def test_a_real_read_and_a_real_write_are_places_and_fail(tmp_path: Path, autojump_clock: object) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    found = Disk(VirtualClock())
    with found.watched():
        async with open_daemon(tmp_path / "a", location="daycare.db") as house:
            found.on = True
            await house.talk("hello")
    assert {place.kind for place in found.used} == {"read", "write"}
    [write] = [place for place in found.used if place.method.endswith("inbox.py post")]
    disk = Disk(VirtualClock(), Fault(write))
    with disk.watched():
        async with open_daemon(tmp_path / "b", location="daycare.db") as house:
            disk.on = True
            with pytest.raises(StoreAwayError):
                await house.say("hello", key="once")
            assert await house.store.inbox.counts() == {"waiting": 0}
            assert await house.talk("hello", key="once") == "echo: hello"
