"""Finding memories: by their words within one scope, by what they are about, by number.

The index has each word once for every scope, so what others remember costs a search nothing and cannot show in it. A
frequent word says little and costs most: rarest first, a search reads a bounded part of the index, whatever its size.
"""

import struct
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import apsw
import msgspec
import trio

from daycare.base.bounded import Bounded
from daycare.base.clock import Clock
from daycare.base.memories import Tier
from daycare.features.memory.store.records import (
    NEVER,
    MemoryCounts,
    MemoryShape,
    Postings,
    ScopeProgress,
    StoredMemory,
    most_alike,
)
from daycare.features.memory.store.stored import COLUMNS, MEMORIES, SCOPE_BITS, ScopeSpan, changes, memory, span
from daycare.store.sqlite.database import count
from daycare.store.sqlite.read_cache import ReadCache
from daycare.store.sqlite.readers import Readers
from daycare.store.sqlite.rows import Rows
from daycare.store.sqlite.sql import fetch, those
from daycare.store.sqlite.stems import stemmer, stems_of
from daycare.store.sqlite.writer import Writer

_FREQUENT_MAX: Final = 10_000  # words known to be frequent; a scope has some hundred
_STEMS_MAX: Final = 4_096  # words whose stems are known, 300 bytes each: one that is asked about is asked about again
_STATES_MAX: Final = 1_000  # scopes of which it is known that nothing has changed
_PAGE: Final = 500  # rows looked at before others have a turn, about 5 ms
_COUNTED: Final = 5_000  # rows counted before others have a turn
_TIERS: Final = {tier.value: tier for tier in Tier}
_AMONG: Final = {  # as the index says
    tier: f"tier = '{tier}'" + ("" if tier is Tier.LOG else " AND tier <> 'log'") for tier in Tier
}
_decode = msgspec.json.Decoder(list[int]).decode
_encode = msgspec.json.Encoder().encode


SHAPE_COLUMNS: Final = "no, tier, agent_id, path, session, turn, speaker, at_ms, until_ms"
_SHAPE: Final = f"SELECT {SHAPE_COLUMNS} FROM memories WHERE text IS NOT NULL"


