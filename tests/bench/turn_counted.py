"""A daemon that counts: `python -m tests.bench.turn_counted FILE --home DIR` is `daycare run` with counters in FILE.

SQL statements are those that SQLite begins, without what triggers do; commits are those of the database (empty
transactions of readers are none). A hold is how long one task ran without giving way, in microseconds, by the clock and
of the thread's processor time; FILE.holds has the causes of long ones, see `turn_holds`, and FILE.imports the modules
that the loop's thread imports once the daemon is ready. Modules are all that are
imported. Counting costs time itself, so that no other figure is taken from such a daemon.
"""

import mmap
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any, Final

import apsw
import trio

from .turn_holds import HoldWatch, LoopImports

HOLDS: Final = ".holds"  # added to the name of the file
IMPORTS: Final = ".imports"
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


def main(file: str, *arguments: str) -> None:
    """Count, and run the daemon."""
    counters = Counters(Path(file))
    values, lock = counters.values, threading.Lock()  # statements begin in several threads

    def count(event: dict[str, Any]) -> None:
        if not event["trigger"]:
            with lock:
                values[STATEMENTS] += 1
                values[COMMITS] += event["sql"].upper().startswith(("COMMIT", "END"))

    def tell(took_us: int, worked_us: int) -> None:
        values[HOLD_US] = max(values[HOLD_US], took_us)
        values[HOLD_CPU_US] = max(values[HOLD_CPU_US], worked_us)
        values[MODULES] = len(sys.modules)

    apsw.connection_hooks.append(lambda db: db.trace_v2(apsw.SQLITE_TRACE_STMT, count, id="bench"))
    imports = LoopImports(Path(file + IMPORTS))
    watch = HoldWatch(Path(file + HOLDS), tell)
    trio.run = partial(trio.run, instruments=[watch])  # type: ignore[assignment]
    sys.argv = ["daycare", *arguments]
    from daycare.cli import daemon
    from daycare.ops.daemon_lifecycle import DaemonLifecycle
    from daycare.ops.standing import DaemonStanding

    ready = DaemonLifecycle.ready

    def note(self: DaemonLifecycle, standing: DaemonStanding) -> None:
        ready(self, standing)
        sys.meta_path.insert(0, imports)
        watch.is_ready = True

    DaemonLifecycle.ready = note  # type: ignore[method-assign]
    daemon.main()


if __name__ == "__main__":
    main(*sys.argv[1:])
