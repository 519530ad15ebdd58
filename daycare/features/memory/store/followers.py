"""Memories in the transactions of the core: of agents that end, of people who are purged, and as others move them."""

from collections.abc import Mapping, Sequence
from typing import Final

import apsw

from daycare.base.memories import EntityPart, FactPart, NewMemory
from daycare.features.memory.store.extra import extra_from
from daycare.features.memory.store.extraction import renew_mark
from daycare.features.memory.store.stored import (
    SCOPE_BITS,
    add_source,
    insert,
    new_incarnation,
    remove,
    span,
)
from daycare.store.sqlite.facts import AgentCutOff, Heed, PersonPurged, TurnsExpire
from daycare.store.sqlite.ports import MemoryPort
from daycare.store.sqlite.rows import PURGED_PATH
from daycare.store.sqlite.sql import fetch
from daycare.store.sqlite.writer import Tx

_THEIRS: Final = (
    "user IN (SELECT id FROM purged_users) OR agent_id IN (SELECT id FROM purged_agents)"
    f" OR {PURGED_PATH.format('path')}"
)
_PAGE: Final = 2_000  # memories of a purged person, removed together


class MemoryFollower(MemoryPort):
    """Memories, as the transactions of others need them."""

    def heeds(self) -> Mapping[type, Heed]:
        """Return what is done about facts, by their class."""
        return {AgentCutOff: _cut_off, TurnsExpire: _expire, PersonPurged: _purge}

    def span(self, db: apsw.Connection, scope: str) -> tuple[int, int] | None:
        """Return the first and the last number that memories of a scope may have, None if it never had one."""
        there = span(db, scope)
        return None if there is None else (there.first, there.last)

    def parts(self, extra: str | None) -> tuple[FactPart | None, EntityPart | None]:
        """Return what a row says of a fact or an entity."""
        more = extra_from(extra)
        return more.fact, more.entity

    def last(self, tx: Tx, scope: str, user: str) -> int:
        """Return the last number that a scope has given out; the scope is there then."""
        tx.run(
            "INSERT INTO memory_scopes (scope, user, origin, incarnation) VALUES (?, ?, 'system', ?)"
            " ON CONFLICT DO NOTHING",
            (scope, user, new_incarnation()),
        )
        row = tx.one("SELECT no, next FROM memory_scopes WHERE scope = ?", (scope,))
        assert row is not None
        return (int(row[0]) << SCOPE_BITS) + int(row[1]) - 1

    def insert(self, tx: Tx, new: Sequence[NewMemory]) -> list[int]:
        """Add memories; return their numbers."""
        return insert(tx, new)

    def add_source(self, tx: Tx, no: int, source: int) -> None:
        """Note which log entry a memory was learned from."""
        add_source(tx, no, source)

    def renew_mark(self, tx: Tx, agent_id: str) -> None:
        """Let what is known of an agent's log be what is there."""
        renew_mark(tx, agent_id)


def _cut_off(tx: Tx, it: AgentCutOff) -> None:
    tx.run("UPDATE memory_marks SET through = newest WHERE agent_id = ?", (it.agent_id,))  # no worker reads on


def _expire(tx: Tx, it: TurnsExpire) -> None:
    """Delete some of an agent's log; what was learned from it is its person's and stays."""
    log = fetch(
        tx.db, "SELECT no FROM memories WHERE agent_id = ? AND tier = 'log' LIMIT ?", (it.agent_id, it.bite.limit)
    )
    numbers = [no for (no,) in log]
    it.bite.rows += remove(tx, numbers, hashes=False)
    for no in numbers:  # what was forgotten has left a hash, which `remove` does not look at
        tx.run("DELETE FROM memories WHERE no = ? AND text IS NULL", (no,))
    it.bite.more |= len(numbers) == it.bite.limit


def _purge(tx: Tx, it: PersonPurged) -> None:
    """Remove memories, as long as their words are known: the index has to be told which of them go."""
    scopes = [*it.users, *(root.removeprefix("/") for root in it.roots)]
    numbers = {
        no
        for scope in dict.fromkeys(scopes)
        for (no,) in fetch(
            tx.db,
            "SELECT m.no FROM memory_scopes s JOIN memories m ON m.no BETWEEN s.no << 32 AND (s.no << 32) + 4294967295"
            " WHERE s.scope = ?1 OR substr(s.scope, 1, length(?1) + 1) = ?1 || '/'",
            (scope,),
        )
    }
    numbers |= {no for (no,) in fetch(tx.db, f"SELECT no FROM memories WHERE {_THEIRS}")}
    rows = sorted(numbers)
    for first in range(0, len(rows), _PAGE):
        page = rows[first : first + _PAGE]
        remove(tx, page, hashes=False)
        tx.db.executemany("DELETE FROM memories WHERE no = ?", [(no,) for no in page])
    for scope in dict.fromkeys(scopes):
        tx.run(
            "DELETE FROM memory_scopes WHERE scope = ?1 OR substr(scope, 1, length(?1) + 1) = ?1 || '/'",
            (scope,),
        )
    it.gone["memories"] = len(rows)
