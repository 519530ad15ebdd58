"""Forgetting: memories, the words of turns and of versions of documents go together, with what came of them."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from daycare.base.documents import Place, digest
from daycare.base.errors import ConflictError
from daycare.base.memories import EntityPart
from daycare.base.messages import Message
from daycare.features.memory.documents.versions import WHOLE, stand_alone
from daycare.features.memory.store.chunks import chunks_of
from daycare.features.memory.store.extra import Extra, extra_from
from daycare.features.memory.store.extraction import renew_mark
from daycare.features.memory.store.lookups import lookups_of, notes_since
from daycare.features.memory.store.records import Forgotten
from daycare.features.memory.store.stored import describe, remove, span
from daycare.store.sqlite import scrub
from daycare.store.sqlite.facts import ScopeForgot, VersionForgotten
from daycare.store.sqlite.forgotten_turns import FORGOTTEN, came_of, forget_turns
from daycare.store.sqlite.rows import Rows
from daycare.store.sqlite.sql import fetch, those
from daycare.store.sqlite.stems import stemmer
from daycare.store.sqlite.writer import Tx

_TELLING_CHARS: Final = 4  # shorter words tell nothing, unless they are numbers
_HISTORIES_MAX: Final = 50  # turns read to see what else an entity is known from
_decode = msgspec.json.Decoder(tuple[Message, ...]).decode


class MemoryForgetting(Rows):
    """Removing memories and what they came from."""

    async def forget(
        self,
        scope: str,
        numbers: Sequence[int],
        *,
        turns: Sequence[tuple[str, int]] = (),
        versions: Sequence[tuple[Place, int]] = (),
    ) -> Forgotten:
        """Remove memories, the words of turns (agent id, turn) and of versions of documents, for good and together.

        What is left of each is a hash. With memories goes what was learned from nothing else; with a turn the turns
        that came of it (later ones of its trace), and of each its history, journal, log entries, files, results,
        recorded events, letters, requests and reminders' words, and the summaries that cover it; a reply that was not
        delivered yet is not any more. What workers and searches noted since then in the same words goes as well,
        uncounted. With a version go others of this document with its text. Nothing of it is in the database's
        files when this returns. Idempotent. Raises, with nothing changed, `ConflictError` for a turn that has not
        ended, and for the newest version of a document; `BusyError` FORGET_UNFINISHED when it is forgotten, but
        somebody reads the files so long that old pages of them could not be overwritten: a repeat does that.
        """
        forgotten, pieces = await self._write(lambda tx: _forget(tx, scope, numbers, turns, versions))
        await scrub.clean(self._writer, self._reader, pieces)
        return forgotten


class _Version(NamedTuple):
    """A version of a document that is to go. `key` names what wrote it."""

    no: int
    text: str
    reason: str
    key: str
    chunks: list[int]


def _forget(
    tx: Tx,
    scope: str,
    numbers: Sequence[int],
    turns: Sequence[tuple[str, int]],
    versions: Sequence[tuple[Place, int]],
) -> tuple[Forgotten, list[bytes]]:
    old = list({each.no: each for place, version in versions for each in _versions(tx, place, version)}.values())
    ended = came_of(tx, turns)
    of_turns = [turn for _, turn in ended]
    there = span(tx.db, scope)
    chosen = [] if there is None else [no for no in numbers if there.first <= no <= there.last]
    gone = _with_derived(tx, [*chosen, *(no for each in old for no in each.chunks)], of_turns)
    said = _texts(tx, gone)
    told = [text for turn in of_turns for text in _said_in(tx, turn)]
    blobs = _vectors(tx, gone)
    agents = fetch(
        tx.db,
        "SELECT DISTINCT agent_id FROM memories WHERE no IN (SELECT value FROM carray(?)) AND tier = 'log'",
        (those(gone),),
    )
    words = {stem for text in (*said, *told) for stem in _telling(tx, text)}
    since = notes_since(tx, of_turns or _turns_of(tx, gone), words)
    notes = [each for each in dict.fromkeys((*since, *lookups_of(tx, scope, gone, said))) if each not in ended]
    shreds: list[str | bytes] = list(said)
    for no, lost in _lose_sources(tx, gone, of_turns).items():
        shreds += _trim(tx, no, lost, [*said, *told])
    memories = remove(tx, gone, hashes=True)
    for (agent_id,) in agents:
        renew_mark(tx, agent_id)
    with_words = sum(any(_said_in(tx, turn)) for turn in of_turns)
    summaries = forget_turns(tx, ended, shreds) + forget_turns(tx, notes, shreds, traces=False)
    for each in old:
        _forget_version(tx, each, shreds)
    if memories or ended or notes or old:
        scrub.begin(tx, scope)
        tx.tell(ScopeForgot(scope))
        tx.commit.forgotten = True  # of what, the other nodes are not told
    traces = fetch(
        tx.db,
        "SELECT DISTINCT trace FROM turns WHERE turn IN (SELECT value FROM carray(?)) AND trace <> ''",
        (those(turn for _, turn in (*ended, *notes)),),
    )
    forgotten = Forgotten(
        memories=memories,
        turns=with_words,
        versions=len(old),
        summaries=summaries,
        traces=tuple(trace for (trace,) in traces),
    )
    return forgotten, scrub.pieces_of(tx.db, [*shreds, *blobs])


# -- memories ----------------------------------------------------------------------------------------------------------


def _with_derived(tx: Tx, chosen: Sequence[int], turns: Sequence[int]) -> list[int]:
    """Return living memories: those chosen, the log of turns, and what was learned from all these and nothing else."""
    rows = fetch(
        tx.db,
        "SELECT no FROM memories WHERE no IN (SELECT value FROM carray(?1)) AND text IS NOT NULL"
        " UNION SELECT m.no FROM turns t JOIN memories m ON m.agent_id = t.agent_id AND m.tier = 'log'"
        " AND m.turn = t.turn AND m.text IS NOT NULL WHERE t.turn IN (SELECT value FROM carray(?2))"
        " UNION SELECT no FROM memories m WHERE tier <> 'log' AND tier IN ('fact', 'entity') AND text IS NOT NULL"
        " AND turn IN (SELECT value FROM carray(?2)) AND NOT EXISTS (SELECT 1 FROM memory_sources s WHERE s.no = m.no)",
        (those(chosen), those(turns)),
    )
    found = {no for (no,) in rows}
    derived = fetch(
        tx.db,
        "SELECT DISTINCT no FROM memory_sources s WHERE (source IN (SELECT value FROM carray(?1))"
        " OR turn IN (SELECT value FROM carray(?2))) AND NOT EXISTS (SELECT 1 FROM memory_sources o WHERE o.no = s.no"
        " AND o.source NOT IN (SELECT value FROM carray(?1)) AND o.turn NOT IN (SELECT value FROM carray(?2)))",
        (those(found.union(chosen)), those(turns)),
    )
    return sorted(found | {no for (no,) in derived})


def _lose_sources(tx: Tx, gone: Iterable[int], turns: Sequence[int]) -> dict[int, int]:
    """Take these entries and turns from what is known from others, too; return from how many each has lost."""
    rows = fetch(
        tx.db,
        "DELETE FROM memory_sources WHERE source IN (SELECT value FROM carray(?))"
        " OR turn IN (SELECT value FROM carray(?)) RETURNING no",
        (those(gone), those(turns)),
    )
    return Counter(no for (no,) in rows if no not in set(gone))


def _trim(tx: Tx, no: int, lost: int, forgotten: Sequence[str]) -> list[str]:
    """Take from an entity what only the forgotten words say of it; return that."""
    row = tx.one("SELECT extra, text FROM memories WHERE no = ? AND text IS NOT NULL", (no,))
    entity = extra_from(row[0]).entity if row else None
    if entity is None or row is None:
        return []
    known = {stem for text in (entity.name, *_still_said(tx, no)) for stem in _telling(tx, text)}
    only = {stem for text in forgotten for stem in _telling(tx, text)} - known

    def tells(text: str) -> bool:
        return not only.isdisjoint(_telling(tx, text))

    kept: EntityPart = replace(
        entity,
        mentions=max(1, entity.mentions - lost),
        aliases=tuple(alias for alias in entity.aliases if not tells(alias)),
        description="" if tells(entity.description) else entity.description,
    )
    if (kept.aliases, kept.description) == (entity.aliases, entity.description) and not tells(row[1]):
        describe(tx, no, Extra(entity=kept))
        return []
    describe(tx, no, Extra(entity=kept), text=", ".join((kept.name, *kept.aliases)))
    return [row[1], entity.description, *entity.aliases]


def _telling(tx: Tx, text: str) -> list[str]:
    """Return the stems of a text that tell something."""
    return [stem for stem in stemmer(tx.db)(text) if len(stem) >= _TELLING_CHARS or stem.isdigit()]


def _still_said(tx: Tx, no: int) -> list[str]:
    """Return the texts that an entity is known from, as far as they are there."""
    entries = fetch(
        tx.db,
        "SELECT m.text FROM memory_sources s JOIN memories m ON m.no = s.source WHERE s.no = ? AND m.text IS NOT NULL",
        (no,),
    )
    turns = fetch(tx.db, "SELECT DISTINCT turn FROM memory_sources WHERE no = ? LIMIT ?", (no, _HISTORIES_MAX))
    return [text for (text,) in entries] + [text for (turn,) in turns for text in _said_in(tx, turn)]


def _texts(tx: Tx, numbers: Sequence[int]) -> list[str]:
    rows = fetch(
        tx.db, "SELECT text, indexed FROM memories WHERE no IN (SELECT value FROM carray(?))", (those(numbers),)
    )
    return [text for row in rows for text in row if text]


def _said_in(tx: Tx, turn: int) -> list[str]:
    row = tx.one("SELECT unpacked(messages) FROM history WHERE turn = ?", (turn,))
    return [] if row is None else [text for message in _decode(row[0]) if (text := message.text)]


def _vectors(tx: Tx, numbers: Sequence[int]) -> list[bytes]:
    rows = fetch(
        tx.db,
        "SELECT v.data FROM memory_models m CROSS JOIN carray(?) c JOIN memory_vectors v"
        " ON v.key = m.no << 52 | c.value",
        (those(numbers),),
    )
    return [data for (data,) in rows]


def _turns_of(tx: Tx, numbers: Sequence[int]) -> list[int]:
    rows = fetch(
        tx.db, "SELECT turn FROM memories WHERE no IN (SELECT value FROM carray(?)) AND turn > 0", (those(numbers),)
    )
    return [turn for (turn,) in rows]


# -- documents ---------------------------------------------------------------------------------------------------------


def _versions(tx: Tx, place: Place, version: int) -> list[_Version]:
    """Return a version that has a text, with all others that have the same. Raises if the newest is one of them."""
    at = (str(place.layer), place.owner, place.name)
    line = fetch(
        tx.db,
        f"SELECT no, version, hash, {WHOLE}, reason, key FROM documents d WHERE layer = ? AND owner = ? AND name = ?"
        " AND hash = (SELECT hash FROM documents WHERE layer = ?1 AND owner = ?2 AND name = ?3 AND version = ?4)",
        (*at, version),
    )
    newest = tx.one(
        "SELECT max(version) FROM documents WHERE layer = ? AND owner = ? AND name = ?",
        at,
    )
    if newest and any(row[1] == newest[0] for row in line if row[3] is not None):
        raise ConflictError(
            "DOCUMENT_CURRENT",
            f"forgetting version {version} of {place}: that is what it says now",
            hint="change the document first: daycare memory edit",
        )
    return [
        _Version(no, text, reason, key, chunks_of(tx, place, number))
        for no, number, hash_, text, reason, key in line
        if text is not None and digest(text) == hash_
    ]


def _forget_version(tx: Tx, old: _Version, shreds: list[str | bytes]) -> None:
    shreds += [old.text, old.reason]
    stand_alone(tx, old.no)
    tx.run(
        "UPDATE documents SET text = ?1, tail = 0, reason = CASE reason WHEN '' THEN '' ELSE ?1 END WHERE no = ?2",
        (FORGOTTEN, old.no),
    )
    tx.tell(VersionForgotten(old.key, FORGOTTEN, shreds))
