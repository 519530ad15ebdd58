"""Dies between any two commits of one operation, on purpose, and compares what is left with a day without a death.

    python -m tests.crash --between --json
    python -m tests.crash --between --operation cron,task --points 20 --seed 3

Each operation (`operations`) is a short story: something is said, a job runs, a task ends. A process lives it over a
real file in virtual time, and SQLite itself counts its commits. For each number n there is a process that sends itself
SIGKILL as the n-th commit is about to be made, and one that does so as soon as it is durable and nobody has heard of
it. The next process finds what that left, people and platforms repeat what was not acknowledged, and when all has come
to rest, the file and what the world saw must be those of the undisturbed story: nothing is lost, doubled or left over.

Half of the points run with the store's own thread, as a daemon does. Processes are forked from one that has imported
everything, so a point costs little more than its story.
"""

import os
import random
import re
import shutil
import signal
import sqlite3
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import apsw
import msgspec
import trio
import trio.testing

from daycare.base.messages import Message, ToolResult
from daycare.features.memory.loading import load
from daycare.observe import log
from daycare.rules.grammar import grammar
from daycare.store.sqlite.packing import unpack
from daycare.testing.clock import patient_clock
from tests.crash.operations import OPERATIONS, Operation, die, live
from tests.crash.outside import Outside
from tests.storefaults.story import plain

_WHEN: Final = ("before", "after")
KINDS: Final = ("lost", "doubled", "left", "broken")
LIVES_MAX: Final = 9  # of one point; a message that kills its process is given up before
LIFE_S: Final = 60.0  # of real time, in which every life has ended
UNCERTAIN: Final = "Note: I was interrupted"
Finding = tuple[str, str]
_decode_history = msgspec.json.Decoder(tuple[Message, ...]).decode


class Moment(NamedTuple):
    """When to die, at the commit of this number, counted from the beginning of a life."""

    commit: int
    when: Literal["before", "after"]

    def __str__(self) -> str:
        return f"{self.when} commit {self.commit}"


@dataclass
class Figures:
    """What a campaign came to; each of `KINDS` must be 0."""

    seed: int
    operations: dict[str, int] = field(default_factory=dict)  # how many commits each has when nobody dies
    points: int = 0
    kills: int = 0
    missed: int = 0  # points whose commit did not come: with threads some are made together
    lost: int = 0
    doubled: int = 0
    left: int = 0
    broken: int = 0
    seconds: float = 0.0
    findings: list[str] = field(default_factory=list)

    @property
    def harm(self) -> int:
        """Return what must be 0."""
        return self.lost + self.doubled + self.left + self.broken


@dataclass
class Rest:
    """What is left when all is quiet: counted, without numbers and ids, so that two good ends are equal."""

    kept: Counter[tuple[str, ...]] = field(default_factory=Counter)
    open: Counter[tuple[str, ...]] = field(default_factory=Counter)
    arrived: Counter[tuple[str, ...]] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    commits: int = 0  # of the last life
    near: list[int] = field(default_factory=list)  # those of them with the statement that was looked for


def run(
    seed: int = 1,
    *,
    only: Sequence[str] = (),
    points: int | None = None,
    jobs: int = 1,
    first: bool = False,
    near: str = "",
    report: Callable[[str], None] = lambda line: None,
) -> Figures:
    """Sweep the operations; of each at most so many `points`, which are drawn, or all; up to the `first` finding.

    `near` are words of SQL: only commits that make such a statement durable count, and what comes right after them.
    """
    began = time.perf_counter()
    figures = Figures(seed)
    _warm_up()
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as at:
        for name, operation in OPERATIONS.items():
            if only and name not in only:
                continue
            if not (first and figures.harm):
                _sweep(
                    Path(at), name, operation, figures, points=points, jobs=jobs, first=first, near=near, report=report
                )
    figures.seconds = round(time.perf_counter() - began, 1)
    return figures