class MemoryReads(Rows):
    """Reads of memories; those that are not async may be called in any thread."""

    def __init__(self, writer: Writer, reader: apsw.Connection, readers: Readers, clock: Clock) -> None:
        super().__init__(writer, reader, readers, clock)
        # (scope, stem) -> how many memories there were then, and how many postings were too few
        self._frequent: Bounded[tuple[int, str], tuple[int, int]] = Bounded(_FREQUENT_MAX)
        self._stems: Bounded[str, list[str]] = Bounded(_STEMS_MAX)  # words keep theirs
        self._states: ReadCache[str, ScopeProgress] = ReadCache(
            writer.versions, reader, "memory_scopes", most=_STATES_MAX
        )

    # -- by words ----------------------------------------------------------------------------------------------------

    def postings(self, scope: str, terms: Sequence[str], *, postings_max: int) -> list[Postings]:
        """Return where words are in a scope, the rarest first, until there are `postings_max` numbers; at least one.

        Words of one stem are one. Of a word that is in more memories than that, and looked for alone, these are the
        newest, and `memories` is an estimate.
        """
        with self._readers.lent() as db:
            there = span(db, scope)
            return [] if there is None else self._postings(db, there, terms, postings_max)

    def alike(self, scope: str, terms: Sequence[str], postings_max: int, limit: int) -> list[int]:
        """Return the memories of a scope that have most of these words, the rarer the more, the best first.

        The words are those that `postings` would return.
        """
        with self._readers.lent() as db:
            there = span(db, scope)
            if there is None or not there.living:
                return []
            return most_alike(self._postings(db, there, terms, postings_max), there.living, limit)

    def _postings(self, db: apsw.Connection, there: ScopeSpan, terms: Sequence[str], most: int) -> list[Postings]:
        words: dict[str, list[str]] = {}
        for word, stems in zip(terms, stems_of(db, terms), strict=True):
            for stem in stems:
                words.setdefault(stem, []).append(word)
        frequent = [stem for stem in words if self._is_frequent(there, stem, most)]
        others = [stem for stem in words if stem not in frequent]
        rare = []
        for stem, numbers in zip(others, _having(db, there, others, most), strict=True):
            if numbers is None:
                frequent.append(stem)
                self._note_frequent(there, stem, most)
            elif numbers:
                rare.append(_listed(stem, words[stem], numbers))
        if not rare:  # there are only frequent ones: that of them which is rarer lately, as far as it reaches back
            newest = [_newest(db, there, stem, words[stem], most) for stem in frequent]
            return [min(newest, key=lambda it: it.memories)] if newest else []
        chosen: list[Postings] = []
        for each in sorted(rare, key=lambda it: it.memories):
            most -= each.listed
            if most < 0 and chosen:
                break
            chosen.append(each)
        return chosen

    def _is_frequent(self, there: ScopeSpan, stem: str, most: int) -> bool:
        """Return whether a word was too frequent, unless much has been deleted since."""
        living, too_few = self._frequent.get((there.scope, stem), (0, 0))
        return too_few >= most and there.living > living // 2

    def _note_frequent(self, there: ScopeSpan, stem: str, most: int) -> None:
        if not self._is_frequent(there, stem, most):
            self._frequent[there.scope, stem] = (there.living, most)

    # -- all of a scope ----------------------------------------------------------------------------------------------

    def shapes(self, scope: str, *, after: int = 0, limit: int = 100_000) -> list[MemoryShape]:
        """Return the memories of a scope in order of number, beginning after `after`."""
        with self._readers.lent() as db:
            there = span(db, scope)
            if there is None:
                return []
            bounds = max(after + 1, there.first), there.last, limit
            return _shapes(fetch(db, _SHAPE + " AND no BETWEEN ? AND ? ORDER BY no LIMIT ?", bounds))

    def shapes_of(self, scope: str, numbers: Sequence[int]) -> list[MemoryShape]:
        """Return those of the memories that are in this scope, in order of number."""
        with self._readers.lent() as db:
            there = span(db, scope)
            if there is None:
                return []
            among = " AND no IN (SELECT value FROM carray(?)) AND no BETWEEN ? AND ? ORDER BY no"
            return _shapes(fetch(db, _SHAPE + among, (those(numbers), there.first, there.last)))

    def latest(self, scope: str) -> tuple[int, int]:
        """Return numbers that rise with each memory that is added, and with each that is changed or deleted.

        With nothing else; 0 before the first.
        """
        with self._readers.lent() as db:
            rows = fetch(db, "SELECT next - 1, changed FROM memory_scopes WHERE scope = ?", (scope,))
        return (0, 0) if not rows else (rows[0][0], rows[0][1])

    def gone_since(self, scope: str, gone: int) -> list[int] | None:
        """Return what was changed or deleted since the second number of `latest` was `gone`; None: too much to tell."""
        with self._readers.lent() as db:
            there = span(db, scope)
            return [] if there is None or there.changed == gone else changes(db, there.scope, gone)

    def texts(self, scope: str, numbers: Sequence[int]) -> dict[int, str]:
        """Return the texts of those of the memories that are in this scope."""
        with self._readers.lent() as db:
            rows = fetch(
                db,
                "SELECT no, text FROM memories WHERE no IN (SELECT value FROM carray(?))"
                " AND no >> 32 = (SELECT no FROM memory_scopes WHERE scope = ?) AND text IS NOT NULL",
                (those(numbers), scope),
            )
        return dict(rows)

    def worded(self, scope: str, numbers: Sequence[int]) -> list[tuple[int, str, list[str]]]:
        """Return (number, text, words as the index has them) of those of the memories that are in this scope."""
        with self._readers.lent() as db:
            stems = stemmer(db)
            rows = fetch(
                db,
                "SELECT no, text, indexed FROM memories WHERE no IN (SELECT value FROM carray(?))"
                " AND no >> 32 = (SELECT no FROM memory_scopes WHERE scope = ?) AND text IS NOT NULL ORDER BY no",
                (those(numbers), scope),
            )
            return [(no, text, stems(indexed or text)) for no, text, indexed in rows]

    def stems(self, words: Sequence[str]) -> list[list[str]]:
        """Return each of these words as the index has it: in parts if it cuts it, of none if it leaves it out."""
        known = {word: self._stems.get(word) for word in words}
        if unknown := [word for word, stems in known.items() if stems is None]:
            with self._readers.lent() as db:
                made = dict(zip(unknown, stems_of(db, unknown), strict=True))
            for word, stems in made.items():
                known[word] = self._stems[word] = stems
        return [known[word] or [] for word in words]

    # -- some --------------------------------------------------------------------------------------------------------

    async def get(self, scopes: Sequence[str], numbers: Sequence[int]) -> list[StoredMemory]:
        """Return those of the memories that are in these scopes, in the order of `numbers`."""
        if not numbers:
            return []
        rows = MEMORIES.find(
            self._reader,
            "no IN (SELECT value FROM carray(?)) AND no >> 32 IN"
            " (SELECT s.no FROM json_each(?) w JOIN memory_scopes s ON s.scope = w.value) AND text IS NOT NULL",
            (those(numbers), _encode(scopes).decode()),
        )
        found = {it.no: it for it in rows}
        return [found[no] for no in numbers if no in found]

    async def states(self, scopes: Sequence[str]) -> dict[str, ScopeProgress]:
        """Return how each scope is by now, read once for all."""
        return self._states.get_all(scopes, self._read_states)

    def forget_states(self) -> None:
        """Read them again: a node of an older version tells of memories, and not of this table."""
        self._states.forget()

    def _read_states(self, scopes: Sequence[str]) -> dict[str, ScopeProgress]:
        rows = fetch(
            self._reader,
            "SELECT scope, incarnation, next - 1, changed FROM memory_scopes"
            " WHERE scope IN (SELECT value FROM json_each(?))",
            (_encode(scopes).decode(),),
        )
        return dict.fromkeys(scopes, NEVER) | {scope: ScopeProgress(*state) for scope, *state in rows}

    async def find(
        self,
        scope: str,
        tier: Tier,
        *,
        words: str = "",
        path: str = "",
        living: bool = True,
        before: int | None = None,
        limit: int = 100,
    ) -> list[StoredMemory]:
        """Return memories of one tier, the newest first, beginning below number `before`.

        `path` is the root of a subtree of agents; `living` leaves out facts that hold no longer; each of `words` must
        stand in the text, without regard to case.
        """
        there = span(self._reader, scope)
        found: list[StoredMemory] = []
        wanted = words.casefold().split()
        last = there.last if there else 0
        if before is not None:
            last = min(last, before - 1)
        while there is not None and len(found) < limit:
            page = fetch(
                self._reader,
                f"SELECT no{', text' if wanted else ''} FROM memories WHERE {_AMONG[tier]} AND no BETWEEN ? AND ?"
                " ORDER BY no DESC LIMIT ?",
                (there.first, last, _PAGE),
            )
            said = [no for no, *text in page if not wanted or _has(wanted, text[0])]
            rows = self._reader.execute(
                f"SELECT {COLUMNS} FROM memories WHERE no IN (SELECT value FROM carray(?)) AND text IS NOT NULL"
                " AND (?2 = '' OR path = ?2 OR substr(path, 1, length(?2) + 1) = ?2 || '/')"
                " AND (?3 = 0 OR until_ms IS NULL OR until_ms > ?4) ORDER BY no DESC",
                (those(said), path, int(living), self._clock.now_ms()),
            )
            for row in rows:
                found.append(memory(row))
                if len(found) == limit:
                    break
            if len(page) < _PAGE:
                break
            last = page[-1][0] - 1
            await trio.lowlevel.checkpoint()
        return found

    async def about(self, scope: str, subjects: Sequence[str], names: Sequence[str], limit: int) -> list[StoredMemory]:
        """Return the facts that hold on these subjects, and the entities with one of these names, the newest first.

        Case does not count. Aliases are names.
        """
        there = span(self._reader, scope)
        if there is None:
            return []
        wanted = [("fact", each.casefold()) for each in subjects] + [("entity", each.casefold()) for each in names]
        return MEMORIES.find(
            self._reader,
            "no IN (SELECT n.no FROM json_each(?) w JOIN memory_names n"
            " ON n.name = w.value ->> 1 AND n.no BETWEEN ? AND ? JOIN memories m ON m.no = n.no"
            " AND m.tier = w.value ->> 0) AND (until_ms IS NULL OR until_ms > ?) ORDER BY no DESC LIMIT ?",
            (msgspec.json.encode(wanted).decode(), there.first, there.last, self._clock.now_ms(), limit),
        )

    async def derived(self, scope: str, numbers: Sequence[int]) -> list[int]:
        """Return what was learned from these log entries and from nothing else."""
        there = span(self._reader, scope)
        return [] if there is None else derived(self._reader, there.scope, numbers)

    async def turns_of(self, scope: str, numbers: Sequence[int]) -> list[tuple[str, int]]:
        """Return (agent id, turn) of the words that these memories come from, also when the log has expired."""
        there = span(self._reader, scope)
        if there is None:
            return []
        rows = fetch(
            self._reader,
            "SELECT agent_id, turn FROM memories WHERE no IN (SELECT value FROM carray(?1)) AND no BETWEEN ?2 AND ?3"
            " AND turn > 0 AND tier <> 'chunk'"
            " UNION SELECT agent_id, turn FROM memory_sources"
            " WHERE no IN (SELECT value FROM carray(?1)) AND no BETWEEN ?2 AND ?3 ORDER BY turn",
            (those(numbers), there.first, there.last),
        )
        return [(str(agent_id), int(turn)) for agent_id, turn in rows]

    # -- how much ----------------------------------------------------------------------------------------------------

    async def counts(self, scope: str | None = None) -> MemoryCounts:
        """Return how much one scope, or all, remember; how much has no vector is told by `pending`."""
        there = None if scope is None else span(self._reader, scope)
        if scope is not None and there is None:
            return MemoryCounts()
        first, last = (there.first, there.last) if there else (0, 2**62)
        kept: Counter[str] = Counter()
        sizes = 0
        at = first
        while True:
            rows = fetch(
                self._reader,
                "SELECT CASE WHEN until_ms <= ? THEN 'superseded' ELSE tier END, count(*), sum(size), max(no) FROM"
                " (SELECT no, tier, until_ms, octet_length(text) AS size FROM memories"
                " WHERE no BETWEEN ? AND ? AND text IS NOT NULL ORDER BY no LIMIT ?) GROUP BY 1",
                (self._clock.now_ms(), at, last, _COUNTED),
            )
            for what, many, size, _ in rows:
                kept[what] += many
                sizes += size
            if sum(many for _, many, *_ in rows) < _COUNTED:
                break
            at = max(row[3] for row in rows) + 1
            await trio.lowlevel.checkpoint()
        uncurated = count(
            self._reader,
            "SELECT count(*) FROM memory_marks k JOIN memories m ON m.agent_id = k.agent_id AND m.tier = 'log'"
            " AND m.no > k.through WHERE k.newest > k.through AND m.no BETWEEN ? AND ? AND m.text IS NOT NULL",
            (first, last),
        )
        return MemoryCounts(
            logs=kept["log"],
            facts=kept["fact"],
            superseded=kept["superseded"],
            entities=kept["entity"],
            chunks=kept["chunk"],
            uncurated=uncurated,
            text_bytes=sizes,
        )

    async def scopes(self, *, after: str = "", limit: int = 100) -> list[str]:
        """Return scopes that have memories, in order."""
        rows = fetch(
            self._reader,
            "SELECT scope FROM memory_scopes WHERE living > 0 AND scope > ? ORDER BY scope LIMIT ?",
            (after, limit),
        )
        return [str(scope) for (scope,) in rows]


