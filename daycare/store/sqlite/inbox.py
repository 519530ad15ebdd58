"""Inbox rows: accepted once per key, in order, bounded, and kept as a key after they are done."""

from collections.abc import Sequence
from typing import Any, Final, Literal

import apsw
from msgspec.structs import replace

from daycare.base.errors import BusyError, ConflictError, DaycareError, NotFoundError
from daycare.base.limits import INBOX_MAX_MESSAGES
from daycare.base.messages import Envelope, Lane
from daycare.store.records import Agent, InboxRow, NewAgent, Receipt, Reply
from daycare.store.sqlite import agents, journal, letters, mailbox, outbox
from daycare.store.sqlite.mailbox import ROWS
from daycare.store.sqlite.sql import Select
from daycare.store.sqlite.writer import Tx, Writer, user_of

CONTROL_MAX_MESSAGES: Final = 100  # control messages that a full inbox still takes: nobody says /stop more often


# The last is held by a turn that was set aside.
_STATES: tuple[Literal["waiting", "done", "stopped", "dead"], ...] = ("waiting", "done", "dead", "waiting")


class Inbox:
    """Messages on their way to agents: once per (agent, key), in order, bounded.

    `leaving` are those that are being dropped just now: whoever reads what waits leaves them alone.
    """

    def __init__(self, writer: Writer, reader: apsw.Connection) -> None:
        self.leaving: set[int] = set()
        self._write = writer.write
        self._asks_whose = writer.asks_whose
        self._memory = writer.memory
        self._reader = reader

    async def post(self, envelope: Envelope, create: NewAgent | None = None) -> Receipt:
        """Commit one message; `create` brings its agent into being with it if nobody lives at the path.

        Idempotent on (agent, key): a repeat returns the first row's receipt as `duplicate`, with its result once it
        is done, also when the inbox is full. Raises `BusyError` (`INBOX_FULL`) when `INBOX_MAX_MESSAGES` wait, on the
        control lane when `CONTROL_MAX_MESSAGES` more do; `NotFoundError` when nobody lives at the path
        (`AGENT_UNKNOWN`), or not the incarnation that `envelope.agent_id` pins (`AGENT_DEAD`).
        """
        user = user_of(envelope.to) if self._asks_whose else ""
        return await self._write(lambda tx: post(tx, envelope, create), len(envelope.text), user)

    async def post_all(self, batch: Sequence[tuple[Envelope, NewAgent | None]]) -> list[Receipt]:
        """Commit several messages in this order, all or none; each as `post` would, receipts in the same order."""
        size = sum(len(envelope.text) for envelope, _ in batch)
        user = user_of(*(envelope.to for envelope, _ in batch))
        return await self._write(lambda tx: [post(tx, envelope, create) for envelope, create in batch], size, user)

    async def waiting(
        self, agent_id: str, lane: Lane | None = None, *, after: int = 0, limit: int = 64
    ) -> list[InboxRow]:
        """Return waiting rows of one agent, of one lane or both, in order of seq, beginning after seq `after`."""
        of_lane = "agent_id = ? AND state = 0 AND seq > ? AND (? IS NULL OR lane = ?) ORDER BY seq LIMIT ?"
        return ROWS.find(self._reader, of_lane, (agent_id, after, lane, lane, limit))

    async def rows(self, seqs: Sequence[int]) -> list[InboxRow]:
        """Return the rows with these numbers that still wait, in order."""
        found = (ROWS.one(self._reader, "seq = ? AND state = 0", (seq,)) for seq in sorted(seqs))
        return [row for row in found if row is not None]

    async def receipt(self, seq: int) -> Receipt | None:
        """Return what became of a row, or None if its number is unknown (or expired)."""
        return _RECEIPTS.one(self._reader, "seq = ?", (seq,))

    async def known(self, agent_id: str, key: str) -> bool:
        """Return whether an agent has got a message with this key."""
        found = self._reader.execute("SELECT 1 FROM inbox WHERE agent_id = ? AND key = ?", (agent_id, key)).fetchone()
        return found is not None

    async def agents_with_work(self, *, after: str = "", limit: int = 256) -> list[str]:
        """Return ids of agents that have waiting rows, in order of id, beginning after the id `after`."""
        # A loose index scan: one seek per agent, however many rows each has.
        found: list[str] = []
        while len(found) < limit:
            row = self._reader.execute(
                "SELECT agent_id FROM inbox WHERE state = 0 AND agent_id > ?"
                " /* nodes: AND mine((SELECT a.user FROM agents a WHERE a.id = agent_id)) */ ORDER BY agent_id LIMIT 1",
                (after,),
            ).fetchone()
            if row is None:
                break
            after = row[0]
            found.append(after)
        return found

    async def conclude(
        self, agent: Agent, row: InboxRow, result: str, *, replies: Sequence[Reply] = (), new_session: str = ""
    ) -> None:
        """Finish a message that needs no turn, with its replies; `new_session` is the reason to start one.

        All or nothing, and idempotent: for a row that no longer waits nothing happens.
        """

        def run(tx: Tx) -> None:
            if not mailbox.complete(tx, agent.id, [row.seq], None, result):
                return  # a repeat: its replies are out
            for reply in replies:
                outbox.insert(
                    tx, (agent.id, agent.path, agent.user, str(agent.origin)), None, row.envelope.trace, reply
                )
            if new_session:
                agents.new_session(tx, agent.id, new_session)

        await self._write(run, user=user_of(agent.path))

    async def drop(self, agent: Agent, seq: int, reason: str) -> None:
        """Give up a message that waits, as somebody wants it: it becomes a dead letter.

        Raises `NotFoundError` INBOX_UNKNOWN for one that does not wait, `ConflictError` INBOX_IN_WORK for a command, an
        answer to a call, and one that a turn works on.
        """

        def run(tx: Tx) -> None:
            row = ROWS.one(tx.db, "seq = ? AND agent_id = ? AND state = 0", (seq, agent.id))
            if row is None:
                raise NotFoundError(
                    "INBOX_UNKNOWN",
                    f"dropping message {seq} of {agent.path}: it does not wait there",
                    hint=f"daycare inbox {agent.path}",
                )
            if row.envelope.lane is Lane.CONTROL or journal.works_on(tx, agent.id, seq):
                raise in_work(agent.path, seq)
            bury(tx, seq, "DROPPED", reason, row.attempts)

        await self._write(run)

    async def counts(self) -> dict[str, int]:
        """Return how many rows wait (`waiting`), in all agents together."""
        return {"waiting": self._memory.unread}