def _sweep(
    at: Path,
    name: str,
    operation: Operation,
    figures: Figures,
    *,
    points: int | None,
    jobs: int,
    first: bool,
    near: str,
    report: Callable[[str], None],
) -> None:
    # With threads some commits are made together: that story has fewer, and is compared with its like.
    goods: dict[bool, Rest] = {}
    chosen: list[tuple[Moment | None, bool]] = []
    for threads, (rest, kills, broken) in _each(at, name, operation, [(None, False), (None, True)], jobs, near):
        goods[bool(threads)] = rest
        found = [("broken", broken)] if broken else list(_whole(rest, kills, operation))
        if found:
            _tell(figures, f"{name}, undisturbed{', with threads' if threads else ''}", found, report)
            return
        commits = rest.commits
        figures.operations[name] = max(commits, figures.operations.get(name, 0))
        figures.kills += kills
        moments = [Moment(n, when) for n in range(1, commits + 1) for when in _WHEN]
        if near:
            close = {it for n in rest.near for it in (Moment(n, "before"), Moment(n, "after"), Moment(n + 1, "before"))}
            moments = [moment for moment in moments if moment in close]
        chosen += [(moment, bool(threads)) for moment in moments]
    chosen.sort()
    if points is not None and points < len(chosen):
        chosen = random.Random(f"{figures.seed}/{name}").sample(chosen, points)
    for number, (rest, kills, broken) in _each(at, name, operation, chosen, jobs):
        moment, threads = chosen[number]
        figures.points += 1
        figures.kills += kills
        figures.missed += not kills
        found = [("broken", broken)] if broken else list(compare(goods[threads], rest, operation))
        _tell(figures, f"{name}, {moment}{', with threads' if threads else ''}", found, report)
        if first and figures.harm:
            return
    report(f"{name}: {figures.operations[name]} commits, {len(chosen)} points, {len(figures.findings)} findings so far")


def _tell(figures: Figures, where: str, found: Sequence[Finding], report: Callable[[str], None]) -> None:
    for kind in {kind for kind, _ in found}:
        setattr(figures, kind, getattr(figures, kind) + 1)
    for kind, text in found[:5]:
        figures.findings.append(f"{where}: {kind}: {text}")
        report(figures.findings[-1])


def _each(
    at: Path, name: str, operation: Operation, points: Sequence[tuple[Moment | None, bool]], jobs: int, near: str = ""
) -> Iterator[tuple[int, tuple[Rest, int, str]]]:
    """Live the points, so many at once; yield number, what was left, how often it died, and what broke."""
    waiting = list(enumerate(points))
    running: dict[int, _Point] = {}
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                number, (moment, threads) = waiting.pop(0)
                point = _Point(number, at / f"{name}-{number}", operation, moment, threads, near)
                running[point.start()] = point
            pid, status = _any_of(running)
            point = running.pop(pid)
            again = point.ended(status)
            if again is not None:
                running[again] = point
                continue
            rest = Rest() if point.broken else look(point.folder)
            shutil.rmtree(point.folder)
            yield point.number, (rest, point.kills, point.broken)
    finally:
        for pid in running:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _any_of(running: dict[int, "_Point"]) -> tuple[int, int]:
    while True:
        for pid in running:
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                return pid, status
        time.sleep(0.002)


@dataclass
class _Point:
    """One death, and the lives after it."""

    number: int
    folder: Path
    operation: Operation
    moment: Moment | None
    threads: bool
    near: str
    kills: int = 0
    lives: int = 0
    broken: str = ""

    def start(self) -> int:
        """Begin the next life; the first is to end at the moment."""
        self.lives += 1
        return _fork(self.folder, self.operation, self.moment if self.lives == 1 else None, self.threads, self.near)

    def ended(self, status: int) -> int | None:
        """Take note of how a life ended; return the next one, if there is one."""
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            self.kills += 1
            if self.lives < LIVES_MAX:
                return self.start()
            self.broken = f"it died {self.lives} times"
        elif status:
            self.broken = f"status {os.waitstatus_to_exitcode(status)}: {_words(self.folder)}"
        return None


def _fork(folder: Path, operation: Operation, moment: Moment | None, threads: bool, near: str) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        signal.setitimer(signal.ITIMER_REAL, LIFE_S)  # SIGALRM ends what does not end by itself
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        log.configure("error")  # what it prints would stand among the figures
        folder.mkdir(exist_ok=True)
        outside = Outside(folder / "outside")
        os.environ["DAYCARE_TEST_LEDGER"] = str(folder / "tools")
        clock = patient_clock()

        def watch(db: apsw.Connection, now_ms: Callable[[], int]) -> None:
            _Guillotine(db, moment, outside, now_ms, near)

        trio.run(live, folder, operation, outside, watch, threads, clock=clock)
    except BaseException:  # noqa: BLE001 - the parent is told
        (folder / "words").write_text(traceback.format_exc())
        os._exit(1)
    os._exit(0)


