"""Reading the copy in Redis, as a search does: scopes whole and in pages, words, texts and vectors."""

from array import array
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from daycare.features.memory.redis.layout import CopyKeys, CopyMark, mark_key, mark_of, read_shape, read_text
from daycare.features.memory.redis.server import RedisServer
from daycare.features.memory.store.copied import ScopeState
from daycare.features.memory.store.records import OWN_BITS, MemoryShape, Postings, VectorPage
from daycare.features.memory.store.rows import MemoryRows
from daycare.features.memory.store.stored import SCOPE_BITS

_PAGE: Final = 1_000  # fields asked for at once: a millisecond of the server's
_SCOPES_MAX: Final = 1_024  # whose ids are remembered between two reads of one search


class RedisIndex:
    """A `MemoryIndex`. `rows` know which scope has which id, and make the stems of words."""

    def __init__(self, server: RedisServer, rows: MemoryRows) -> None:
        self._server = server
        self._rows = rows
        self._copies: dict[str, _Copy] = {}  # several threads read it; what one of them drops another reads again

    def latest(self, scope: str) -> tuple[int, int]:
        """Return numbers that tell of additions and of changes."""
        copy = self._look(scope)
        return (0, 0) if copy is None else (copy.mark.last, copy.mark.revised)

    def gone_since(self, scope: str, gone: int) -> list[int] | None:
        """Return what was changed since then; None: too much to tell."""
        copy = self._look(scope)
        since = None if copy is None else copy.mark.since(gone)
        if copy is None or since is None:
            return None
        keys = copy.keys
        found = self._server.run(lambda redis: redis.zrangebyscore(keys.gone, f"({since}", "+inf"))
        return sorted(copy.high | int(own) for own in found)

    def shapes(self, scope: str, *, after: int = 0, limit: int = 100_000) -> list[MemoryShape]:
        """Return the memories of a scope in order of number, beginning after `after`."""
        copy = self._look(scope)
        found: list[MemoryShape] = []
        own = 0 if copy is None else copy.after(after)
        while copy is not None and own < copy.mark.last and len(found) < limit:
            through = min(copy.mark.last, own + min(_PAGE, limit - len(found)))
            found += self._shapes(copy, range(own + 1, through + 1))
            own = through
        return found

    def shapes_of(self, scope: str, numbers: Sequence[int]) -> list[MemoryShape]:
        """Return those of the memories that are in this scope, in order of number."""
        copy = self._copy(scope)
        return [] if copy is None else self._shapes(copy, copy.own(numbers))

    def texts(self, scope: str, numbers: Sequence[int]) -> dict[int, str]:
        """Return the texts of those of the memories that are in this scope."""
        return {no: text for no, text, _ in self.worded(scope, numbers)}

    def worded(self, scope: str, numbers: Sequence[int]) -> list[tuple[int, str, list[str]]]:
        """Return (number, text, words as the index has them) of those of the memories that are in this scope."""
        copy = self._copy(scope)
        if copy is None:
            return []
        kept = self._fields(copy.keys.text, copy.own(numbers))
        return [(copy.high | own, *read_text(data)) for own, data in kept]

    def stems(self, words: Sequence[str]) -> list[list[str]]:
        """Return each of these words as the index has it."""
        return self._rows.stems(words)

    def postings(self, scope: str, terms: Sequence[str], *, postings_max: int) -> list[Postings]:
        """Return where words are in a scope, the rarest first, until there are `postings_max` numbers; at least one.

        Of a word that is in more memories than that, and looked for alone, these are the newest.
        """
        copy = self._copy(scope)
        words: dict[str, list[str]] = {}
        for word, stems in zip(terms, self.stems(terms), strict=True):
            for stem in stems:
                words.setdefault(stem, []).append(word)
        if copy is None or not words:
            return []
        keys = copy.keys
        counted = zip(words, self._each([("ZCARD", keys.word(stem)) for stem in words]), strict=True)
        rarest = sorted(((stem, count) for stem, count in counted if count), key=lambda it: it[1])
        chosen: list[tuple[str, int]] = []
        left = postings_max
        for stem, count in rarest:
            left -= count
            if left < 0:
                break
            chosen.append((stem, count))
        chosen = chosen or rarest[:1]  # then it alone has too many
        asked = [("ZRANGE", keys.word(stem), -postings_max, -1) for stem, _ in chosen]
        return [
            Postings(stem, tuple(dict.fromkeys(words[stem])), count, _packed(copy.high, found))
            for (stem, count), found in zip(chosen, self._each(asked), strict=True)
        ]

    def dimensions(self, model: str) -> int:
        """Return how many dimensions the vectors of a model have, 0 where there are none of it."""
        return self._rows.dimensions(model)

    def vectors(self, scope: str, model: str, *, after: int = 0) -> Iterator[VectorPage]:
        """Yield a scope's vectors of one model, in order of number, beginning after `after`."""
        copy = self._copy(scope)
        if copy is None or not self._is_of(copy, model):
            return
        for first in range(copy.after(after) + 1, copy.mark.last + 1, _PAGE):
            page = self._vectors(copy, range(first, min(first + _PAGE, copy.mark.last + 1)))
            if page.numbers:
                yield page

    def vectors_of(self, model: str, numbers: Sequence[int]) -> VectorPage:
        """Return the vectors of some memories of one scope in order of number; those without one are left out."""
        states = self._rows.scope_states(after=(numbers[0] >> SCOPE_BITS) - 1, limit=1) if numbers else []
        copy = self._copied(states[0]) if states else None
        if copy is None or not self._is_of(copy, model):
            return VectorPage((), ())
        return self._vectors(copy, copy.own(numbers))

    # -- inside ------------------------------------------------------------------------------------------------------

    def _look(self, scope: str) -> "_Copy | None":
        """Return the copy of a scope as it is now, None if there is none yet."""
        state = self._rows.scope_state(scope)
        copy = self._copied(state) if state is not None else None
        if copy is None:
            self._copies.pop(scope, None)
            return None
        if len(self._copies) >= _SCOPES_MAX:
            self._copies.clear()
        self._copies[scope] = copy
        return copy

    def _copy(self, scope: str) -> "_Copy | None":
        """Return the copy of a scope as it was when its latest numbers were asked for."""
        return self._copies.get(scope) or self._look(scope)

    def _copied(self, state: ScopeState) -> "_Copy | None":
        key = mark_key(self._server.prefix, state.id)
        mark = mark_of(self._server.run(lambda redis: redis.hgetall(key)))
        return None if mark is None else _Copy(state, mark, CopyKeys(self._server.prefix, state.id, mark.start))

    def _is_of(self, copy: "_Copy", model: str) -> bool:
        """Return whether the vectors of a copy are of this model."""
        return bool(copy.mark.model) and copy.mark.model == self._rows.vector_id(model)

    def _shapes(self, copy: "_Copy", numbers: Sequence[int]) -> list[MemoryShape]:
        return [read_shape(copy.high | own, data) for own, data in self._fields(copy.keys.shape, numbers)]

    def _vectors(self, copy: "_Copy", numbers: Sequence[int]) -> VectorPage:
        there = [(copy.high | own, data) for own, data in self._fields(copy.keys.vectors, numbers) if data]
        return VectorPage(tuple(no for no, _ in there), tuple(data for _, data in there))

    def _fields(self, key: str, numbers: Sequence[int]) -> list[tuple[int, bytes]]:
        """Return those fields of a hash that are there."""
        found: list[tuple[int, bytes]] = []
        for at in range(0, len(numbers), _PAGE):
            part = list(numbers[at : at + _PAGE])
            kept = self._server.run(partial(_asked, key=key, fields=part))
            found += [(own, data) for own, data in zip(part, kept, strict=True) if data is not None]
        return found

    def _each(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Return what the server answers to some commands, all sent at once."""

        def asked(redis: Any) -> list[Any]:
            with redis.pipeline(transaction=False) as pipe:
                for command in commands:
                    pipe.execute_command(*command)
                answers: list[Any] = pipe.execute()
                return answers

        return self._server.run(asked)


class _Copy(NamedTuple):
    """A copy of a scope as it was at one moment."""

    state: ScopeState
    mark: CopyMark
    keys: CopyKeys

    @property
    def high(self) -> int:
        """What the numbers of its memories begin with."""
        return self.state.no << SCOPE_BITS

    def own(self, numbers: Sequence[int]) -> list[int]:
        """Return which of the memories are in this scope, in order, as the copy names them."""
        return sorted({no & OWN_BITS for no in numbers if no >> SCOPE_BITS == self.state.no})

    def after(self, number: int) -> int:
        """Return after which of its own a reading begins that is to begin after a memory's number."""
        return number & OWN_BITS if number >> SCOPE_BITS == self.state.no else 0


def _asked(redis: Any, key: str, fields: Sequence[int]) -> list[bytes | None]:
    found: list[bytes | None] = redis.hmget(key, fields)
    return found


def _packed(high: int, found: Sequence[bytes]) -> bytes:
    return array("q", [high | int(own) for own in found]).tobytes()
