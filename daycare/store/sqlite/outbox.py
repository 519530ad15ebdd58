"""Outbox rows: replies that were committed with their turn and wait for a connector's receipt."""

from typing import Any, Final

import apsw
import msgspec
from msgspec.structs import replace

from daycare.base.bounded import Bounded
from daycare.base.errors import ConflictError
from daycare.base.limits import INBOX_MAX_MESSAGES, LIVING_CACHE_MAX_PATHS, OUTBOX_MAX_MESSAGES, RETRY_MAX_S
from daycare.base.messages import Choice, Envelope, EnvelopeKind, File, Origin
from daycare.store.records import Agent, OutboxRow, Reply, Shows
from daycare.store.sqlite import letters, mailbox
from daycare.store.sqlite.database import counted
from daycare.store.sqlite.facts import ReplyMoved, ReplyQueued
from daycare.store.sqlite.sql import Select
from daycare.store.sqlite.writer import Tx, Writer, user_of

STATES = ("waiting", "sending", "sent", "dead", "dead")  # the last: after a try that may have arrived
_ROW: Final = (
    "seq, agent_id, path, user, connector, target, text, trace, turn, state, attempts, retry_at, created_at, error,"
    " receipt, parts_sent, extra"
)
_QUOTED_CHARS = 200  # of a reply in the note that says it did not arrive


class _Extra(msgspec.Struct, omit_defaults=True, frozen=True):
    reply_to: str = ""
    silent: bool = False
    effect: str = ""
    choices: tuple[Choice, ...] = ()
    files: tuple[File, ...] = ()
    spoken: File | None = None
    shows: Shows | None = None
    reaction: bool = False


_PLAIN = _Extra()
_encode = msgspec.json.Encoder().encode
_decode_extra = msgspec.json.Decoder(_Extra).decode