def derived(db: apsw.Connection, scope: int, numbers: Sequence[int]) -> list[int]:
    """Return what was learned from these log entries of a scope and from nothing else."""
    rows = fetch(
        db,
        "SELECT DISTINCT no FROM memory_sources s WHERE source IN (SELECT value FROM carray(?1)) AND no >> 32 = ?2"
        " AND NOT EXISTS (SELECT 1 FROM memory_sources o WHERE o.no = s.no"
        " AND o.source NOT IN (SELECT value FROM carray(?1))) ORDER BY no",
        (those(numbers), scope),
    )
    return [no for (no,) in rows]


def shape(row: tuple[Any, ...]) -> MemoryShape:
    """Return the struct of a row of `SHAPE_COLUMNS`."""
    no, tier, *more = row
    return MemoryShape(no, _TIERS[tier], *more)


def _shapes(rows: Sequence[tuple[Any, ...]]) -> list[MemoryShape]:
    same: dict[str, str] = {}  # a scope has few agents and speakers, and each row brings its own copies
    one = same.setdefault
    return [
        MemoryShape(no, _TIERS[tier], one(agent, agent), one(path, path), session, turn, one(who, who), at, until)
        for no, tier, agent, path, session, turn, who, at, until in rows
    ]


def _having(db: apsw.Connection, there: ScopeSpan, stems: Sequence[str], most: int) -> list[list[int] | None]:
    """Return for each word the memories with it, in order; None if there are too many."""
    rows = fetch(
        db,
        "SELECT (SELECT json_group_array(rowid) FROM (SELECT rowid FROM memory_words WHERE memory_words MATCH w.value"
        " ORDER BY rowid LIMIT ?)) FROM json_each(?) w ORDER BY w.key",
        (most + 1, msgspec.json.encode([f'"{there.scope}:{stem}"' for stem in stems]).decode()),
    )
    every = [_decode(numbers) for (numbers,) in rows]
    assert all(no >> SCOPE_BITS == there.scope for found in every for no in found[:1] + found[-1:]), "another scope's"
    return [found if len(found) <= most else None for found in every]


