"""Turns that have ended, page by page, over all sessions of an agent."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from daycare.base.messages import Message
from daycare.features.history.records import HistoryPage, PastSession, ToldTurn
from daycare.store.records_conversations import APART
from daycare.store.sqlite.rows import Rows
from daycare.store.sqlite.sql import fetch, those

HISTORY_PAGE_MAX_CHARS: Final = 4_000_000  # of stored messages in a page, beyond its first turn
_COSTS: Final = ("input_tokens", "cached_tokens", "output_tokens", "cost_micros")
_TAKEN: Final = (
    f"SELECT turn, {', '.join(f'sum({name})' for name in _COSTS)} FROM spend"
    " WHERE turn IN (SELECT value FROM carray(?)) GROUP BY turn"
)
_decode = msgspec.json.Decoder(tuple[Message, ...]).decode
_decode_seqs = msgspec.json.Decoder(tuple[int, ...]).decode


class HistoryRows(Rows):
    """What was said with an agent; its tables are those of turns and sessions."""

    async def page(self, agent_id: str, *, before: int, limit: int) -> HistoryPage:
        """Return the newest `limit` turns below the number `before`, newest first, and the sessions they are of.

        Turns of which nothing was said are left out: those that were split, or went on under another number.
        """
        turns: list[ToldTurn] = []
        left = HISTORY_PAGE_MAX_CHARS
        more = False
        for row in self._reader.execute(
            "SELECT t.turn, t.session, t.trace, t.started_at, h.ended_at, h.state, h.error, h.hint,"
            " unpacked(h.messages), t.replaced_by, EXISTS (SELECT 1 FROM prompts p WHERE p.turn = t.turn), t.seqs,"
            " (SELECT json_group_array(CAST(value AS BIGINT)) FROM steps s, json_each(s.body, '$.seqs')"
            " WHERE s.turn = t.turn AND s.kind = 'steer')"
            " FROM turns t JOIN history h ON h.turn = t.turn WHERE t.agent_id = ? AND t.turn < ?"
            " AND t.session > ? AND h.state NOT IN ('split', 'continued') ORDER BY t.turn DESC LIMIT ?",
            (agent_id, before, APART, limit + 1),
        ):
            left -= len(str(row[8]))
            more = len(turns) == limit or (left < 0 and bool(turns))
            if more:
                break
            turns.append(_turn(row))
        turns = self._charged(turns)
        sessions = {turn.session for turn in turns}
        return HistoryPage(
            turns=tuple(turns),
            sessions=tuple(self._sessions(agent_id, min(sessions), max(sessions))) if sessions else (),
            next=turns[-1].turn if more else None,
        )

    def _charged(self, turns: Sequence[ToldTurn]) -> list[ToldTurn]:
        """Return turns with what their models took."""
        spent = {turn: taken for turn, *taken in fetch(self._reader, _TAKEN, (those(each.turn for each in turns),))}
        return [replace(each, **dict(zip(_COSTS, spent.get(each.turn, ()), strict=False))) for each in turns]

    def _sessions(self, agent_id: str, first: int, last: int) -> list[PastSession]:
        rows = self._reader.execute(
            "SELECT session, started_at, ended_at, reason FROM sessions WHERE agent_id = ? AND session BETWEEN ? AND ?"
            " ORDER BY session DESC",
            (agent_id, first, last),
        )
        names = ("session", "started_at", "ended_at", "reason")
        return [msgspec.convert(dict(zip(names, row, strict=True)), PastSession) for row in rows]


def _turn(row: tuple[Any, ...]) -> ToldTurn:
    turn, session, trace, started_at, ended_at, state, error, hint, messages, replaced_by, prompted, *took = row
    return ToldTurn(
        turn=turn,
        session=session,
        trace=trace,
        started_at=started_at,
        ended_at=ended_at,
        state=state,
        error=error or "",
        hint=hint,
        messages=_decode(messages),
        seqs=tuple(seq for seqs in took for seq in _decode_seqs(seqs)),
        replaced_by=replaced_by,
        prompted=bool(prompted),
    )
