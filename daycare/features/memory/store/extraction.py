"""What memory workers do to the log: they look at it once, keep what they learned, and it expires."""

from collections.abc import Iterable
from typing import Any, Final

import apsw
import msgspec
from msgspec.structs import replace

from daycare.base.errors import InvalidError
from daycare.base.memories import FactPart, NewMemory, Tier
from daycare.features.memory.store.extra import Extra, extra_from
from daycare.features.memory.store.records import (
    ECHO,
    Comparable,
    MergeResult,
    Seen,
    StoredMemory,
    Superseded,
    Unextracted,
)
from daycare.features.memory.store.stored import (
    COLUMNS,
    MEMORIES,
    SCOPE_BITS,
    add_source,
    close_up,
    describe,
    hash_of,
    insert,
    memory,
    remove,
    span,
)
from daycare.store.sqlite import scrub
from daycare.store.sqlite.database import count
from daycare.store.sqlite.rows import Rows
from daycare.store.sqlite.sql import fetch, those
from daycare.store.sqlite.writer import Tx

_GONE_SHARE: Final = 0.25  # of those that live: so much less often is the whole index written than something expires
_COUNTED_MAX: Final = 2_000  # entries that wait; nobody asks whether there are more
_ENTRIES: Final = "FROM memories WHERE agent_id = ? AND tier = 'log' AND no > ? AND no <= ? AND text IS NOT NULL"


class MemoryExtraction(Rows):
    """How far workers have come, and what came of it."""

    _gone = 0  # entries that this process has deleted since it merged the index, in which they stand until then

    async def unextracted(self, limit: int, *, after: str = "") -> list[Unextracted]:
        """Return for each living agent with entries after its mark what waits for its worker.

        In order of the agents' ids, from the first that comes after `after`.
        """
        rows = fetch(
            self._reader,
            "SELECT m.agent_id, m.through, m.newest, a.session FROM memory_marks m JOIN agents a ON a.id = m.agent_id"
            # +: by the index of those that wait, which are few, and not through all that ever said something.
            " WHERE m.newest > m.through AND +m.agent_id > ? AND a.state <> 'dead' ORDER BY +m.agent_id LIMIT ?",
            (after, limit),
        )
        return [_unextracted(self._reader, row) for row in rows]

    async def entries(self, agent_id: str, *, after: int, through: int, max_chars: int) -> list[StoredMemory]:
        """Return log entries of one agent in order, without echoes, until they have `max_chars`; one at least."""
        found: list[StoredMemory] = []
        chars = 0
        span = (agent_id, after, through, ECHO)
        for row in self._reader.execute(f"SELECT {COLUMNS} {_ENTRIES} AND role <> ? ORDER BY no", span):
            entry = memory(row)
            chars += len(entry.text)
            if found and chars > max_chars:
                break
            found.append(entry)
        return found

    async def mark(self, agent_id: str) -> int:
        """Return the number of the last log entry that this agent's worker has looked at, 0 if none."""
        return _mark(self._reader, agent_id)

    async def comparable(self, scope: str, merged: Comparable, *, before: int, limit: int) -> list[StoredMemory]:
        """Return facts with a lower number than `before` that hold and that new ones may end or repeat.

        The newest first. Of attributes that have one value at a time these are all, whatever was learned since.
        """
        there = span(self._reader, scope)
        if there is None:
            return []
        return MEMORIES.find(
            self._reader,
            "no IN (SELECT n.no FROM json_each(?1) w JOIN memory_names n"
            " ON n.name = w.value AND n.no BETWEEN ?2 AND ?3) AND tier = 'fact' AND text IS NOT NULL"
            " AND (until_ms IS NULL OR until_ms > ?4) AND (hex(hash) IN (SELECT value FROM json_each(?5))"
            " OR extra ->> '$.fact.attribute' <> ''"
            " AND (extra ->> '$.fact.attribute' NOT IN (SELECT value FROM json_each(?6))"
            " OR lower(coalesce(extra ->> '$.fact.value', '')) IN (SELECT value FROM json_each(?7))))"
            " ORDER BY no DESC LIMIT ?8",
            (
                _json(subject.casefold() for subject in merged.subjects),
                there.first,
                min(there.last, before - 1),
                self._clock.now_ms(),
                _json(hash_of(statement).hex().upper() for statement in merged.statements),
                _json(merged.several),
                _json(value.lower() for value in merged.values),
                limit,
            ),
        )

    async def learn(self, merged: MergeResult) -> list[int] | None:
        """Keep what was learned and advance the agent's mark from `after` to `through`, together.

        Returns the numbers of `merged.add`, or None, with nothing changed but the charge, when the mark is not at
        `after`: somebody has done it already. Sources that were forgotten meanwhile take with them what was learned
        from nothing else (number 0). What is `seen` without a new description counts as mentioned once for each
        source. Memories of other scopes than the agent's are left alone.
        """
        return await self._write(lambda tx: _learn(tx, merged), sum(len(it.text) for it in merged.add))

    async def expire(self, before_ms: int, limit: int) -> int:
        """Delete curated log entries that were kept before `before_ms`; return how many (0: all done).

        Those of an agent that is dead count as curated once the newest of them is as old. What was learned from them
        stays, and from which turns; in a file it is closed up, and the index of words is merged once a good part of
        it is of what is gone.
        """
        file = self._writer.leaves_pages
        deleted = await self._write(lambda tx: _expire(tx, before_ms, limit, in_file=file))
        self._gone += deleted
        if file and not deleted and self._gone > _GONE_SHARE * self._living():
            await scrub.merge(self._writer, self._reader)
            self._gone = 0
        return deleted

    def _living(self) -> int:
        return count(self._reader, "SELECT number FROM counts WHERE name = 'memories'")


