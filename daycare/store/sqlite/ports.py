"""What parts of the core ask of capabilities inside a transaction: each port is a follower, which a capability brings.

`Tx.of(DocumentPort)` is the one of the store, whatever class it has.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import apsw

from daycare.base.documents import DocumentVersion, Layer, NewVersion, Place
from daycare.base.memories import EntityPart, FactPart, NewMemory
from daycare.store.sqlite.facts import Follower
from daycare.store.sqlite.writer import Tx


class DocumentPort(Follower):
    """Documents, for what decides about a change of one and carries it out with that, or moves them elsewhere."""

    def newest(self, db: apsw.Connection, place: Place) -> DocumentVersion | None:
        """Return the newest version, unless it is a deletion."""
        raise NotImplementedError

    def write(self, tx: Tx, new: NewVersion) -> DocumentVersion:
        """Append a version."""
        raise NotImplementedError

    def append(self, tx: Tx, new: NewVersion, head: str = "", section: str = "") -> DocumentVersion:
        """Append a version with more text."""
        raise NotImplementedError

    def undo(self, tx: Tx, new: NewVersion, version: int | None = None) -> DocumentVersion:
        """Append a version with the text before the newest."""
        raise NotImplementedError

    def versions(self, db: apsw.Connection, layer: Layer, owner: str) -> Iterator[tuple[Any, ...]]:
        """Yield what an export keeps of an owner's versions, in order of name and number.

        Each is name, version, origin, author, approver, reason, provenance, hash, created_at and text.
        """
        raise NotImplementedError


class MemoryPort(Follower):
    """Memories, for what moves them elsewhere."""

    def span(self, db: apsw.Connection, scope: str) -> tuple[int, int] | None:
        """Return the first and the last number that memories of a scope may have, None if it never had one."""
        raise NotImplementedError

    def parts(self, extra: str | None) -> tuple[FactPart | None, EntityPart | None]:
        """Return what a row says of a fact or an entity."""
        raise NotImplementedError

    def last(self, tx: Tx, scope: str, user: str) -> int:
        """Return the last number that a scope has given out; the scope is there then."""
        raise NotImplementedError

    def insert(self, tx: Tx, new: Sequence[NewMemory]) -> list[int]:
        """Add memories; return their numbers."""
        raise NotImplementedError

    def add_source(self, tx: Tx, no: int, source: int) -> None:
        """Note which log entry a memory was learned from."""
        raise NotImplementedError

    def renew_mark(self, tx: Tx, agent_id: str) -> None:
        """Let what is known of an agent's log be what is there."""
        raise NotImplementedError


class BudgetPort(Follower):
    """Budgets, for what moves agents elsewhere."""

    def limits(self, db: apsw.Connection, path: str) -> dict[str, int]:
        """Return what was set for a path, without limits that only lift a default."""
        raise NotImplementedError

    def narrow(self, tx: Tx, path: str, limits: Mapping[str, int]) -> None:
        """Let a path use no more than this, nor more than what was set for it before."""
        raise NotImplementedError
