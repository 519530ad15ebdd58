"""A dict with a bound, for what is kept in memory only: caches, and what was seen lately."""

from collections import OrderedDict
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Bounded(OrderedDict[K, V]):
    """A dict of at most `most` entries. Writing one makes it the newest; beyond the bound the oldest is dropped.

    Reading changes nothing: where entries in use are to stay, read with `touch`, or write back what was read.
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self._most:
            self.popitem(last=False)

    def touch(self, key: K, default: V) -> V:
        """Return what is kept under a key, `default` if nothing was, and make it the newest."""
        self[key] = value = self.get(key, default)
        return value
