"""Approvals in the store: a request with the message that shows it, a decision with all that it does, each at once."""

from collections.abc import Sequence
from typing import ClassVar, Final, Literal

import msgspec

from daycare.base.causes import Approved
from daycare.base.errors import InvalidError
from daycare.base.limits import APPROVAL_S
from daycare.base.messages import Message, ToolCall
from daycare.features.approvals import rows_deciding as deciding
from daycare.features.approvals import rows_grants, rows_room
from daycare.features.approvals import rows_requests as rows
from daycare.features.approvals.call_patterns import PatternGrant, PatternWish
from daycare.features.approvals.questions import QuestionAction
from daycare.features.approvals.records import (
    GRANTABLE,
    Approval,
    ApprovalState,
    AskedWords,
    CallAction,
    Grant,
    NewApproval,
    Revision,
    Show,
)
from daycare.features.approvals.rows_followers import RequestFollower
from daycare.store.records import Agent, InboxRow
from daycare.store.sqlite.rows import Rows, Table
from daycare.store.sqlite.sql import marks
from daycare.store.sqlite.writer import Tx

APPROVED_CALL: Final = "approved_"  # how the ids of calls begin that a person has approved
ASKED_MAX_CHARS: Final = 500  # quoted of a message: what a person reads before deciding
_UNCLAIMED: Final = (
    "(made_in IS NULL OR EXISTS (SELECT 1 FROM history WHERE history.turn = made_in AND history.state = 'split'))"
)

_messages = msgspec.json.Decoder(tuple[Message, ...]).decode
_OF: Final = "agent_id IN (SELECT id FROM exported)"


