"""Which starts found that the run before had not ended in order: a small file in the home, on disk before work begins.

Three of them within five minutes open the breaker: something that connectors bring in may be what kills the daemon.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from daycare.base.clock import Clock
from daycare.base.limits import UNCLEAN_STARTS_MAX
from daycare.observe import log

UNCLEAN_WITHIN_S: Final = 300.0  # within which so many unclean starts keep connectors down

_FILE_MAX_BYTES: Final = 16 * 1024


class CrashRecord(msgspec.Struct, kw_only=True):
    """What is in the file. Times are wall ms; `trying` is the plugin whose connectors are tried after a pause."""

    running_since: int | None = None
    unclean: list[int] = []
    trying: str = ""


class CrashVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What a start has to keep down: `all` that connects, or one plugin that was being tried when the daemon died."""

    all: bool = False
    suspect: str = ""
    unclean: int = 0

    @property
    def reason(self) -> str:
        """Say why, to people."""
        if self.all:
            return f"{self.unclean} unclean starts within {UNCLEAN_WITHIN_S / 60:.0f} minutes"
        return "the daemon died while this was tried after a pause" if self.suspect else ""


class CrashLog:
    """The file of one home; whoever uses it holds the home's lock. A disk that refuses costs the record, no start."""

    def __init__(self, file: Path, clock: Clock) -> None:
        self._file = file
        self._clock = clock
        self._record = CrashRecord()

    def begin(self) -> CrashVerdict:
        """Note that a run begins, and say what it has to keep down."""
        found, now = self._read(), self._clock.now_ms()
        unclean = [at for at in found.unclean if now - UNCLEAN_WITHIN_S * 1000 <= at <= now]
        suspect = ""
        if found.running_since is not None:
            unclean = [*unclean, now][-2 * UNCLEAN_STARTS_MAX :]
            suspect = found.trying
            log.logger().warning("start.unclean", running_since=found.running_since, lately=len(unclean))
        self._write(CrashRecord(running_since=now, unclean=unclean))
        return CrashVerdict(all=len(unclean) >= UNCLEAN_STARTS_MAX, suspect=suspect, unclean=len(unclean))

    def trying(self, plugin: str) -> None:
        """Note whose connectors are tried now, empty for nobody's."""
        self._write(msgspec.structs.replace(self._record, trying=plugin))

    def steady(self) -> None:
        """Forget what was: everything is back."""
        self._write(CrashRecord(running_since=self._record.running_since))

    def end(self) -> None:
        """Note that the run ended in order. Whoever ends it knows of the starts before."""
        self._write(CrashRecord())

    def _read(self) -> CrashRecord:
        try:
            with self._file.open("rb") as opened:
                return msgspec.json.decode(opened.read(_FILE_MAX_BYTES), type=CrashRecord)
        except FileNotFoundError:
            return CrashRecord()
        except (OSError, ValueError) as error:
            log.logger().warning("start.record_unreadable", file=str(self._file), reason=str(error))
            return CrashRecord(running_since=0)  # it was cut off while it was written, or somebody changed it

    def _write(self, record: CrashRecord) -> None:
        self._record = record
        beside = self._file.with_name(self._file.name + ".new")
        try:
            fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
            try:
                os.write(fd, msgspec.json.encode(record))
                os.fsync(fd)
            finally:
                os.close(fd)
            beside.replace(self._file)
            folder = os.open(self._file.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            with suppress(OSError):
                beside.unlink(missing_ok=True)
            log.logger().warning("start.record_unwritten", file=str(self._file), reason=str(error))