class Outbox:
    """Replies on their way out: in order per connector, until a receipt comes or they are given up on."""

    def __init__(self, writer: Writer, reader: apsw.Connection) -> None:
        self._write = writer.write
        self._reader = reader
        self._users: Bounded[int, str] = Bounded(LIVING_CACHE_MAX_PATHS)  # whose rows are, of those read lately

    async def waiting(self, connector: str, *, after: int = 0, limit: int = 64) -> list[OutboxRow]:
        """Return undelivered rows of one connector in order of seq, beginning after seq `after`.

        A row in the state `sending` was tried and may have arrived: the next try may be a duplicate.
        """
        undelivered = "connector = ? AND state < 2 AND seq > ? ORDER BY seq LIMIT ?"
        return self._of_users(_OUTBOX.find(self._reader, undelivered, (connector, after, limit)))

    async def unread(self, path: str, *, after: int = 0, limit: int = 64) -> list[OutboxRow]:
        """Return undelivered rows of one agent's path in order of seq, beginning after seq `after`."""
        undelivered = "path = ? AND state < 2 AND seq > ? ORDER BY seq LIMIT ?"
        return self._of_users(_OUTBOX.find(self._reader, undelivered, (path, after, limit)))

    async def get(self, seq: int) -> OutboxRow | None:
        """Return one row, whatever its state."""
        return _OUTBOX.one(self._reader, "seq = ?", (seq,))

    async def add(self, agent: Agent, reply: Reply, trace: str) -> int:
        """Queue words of an agent that belong to no turn; return their number. Not idempotent."""
        key = (agent.id, agent.path, agent.user, str(agent.origin))
        return await self._write(lambda tx: insert(tx, key, None, trace, reply), user=user_of(agent.path))

    def _of_users(self, rows: list[OutboxRow]) -> list[OutboxRow]:
        for row in rows:
            self._users[row.seq] = user_of(row.path)
        return rows

    async def start(self, seq: int) -> int:
        """Journal that a delivery is about to be tried; return which try it is. 0: nothing is left to deliver.

        From the third on, the next one waits ever longer, even if this one ends with the daemon: deaths in quick
        succession must not use up the tries of a reply.
        """

        def run(tx: Tx) -> int:
            tx.run(
                "UPDATE outbox SET state = 1, attempts = attempts + 1,"
                " retry_at = CASE WHEN attempts < 2 THEN retry_at ELSE ? + 1000 * min(2 * attempts * attempts, ?) END"
                " WHERE seq = ? AND state < 2",
                (tx.now, int(RETRY_MAX_S), seq),
            )
            row = tx.one("SELECT attempts FROM outbox WHERE seq = ? AND state < 2", (seq,))
            return int(row[0]) if row else 0

        return await self._write(run, user=self._users.get(seq, ""))

    async def sent(self, seqs: list[int], receipt: str) -> int:
        """Record that rows were delivered; idempotent, returns how many of them were undelivered until now."""

        def run(tx: Tx) -> int:
            changed = 0
            for seq in seqs:
                tx.run(
                    "UPDATE outbox SET state = 2, sent_at = ?, receipt = ltrim(coalesce(receipt, '') || ' ' || ?),"
                    " error = NULL WHERE seq = ? AND state < 2",
                    (tx.now, receipt, seq),
                )
                changed += tx.db.changes()
            return changed

        users = {self._users.get(seq, "") for seq in seqs}
        return await self._write(run, user=users.pop() if len(users) == 1 else "")

    async def part_sent(self, seq: int, parts: int, receipt: str) -> None:
        """Record that so many parts of an undelivered row arrived; the next one has all its tries. Idempotent."""
        await self._write(
            lambda tx: tx.run(
                "UPDATE outbox SET state = 0, parts_sent = ?, attempts = 0, error = NULL, retry_at = 0,"
                " receipt = ltrim(coalesce(receipt, '') || ' ' || ?)"
                " WHERE seq = ? AND state < 2 AND parts_sent < ?",
                (parts, receipt, seq, parts),
            ),
            user=self._users.get(seq, ""),
        )

    async def retry(
        self, seq: int, error: str, retry_at: int, *, untouched: bool = False, uncounted: bool = False
    ) -> None:
        """Record a failed try of an undelivered row. `untouched`: surely not taken, no duplicate can arise.

        `uncounted` takes the try back: nobody is to blame.
        """

        def run(tx: Tx) -> None:
            state = 0 if untouched else 1
            tx.run(
                "UPDATE outbox SET state = ?, error = ?, retry_at = ?, attempts = max(attempts - ?, 0)"
                " WHERE seq = ? AND state < 2",
                (state, error, retry_at, int(uncounted), seq),
            )

        await self._write(run, user=self._users.get(seq, ""))

    async def unspeak(self, row: OutboxRow) -> None:
        """Let the text of an undelivered reply go out in place of the file in which it is spoken; tries begin anew."""
        extra = _extra(replace(row, spoken=None))
        await self._write(
            lambda tx: tx.run(
                "UPDATE outbox SET extra = ?, attempts = 0, retry_at = 0 WHERE seq = ? AND state < 2", (extra, row.seq)
            )
        )

    async def give_up(self, seq: int, code: str, reason: str, *, untouched: bool = False) -> None:
        """Move an undelivered row to the dead letters, and leave its agent a note of it; idempotent.

        `untouched`: surely not taken, in no try; a replay of another one that was tried goes on as "sending".
        """
        await self._write(lambda tx: give_up(tx, seq, code, reason, untouched=untouched))

    async def count(self) -> int:
        """Return how many rows are undelivered."""
        return counted(self._reader, "outbox.waiting")


def insert(tx: Tx, agent: tuple[str, str, str, str], turn: int | None, trace: str, reply: Reply) -> int:
    """Add a reply of an agent (id, path, user, origin). Past the bound the oldest unread one becomes a dead letter."""
    agent_id, path, user, origin = agent
    seq = tx.insert(
        "INSERT INTO outbox (agent_id, path, turn, connector, target, user, origin, trace, created_at, text, extra)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (agent_id, path, turn, reply.connector, reply.target, user, origin, trace, tx.now, reply.text, _extra(reply)),
    )
    assert seq is not None, "nothing is there that it could be in conflict with"
    tx.commit.connectors.add(reply.connector)
    tx.tell(ReplyQueued(seq, user, origin, reply.shows))
    overflow = tx.rare(
        "SELECT seq FROM outbox WHERE path = ? AND state < 2 ORDER BY seq DESC LIMIT 1 OFFSET ?",
        (path, OUTBOX_MAX_MESSAGES),
    )
    if overflow is not None:
        give_up(tx, overflow[0], "OUTBOX_FULL", f"{OUTBOX_MAX_MESSAGES} newer replies wait undelivered")
    return seq


