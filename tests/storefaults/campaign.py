"""One campaign: the same day again and again, with the database failing at another place each time, and the harm."""

import os
import random
import re
import shutil
import sqlite3
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
import trio
import trio.testing

from daycare.testing.clock import VirtualClock, patient_clock
from tests.storefaults.places import Disk, Fault, Place
from tests.storefaults.story import FAILED, Story, plain

OUTAGE_S: Final = 30.0  # for which a place fails every time, in every second run
_WHOLE_S: Final = 20_000.0  # virtual time, in which every day has ended
# What may be told of a disk that fails, on top of what a good day tells.
_TOLD: Final = frozenset({"store.trouble", "turn.failed", "notice", "connector.health", "memory.recalled"})


class Day(msgspec.Struct, kw_only=True):
    """What is left of a day: counted, with neither numbers nor ids, so that two good days are equal."""

    ended: str = ""  # what ended the daemon, if something did
    answers: dict[str, str] = {}
    told: int = 0  # commands that look at how things are, and were answered with the error
    done: Counter[tuple[str, str]] = Counter()  # messages that were read: path and answer
    open: Counter[str] = Counter()  # what waits, is held, or was not sent
    dead: Counter[str] = msgspec.field(default_factory=Counter)
    arrived: Counter[tuple[str, str]] = msgspec.field(default_factory=Counter)
    tools: Counter[str] = msgspec.field(default_factory=Counter)
    kept: Counter[tuple[str, str]] = Counter()  # everything else that is to be there in the end
    events: set[str] = set()
    used: Counter[Place] = msgspec.field(default_factory=Counter)
    failures: int = 0
    busy: bool = False
    met: Counter[str] = msgspec.field(default_factory=Counter)  # failures, by their kind
    silent: list[str] = []


class Harm(msgspec.Struct, kw_only=True):
    """What a fault did to a day; each is a list of what was found."""

    silent: list[str] = []  # health was good although nothing could be written for a while
    ended: list[str] = []
    unanswered: list[str] = []
    wrong_answers: list[str] = []
    lost: list[str] = []
    doubled: list[str] = []
    dead: list[str] = []
    busy: list[str] = []
    broken: list[str] = []  # a part of the daemon came to its end, and was begun again

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in self.__struct_fields__)


class Counts(msgspec.Struct, kw_only=True):
    """What came of a campaign. All from `silent` on must be 0."""

    struck: int = 0  # runs in which something failed
    refusals_told: int = 0  # commands of people that were answered with the error: they can be given again
    silent: int = 0
    ended: int = 0
    unanswered: int = 0
    wrong_answers: int = 0
    lost: int = 0
    doubled: int = 0
    dead: int = 0
    busy: int = 0
    broken: int = 0
    findings: dict[str, Harm] = {}

    @property
    def harm(self) -> int:
        """Return what must be 0."""
        return sum(getattr(self, name) for name in Harm.__struct_fields__)


class Figures(Counts, kw_only=True):
    """What came of a campaign over all places."""

    places_read: int
    places_write: int
    runs: int = 0
    failures: int = 0


def run(seed: int, places: int | None = None, only: str = "") -> Figures:
    """Let the disk fail at so many places that are drawn, or at all of them; `only` is a pattern for their names."""
    dice = random.Random(seed)
    good = live(Disk)
    assert not good.ended, good.ended
    found = sorted(good.used)
    figures = Figures(
        places_read=sum(place.kind == "read" for place in found),
        places_write=sum(place.kind == "write" for place in found),
    )
    chosen = [place for place in found if re.search(only, str(place))]
    if places is not None:
        chosen = sorted(dice.sample(chosen, min(places, len(chosen))))
    for place in chosen:
        nth = dice.randint(1, good.used[place])
        for fault in (Fault(place, nth), Fault(place, 1, OUTAGE_S)):
            day = live(partial(Disk, fault=fault))
            if not day.failures:  # how often a place is used depends on who runs first: its first use is sure
                fault = Fault(place, 1, fault.lasting_s)
                day = live(partial(Disk, fault=fault))
            _weigh(figures, fault, good, day)
    return figures


def _weigh(figures: Figures, fault: Fault, good: Day, day: Day) -> None:
    figures.runs += 1
    figures.struck += day.failures > 0
    figures.failures += day.failures
    harm = judge(good, day)
    figures.refusals_told += day.told
    for name in Harm.__struct_fields__:
        setattr(figures, name, getattr(figures, name) + len(getattr(harm, name)))
    if harm:
        lasting = f" for {fault.lasting_s:g} s" if fault.lasting_s else ""
        figures.findings[f"{fault.place}, use {fault.nth}{lasting}"] = harm
        print(f"{fault.place}, use {fault.nth}{lasting}: {harm}", file=sys.stderr, flush=True)


