"""What held the event loop, by name: for each long step of a task, what ran, and who else had the interpreter.

A step of a task is the time between two waits of the loop. Its figures come from the loop's own thread: by the clock,
in processor time, and how long the kernel let it wait for a processor. That is the second number of
/proc/self/task/N/schedstat, which grows as a thread gets a processor again: so it is exact when that thread reads it.
The clock less both is how long it waited for something else, as a rule for the interpreter, which another thread had.

Another thread looks at all stacks every other millisecond while a step is long, and at what each thread has worked
since the last look before it. It needs the interpreter for that, too: it is among the other threads. No other figure is
taken from a daemon that is watched.
"""

import gc
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Final

import msgspec
import trio

LONG_MS: Final = 5.0
_LOOK_S: Final = 0.002
_LOOKED_AT_MS: Final = 1.5  # a step that is as long already
_NOTICED_NS: Final = 200_000
_WATCH: Final = "the watch itself"
_FIRST: Final = -10
_OF_A_THREAD: Final = 6  # the kernel's CPUCLOCK_PERTHREAD_MASK and CPUCLOCK_SCHED
_INNER: Final = 3  # places of a stack that are told
_OUTSIDE: Final = ("/site-packages/", "/python3.11/")
_OURS: Final = ("/daycare/", "/plugins/", "/tests/")


class OtherThread(msgspec.Struct):
    """What another thread worked and waited for a processor meanwhile, and where it was."""

    name: str
    place: str
    cpu_ms: float
    waited_ms: float


class Collection(msgspec.Struct):
    """A look for garbage: how many objects were found to be garbage, in processor time of the thread that looked."""

    generation: int
    thread: str
    found: int
    cpu_ms: float


class LoopHold(msgspec.Struct):
    """A long step, in milliseconds: `waited_ms` for a processor, `blocked_ms` for something else.

    `stacks` says where its thread was at each look, `collected` which generations were looked through for garbage.
    """

    ms: float
    cpu_ms: float
    waited_ms: float
    task: str
    stacks: list[list[str]]
    others: list[OtherThread]
    collected: list[Collection]
    imported: list[str]
    at_s: float

    @property
    def blocked_ms(self) -> float:
        """How long its thread had neither a processor nor a wish for one."""
        return self.ms - self.cpu_ms - self.waited_ms

    @property
    def held_ms(self) -> float:
        """How long it took, without what the kernel let its thread wait for a processor."""
        return self.ms - self.waited_ms

    @property
    def cause(self) -> str:
        """Return what took the largest part of it."""
        garbage = max(self.collected, key=lambda it: it.cpu_ms, default=None)
        if self.imported and self.cpu_ms > self.held_ms / 2:
            return f"import of {self.imported[0]} and {len(self.imported) - 1} more, {self._place}"
        if garbage is not None and sum(it.cpu_ms for it in self.collected) > self.held_ms / 3:
            return f"garbage of generation {garbage.generation}, looked for by {garbage.thread}"
        if self.blocked_ms < self.held_ms / 2:
            return f"its own work, {self._place}"
        return self._blocked_by

    @property
    def _blocked_by(self) -> str:
        """Return who had the interpreter, as far as that is known."""
        others = [it for it in self.others if it.name != _WATCH] or self.others
        if not others:
            return f"blocked, {self._place}; no other thread worked"
        most = max(others, key=lambda it: it.cpu_ms + it.waited_ms)
        if most.name == _WATCH:
            return "the watch itself"
        if most.waited_ms > most.cpu_ms:
            return "the machine: another thread of the daemon waited for a processor, as a rule with the interpreter"
        return f"blocked, {self._place}; {most.name} worked in {most.place}"

    @property
    def _place(self) -> str:
        """Return the innermost function that was on the stack at most looks, and where most of them were in it."""
        stacks = [each for each in self.stacks if each]
        if not stacks:
            return f"in {self.task}"
        calls = Counter(call for stack in stacks for call in dict.fromkeys(map(_function, stack)))
        within, inner = "", Counter[str]()
        for stack in stacks:
            often = [call for call in map(_function, stack) if calls[call] > 0.7 * len(stacks)]
            within = often[-1] if often else within
            inner[_function(stack[-1])] += 1
        return f"in {within}, often {inner.most_common(1)[0][0]}"


