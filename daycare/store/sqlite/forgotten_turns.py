"""Forgetting the words of turns, wherever a turn leaves some: rows stay with `[forgotten]` in them, and a hash.

That a conversation had a turn here, who was in it, which tools it called, what it cost and whether its replies arrived
can still be told. `shreds` collects what was there, for the file to be searched for it afterwards.
"""

import hashlib
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from daycare.base.causes import words_in
from daycare.base.errors import ConflictError
from daycare.base.messages import Envelope, File, Message, Part, Text, ToolCall, ToolResult, read_envelope
from daycare.store.sqlite.facts import MessageForgotten, TracesForgotten
from daycare.store.sqlite.sql import fetch, those
from daycare.store.sqlite.turns import seqs_of
from daycare.store.sqlite.writer import Tx

FORGOTTEN: Final = "[forgotten]"
_EVENT_WORDS: Final = ("text", "reason", "reply", "what")  # what of an event may quote
_decode = msgspec.json.Decoder(tuple[Message, ...]).decode
_encode = msgspec.json.Encoder().encode


def came_of(tx: Tx, turns: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """Return turns of agents that are not forgotten yet, with those that came of them: later ones of their trace.

    Raises `ConflictError` if one of them has not ended.
    """
    first: dict[str, int] = {}
    found: set[tuple[int, str]] = set()
    for agent_id, turn in turns:
        row = tx.one("SELECT trace FROM turns WHERE turn = ? AND agent_id = ?", (turn, agent_id))
        if row is not None:
            found.add((turn, agent_id))
            first[row[0]] = min(turn, first.get(row[0], turn))
    later = fetch(
        tx.db,
        f"SELECT turn, agent_id FROM turns WHERE trace <> '' AND {_since('turn')}",
        (_json(first),),
    )
    found.update((turn, agent_id) for turn, agent_id in later)
    for turn, _ in sorted(found):
        if tx.one("SELECT 1 FROM history WHERE turn = ?", (turn,)) is None:
            what = f"forgetting turns: turn {turn} is one of them or came of one, and has not ended"
            raise ConflictError("TURN_OPEN", what, hint="try it again when it has")
    gone = fetch(
        tx.db,
        "SELECT turn FROM forgotten_turns WHERE turn IN (SELECT value FROM carray(?))",
        (those(turn for turn, _ in found),),
    )
    return [(agent_id, turn) for turn, agent_id in sorted(found) if (turn,) not in gone]


def forget_turns(tx: Tx, turns: Sequence[tuple[str, int]], shreds: list[str | bytes], *, traces: bool = True) -> int:
    """Remove the words of turns that have ended from everything but memories; return how many summaries went.

    With `traces` also of what else happened under their traces since they began.
    """
    if not turns:
        return 0
    numbers = [turn for _, turn in turns]
    seqs = [seq for agent_id, turn in turns for seq in seqs_of(tx, agent_id, turn)]
    began = fetch(
        tx.db,
        "SELECT trace, min(started_at) FROM turns WHERE turn IN (SELECT value FROM carray(?)) AND trace <> ''"
        " GROUP BY trace",
        (those(numbers),),
    )
    first: dict[str, int] = dict(began) if traces else {}
    since = _json(first)
    replies = fetch(
        tx.db,
        f"SELECT seq FROM outbox WHERE turn IN (SELECT value FROM carray(?2)) OR {_since('created_at')}",
        (since, those(numbers)),
    )
    for _, turn in turns:
        _forget_history(tx, turn, shreds)
    _forget_messages(tx, numbers, seqs, since, shreds)
    _forget_replies(tx, [seq for (seq,) in replies], shreds)
    _forget_letters(tx, seqs, [seq for (seq,) in replies], since, shreds)
    _forget_timers(tx, since, shreds)
    _forget_events(tx, since)
    tx.tell(TracesForgotten(first, FORGOTTEN, shreds))
    return sum(_forget_summaries(tx, agent_id, turn, shreds) for agent_id, turn in turns)


def _since(column: str) -> str:
    """Return the condition that a row is of one of the traces, and not older than its turns."""
    return (
        f"trace IN (SELECT key FROM json_each(?1)) AND {column} >="
        " (SELECT CAST(value AS BIGINT) FROM json_each(?1) WHERE key = trace)"
    )


# -- one kind of rows each ---------------------------------------------------------------------------------------------


def _forget_history(tx: Tx, turn: int, shreds: list[str | bytes]) -> None:
    row = tx.one("SELECT unpacked(messages), messages FROM history WHERE turn = ?", (turn,))
    assert row is not None, "only turns that have ended are forgotten"
    messages = _decode(row[0])
    shreds += _packed(row[1])
    shreds += [part.text for message in messages for part in message.parts if isinstance(part, (Text, ToolResult))]
    shreds += [_json(call.arguments) for message in messages for call in message.tool_calls]
    bare = tuple(replace(message, parts=_bare(message)) for message in messages)
    tx.run(
        "INSERT INTO forgotten_turns (turn, agent_id, user, origin, hash, at_ms)"
        " SELECT turn, agent_id, user, origin, ?, ? FROM history WHERE turn = ?",
        (hashlib.sha256(row[0].encode()).digest(), tx.now, turn),
    )
    tx.run("UPDATE history SET messages = packed(?), error = NULL WHERE turn = ?", (_json(bare), turn))
    tx.commit.forgotten = True
    tx.run("UPDATE turns SET error = NULL WHERE turn = ?", (turn,))
    tx.run("DELETE FROM steps WHERE turn = ?", (turn,))
    files = [part.id for message in messages for part in message.parts if isinstance(part, File)]
    tx.run(
        "UPDATE files SET name = ?, size = 0, data = x'', object = NULL, sha256 = NULL, remote = NULL WHERE user ="
        " (SELECT user FROM turns WHERE turn = ?2) AND (id IN (SELECT value FROM carray(?3))"
        " OR instr(key, 'result:' || ?2 || ':') = 1 OR instr(key, 'shortened:' || ?2 || ':') = 1"
        " OR instr(key, 'turn:' || ?2 || ':') = 1)",
        (FORGOTTEN, turn, those(files)),
    )


def _bare(message: Message) -> tuple[Part, ...]:
    """Return a message's parts without words, so that calls and results still belong together."""
    bare: list[Part] = []
    for part in message.parts:
        if isinstance(part, ToolCall):
            bare.append(replace(part, arguments={}))
        elif isinstance(part, ToolResult):
            bare.append(replace(part, text=FORGOTTEN))
        elif Text(FORGOTTEN) not in bare:
            bare.append(Text(FORGOTTEN))
    return tuple(bare)


def _forget_messages(tx: Tx, turns: list[int], seqs: list[int], since: str, shreds: list[str | bytes]) -> None:
    """Results of rows that these turns answered, and words of rows that came of them and still wait."""
    rows = fetch(
        tx.db,
        "SELECT seq, text, unpacked(result), result FROM inbox WHERE turn IN (SELECT value FROM carray(?2)) OR seq IN"
        f" (SELECT value FROM carray(?3)) OR {_since('created_at')}",
        (since, those(turns), those(seqs)),
    )
    for seq, text, result, stored in rows:
        shreds += (words for words in (text, result) if words)
        shreds += _packed(stored)
        tx.run(
            "UPDATE inbox SET text = CASE WHEN text IS NULL THEN NULL ELSE ?1 END,"
            " result = CASE WHEN result IS NULL THEN NULL ELSE ?1 END WHERE seq = ?2",
            (FORGOTTEN, seq),
        )
        tx.tell(MessageForgotten(seq, FORGOTTEN))
    signals = fetch(tx.db, f"SELECT no, data FROM signals WHERE data <> '' AND {_since('created_at')}", (since,))
    for no, data in signals:
        shreds.append(data)
        tx.run("UPDATE signals SET data = ? WHERE no = ?", (FORGOTTEN, no))


def _forget_replies(tx: Tx, seqs: list[int], shreds: list[str | bytes]) -> None:
    rows = fetch(tx.db, "SELECT text FROM outbox WHERE seq IN (SELECT value FROM carray(?))", (those(seqs),))
    shreds += [text for (text,) in rows]
    tx.run(
        "UPDATE outbox SET text = ?, extra = NULL, error = CASE WHEN state < 2 THEN 'forgotten' END,"
        " state = CASE WHEN state < 2 THEN 3 ELSE state END WHERE seq IN (SELECT value FROM carray(?))",
        (FORGOTTEN, those(seqs)),
    )


def _forget_letters(tx: Tx, seqs: list[int], replies: list[int], since: str, shreds: list[str | bytes]) -> None:
    """Dead letters keep that something was given up on; there is nothing left to replay."""
    rows = fetch(
        tx.db,
        f"SELECT no, source, body FROM dead_letters WHERE {_since('created_at')} OR (source = 'inbox' AND seq IN"
        " (SELECT value FROM carray(?2))) OR (source = 'outbox' AND seq IN (SELECT value FROM carray(?3)))",
        (since, those(seqs), those(replies)),
    )
    for no, source, body in rows:
        if source in ("outbox", "intake"):
            shreds.append(body)
            bare = FORGOTTEN
        else:
            envelope = read_envelope(body)
            shreds += [envelope.text, *words_in(envelope.cause)]
            bare = _json(_emptied(envelope))
        tx.run(
            "UPDATE dead_letters SET body = ?, reason = ?, replayed_at = coalesce(replayed_at, ?) WHERE no = ?",
            (bare, FORGOTTEN, tx.now, no),
        )


def _emptied(envelope: Envelope) -> Envelope:
    return replace(envelope, text=FORGOTTEN, files=(), cause=None)


def _forget_timers(tx: Tx, since: str, shreds: list[str | bytes]) -> None:
    """Reminders come when they are due, and do not say of what."""
    rows = fetch(
        tx.db,
        "SELECT no, envelope FROM (SELECT no, envelope, envelope ->> 'trace' AS trace, created_at FROM timers)"
        f" WHERE {_since('created_at')}",
        (since,),
    )
    for no, text in rows:
        envelope = read_envelope(text)
        shreds.append(envelope.text)
        tx.run("UPDATE timers SET envelope = ? WHERE no = ?", (_json(replace(envelope, text=FORGOTTEN)), no))


def _forget_events(tx: Tx, since: str) -> None:
    rows = fetch(tx.db, f"SELECT no, event FROM events WHERE {_since('at')}", (since,))
    for no, text in rows:
        event: dict[str, Any] = msgspec.json.decode(text)
        bare = event | {key: FORGOTTEN for key in _EVENT_WORDS if event.get(key)}
        if bare != event:
            tx.run("UPDATE events SET event = ? WHERE no = ?", (_json(bare), no))


def _forget_summaries(tx: Tx, agent_id: str, turn: int, shreds: list[str | bytes]) -> int:
    """Summaries that cover a turn go, and those that continue them: the turns themselves take their place again."""
    rows = fetch(
        tx.db,
        "DELETE FROM summaries WHERE agent_id = ?1 AND through >= ?2"
        " AND session = (SELECT session FROM turns WHERE turn = ?2) RETURNING text",
        (agent_id, turn),
    )
    shreds += [text for (text,) in rows]
    return len(rows)


def _packed(stored: object) -> tuple[bytes, ...]:
    """Return what is stored if that is packed: its words are found in no page, its bytes are."""
    return (stored,) if isinstance(stored, bytes) else ()


def _json(value: object) -> str:
    return _encode(value).decode()
