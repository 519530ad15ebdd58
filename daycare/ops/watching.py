"""Noticing that a file was changed, and waiting until whoever writes it has finished.

A look is one `stat`, every two seconds while somebody works on the file, else every fifteen: an event of the kernel
would come sooner, and is lost where the folder is mounted over a network, or where an editor puts another file in its
place.
"""

import stat
from pathlib import Path
from typing import Final, NamedTuple

import trio

CONFIG_LOOK_S: Final = 2.0  # between two looks whether it was changed ...
CONFIG_BUSY_S: Final = 600.0  # ... for so long after a start or a change: who edits a file comes back to it ...
CONFIG_REST_S: Final = 15.0  # ... and then
CONFIG_STILL_S: Final = 0.5  # for so long nobody may have written to it: editors write in pieces
CONFIG_GONE_S: Final = 5.0  # and so long if it is empty or not there: some begin with that


class Stamp(NamedTuple):
    """What differs when a file was written to or another one was put in its place. `trouble`: why nobody can tell."""

    size: int = 0
    inode: int = 0
    changed_ns: int = 0
    written_ns: int = 0
    mode: int = 0
    trouble: str = ""

    @property
    def there(self) -> bool:
        """Whether there is something."""
        return self != GONE


GONE: Final = Stamp()


def stamp(file: Path) -> Stamp:
    """Return how a file is now, a link being what it leads to."""
    try:
        found = file.stat()
    except (FileNotFoundError, NotADirectoryError):
        return GONE
    except OSError as error:
        return Stamp(trouble=error.strerror or str(error))
    mode = stat.S_IFMT(found.st_mode) | stat.S_IMODE(found.st_mode)
    return Stamp(found.st_size, found.st_ino, found.st_ctime_ns, found.st_mtime_ns, mode)


class Watched:
    """One file. `taken` is how it was when it was read last; None: it was not read yet."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.taken: Stamp | None = None
        self._seen = GONE
        self._since = float("-inf")  # trio's clock: how it is `_seen` has been so since
        self._busy_since: float | None = None  # when it was read last

    def take(self) -> Stamp:
        """Return how it is now; as such it counts as read."""
        self.taken = stamp(self._file)
        self._busy_since = trio.current_time()
        return self.taken

    def look(self) -> float | None:
        """Return 0 if it is to be read, how long to wait if it may be being written, None if it is as it was."""
        now, seen = trio.current_time(), stamp(self._file)
        if seen == self.taken:
            self._seen = seen
            return None
        if seen != self._seen or self._since == float("-inf"):
            self._seen, self._since = seen, now
        still_s = CONFIG_STILL_S if seen.size or seen.trouble else CONFIG_GONE_S
        return max(self._since + still_s - now, 0.0)

    def wait_s(self) -> float:
        """Return how long nobody needs to look."""
        waits_s = self.look()
        if waits_s is not None:
            return min(waits_s, CONFIG_STILL_S)
        rests = self._busy_since is not None and trio.current_time() - self._busy_since > CONFIG_BUSY_S
        return CONFIG_REST_S if rests else CONFIG_LOOK_S