def _function(place: str) -> str:
    file, _, rest = place.partition(":")
    return f"{file} {rest.partition(' ')[2]}"


class _Thread:
    """What the kernel says of a thread."""

    def __init__(self, native_id: int) -> None:
        self._file = os.open(f"/proc/self/task/{native_id}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        self._clock = (~native_id << 3) | _OF_A_THREAD

    def read_ns(self) -> tuple[int, int]:
        """Return how long it had a processor, and how long it waited for one. Raises `OSError` once it has ended."""
        return time.clock_gettime_ns(self._clock), self.waited_ns()

    def waited_ns(self) -> int:
        """Return how long it waited for a processor."""
        return int(os.pread(self._file, 96, 0).split()[1])

    def close(self) -> None:
        """Close its file."""
        os.close(self._file)


class LoopImports:
    """Notes in a file, a line for each, which modules the loop's thread imports: whoever asked for them holds it up."""

    def __init__(self, file: Path) -> None:
        self._file = file.open("a", buffering=1)
        self._loop = threading.get_ident()

    def find_spec(self, name: str, path: object, target: object = None) -> None:
        """Find nothing, and take note of what is looked for."""
        if threading.get_ident() == self._loop:
            self._file.write(f"{name}\n")


class HoldWatch(trio.abc.Instrument):
    """Tells of each step how long it took and worked, in microseconds, and writes long ones to a file.

    How long it took is without what the kernel let it wait for a processor. Steps before `is_ready` are not told. The
    file gets a line of JSON for each.
    """

    def __init__(self, file: Path, tell: Callable[[int, int], None], long_ms: float = LONG_MS) -> None:
        self._told = tell
        self.is_ready = False
        self._counts = False
        self._long_ns = int(long_ms * 1e6)
        self._file = file.open("ab", buffering=0)
        self._step = self._since = self._began_cpu = self._began_waited = 0
        self._own: _Thread | None = None
        self._ident = 0
        self._modules = 0
        self._stacks: list[list[str]] = []
        self._seen: dict[int, str] = {}  # where other threads were at the last look
        self._collecting_ns = 0
        self._collected: list[Collection] = []
        self._threads: dict[threading.Thread, _Thread] = {}
        self._read_ns: dict[threading.Thread, tuple[int, int]] = {}

    def before_run(self) -> None:
        """Begin to look."""
        self._ident = threading.get_ident()
        self._own = _Thread(threading.get_native_id())
        self._modules = len(sys.modules)
        gc.callbacks.append(self._collects)
        threading.Thread(target=self._look, name=_WATCH, daemon=True).start()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Take note that a task has its turn."""
        assert self._own is not None
        self._step += 1
        self._counts = self.is_ready
        self._began_waited = self._own.waited_ns()
        self._began_cpu = time.thread_time_ns()
        self._since = time.perf_counter_ns()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """Take note that it is over."""
        assert self._own is not None
        since, self._since = self._since, 0
        took = time.perf_counter_ns() - since
        worked = time.thread_time_ns() - self._began_cpu
        waited = self._own.waited_ns() - self._began_waited
        if self._counts:
            self._told((took - waited) // 1_000, worked // 1_000)
            if took - waited > self._long_ns:
                self._tell(task, took, worked, waited)
        if self._stacks or self._collected:
            self._stacks, self._collected = [], []
        self._modules = len(sys.modules)

    def _tell(self, task: trio.lowlevel.Task, took: int, worked: int, waited: int) -> None:
        hold = LoopHold(
            ms=_ms(took),
            cpu_ms=_ms(worked),
            waited_ms=_ms(waited),
            task=task.name,
            stacks=self._stacks,
            others=list(self._others()),
            collected=self._collected,
            imported=list(sys.modules)[self._modules :],
            at_s=time.monotonic(),
        )
        self._file.write(msgspec.json.encode(hold) + b"\n")

    def _others(self) -> Iterable[OtherThread]:
        for thread, its in list(self._threads.items()):
            try:
                worked, waited = its.read_ns()
                before = self._read_ns[thread]
            except (OSError, KeyError):
                continue  # it has just ended, or begun
            if worked + waited - sum(before) > _NOTICED_NS and thread.ident != self._ident:
                place = self._seen.get(thread.ident or 0, "")
                yield OtherThread(thread.name, place, _ms(worked - before[0]), _ms(waited - before[1]))

    def _collects(self, phase: str, info: dict[str, int]) -> None:
        now = time.thread_time_ns()
        if phase == "start":
            self._collecting_ns = now
        elif self._since:
            thread = threading.current_thread()
            name = "the loop" if thread.ident == self._ident else thread.name
            took = _ms(now - self._collecting_ns)
            self._collected.append(Collection(info["generation"], name, info["collected"], took))

    def _look(self) -> None:
        with suppress(PermissionError):  # who has the interpreter and no processor holds everybody up
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _FIRST)
        while True:
            time.sleep(_LOOK_S)
            step, since = self._step, self._since
            if not since or time.perf_counter_ns() - since < _LOOKED_AT_MS * 1e6:
                self._count_work()
                continue
            stacks = _stacks()
            if step == self._step and self._since:
                self._stacks.append(stacks[self._ident])
                self._seen = {ident: " > ".join(stack[-_INNER:]) for ident, stack in stacks.items()}

    def _count_work(self) -> None:
        for thread in threading.enumerate():
            if thread.native_id is not None and thread not in self._threads:
                try:
                    self._threads[thread] = _Thread(thread.native_id)
                except OSError:
                    continue  # it has just ended
        for thread, its in list(self._threads.items()):
            try:
                self._read_ns[thread] = its.read_ns()
            except OSError:
                its.close()
                del self._threads[thread]


def _stacks() -> dict[int, list[str]]:
    """Return where each thread is.

    The frames are gone when it returns: who kept one would keep what the function had, such as a cursor that has not
    ended, and the loop would read for ever what was in the store when that began.
    """
    return {ident: _stack(frame) for ident, frame in sys._current_frames().items()}


def _stack(frame: FrameType | None) -> list[str]:
    """Return the places of a task's or thread's stack, the innermost last, from where trio begins it."""
    found: list[str] = []
    while frame is not None and frame.f_code.co_name != "unrolled_run":
        found.append(f"{_short(frame.f_code.co_filename)}:{frame.f_lineno} {frame.f_code.co_qualname}")
        frame = frame.f_back
    return found[::-1]


def _short(file: str) -> str:
    for top in _OUTSIDE:
        if top in file:
            return file.rpartition(top)[2]
    for top in _OURS:
        if top in file:
            return top[1:] + file.partition(top)[2]
    return file


def _ms(ns: int) -> float:
    return round(ns / 1e6, 2)


def read(file: Path) -> list[LoopHold]:
    """Return the steps that were written to a file."""
    return [msgspec.json.decode(line, type=LoopHold) for line in file.read_bytes().splitlines()]


def causes(holds: Iterable[LoopHold]) -> list[str]:
    """Return a line for each cause: how often it was, and the longest of it, the longest first."""
    by_cause: dict[str, list[LoopHold]] = {}
    for hold in holds:
        by_cause.setdefault(hold.cause, []).append(hold)
    lines = []
    for cause, those in sorted(by_cause.items(), key=lambda it: -max(hold.held_ms for hold in it[1])):
        most = max(those, key=lambda it: it.held_ms)
        lines.append(
            f"{len(those)} x {cause}; longest {most.held_ms:.1f} ms, of the processor {most.cpu_ms:.1f}, in {most.task}"
        )
    return lines