def give_up(tx: Tx, seq: int, code: str, reason: str, *, untouched: bool = False) -> None:
    """Move one undelivered row to the dead letters; of a reaction only its agent hears.

    One whose last try is not accounted for may have arrived.
    """
    found = _WITH_ORIGIN.one(tx.db, "seq = ? AND state < 2", (seq,))
    if found is None:
        return
    it, origin = found
    state = 4 if it.state == "sending" and not untouched else 3
    tx.run("UPDATE outbox SET state = ?, error = ? WHERE seq = ?", (state, reason, seq))
    if not it.reaction:  # one is not worth a person's second look
        letters.insert(
            tx, "outbox", seq, it.agent_id, it.path, it.user, origin, it.trace, code, reason, it.attempts, it.text
        )  # fmt: skip
    _tell_agent(tx, it, reason)


def _tell_agent(tx: Tx, it: OutboxRow, reason: str) -> None:
    """What the agent believes it has said was not heard: it reads so before its next answer."""
    living = tx.one("SELECT 1 FROM agents WHERE id = ? AND state <> 'dead'", (it.agent_id,))
    if living is None or it.turn is None or tx.memory.waiting.get(it.agent_id, 0) >= INBOX_MAX_MESSAGES:
        return
    quoted = it.text if len(it.text) <= _QUOTED_CHARS else f"{it.text[:_QUOTED_CHARS]}..."
    note = Envelope(
        to=it.path,
        agent_id=it.agent_id,
        user=it.user,
        origin=Origin.SYSTEM,
        sender=f"/system/{it.connector}",
        key=f"undelivered:{it.seq}",
        text=f"Your reaction {quoted} did not arrive: {reason}"
        if it.reaction
        else f"A reply did not arrive: {reason}. It began: {quoted}",
        trace=it.trace,
        kind=EnvelopeKind.NOTE,
        origins=(),  # what it quotes is the conversation's own
    )
    mailbox.insert(tx, it.agent_id, note)


def _extra(reply: Reply | OutboxRow) -> str | None:
    extra = _Extra(**{name: getattr(reply, name) for name in _Extra.__struct_fields__})
    return None if extra == _PLAIN else _encode(extra).decode()


def revive(tx: Tx, seq: int) -> int:
    """Let a dead row wait again with fresh attempts, behind the others, where a courier has not passed yet.

    What may have arrived before it died may still have: its next try is one that repeats another.
    """
    row = tx.one("SELECT connector FROM outbox WHERE seq = ? AND state IN (3, 4)", (seq,))
    if row is None:
        raise ConflictError("OUTBOX_GONE", f"replaying reply {seq}: it has expired", hint="daycare dead prune")
    newest = tx.one("SELECT max(seq) FROM outbox")
    assert newest is not None
    tx.run(
        "UPDATE outbox SET seq = ?, state = CASE state WHEN 4 THEN 1 ELSE 0 END, attempts = 0, retry_at = 0,"
        " error = NULL, created_at = ?"
        " WHERE seq = ?",
        (newest[0] + 1, tx.now, seq),
    )
    tx.tell(ReplyMoved(seq, newest[0] + 1))
    tx.commit.connectors.add(row[0])
    return int(newest[0]) + 1


def _outbox(row: tuple[Any, ...]) -> OutboxRow:
    (seq, agent_id, path, user, connector, target, text, trace, turn, state, attempts, retry_at, created_at, error,
     receipt, parts_sent, extra) = row  # fmt: skip
    more, damaged = _PLAIN, False
    if extra:
        try:
            more = _decode_extra(extra)
        except msgspec.DecodeError:  # whoever delivers it gives it up: it must not keep others from being read
            damaged = True
    return OutboxRow(
        seq=seq,
        agent_id=agent_id,
        path=path,
        user=user,
        connector=connector,
        target=target,
        text=text,
        trace=trace,
        turn=turn,
        state=STATES[state],  # type: ignore[arg-type]
        attempts=attempts,
        retry_at=retry_at,
        created_at=created_at,
        error=error,
        receipt=receipt,
        parts_sent=parts_sent,
        reply_to=more.reply_to,
        silent=more.silent,
        effect=more.effect,
        choices=more.choices,
        files=more.files,
        spoken=more.spoken,
        shows=more.shows,
        reaction=more.reaction,
        damaged=damaged,
    )


_OUTBOX: Final = Select(_ROW, "outbox", _outbox)
_WITH_ORIGIN: Final = Select(f"{_ROW}, origin", "outbox", lambda row: (_outbox(row[:-1]), row[-1]))