def _newest(db: apsw.Connection, there: ScopeSpan, stem: str, words: Sequence[str], most: int) -> Postings:
    """Return the newest memories with a frequent word, and how many have it if it is as frequent in the others."""
    [(numbers,)] = fetch(
        db,
        "SELECT json_group_array(rowid) FROM (SELECT rowid FROM memory_words WHERE memory_words MATCH ?"
        " AND rowid BETWEEN ? AND ? ORDER BY rowid DESC LIMIT ?)",
        (f'"{there.scope}:{stem}"', there.first, there.last, most),
    )
    found = _decode(numbers)[::-1]
    if not found:
        return _listed(stem, words, found)
    newest = count(db, "SELECT max(no) FROM memories WHERE no BETWEEN ? AND ?", (there.first, there.last))
    share = len(found) / (newest - found[0] + 1)
    return _listed(stem, words, found, max(len(found), min(there.living, int(share * there.living))))


def _listed(stem: str, words: Sequence[str], numbers: Sequence[int], memories: int | None = None) -> Postings:
    listed = struct.pack(f"<{len(numbers)}q", *numbers)
    return Postings(stem, tuple(dict.fromkeys(words)), len(numbers) if memories is None else memories, listed)


def _has(words: Sequence[str], text: str | None) -> bool:
    said = (text or "").casefold()
    return all(word in said for word in words)
