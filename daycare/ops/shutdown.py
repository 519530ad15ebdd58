"""Shutdown in time, no process left behind: a deadline that holds also when the loop hangs, and the end of children.

What counts is committed by then: what is cut off goes on after the next start, as after any crash.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_SUBREAPER: Final = 36  # PR_SET_CHILD_SUBREAPER
_ROUNDS_MAX: Final = 16  # of looking for children, which may be making more

_GONE_S: Final = 0.3
_LOOK_S: Final = 0.002

Child = tuple[int, str]  # a process and when it began, in the kernel's ticks: a number is used again


class ShutdownGuard:
    """How one daemon leaves. `last` is called right before the process is cut off, in whatever thread.

    `again` starts the program afresh in this process, if that is wanted when the time is over.
    """

    def __init__(self, last: Callable[[], None]) -> None:
        self._last = last
        self.again: Callable[[], object] | None = None
        self._timer: threading.Timer | None = None
        self._until = 0.0
        self._children: set[Child] = set()

    def arm(self, seconds: float) -> None:
        """Leave within so long, one way or another. Called again it can only become sooner."""
        until = time.monotonic() + seconds
        if self._timer is None:
            # Whoever loses its parent from here on becomes a child of this process, where it is found.
            _adopt(yes=True)
            self._children = descendants()
        elif self._until <= until:
            return
        else:
            self._timer.cancel()
        self._until = until
        self._timer = threading.Timer(seconds, self._late)
        self._timer.daemon = True
        self._timer.start()

    def disarm(self) -> None:
        """It has left in order; what follows in this process, if anything, is another daemon."""
        if self._timer is not None:
            self._timer.cancel()
            _adopt(yes=False)

    def at_once(self, code: int, why: str) -> None:
        """End the process now, with all its children."""
        self._cut(why)
        os._exit(code)

    def _late(self) -> None:
        self._cut("the time for an orderly end is over")
        if self.again is not None:
            self.disarm()
            self.again()
        os._exit(0)  # it was asked to end

    def _cut(self, why: str) -> None:
        self._last()
        self.sweep()
        with suppress(OSError):  # not the log: whoever hangs may hold it
            os.write(sys.stderr.fileno(), f"daycare leaves at once: {why}; what is left goes on later\n".encode())

    def sweep(self) -> int:
        """Kill what this process has started and what is still there; return how many that were."""
        killed: set[Child] = set()
        for _ in range(_ROUNDS_MAX):
            left = {child for child in self._children | descendants() if _alive(child)} - killed
            if not left:
                break
            for pid, _began in left:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            killed |= left
        until = time.monotonic() + _GONE_S
        while any(map(_alive, killed)) and time.monotonic() < until:
            time.sleep(_LOOK_S)  # killed is not gone yet
        return len(killed)


def _adopt(*, yes: bool) -> None:
    import ctypes  # late: a daemon that does not end needs none of it

    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_SUBREAPER, int(yes), 0, 0, 0)


def descendants() -> set[Child]:
    """Return the children of this process, with theirs; none where there is no /proc."""
    parents: dict[int, tuple[int, str]] = {}
    for folder in _PROC.iterdir() if _PROC.is_dir() else ():
        if folder.name.isdecimal() and (told := _stat(int(folder.name))) is not None:
            parents[int(folder.name)] = (int(told[1]), told[19])
    mine, found = {os.getpid()}, set()
    while grown := {pid for pid, (parent, _) in parents.items() if parent in mine} - mine:
        mine |= grown
        found |= {(pid, parents[pid][1]) for pid in grown}
    return found


def _alive(child: Child) -> bool:
    told = _stat(child[0])
    return told is not None and told[19] == child[1] and told[0] not in "ZX"


def _stat(pid: int) -> list[str] | None:
    """Return what the kernel tells of a process, from its state on."""
    try:
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
