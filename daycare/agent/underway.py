"""Reads that are on their way: what they find is not kept where a commit has changed it meanwhile.

On a file nothing comes between a question and its answer; on a server others run.
"""

from collections.abc import Iterator
from contextlib import contextmanager


class ReadUnderway:
    """One read; `is_current` as long as nothing that it may find was dropped."""

    is_current = True


class Underway:
    """The reads of some cache, by what they are about: tell it of all that is dropped there."""

    def __init__(self) -> None:
        self._reads: dict[str, list[ReadUnderway]] = {}

    @contextmanager
    def reading(self, key: str) -> Iterator[ReadUnderway]:
        """Read in this block, and keep what was found at its end if it is current."""
        read = ReadUnderway()
        reads = self._reads.setdefault(key, [])
        reads.append(read)
        try:
            yield read
        finally:
            reads.remove(read)
            if not reads:
                self._reads.pop(key, None)

    def drop(self, key: str) -> None:
        """Let nothing be kept that is being read of this."""
        for read in self._reads.get(key, ()):
            read.is_current = False

    def drop_all(self) -> None:
        """Let nothing be kept that is being read."""
        for key in self._reads:
            self.drop(key)