def in_work(path: str, seq: int) -> ConflictError:
    """Return the refusal to drop what is in work."""
    return ConflictError(
        "INBOX_IN_WORK",
        f"dropping message {seq} of {path}: its agent works on it, or waits for it",
        hint=f"to end what it does: daycare send {path} /stop",
    )


def post(tx: Tx, envelope: Envelope, create: NewAgent | None = None) -> Receipt:
    """Insert one message, or find the one with its key. Everything is checked before anything is written."""
    agent_id = _recipient(tx, envelope, create)
    # `/stop` must get through exactly when an agent is drowning: the control lane has room beyond the full inbox.
    room = INBOX_MAX_MESSAGES + (CONTROL_MAX_MESSAGES if envelope.lane is Lane.CONTROL else 0)
    full = tx.memory.waiting.get(agent_id, 0) >= room
    if not full and (receipt := mailbox.insert(tx, agent_id, envelope)) is not None:
        return receipt
    known = _RECEIPTS.one(tx.db, "agent_id = ? AND key = ?", (agent_id, envelope.key))
    if known is not None:
        return replace(known, duplicate=True)
    raise BusyError(
        "INBOX_FULL",
        f"inbox full: {envelope.to} holds {room} unread",
        hint=f"daycare inbox {envelope.to}",
        retry_after_s=30.0,
    )


def bury(tx: Tx, seq: int, code: str, reason: str, attempts: int, *, untold: str | None = None) -> None:
    """Move one waiting row to the dead letters; an agent that asked is told, but for the one with the id `untold`."""
    buried = mailbox.bury_message(tx, seq, code, reason, attempts)
    result = buried.answer(f"no answer: {reason}", "error", ()) if buried is not None else None
    if result is None or result.agent_id == untold:
        return
    try:
        post(tx, result)
    except DaycareError as refused:
        if refused.code == "AGENT_DEAD":
            tx.commit.unheard += 1
        else:
            letters.bury(tx, "post", seq, str(result.agent_id), result, refused.code, refused.message, 1)


def _recipient(tx: Tx, envelope: Envelope, create: NewAgent | None) -> str:
    living = tx.memory.living.get(envelope.to)
    if living is not None and envelope.agent_id in (None, living):
        return living
    row = tx.one("SELECT id FROM agents WHERE path = ? AND state <> 'dead'", (envelope.to,))
    if row is not None and envelope.agent_id in (None, row[0]):
        tx.memory.living[envelope.to] = row[0]
        return str(row[0])
    if envelope.agent_id is not None:
        raise NotFoundError(
            "AGENT_DEAD",
            f"posting to {envelope.to}: this incarnation of it is dead",
            hint=f"post to the path to reach the one that lives there now: daycare send {envelope.to} TEXT",
        )
    if create is None:
        raise NotFoundError("AGENT_UNKNOWN", f"posting to {envelope.to}: no such agent", hint="daycare agents")
    return agents.create(tx, create).id


def _receipt(row: tuple[Any, ...]) -> Receipt:
    seq, agent_id, state, result, trace, path, turn, stopped = row
    known = _STATES[state]
    if stopped and known == "done":
        known = "stopped"
    return Receipt(seq, agent_id, False, known, result, trace, path, turn)


_RECEIPTS: Final = Select(
    "seq, agent_id, state, unpacked(result), trace, path, turn,"
    " EXISTS (SELECT 1 FROM history h WHERE h.turn = inbox.turn AND h.state = 'stopped')",
    "inbox",
    _receipt,
)
