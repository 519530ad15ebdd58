"""Exports that wait to be fetched, and uploads that wait to be imported: for an hour, and no more than a few."""

import os
import tempfile
import weakref
from pathlib import Path
from typing import BinaryIO, Final, Literal

import msgspec
import trio

from daycare.base.errors import BusyError, NotFoundError
from daycare.base.ids import new_trace_id

EXPORT_KEPT_S: Final = 3_600.0  # an export that nobody fetches, an upload that nobody imports
EXPORTS_KEPT_MAX: Final = 8  # of both

What = Literal["export", "upload", "backup"]
_FROM: Final = {"export": "daycare export", "upload": "daycare import", "backup": "daycare backup"}


def anonymous(folder: Path) -> BinaryIO:
    """Return a file without a name in a folder: nothing of it is left when it is closed, or when the process dies."""
    return tempfile.TemporaryFile(dir=folder)


class StoredFile(msgspec.Struct):
    """A file without a name, until a time of the loop's clock."""

    file: BinaryIO
    size: int
    until: float
    what: What


class StoredFiles:
    """Files by an id that nobody guesses. They are closed when this is gone."""

    def __init__(self) -> None:
        self._files: dict[str, StoredFile] = {}
        weakref.finalize(self, _close_all, self._files)

    def keep(self, file: BinaryIO, what: What) -> str:
        """Keep a file for a while; return its id."""
        kept_id = new_trace_id()
        until = trio.current_time() + EXPORT_KEPT_S
        self._files[kept_id] = StoredFile(file, os.fstat(file.fileno()).st_size, until, what)
        return kept_id

    def known(self, kept_id: str, what: What) -> StoredFile:
        """Return a file. Raises `NotFoundError` EXPORT_UNKNOWN."""
        kept = self._files.get(kept_id)
        if kept is None or kept.what != what:
            raise NotFoundError(
                "EXPORT_UNKNOWN", f"there is no {what} {kept_id[:40]!a}, or not any more", hint=_FROM[what]
            )
        return kept

    def take(self, kept_id: str, what: What) -> StoredFile:
        """Return a file that is the caller's to close from now on. Raises `NotFoundError` EXPORT_UNKNOWN."""
        kept = self.known(kept_id, what)
        del self._files[kept_id]
        return kept

    def make_room(self) -> None:
        """Let go of what nobody came for. Raises `BusyError` EXPORTS_MAX when somebody may still come for the rest."""
        now = trio.current_time()
        for kept_id, kept in list(self._files.items()):
            if kept.until <= now:
                self.take(kept_id, kept.what).file.close()
        if len(self._files) >= EXPORTS_KEPT_MAX:
            first = min(kept.until for kept in self._files.values()) - now
            raise BusyError(
                "EXPORTS_MAX", f"making an export: {len(self._files)} wait to be fetched already", retry_after_s=first
            )


def _close_all(files: dict[str, StoredFile]) -> None:
    for kept in files.values():
        kept.file.close()
