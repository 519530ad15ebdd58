"""Summaries of the older turns of a session, and the reads that a prompt is made of: bounded, whole turns only."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import apsw
import msgspec
from msgspec.structs import replace

from daycare.base.messages import Message
from daycare.store.records import Step, Summary
from daycare.store.records_conversations import APART, Past, PastTurn
from daycare.store.sqlite import journal
from daycare.store.sqlite.read_cache import ReadCache
from daycare.store.sqlite.replacing import STANDS
from daycare.store.sqlite.sql import Select, insert_into
from daycare.store.sqlite.tails import Tails
from daycare.store.sqlite.writer import Tx, Writer

SUMMARIES: Final = "summaries"
SUMMARIES_KEPT_MAX: Final = 256  # sessions whose last summary is kept in memory, some KB each: a turn asks twice

_COLUMNS: Final = "agent_id, session, user, origin, through, turns, text, tokens_before, tokens_after, created_at"
_EMPTY_CHARS = 100  # what a turn without messages counts, so that a read of many of them ends as well
_ALL: Final = 2**62
_PAGE: Final = 32  # turns that a server is asked for at once; a file is read as far as it is looked at
_TURNS: Final = "SELECT t.turn, t.session, unpacked(h.messages) FROM turns t LEFT JOIN history h USING (turn)"
_decode = msgspec.json.Decoder(tuple[Message, ...]).decode


class Summaries:
    """Summaries of the older turns of a session, and the bounded reads that a prompt is made of."""

    def __init__(self, writer: Writer, reader: apsw.Connection, tails: Tails) -> None:
        self._write = writer.write
        self._reader = reader
        self._tails = tails
        self._latest: ReadCache[tuple[str, int], list[Summary]] = ReadCache(
            writer.versions, reader, SUMMARIES, most=SUMMARIES_KEPT_MAX
        )

    async def add(self, summary: Summary | None, step: Step | None) -> None:
        """Record what a call for a summary came to, together: the summary (None: it was no use), and its step.

        Idempotent: of summaries that reach as far the first counts. Raises `ConflictError` if the step's turn has
        ended.
        """

        def run(tx: Tx) -> None:
            if step is not None:
                journal.put(tx, step)
            if summary is not None:
                _insert(tx, summary)

        await self._write(run, 1024 + len(summary.text if summary else ""))

    async def latest(self, agent_id: str, session: int) -> Summary | None:
        """Return the summary that reaches furthest in a session."""
        found = self._latest.get((agent_id, session), lambda: self._find(agent_id, session, 1))
        return found[0] if found else None

    async def find(self, agent_id: str, session: int, limit: int = 100) -> list[Summary]:
        """Return the summaries of a session, the one that reaches furthest first."""
        return self._find(agent_id, session, limit)

    def _find(self, agent_id: str, session: int, limit: int) -> list[Summary]:
        of_session = "agent_id = ? AND session = ? ORDER BY through DESC LIMIT ?"
        return _SUMMARIES.find(self._reader, of_session, (agent_id, session, limit))

    async def newest(
        self, agent_id: str, session: int, *, after: int, before: int, max_chars: int, max_messages: int = _ALL
    ) -> Past:
        """Return the newest ended turns between two numbers, oldest first: as many as have `max_chars`, at least one.

        None follows once there are `max_messages`. Turns without messages are left out. `before` is a turn that has
        begun, or higher than any number.
        """
        rows: Iterable[tuple[Any, ...]] | None = self._tails.newest(agent_id, after, before)
        if rows is None:
            rows = self._turns(
                f"t.agent_id = ?1 AND t.turn > ?2 AND t.turn < ?3 AND t.session > ?4 AND {STANDS} ORDER BY t.turn DESC",
                [agent_id, after, before, APART, before],
                moves=2,
            )
        past = _until(rows, session, max_chars, after, max_messages, before)
        return replace(past, turns=tuple(reversed(past.turns)))

    async def oldest(self, agent_id: str, session: int, *, after: int, before: int, max_chars: int) -> Past:
        """Return the oldest ended turns between two numbers, oldest first, until they have `max_chars`."""
        rows = self._turns(
            f"t.agent_id = ?1 AND t.turn > ?2 AND t.turn < ?3 AND t.session = ?4 AND {STANDS} ORDER BY t.turn",
            [agent_id, after, before, session, before],
            moves=1,
        )
        return _until(rows, session, max_chars, after)

    def _turns(self, where: str, bindings: list[Any], moves: int) -> Iterator[tuple[Any, ...]]:
        """Yield turns with their messages; a server is asked for a few at a time, from a bound that `moves` on."""
        sql = f"{_TURNS} WHERE {where} LIMIT {_PAGE}"
        turn, read = 0, _PAGE
        while read == _PAGE:
            read = 0
            for row in self._reader.execute(sql, tuple(bindings)):
                turn, read = row[0], read + 1
                yield row
            bindings[moves] = turn

    async def spent(self, agent_id: str, session: int, limit: int) -> int:
        """Return what the newest `limit` turns of a session have cost, in millionths of a US dollar."""
        row = self._reader.execute(
            "SELECT coalesce(sum(cost_micros), 0) FROM spend WHERE turn IN (SELECT turn FROM turns"
            " WHERE agent_id = ? AND session = ? ORDER BY turn DESC LIMIT ?)",
            (agent_id, session, limit),
        ).fetchone()
        return int(str(row[0])) if row else 0


def _until(
    rows: Iterable[tuple[Any, ...]],
    session: int,
    max_chars: int,
    after: int,
    max_messages: int = _ALL,
    before: int = _ALL,
) -> Past:
    """Take turns until they are too long, at least one; or until they have as many messages, or a few more.

    They were looked for below `before`: no turn with a lower number begins any more once one with that has.
    """
    turns: list[PastTurn] = []
    said = 0
    chars = 0
    whole = True
    newest, oldest_open = (before - 1 if before < _ALL else after), None
    for turn, of_session, messages in rows:
        if of_session != session:
            break
        if messages is None:
            oldest_open = min(turn, oldest_open or turn)
            continue
        size = max(len(messages), _EMPTY_CHARS)
        chars += size
        if (chars > max_chars and turns) or said >= max_messages:
            whole = False
            break
        newest = max(turn, newest)
        found = _decode(messages)
        if found:
            turns.append(PastTurn(turn, found, size))
            said += len(found)
    return Past(tuple(turns), whole, newest if oldest_open is None else oldest_open - 1)


def _insert(tx: Tx, summary: Summary) -> None:
    tx.run(
        f"{insert_into('summaries', _COLUMNS.split(', '))} ON CONFLICT DO NOTHING",
        (
            summary.agent_id,
            summary.session,
            summary.user,
            str(summary.origin),
            summary.through,
            summary.turns,
            summary.text,
            summary.tokens_before,
            summary.tokens_after,
            tx.now,
        ),
    )


def _summary(row: tuple[Any, ...]) -> Summary:
    return msgspec.convert(dict(zip(_COLUMNS.split(", "), row, strict=True)), Summary)


_SUMMARIES: Final = Select(_COLUMNS, "summaries", _summary)
