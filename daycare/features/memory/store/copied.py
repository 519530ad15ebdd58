"""What a copy of memories elsewhere is made of, and how far it should have come.

A number of a memory here is its own part, which counts within its scope.
"""

from collections.abc import Sequence
from typing import NamedTuple

import apsw

from daycare.features.memory.store.records import OWN_BITS, MemoryShape
from daycare.features.memory.store.search import SHAPE_COLUMNS, shape
from daycare.features.memory.store.stored import MODEL_BITS, SCOPE_BITS, changes
from daycare.store.sqlite.rows import Rows
from daycare.store.sqlite.sql import fetch, those
from daycare.store.sqlite.stems import stemmer


class ScopeState(NamedTuple):
    """How a scope is: the number of its last memory, and of its last change; both only grow.

    `incarnation` tells it from others that had its number before.
    """

    no: int
    incarnation: int
    last: int
    changed: int

    @property
    def id(self) -> str:
        """What no other scope ever has."""
        return f"{self.no}-{self.incarnation:x}"


class CopiedMemory(NamedTuple):
    """A living memory as a copy has it, with its words as the index has them."""

    own: int
    shape: MemoryShape
    text: str
    stems: list[str]


class VectorState(NamedTuple):
    """A model, by an id that no other ever has, and how many memories of a scope have a vector of it."""

    id: str
    vectors: int


class MemoryCopied(Rows):
    """Reads for who copies memories; all may be called in any thread."""

    def scope_state(self, scope: str) -> ScopeState | None:
        """Return how a scope is, None if it never had a memory."""
        with self._readers.lent() as db:
            rows = fetch(db, "SELECT no, incarnation, next - 1, changed FROM memory_scopes WHERE scope = ?", (scope,))
        return ScopeState(*rows[0]) if rows else None

    def scope_states(self, *, after: int, limit: int) -> list[ScopeState]:
        """Return how scopes are, in order of their numbers, beginning after `after`."""
        with self._readers.lent() as db:
            rows = fetch(
                db,
                "SELECT no, incarnation, next - 1, changed FROM memory_scopes WHERE no > ? ORDER BY no LIMIT ?",
                (after, limit),
            )
        return [ScopeState(*row) for row in rows]

    def vector_states(self, model: str, *, after: int, through: int) -> dict[int, VectorState]:
        """Return what vectors of a model there are of the scopes after one number up to another."""
        with self._readers.lent() as db:
            rows = fetch(
                db,
                "SELECT e.scope, m.no, m.incarnation, e.vectors FROM memory_models m"
                " JOIN memory_embedded e ON e.model = m.no WHERE m.model = ? AND e.scope > ? AND e.scope <= ?",
                (model, after, through),
            )
        return {scope: VectorState(f"{no}-{incarnation:x}", vectors) for scope, no, incarnation, vectors in rows}

    def vector_id(self, model: str) -> str:
        """Return a model's id, "" where there is no vector of it."""
        with self._readers.lent() as db:
            rows = fetch(db, "SELECT no, incarnation FROM memory_models WHERE model = ?", (model,))
        return f"{rows[0][0]}-{rows[0][1]:x}" if rows else ""

    def changed_since(self, scope: int, changed: int) -> list[int] | None:
        """Return which memories were changed or removed since the number of the last change was this.

        None: so much that it is not known any more.
        """
        with self._readers.lent() as db:
            found = changes(db, scope, changed)
        return None if found is None else [no & OWN_BITS for no in found]

    def created(self, scope: int, own: int) -> int:
        """Return when a memory was kept, 0 for one of which nothing is left."""
        with self._readers.lent() as db:
            rows = fetch(db, "SELECT created_at FROM memories WHERE no = ?", (scope << SCOPE_BITS | own,))
        return int(rows[0][0]) if rows else 0

    def copied(self, scope: int, *, after: int, through: int, limit: int) -> list[CopiedMemory]:
        """Return living memories in order of number, from the first after `after` up to `through`."""
        low = scope << SCOPE_BITS
        with self._readers.lent() as db:
            return _read(db, "no BETWEEN ? AND ? ORDER BY no LIMIT ?", (low | after + 1, low | through, limit))

    def copied_of(self, scope: int, numbers: Sequence[int]) -> list[CopiedMemory]:
        """Return those of the memories that live."""
        wanted = those(scope << SCOPE_BITS | own for own in numbers)
        with self._readers.lent() as db:
            return _read(db, "no IN (SELECT value FROM carray(?)) ORDER BY no", (wanted,))

    def copied_vectors(self, scope: int, model: str, numbers: Sequence[int]) -> dict[int, bytes]:
        """Return the vectors of some memories; an empty one is that of a text that cannot have any."""
        with self._readers.lent() as db:
            high = _model(db, model)
            rows = fetch(
                db,
                "SELECT key & 4294967295, data FROM memory_vectors WHERE key IN (SELECT value FROM carray(?))",
                (those(high | scope << SCOPE_BITS | own for own in numbers),),
            )
        return {own: bytes(data) for own, data in rows}

    def with_vector(self, scope: int, model: str, *, before: int, limit: int) -> list[int]:
        """Return which memories have a vector, the newest first, beginning below `before`."""
        low = scope << SCOPE_BITS
        with self._readers.lent() as db:
            high = _model(db, model)
            keys = fetch(
                db,
                "SELECT key & 4294967295 FROM memory_vectors WHERE key >= ? AND key < ? ORDER BY key DESC LIMIT ?",
                (high | low, high | low | before, limit),
            )
        return [own for (own,) in keys]


def _model(db: apsw.Connection, model: str) -> int:
    """Return what the keys of a model's vectors begin with; none has those of a model without any."""
    rows = fetch(db, "SELECT no FROM memory_models WHERE model = ?", (model,))
    return int(rows[0][0]) << MODEL_BITS if rows else 0


def _read(db: apsw.Connection, where: str, bindings: tuple[object, ...]) -> list[CopiedMemory]:
    stems = stemmer(db)
    rows = fetch(
        db,
        f"SELECT text, coalesce(indexed, text), {SHAPE_COLUMNS} FROM memories WHERE text IS NOT NULL AND {where}",
        bindings,
    )
    return [CopiedMemory(no & OWN_BITS, shape((no, *more)), text, stems(indexed)) for text, indexed, no, *more in rows]
