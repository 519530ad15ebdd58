"""The high-water mark: what a database has held at last, in a small file beside it that outlives what happens to it.

It is written after each commit, in place, and brought to the disk when the log of commits is. So it is never ahead of a
database to which nothing has happened, and whatever lets commits vanish without a word (a log that was deleted or is
damaged, an older copy put in the place of the file) is seen at the next start.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

import apsw
import msgspec

from daycare.base.english import plural
from daycare.store.sqlite.database import MEMORY

_RECENT_MS: Final = 86_400_000
_BYTES: Final = 512  # a sector: it is written whole or not at all
_NEWEST: Final = (  # numbers that only grow: the newest row of a table is never deleted
    "SELECT coalesce((SELECT max(seq) FROM inbox), 0), coalesce((SELECT max(turn) FROM turns), 0),"
    " coalesce((SELECT max(seq) FROM outbox), 0), coalesce((SELECT max(no) FROM documents), 0)"
)
_NAMES: Final = ("message", "turn", "reply", "document version")


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """What was committed and is not there any more, by what it is; found at a start (wall ms)."""

    found_at: int
    missing: dict[str, int]
    told: bool = False  # the operator knows

    def is_recent(self, now_ms: int) -> bool:
        """Whether it was found so lately that the installation does not count as well."""
        return now_ms - self.found_at < _RECENT_MS

    def __str__(self) -> str:
        rows = ", ".join(f"{many} {plural(what, many)}" for what, many in self.missing.items())
        return f"missing of what was committed before the start: {rows}, if not more"


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """What is in the file: the newest numbers, in the order of `_NAMES`; `damage` is what was wrong with a page."""

    newest: tuple[int, ...] = ()
    damage: str = ""
    lost: Loss | None = None


def file_of(location: str) -> Path:
    """Return where the mark of a database lies."""
    return Path(f"{location}.mark")


def read(location: str) -> Held:
    """Return what is in a mark; nothing of one that is missing or cannot be read."""
    with suppress(OSError, ValueError), file_of(location).open("rb") as file:
        return msgspec.json.decode(file.read(_BYTES), type=Held)
    return Held()


def newest_in(db: apsw.Connection) -> tuple[int, ...]:
    """Return the numbers of the newest rows of a database."""
    row: tuple[int, ...] | None = db.execute(_NEWEST).fetchone()
    assert row is not None
    return row


class Mark:
    """The mark of one open database, which `db` is. A disk that refuses costs the mark, and no commit."""

    def __init__(self, location: str, db: apsw.Connection, now_ms: int) -> None:
        self._fd: int | None = None
        if location == MEMORY:
            self._held = Held()
            return
        before, newest = read(location), newest_in(db)
        missing = {what: was - now for what, was, now in zip(_NAMES, before.newest, newest, strict=False) if was > now}
        lost = Loss(found_at=now_ms, missing=missing) if missing else before.lost
        self._held = Held(newest=newest, lost=lost)
        with suppress(OSError):
            self._fd = os.open(file_of(location), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        self._write()
        if missing:
            self.sync()

    @property
    def lost(self) -> Loss | None:
        """What the last loss was."""
        return self._held.lost

    def lose(self, missing: dict[str, int], now_ms: int) -> None:
        """Note what was found missing while it was in use."""
        self._change(lost=Loss(found_at=now_ms, missing=missing))

    def tell(self) -> None:
        """Note that the operator knows of the loss."""
        if self._held.lost is not None:
            self._change(lost=msgspec.structs.replace(self._held.lost, told=True))

    def doubt(self, damage: str) -> None:
        """Note that the database is damaged: the next start looks at all of it."""
        self._change(damage=damage[: _BYTES // 4])

    def advance(self, newest: tuple[int, ...]) -> None:
        """Note what the database holds after a commit."""
        if newest != self._held.newest:
            self._held = msgspec.structs.replace(self._held, newest=newest)
            self._write()

    def sync(self) -> None:
        """Return when it is on the disk."""
        if self._fd is not None:
            with suppress(OSError):
                os.fsync(self._fd)

    def close(self) -> None:
        """Bring it to the disk and let go of it."""
        self.sync()
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _change(self, **new: object) -> None:
        self._held = msgspec.structs.replace(self._held, **new)
        self._write()
        self.sync()

    def _write(self) -> None:
        if self._fd is not None:
            with suppress(OSError):
                os.pwrite(self._fd, msgspec.json.encode(self._held).ljust(_BYTES - 1)[: _BYTES - 1] + b"\n", 0)