def renew_mark(tx: Tx, agent_id: str) -> None:
    """Let what is known of an agent's log be what is left of it."""
    own = "SELECT no FROM memories m WHERE m.agent_id = ?1 AND m.tier = 'log' AND m.text IS NOT NULL ORDER BY no"
    tx.run(
        f"UPDATE memory_marks SET oldest = coalesce(({own} LIMIT 1), 0),"
        f" newest = coalesce(({own} DESC LIMIT 1), 0) WHERE agent_id = ?1",
        (agent_id,),
    )
    tx.run(
        "UPDATE memory_marks SET oldest_at = coalesce((SELECT created_at FROM memories WHERE no = oldest), 0)"
        " WHERE agent_id = ?",
        (agent_id,),
    )


def _unextracted(db: apsw.Connection, row: tuple[Any, ...]) -> Unextracted:
    agent_id, after, through, current = row
    span = (agent_id, after, through)
    oldest = db.execute(f"SELECT session, turn, at_ms {_ENTRIES} ORDER BY no LIMIT 1", span).fetchone()
    newest = db.execute("SELECT session, at_ms FROM memories WHERE no = ?", (through,)).fetchone()
    assert oldest is not None and newest is not None, f"the log of {agent_id} has entry {through}"
    compacted = db.execute(
        "SELECT 1 FROM summaries WHERE agent_id = ? AND session >= ? AND through >= ? LIMIT 1",
        (agent_id, oldest[0], oldest[1]),
    ).fetchone()
    return Unextracted(
        agent_id=agent_id,
        after=after,
        through=through,
        entries=count(db, f"SELECT count(*) FROM (SELECT 1 {_ENTRIES} LIMIT {_COUNTED_MAX})", span),
        session=int(str(newest[0])),
        current=current,
        compacted=compacted is not None,
        oldest_ms=int(str(oldest[2])),
        newest_ms=int(str(newest[1])),
    )


def _json(texts: Iterable[str]) -> str:
    return msgspec.json.encode(list(texts)).decode()


def _mark(db: apsw.Connection, agent_id: str) -> int:
    row = db.execute("SELECT through FROM memory_marks WHERE agent_id = ?", (agent_id,)).fetchone()
    return 0 if row is None else int(str(row[0]))


# -- learning ----------------------------------------------------------------------------------------------------------