class ApprovalRows(Rows):
    """Requests of agents for something that a person decides.

    `show` returns the message that shows a request to who decides; it is queued with the change, all or nothing.
    Whoever asked is told of an end by a message to that incarnation of the agent, once, in the transaction of the end;
    a dead one is not, which is counted. `NotFoundError` APPROVAL_UNKNOWN for a number that there is not.
    """

    tables: ClassVar = (
        Table(
            "approvals",
            "requests",
            why="a decision binds the agent that asked",
            what="requests that wait for a decision",
            query=f"SELECT count(*) FROM approvals WHERE state = 'pending' AND {_OF}",
        ),
        Table("approval_messages", why="they belong to requests"),
        Table(
            "approval_grants",
            why="a right is given to this agent alone",
            what="rights to act without asking",
            query=f"SELECT count(*) FROM approval_grants WHERE {_OF}",
            own="agent_id = ?1",
        ),
        Table(
            "call_grants",
            why="a right is given to this agent alone",
            what="calls approved in advance",
            query=f"SELECT count(*) FROM call_grants WHERE {_OF}",
            own="agent_id = ?1",
        ),
    )
    followers: ClassVar = (RequestFollower,)

    async def request(self, new: NewApproval, show: Show) -> tuple[Approval, bool]:
        """Make a request, and return it with whether it is new.

        Idempotent on `new.key`: a repeat returns the first and shows nothing. Where the decider granted this kind to
        the agent, an unflagged one is approved and done at once, and not shown. Raises `ConflictError`
        DOCUMENT_CHANGED if the base is another by now, `BusyError` APPROVALS_OPEN at `APPROVALS_OPEN_MAX` pending
        ones of the agent and its helpers together, APPROVALS_HOURLY past `APPROVALS_PER_HOUR`.
        """
        return await self._write(lambda tx: deciding.request(tx, new, show), len(new.action.text))

    async def check_room(self, path: str, now_ms: int) -> None:
        """Raise `BusyError` as `request` would, where work for a request that cannot be made is to be spared."""
        rows_room.check(self._reader, rows_room.root_of(path), now_ms)

    async def decide(
        self,
        no: int,
        verdict: Literal["approve", "reject"],
        *,
        seen: str,
        by: str,
        why: str = "",
        once: bool = False,
        more: PatternWish | None = None,
        answered: QuestionAction | None = None,
    ) -> tuple[Approval, bool]:
        """Decide a request, do what it asks for, and tell the agent, all or nothing; return whether it was new.

        `seen` is the content hash that the decider saw, its first 8 characters at least; `by` is their connector key.
        A repeat of the very same decision is an error only with `once`. `answered` is a question as it was answered,
        which the server that asked is to be told. `more` is what is approved with it in advance:
        raises as `check_wish`, and `BusyError` GRANTS_MAX past `CALL_GRANTS_MAX`. Raises `ConflictError`
        APPROVAL_DECIDED when it is decided already or has expired, APPROVAL_CHANGED when `seen` is of other content,
        APPROVAL_BASE when the document was changed meanwhile; and what writing a document may raise.
        """
        return await self._write(
            lambda tx: deciding.decide(tx, no, verdict, seen, by, why, once=once, more=more, answered=answered)
        )

    async def revise(self, no: int, revision: Revision, *, seen: str) -> Approval:
        """Give a pending request new content or a new base. What was seen before decides no more.

        `seen` is the whole content hash that it has now. Raises `ConflictError` as `decide`, and DOCUMENT_CHANGED.
        """
        return await self._write(lambda tx: deciding.revise(tx, no, revision, seen), len(revision.action.text))

    async def outdate(self, no: int, *, seen: str, why: str) -> Approval:
        """End a pending request that cannot be done any more as stale. Raises `ConflictError` as `decide`."""
        return await self._write(lambda tx: deciding.outdate(tx, no, seen, why))

    async def undo(self, no: int, *, by: str) -> tuple[Approval, bool]:
        """Take back what an approved request did to its document; idempotent; return whether it was new.

        Raises `ConflictError` APPROVAL_NOT_DONE for one that did nothing, DOCUMENT_CHANGED if there are newer versions.
        """
        return await self._write(lambda tx: deciding.undo(tx, no, by))

    async def expire(self, limit: int = 100) -> list[Approval]:
        """End pending requests whose time is over; return them."""

        def run(tx: Tx) -> list[Approval]:
            # None waits for longer than requests do from now, whatever the clock said when it was made.
            longest = tx.now + int(APPROVAL_S * 1000)
            tx.run("UPDATE approvals SET expires_at = ?1 WHERE state = 'pending' AND expires_at > ?1", (longest,))
            over = "state = 'pending' AND expires_at <= ? ORDER BY no LIMIT ?"
            return [deciding.expire(tx, it) for it in rows.APPROVALS.find(tx.db, over, (tx.now, limit))]

        return await self._write(run)

    async def get(self, no: int) -> Approval | None:
        """Return a request."""
        return rows.get(self._reader, no)

    async def by_key(self, key: str) -> Approval | None:
        """Return the request that a call made."""
        return rows.by_key(self._reader, key)

    async def claim(self, agent: Agent, turn: int, messages: Sequence[InboxRow]) -> list[ToolCall]:
        """Let a turn alone make the calls that its messages say a person has approved; return them.

        What a turn has claimed that was split is another's to claim: that made none.
        """
        if claimed := [row.envelope.cause.no for row in messages if isinstance(row.envelope.cause, Approved)]:

            def run(tx: Tx) -> None:
                for no in claimed:
                    tx.run(f"UPDATE approvals SET made_in = ? WHERE no = ? AND {_UNCLAIMED}", (turn, no))

            await self._write(run)
        return await self.calls(agent, turn, messages)

    async def calls(self, agent: Agent, turn: int, messages: Sequence[InboxRow]) -> list[ToolCall]:
        """Return the calls that a turn has claimed. No other sender counts, and no other turn."""
        calls = []
        for row in messages:
            if not isinstance(consent := row.envelope.cause, Approved):
                continue
            it = await self.get(consent.no)
            if it is None or it.agent_id != agent.id or it.state is not ApprovalState.APPROVED:
                continue
            if isinstance(it.action, CallAction) and it.made_in == turn:
                calls.append(ToolCall(f"{APPROVED_CALL}{it.no}", it.action.tool, it.action.arguments))
        return calls

    async def find(
        self,
        *,
        decider: str | None = None,
        states: Sequence[ApprovalState] = (),
        kind: str | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> list[Approval]:
        """Return requests, the newest first, beginning below number `before`."""
        among = f"AND state IN ({marks(states)})" if states else ""
        mine = "" if decider is None else "AND decider = ?"
        alike = "" if kind is None else "AND kind = ?"
        return rows.APPROVALS.find(
            self._reader,
            f"no < ? {mine} {among} {alike} ORDER BY no DESC LIMIT ?",
            (
                2**62 if before is None else before,
                *(() if decider is None else (decider,)),
                *map(str, states),
                *(() if kind is None else (kind,)),
                limit,
            ),
        )

    async def asked(self, requests: Sequence[Approval]) -> dict[int, AskedWords]:
        """Return by number what was said before each of these was asked for; nothing while its turn runs."""
        found = self._reader.execute(
            "SELECT turn, t.agent_id, unpacked(h.messages) FROM history h JOIN turns t USING (turn)"
            f" WHERE turn IN ({marks(requests)})",
            [it.turn for it in requests],
        )
        said = {(int(str(turn)), str(agent)): _said(_messages(str(text))) for turn, agent, text in found}
        return {it.no: words for it in requests if (words := said.get((it.turn, it.agent_id)))}

    async def shown_by(self, decider: str, connector: str, user: str, receipt: str) -> Approval | None:
        """Return the pending request for a decider that a delivered message in a user's conversation shows."""
        found = self._reader.execute(
            "SELECT a.no, o.receipt FROM approvals a JOIN approval_messages m ON m.no = a.no"
            " JOIN outbox o ON o.seq = m.outbox"
            " WHERE a.decider = ? AND a.state = 'pending' AND o.connector = ? AND o.user = ? AND o.receipt IS NOT NULL",
            (decider, connector, user),
        ).fetchall()
        no = next((no for no, receipts in found if receipt in str(receipts).split()), None)
        return None if no is None else rows.get(self._reader, int(str(no)))

    async def was_shown(self, no: int, content_hash: str, user: str) -> bool:
        """Return whether a message that shows this content was delivered in a user's conversation."""
        row = self._reader.execute(
            "SELECT 1 FROM approval_messages m JOIN outbox o ON o.seq = m.outbox"
            " WHERE m.no = ? AND m.content_hash = ? AND o.user = ? AND o.state = 2",
            (no, content_hash, user),
        ).fetchone()
        return row is not None

    async def outlived(self, connectors: Sequence[str], after_ms: int, limit: int = 100) -> list[tuple[int, int]]:
        """Return (request, outbox row) of messages whose request is decided, the newest first.

        Those that these connectors bring and that are younger than `after_ms`, until `settle` was called for them.
        """
        found = self._reader.execute(
            "SELECT m.no, m.outbox FROM approval_messages m CROSS JOIN approvals a ON a.no = m.no"
            " CROSS JOIN outbox o ON o.seq = m.outbox WHERE m.content_hash <> '' AND m.created_at > ? AND o.state < 3"
            f" AND a.state <> 'pending' AND o.connector IN ({marks(connectors)})"
            " ORDER BY m.outbox DESC LIMIT ?",
            (after_ms, *connectors, limit),
        )
        return [(int(str(no)), int(str(outbox))) for no, outbox in found]

    async def settle(self, outbox: int) -> None:
        """Record that a message has no buttons any more: it shows nothing that can be decided."""

        def run(tx: Tx) -> None:
            tx.run("UPDATE approval_messages SET content_hash = '' WHERE outbox = ?", (outbox,))

        await self._write(run)

    async def grant(self, grant: Grant) -> None:
        """Let a kind of request of an agent be approved at once for a while; the last one counts.

        Raises `InvalidError` GRANT_REFUSED for a kind of which each is asked for.
        """
        if grant.kind not in GRANTABLE:
            raise InvalidError("GRANT_REFUSED", f"granting {grant.kind} to an agent: each of these is asked for")

        def run(tx: Tx) -> None:
            tx.run("DELETE FROM approval_grants WHERE until <= ?", (tx.now,))
            tx.run(
                "INSERT INTO approval_grants (agent_id, kind, user, origin, by, until, created_at)"
                " VALUES (?, ?, ?, 'person', ?, ?, ?) ON CONFLICT (agent_id, kind) DO UPDATE SET"
                " user = excluded.user, by = excluded.by, until = excluded.until, created_at = excluded.created_at",
                (grant.agent_id, grant.kind, grant.user, grant.by, grant.until, tx.now),
            )

        await self._write(run)

    async def call_grants(self, agent_id: str | None = None) -> list[PatternGrant]:
        """Return the calls that an agent, or any, may make without asking."""
        return rows_grants.find(self._reader, agent_id)

    async def revoke(self, no: int) -> None:
        """Take back calls that were approved in advance; those that are not there are fine."""
        await self._write(lambda tx: rows_grants.revoke(tx, no))

    async def grants(self, agent_id: str | None = None) -> list[Grant]:
        """Return what was granted; `until` tells whether that is over."""
        found = self._reader.execute(
            "SELECT agent_id, kind, user, by, until FROM approval_grants WHERE ? IS NULL OR agent_id = ?"
            " ORDER BY agent_id, kind LIMIT 1000",
            (agent_id, agent_id),
        )
        return [rows.grant(row) for row in found]


def _said(messages: Sequence[Message]) -> AskedWords | None:
    """Return the last words of somebody else that stand before the first call of a tool."""
    called = next((n for n, each in enumerate(messages) if each.tool_calls), len(messages))
    it = next((each for each in reversed(messages[:called]) if each.role == "user" and each.text), None)
    if it is None:
        return None
    text = it.text if len(it.text) <= ASKED_MAX_CHARS else f"{it.text[:ASKED_MAX_CHARS]}…"
    return AskedWords(text=text, sender=it.sender, origin=it.origin, at_ms=it.at_ms)
