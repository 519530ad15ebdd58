"""What a bridge keeps on disk: inbound until it is acknowledged, and the keys of what it has sent.

Each is a file of JSON lines that grows and is written anew when little of it counts. Made for threads: a messenger's
library calls back in whichever it likes.
"""

import json
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from daycare.base.bounded import Bounded

REWRITE_BYTES: Final = 1024 * 1024  # a file below this is never rewritten
KEYS_MAX: Final = 10_000  # days of replies; the daemon repeats within a day


class Journal:
    """A file of JSON lines, mode 0600. A last line that a crash has cut is left out."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = -1
        self._least = 0  # what it had when it was written anew
        self.size = 0

    @property
    def is_long(self) -> bool:
        """Whether it is time to write it anew: seldom, so that each line costs as much as two."""
        return self.size > max(REWRITE_BYTES, 2 * self._least)

    def read(self) -> Iterator[dict[str, Any]]:
        """Yield what is in it, and open it for writing behind its last whole line."""
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with os.fdopen(os.dup(self._file), "rb") as opened:
            for line in opened:
                if not line.endswith(b"\n"):
                    break
                self.size += len(line)
                try:
                    entry = json.loads(line)
                except ValueError:
                    continue
                if isinstance(entry, dict):
                    yield entry
        os.ftruncate(self._file, self.size)
        os.lseek(self._file, self.size, os.SEEK_SET)

    def add(self, entry: Mapping[str, Any], *, durable: bool) -> None:
        """Write a line; a durable one is on disk when this returns."""
        line = json.dumps(entry, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"
        view = memoryview(line)
        try:
            while view:
                view = view[os.write(self._file, view) :]
            if durable:
                os.fsync(self._file)
        except OSError:
            os.ftruncate(self._file, self.size)  # half a line would swallow the next one
            os.lseek(self._file, self.size, os.SEEK_SET)
            raise
        self.size += len(line)

    def rewrite(self, entries: Iterable[Mapping[str, Any]]) -> None:
        """Let these be all there is, at once or not at all."""
        fresh = self._path.with_suffix(".new")
        fresh.unlink(missing_ok=True)
        other = Journal(fresh)
        list(other.read())
        for entry in entries:
            other.add(entry, durable=False)
        os.fsync(other._file)
        fresh.rename(self._path)
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        os.close(self._file)
        self._file, self.size, self._least = other._file, other.size, other.size

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class Spool:
    """What came in and is not acknowledged, in order: each has an id and is plain data."""

    def __init__(self, path: Path) -> None:
        self._journal = Journal(path)
        self._lock = threading.Lock()
        self._waiting: dict[str, dict[str, Any]] = {}
        for entry in self._journal.read():
            if isinstance(entry.get("id"), str) and isinstance(entry.get("in"), dict):
                self._waiting[entry["id"]] = entry["in"]
            for gone in entry.get("ack", ()):
                self._waiting.pop(gone, None)

    def put(self, id_: str, data: dict[str, Any]) -> bool:
        """Keep one: it is on disk when this returns. False if that id waits already."""
        with self._lock:
            if id_ in self._waiting:
                return False
            self._journal.add({"id": id_, "in": data}, durable=True)
            self._waiting[id_] = data
            return True

    def done(self, ids: tuple[str, ...]) -> list[dict[str, Any]]:
        """Forget what is acknowledged; return what that was. Not durable: what is offered again is known by its id."""
        with self._lock:
            found = [self._waiting.pop(id_) for id_ in ids if id_ in self._waiting]
            if found:
                self._journal.add({"ack": list(ids)}, durable=False)
                if self._journal.is_long:
                    self._journal.rewrite({"id": id_, "in": data} for id_, data in self._waiting.items())
            return found

    def waiting(self) -> list[tuple[str, dict[str, Any]]]:
        """Return what is not acknowledged, in order."""
        with self._lock:
            return list(self._waiting.items())

    def close(self) -> None:
        """Close the file."""
        self._journal.close()


class SentKeys:
    """The keys of the last things that were sent, with their receipts; an empty one was begun and not seen to end."""

    def __init__(self, path: Path, keys_max: int = KEYS_MAX) -> None:
        self._journal = Journal(path)
        self._lock = threading.Lock()
        self._keys: Bounded[str, str] = Bounded(keys_max)
        for entry in self._journal.read():
            if isinstance(entry.get("key"), str):
                self._note(entry["key"], entry.get("receipt"))

    def get(self, key: str) -> str | None:
        """Return the receipt of what was sent under a key, empty if it is not known whether it was; None if not."""
        with self._lock:
            return self._keys.get(key)

    def begin(self, key: str) -> None:
        """Note that something is about to be sent: on disk when this returns."""
        self._add(key, "")

    def sent(self, key: str, receipt: str) -> None:
        """Note that it was sent: on disk when this returns."""
        self._add(key, receipt)

    def undo(self, key: str) -> None:
        """Note that it was surely not sent."""
        with self._lock:
            self._keys.pop(key, None)
            self._journal.add({"key": key, "receipt": None}, durable=False)

    def close(self) -> None:
        """Close the file."""
        self._journal.close()

    def _add(self, key: str, receipt: str) -> None:
        with self._lock:
            self._journal.add({"key": key, "receipt": receipt}, durable=True)
            self._note(key, receipt)
            if self._journal.is_long:
                self._journal.rewrite({"key": known, "receipt": got} for known, got in self._keys.items())

    def _note(self, key: str, receipt: str | None) -> None:
        if receipt is None:
            self._keys.pop(key, None)
            return
        self._keys[key] = receipt