def _words(folder: Path) -> str:
    file = folder / "words"
    return file.read_text()[-1500:] if file.exists() else f"it did not end within {LIFE_S:g} s"


class _Guillotine:
    """Counts the commits of a connection as SQLite makes them, whoever asks for them, and ends the process at one."""

    def __init__(
        self,
        db: apsw.Connection,
        moment: Moment | None,
        outside: Outside,
        now_ms: Callable[[], int],
        near: str,
    ) -> None:
        self._moment = moment
        self._outside = outside
        self._now_ms = now_ms
        self._made = 0
        self._near = near
        self._is_near = False
        db.set_commit_hook(self._before)
        db.set_wal_hook(self._after)
        if near:
            db.exec_trace = self._look

    def _look(self, _cursor: apsw.Cursor, sql: str, _bindings: Any) -> bool:
        self._is_near = self._is_near or self._near in sql
        return True

    def _before(self) -> bool:
        self._fall_at(Moment(self._made + 1, "before"))
        return False  # go on

    def _after(self, _db: apsw.Connection, _name: str, _pages: int) -> int:
        self._made += 1
        self._fall_at(Moment(self._made, "after"))
        self._outside.count_commit(near=self._is_near)
        self._is_near = False
        return 0

    def _fall_at(self, moment: Moment) -> None:
        if moment == self._moment:
            die(self._outside, self._now_ms())


# -- the judge --------------------------------------------------------------------------------------------------------

# What must be there as often as after an undisturbed story. The first column tells what it is.
_KEPT: Final = (
    ("message", "SELECT path, kind, state, coalesce(unpacked(result), '') FROM inbox WHERE kind <> 'result'"),
    ("turn's end", "SELECT path, h.state FROM history h JOIN agents ON id = h.agent_id WHERE h.state <> 'continued'"),
    ("reply", "SELECT path, connector, state, text FROM outbox"),
    ("dead letter", "SELECT path, code FROM dead_letters"),
    ("agent", "SELECT path, state FROM agents"),
    ("approval", "SELECT state FROM approvals"),
    ("job", "SELECT path, next_at IS NULL, removed_at IS NULL FROM cron_jobs"),
    ("job's run", "SELECT path, due_at, state FROM cron_runs"),
    ("task", "SELECT path, state FROM tasks"),
    ("signal", "SELECT type, state FROM signals"),
    ("memory", "SELECT text FROM memories"),
    ("document", "SELECT name, text FROM documents WHERE text IS NOT NULL"),
    ("file", "SELECT name FROM files"),
)  # fmt: skip
# What must be at an end.
_OPEN: Final = (
    ("a message waits", "SELECT path FROM inbox WHERE state IN (0, 3)"),
    ("a reply is not sent", "SELECT path FROM outbox WHERE state < 2 AND connector <> 'direct'"),
    ("a turn is open", "SELECT turn FROM turns WHERE turn NOT IN (SELECT turn FROM history)"),
    ("an answer is waited for", "SELECT key FROM waits"),
    ("a timer waits", "SELECT key FROM timers"),
)


def look(folder: Path) -> Rest:
    """Read what is left with SQL of our own, and what the world saw."""
    rest = Rest()
    outside = Outside(folder / "outside")
    rest.commits, rest.near = outside.commits, outside.near
    with closing(sqlite3.connect(folder / "daycare.db")) as db:
        db.create_function("unpacked", 1, lambda stored: stored and unpack(stored))
        for what, sql in _KEPT:
            rest.kept.update((what, *(_settled(str(value)) for value in row)) for row in db.execute(sql))
        for what, sql in _OPEN:
            rest.open.update((what, *(plain(str(value)) for value in row)) for row in db.execute(sql))
        [(sound,)] = db.execute("PRAGMA integrity_check(1)").fetchall()
        if sound != "ok":
            rest.wrong.append(f"integrity_check: {sound}")
        by_key = {str(key): int(seq) for key, seq in db.execute("SELECT key, seq FROM inbox")}
        rest.wrong += [
            f"{key} was acknowledged as {seq}, and is {by_key.get(key)}"
            for key, seq in outside.acknowledged.items()
            if by_key.get(key) != seq
        ]
        _look_at_conversations(db, rest, outside)
    return rest