def _learn(tx: Tx, merged: MergeResult) -> list[int] | None:
    if _mark(tx.db, merged.agent_id) != merged.after:
        return None
    scope = merged.through >> SCOPE_BITS
    following = tx.one("SELECT next FROM memory_scopes WHERE no = ?", (scope,))
    if merged.through <= merged.after or following is None or merged.through >= scope << SCOPE_BITS | following[0]:
        what = f"curating the log of {merged.agent_id} from {merged.after} to {merged.through}: there is no such range"
        raise InvalidError("MEMORY_RANGE", what)
    tx.run("UPDATE memory_marks SET through = ? WHERE agent_id = ?", (merged.through, merged.agent_id))
    kept = [_from(tx, it, scope) for it in merged.add]
    numbers = iter(insert(tx, [it for it in kept if it is not None]))
    found = [0 if it is None else next(numbers) for it in kept]
    for old in merged.superseded:
        if found[old.by]:
            _supersede(tx, old, found[old.by], scope)
    for seen in merged.seen:
        _see(tx, seen, scope)
    return found


def _from(tx: Tx, it: NewMemory, scope: int) -> NewMemory | None:
    """Return what was learned with those of its sources that are there; None if it had some, and none is."""
    row = tx.one("SELECT no FROM memory_scopes WHERE scope = ?", (it.scope,))
    if row is None or row[0] != scope:
        return None
    sources = _living(tx, it.sources, scope)
    return None if it.sources and not sources else replace(it, sources=sources)


def _living(tx: Tx, sources: tuple[int, ...], scope: int) -> tuple[int, ...]:
    rows = fetch(
        tx.db,
        "SELECT no FROM memories WHERE no IN (SELECT value FROM carray(?)) AND no >> 32 = ? AND tier = 'log'"
        " AND text IS NOT NULL ORDER BY no",
        (those(sources), scope),
    )
    return tuple(no for (no,) in rows)


def _learned(tx: Tx, no: int, scope: int) -> tuple[Tier, Extra] | None:
    row = tx.one("SELECT tier, extra FROM memories WHERE no = ? AND no >> 32 = ? AND text IS NOT NULL", (no, scope))
    return None if row is None or row[1] is None else (Tier(row[0]), extra_from(row[1]))


def _supersede(tx: Tx, old: Superseded, by: int, scope: int) -> None:
    found = _learned(tx, old.no, scope)
    if found is not None and found[1].fact is not None:
        fact: FactPart = replace(found[1].fact, valid_until_ms=old.until_ms, superseded_by=by)
        describe(tx, old.no, Extra(fact=fact))


def _see(tx: Tx, seen: Seen, scope: int) -> None:
    found = _learned(tx, seen.no, scope)
    sources = _living(tx, seen.sources, scope)
    if found is None or (seen.sources and not sources):
        return
    new = sum(add_source(tx, seen.no, source) for source in sources)
    fact, entity = found[1].fact, found[1].entity
    if entity is not None and seen.entity is None:
        again = replace(entity, mentions=entity.mentions + new, last_ms=max(entity.last_ms, seen.at_ms))
        describe(tx, seen.no, Extra(entity=again), text=seen.text, index=seen.index)
    else:
        described = Extra(fact=(seen.fact or fact) if fact else None, entity=seen.entity if entity else None)
        describe(tx, seen.no, described, text=seen.text, index=seen.index)


# -- expiry ------------------------------------------------------------------------------------------------------------


def _expire(tx: Tx, before_ms: int, limit: int, *, in_file: bool) -> int:
    rows = fetch(
        tx.db,
        "SELECT m.agent_id, CASE WHEN a.state = 'dead' AND n.created_at < ?1 THEN m.newest ELSE m.through END"
        " FROM memory_marks m LEFT JOIN agents a ON a.id = m.agent_id LEFT JOIN memories n ON n.no = m.newest"
        " WHERE m.oldest > 0 AND m.oldest_at < ?1"
        " AND (m.oldest <= m.through OR a.state = 'dead' AND n.created_at < ?1) ORDER BY m.oldest_at LIMIT ?2",
        (before_ms, limit),
    )
    deleted = 0
    for agent_id, through in rows:
        old = fetch(
            tx.db,
            f"SELECT no {_ENTRIES} AND created_at < ? ORDER BY no LIMIT ?",
            (agent_id, 0, through, before_ms, limit - deleted),
        )
        deleted += remove(tx, [no for (no,) in old], hashes=False)
        if in_file and old:
            close_up(tx, old[0][0], old[-1][0])
        renew_mark(tx, agent_id)
        if deleted >= limit:
            break
    return deleted
