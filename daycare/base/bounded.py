"""A dict with a bound, for what is kept in memory only: caches, and what was seen lately."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

_set = OrderedDict.__setitem__  # looked up once: caches are written to with each message


class Bounded(OrderedDict[K, V]):
    """A dict of at most `most` entries. Writing one makes it the newest; beyond the bound the oldest is dropped.

    Reading changes nothing: where entries in use are to stay, read with `touch`, or write back what was read.
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: K, value: V) -> None:
        if key in self:
            self.move_to_end(key)
        _set(self, key, value)
        if len(self) > self._most:
            self.popitem(last=False)

    def touch(self, key: K, default: V) -> V:
        """Return what is kept under a key, `default` if nothing was, and make it the newest."""
        self[key] = value = self.get(key, default)
        return value


class MadeOnce(Generic[K, V]):
    """What `make` makes of objects that never change, such as a tool's description: of each of the last `most` once."""

    def __init__(self, make: Callable[[K], V], most: int) -> None:
        self._make = make
        self._known: Bounded[int, tuple[K, V]] = Bounded(most)

    def of(self, it: K) -> V:
        """Return what is made of an object."""
        known = self._known.get(id(it))
        if known is None:  # what is known keeps its object, so that no other one gets its id
            known = self._known[id(it)] = (it, self._make(it))
        return known[1]