def _look_at_conversations(db: sqlite3.Connection, rest: Rest, outside: Outside) -> None:
    uncertain = 0
    charged: Counter[str] = Counter()
    for path, text in db.execute("SELECT path, unpacked(messages) FROM history h JOIN agents a ON a.id = h.agent_id"):
        messages = _decode_history(text)
        calls = {call.id: call for message in messages for call in message.tool_calls}
        for message in messages:
            if message.role == "user":
                rest.kept["heard", path, plain(message.text.rpartition("] ")[2])] += 1
            for part in message.parts:
                if isinstance(part, ToolResult):
                    name = calls[part.call_id].name if part.call_id in calls else "?"
                    uncertain += part.status == "uncertain"
                    charged[part.status] += name == "charge"
                    status = "done" if name == "charge" and part.status == "uncertain" else part.status
                    rest.kept["tool", path, name, status] += 1
    # A tool that may not be repeated has run once if it says so, and at most once if nobody knows; the person is told.
    done, runs = charged["ok"], outside.tools["charge p1"]
    if not done <= runs <= done + charged["uncertain"]:
        rest.wrong.append(f"charge ran {runs} times; results: {dict(charged)}")
    warnings = [key for key in rest.kept if key[0] == "reply" and key[-1].startswith(UNCERTAIN)]
    if sum(rest.kept.pop(key) for key in warnings) != uncertain:
        rest.wrong.append(f"{uncertain} uncertain tools, of which the person was told otherwise")
    for (outbox, target, text), times in outside.arrived.items():
        if not text.startswith(UNCERTAIN):
            rest.arrived["arrived", target, _settled(text)] += 1
        if outside.unmarked[outbox] > 1:
            rest.wrong.append(f"reply {outbox} arrived {times} times, and not marked as a possible duplicate")
    rest.kept = Counter({_mild(key): times for key, times in rest.kept.items()})


def _settled(text: str) -> str:
    """Return words as they would be had it been known that a charge took effect."""
    return re.sub(r"uncertain: the daemon was interrupted while `charge` ran\..*", "charged p#", plain(text))


def _mild(key: tuple[str, ...]) -> tuple[str, ...]:
    """A charge that is uncertain is a charge that has ended."""
    return ("tool", *key[1:3], "done") if key[0] == "tool" and key[2] == "charge" else key


def compare(good: Rest, rest: Rest, operation: Operation) -> Iterator[Finding]:
    """Yield in what a story that was interrupted differs from one that was not."""
    for name in ("kept", "arrived"):
        before: Counter[tuple[str, ...]] = getattr(good, name)
        after: Counter[tuple[str, ...]] = getattr(rest, name)
        for key in before.keys() | after.keys():
            if key[0] in operation.varies:
                continue
            if after[key] < before[key]:
                yield "lost", f"{name}: {after[key]} instead of {before[key]}: {' | '.join(key)[:300]}"
            elif after[key] > before[key]:
                yield "doubled", f"{name}: {after[key]} instead of {before[key]}: {' | '.join(key)[:300]}"
    for key, times in (rest.open - good.open).items():
        yield "left", f"{times} times: {' | '.join(key)[:300]}"
    yield from (("broken", what) for what in rest.wrong)


def _whole(rest: Rest, kills: int, operation: Operation) -> Iterator[Finding]:
    """Yield what an undisturbed story should have come to, and has not: all others are compared with it."""
    for begin in operation.arrives:
        if not any(text.startswith(begin) for _, _, text in rest.arrived):
            yield "lost", f"nothing arrived that begins with {begin!r}"
    yield from (("left", f"{times} times: {' | '.join(key)[:300]}") for key, times in rest.open.items())
    yield from (("broken", what) for what in rest.wrong)
    if bool(kills) is not operation.kills:
        yield "broken", f"it died {kills} times"


def _warm_up() -> None:
    """Read what is read once, so that each life finds it."""
    grammar()
    load()


def as_json(figures: Figures) -> dict[str, Any]:
    """Return the figures for programs."""
    return {"mode": "between", **asdict(figures)}
