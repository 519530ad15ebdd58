"""Where a daemon uses its database, and a disk that fails at one of these places."""

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final, Literal, NamedTuple

import apsw
import msgspec

import daycare
from daycare.base.clock import Clock

_CODE: Final = f"{Path(daycare.__file__).parent}/"
_STORE: Final = f"{_CODE}store/"
_HARNESS: Final = (f"{_CODE}testing/", f"{Path(__file__).parent.parent}/")
PER_S: Final = 20  # tries of one place in a second; what tries more often does not wait
_AT_ONCE: Final = 200  # tries of one place in one moment


class Place(NamedTuple):
    """A method of the store and who calls it."""

    kind: Literal["read", "write"]
    caller: str
    method: str

    def __str__(self) -> str:
        return f"{self.kind} {self.caller} -> {self.method}"


class Fault(msgspec.Struct, frozen=True):
    """The `nth` use of a place fails; with `lasting_s` all that follow within so many seconds fail, too."""

    place: Place
    nth: int = 1
    lasting_s: float = 0.0


class Disk:
    """Counts in `used` how often each place uses the database, and lets the one that `fault` names fail.

    A read fails when a statement is begun, a write when it is committed: SQLite's own error, which nothing but the
    store ever sees. Only what happens while `on` is counted. `failures` counts, `met` by their kind; `refused_ms` is
    since when each write was refused, None if the last one was taken; `busy` says that somebody asked again and again
    without waiting.
    """

    def __init__(self, clock: Clock, fault: Fault | None = None) -> None:
        self.used: Counter[Place] = Counter()
        self.refused_ms: int | None = None
        self.met: Counter[str] = Counter()
        self.failures = 0
        self.busy = False
        self.on = False
        self._clock = clock
        self._fault = fault
        self._began_ms: int | None = None
        self._moment = (0, 0)  # wall ms, and the failures in it

    @contextmanager
    def watched(self) -> Iterator["Disk"]:
        """See every connection that is opened within the block."""
        apsw.connection_hooks.append(self._opened)
        try:
            yield self
        finally:
            apsw.connection_hooks.remove(self._opened)

    def _opened(self, db: apsw.Connection) -> None:
        reads = bool(db.open_flags & apsw.SQLITE_OPEN_READONLY)

        def traced(_cursor: apsw.Cursor, sql: str, _bindings: Any) -> bool:
            if self.on and (reads or sql == "COMMIT" or not (db.in_transaction or sql.startswith("BEGIN"))):
                kind: Literal["read", "write"] = "read" if reads or sql.startswith("SELECT") else "write"
                place = _place(kind, sys._getframe(1))
                if place is not None:
                    self.use(place)
            return True

        db.exec_trace = traced

    def use(self, place: Place) -> None:
        """Count a place, and fail if its time has come."""
        self.used[place] += 1
        fault = self._fault
        if fault is None or self.busy or place != fault.place or self.used[place] < fault.nth:
            return
        now_ms = self._clock.now_ms()
        if self._began_ms is None:
            self._began_ms = now_ms
        elif now_ms >= self._began_ms + fault.lasting_s * 1000:
            return
        self.failures += 1
        self.met["failing"] += 1
        self._moment = (now_ms, self._moment[1] + 1 if self._moment[0] == now_ms else 1)
        if self._moment[1] > _AT_ONCE or self.failures > _AT_ONCE + PER_S * fault.lasting_s:
            self.busy = True  # it would go on for ever: virtual time stands still while somebody works
        raise apsw.IOError("disk I/O error")


def _place(kind: Literal["read", "write"], frame: FrameType | None) -> Place | None:
    """Return who uses the store, None for those who look on."""
    method = ""
    while frame is not None:
        code = frame.f_code
        if code.co_name == "_restore":
            return None  # the writer's own, after a failure
        if code.co_filename.startswith(_STORE):
            if code.co_name != "with_retry":  # it is called by whoever needs the store, and calls it
                method = f"{code.co_filename.removeprefix(_STORE)} {code.co_name}"
        elif code.co_filename.startswith(_HARNESS):
            return None
        elif code.co_filename.startswith(_CODE):
            return Place(kind, f"{code.co_filename.removeprefix(_CODE)}:{frame.f_lineno} {code.co_name}", method)
        frame = frame.f_back
    return Place(kind, "a thread", method)