def live(disk: Callable[[VirtualClock], Disk]) -> Day:
    """Let a day pass in a folder of its own, in virtual time, over a disk that is made for it."""
    folder = Path(tempfile.mkdtemp(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))
    before = os.environ.get("DAYCARE_TEST_LEDGER")
    os.environ["DAYCARE_TEST_LEDGER"] = str(folder / "ledger")
    try:
        return trio.run(_live, folder, disk, clock=patient_clock())
    finally:
        if before is None:
            del os.environ["DAYCARE_TEST_LEDGER"]
        else:
            os.environ["DAYCARE_TEST_LEDGER"] = before
        shutil.rmtree(folder)


async def _live(folder: Path, make: Callable[[VirtualClock], Disk]) -> Day:
    clock = VirtualClock()
    disk = make(clock)
    story = Story(folder=folder, clock=clock, disk=disk)
    day = Day()
    try:
        with trio.fail_after(_WHOLE_S):
            await story.run()
    except* Exception as group:  # noqa: BLE001 - whatever it is: it has ended the daemon
        day.ended = "; ".join(_reasons(group))
    # What a command tells of how things are depends on how far they are: that it was answered is enough.
    looks = {text: "what a command told" for key, text in story.answers.items() if key.startswith("/")}
    day.told = sum(any(error in text for error in FAILED) for key, text in story.answers.items() if key.startswith("/"))
    day.answers = {key: looks.get(text, plain(text)) for key, text in story.answers.items()}
    day.arrived = Counter(
        (flight.target, looks.get(flight.text, plain(flight.text))) for flight in story.pigeon.arrived
    )
    day.events, day.used, day.failures, day.busy = story.events, disk.used, disk.failures, disk.busy
    day.met, day.silent = disk.met, story.silent
    ledger = folder / "ledger"
    day.tools = Counter(ledger.read_text().splitlines()) if ledger.exists() else Counter()
    _look(folder / "daycare.db", day)
    return day


def _reasons(error: BaseException) -> Sequence[str]:
    if isinstance(error, BaseExceptionGroup):
        return [reason for each in error.exceptions for reason in _reasons(each)]
    return [f"{type(error).__name__}: {error}"[:300]]


def _look(database: Path, day: Day) -> None:
    """Read what is left, from outside of the daemon."""
    with closing(sqlite3.connect(database)) as db:

        def rows(sql: str) -> list[tuple[Any, ...]]:
            return [tuple(plain(str(value)) for value in row) for row in db.execute(sql)]

        for what, sql in (
            ("waits for a turn", "SELECT path FROM inbox WHERE state = 0"),
            ("is held", "SELECT path FROM inbox WHERE state = 3"),
            ("is not sent", "SELECT path FROM outbox WHERE state < 2 AND connector <> 'direct'"),
            ("is waited for", "SELECT key FROM waits"),
            ("has not ended", "SELECT 'a turn' FROM turns WHERE turn NOT IN (SELECT turn FROM history)"),
        ):
            day.open.update(f"{what}: {row[0]}" for row in rows(sql))
        day.dead = Counter(" ".join(row) for row in rows("SELECT path, code, reason FROM dead_letters"))
        day.dead.update(f"parked: {row[0]}" for row in rows("SELECT path FROM agents WHERE state = 'parked'"))
        for what, sql in (
            ("agent", "SELECT path || ' ' || state FROM agents"),
            ("approval", "SELECT state FROM approvals"),
            ("job's run", "SELECT path || ' ' || state FROM cron_runs"),
            ("task", "SELECT path || ' ' || state FROM tasks"),
            ("signal", "SELECT type || ' ' || state FROM signals"),
            ("memory", "SELECT text FROM memories"),
            ("document", "SELECT name || text FROM documents WHERE text IS NOT NULL"),
            ("reply in the terminal", "SELECT text FROM outbox WHERE connector = 'direct'"),
            ("file", "SELECT name FROM files"),
        ):
            day.kept.update((what, row[0]) for row in rows(sql))


def judge(good: Day, day: Day) -> Harm:
    """Compare a day with a good one."""
    harm = Harm(silent=day.silent)
    if day.ended:
        harm.ended.append(day.ended)
    if day.busy:
        harm.busy.append("somebody tries again without waiting")
    harm.broken += sorted(day.events - good.events - _TOLD)
    harm.dead += sorted(day.dead - good.dead)
    harm.unanswered += sorted(good.answers.keys() - day.answers.keys()) + sorted(day.open - good.open)
    wrong = [key for key, text in day.answers.items() if text != good.answers.get(key)]
    harm.wrong_answers += [f"{key}: {day.answers[key]!r}, not {good.answers.get(key)!r}" for key in wrong]
    for name in ("arrived", "tools", "kept"):
        before, after = getattr(good, name), getattr(day, name)
        harm.lost += [f"{name}: {each}" for each in (before - after).elements()]
        harm.doubled += [f"{name}: {each}" for each in (after - before).elements()]
    return harm
