"""A daemon that counts: `python -m tests.bench.turn_counted FILE --home DIR` is `daycare run` with counters in FILE.

SQL statements are those that SQLite begins, without what triggers do; commits are those of the database (empty
transactions of readers are none). A hold is the time between two waits of the event loop's task steps: how long one
task ran without giving way, in microseconds, by the clock and of the thread's processor time. Modules are all that are
imported. Counting costs time itself, so that no other figure is taken from such a daemon.
"""

import mmap
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any, Final

import apsw
import trio

STATEMENTS, COMMITS, HOLD_US, HOLD_CPU_US, MODULES = range(5)
_COUNTERS: Final = 5
_BYTES: Final = 8


class Counters:
    """Numbers in a file, which one process writes and another reads and sets."""

    def __init__(self, file: Path) -> None:
        if not file.exists():
            file.write_bytes(bytes(_COUNTERS * _BYTES))
        with file.open("r+b") as opened:
            self._map = mmap.mmap(opened.fileno(), _COUNTERS * _BYTES)
        self.values = memoryview(self._map).cast("q")

    def reset(self) -> None:
        """Begin with zero; modules that were imported stay so."""
        for at in range(MODULES):
            self.values[at] = 0


class _Watch(trio.abc.Instrument):
    """Keeps the longest step of a task."""

    def __init__(self, counters: Counters) -> None:
        self._values = counters.values
        self._began = self._began_cpu = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Take note that a task has its turn."""
        self._began, self._began_cpu = time.perf_counter_ns(), time.thread_time_ns()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """Take note that it is over."""
        took, worked = time.perf_counter_ns() - self._began, time.thread_time_ns() - self._began_cpu
        if took > 1_000 * self._values[HOLD_US]:
            self._values[HOLD_US] = took // 1_000
        if worked > 1_000 * self._values[HOLD_CPU_US]:
            self._values[HOLD_CPU_US] = worked // 1_000
        self._values[MODULES] = len(sys.modules)


def main(file: str, *arguments: str) -> None:
    """Count, and run the daemon."""
    counters = Counters(Path(file))
    values, lock = counters.values, threading.Lock()  # statements begin in several threads

    def count(event: dict[str, Any]) -> None:
        if not event["trigger"]:
            with lock:
                values[STATEMENTS] += 1
                values[COMMITS] += event["sql"].upper().startswith(("COMMIT", "END"))

    apsw.connection_hooks.append(lambda db: db.trace_v2(apsw.SQLITE_TRACE_STMT, count, id="bench"))
    trio.run = partial(trio.run, instruments=[_Watch(counters)])  # type: ignore[assignment]
    sys.argv = ["daycare", *arguments]
    from daycare.cli import daemon

    daemon.main()


if __name__ == "__main__":
    main(*sys.argv[1:])
