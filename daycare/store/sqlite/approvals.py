"""Approvals: a request with the message that shows it, a decision with all that it does, each in one transaction."""

import re
from collections.abc import Sequence
from datetime import UTC
from typing import Final, Literal

import apsw
from msgspec.structs import asdict, replace

from daycare.base.causes import Approved
from daycare.base.documents import Attribution, NewVersion, digest
from daycare.base.errors import ConflictError, DaycareError, InvalidError, NotFoundError
from daycare.base.limits import APPROVAL_S, GRANT_MAX_S
from daycare.base.messages import Envelope, EnvelopeKind, Origin
from daycare.base.times import local_time
from daycare.store.records_approvals import (
    APPROVALS_SENDER,
    GRANTABLE,
    SEEN_MIN_CHARS,
    Action,
    Approval,
    ApprovalState,
    CallAction,
    DocumentAction,
    Grant,
    NewApproval,
    Revision,
    Show,
    content_hash,
)
from daycare.store.sqlite import approval_room, inbox, letters, outbox
from daycare.store.sqlite import approval_rows as rows
from daycare.store.sqlite.ports import DocumentPort
from daycare.store.sqlite.sql import marks
from daycare.store.sqlite.writer import Tx, Writer

_DONE: Final = (ApprovalState.APPROVED, ApprovalState.EDITED)


class Approvals:
    """Requests of agents for something that a person decides.

    `show` returns the message that shows a request to who decides; it is queued with the change, all or nothing.
    Whoever asked is told of an end by a message to that incarnation of the agent, once, in the transaction of the end;
    a dead one is not, which is counted. `NotFoundError` APPROVAL_UNKNOWN for a number that there is not.
    """

    def __init__(self, writer: Writer, reader: apsw.Connection) -> None:
        self._write = writer.write
        self._reader = reader

    async def request(self, new: NewApproval, show: Show) -> tuple[Approval, bool]:
        """Make a request, and return it with whether it is new.

        Idempotent on `new.key`: a repeat returns the first and shows nothing. Where the decider granted this kind to
        the agent, an unflagged one is approved and done at once, and not shown. Raises `ConflictError`
        DOCUMENT_CHANGED if the base is another by now, `BusyError` APPROVALS_OPEN at `APPROVALS_OPEN_MAX` pending
        ones of the agent and its helpers together, APPROVALS_HOURLY past `APPROVALS_PER_HOUR`.
        """
        return await self._write(lambda tx: _request(tx, new, show), len(new.action.text))

    async def check_room(self, path: str, now_ms: int) -> None:
        """Raise `BusyError` as `request` would, where work for a request that cannot be made is to be spared."""
        approval_room.check(self._reader, approval_room.root_of(path), now_ms)

    async def decide(
        self, no: int, verdict: Literal["approve", "reject"], *, seen: str, by: str, why: str = ""
    ) -> tuple[Approval, bool]:
        """Decide a request, do what it asks for, and tell the agent, all or nothing; return whether it was new.

        `seen` is the content hash that the decider saw, its first 8 characters at least; `by` is their connector key.
        A repeat of the very same decision is no error. Raises `ConflictError` APPROVAL_DECIDED when it is decided
        already or has expired, APPROVAL_CHANGED when `seen` is of other content, APPROVAL_BASE when the document was
        changed meanwhile; and what writing a document may raise.
        """
        return await self._write(lambda tx: _decide(tx, no, verdict, seen, by, why))

    async def revise(self, no: int, revision: Revision, *, seen: str) -> Approval:
        """Give a pending request new content or a new base. What was seen before decides no more.

        `seen` is the whole content hash that it has now. Raises `ConflictError` as `decide`, and DOCUMENT_CHANGED.
        """
        return await self._write(lambda tx: _revise(tx, no, revision, seen), len(revision.action.text))

    async def outdate(self, no: int, *, seen: str, why: str) -> Approval:
        """End a pending request that cannot be done any more as stale. Raises `ConflictError` as `decide`."""

        def run(tx: Tx) -> Approval:
            it = _pending(tx, no, seen)
            text = f"Request {no} cannot be done any more ({_what(it)}): {why}. Nothing was changed."
            return end(tx, it, ApprovalState.STALE, "", why, text, EnvelopeKind.NOTICE)

        return await self._write(run)

    async def undo(self, no: int, *, by: str) -> tuple[Approval, bool]:
        """Take back what an approved request did to its document; idempotent; return whether it was new.

        Raises `ConflictError` APPROVAL_NOT_DONE for one that did nothing, DOCUMENT_CHANGED if there are newer versions.
        """
        return await self._write(lambda tx: _undo(tx, no, by))

    async def expire(self, limit: int = 100) -> list[Approval]:
        """End pending requests whose time is over; return them."""

        def run(tx: Tx) -> list[Approval]:
            # None waits for longer than requests do from now, whatever the clock said when it was made.
            longest = tx.now + int(APPROVAL_S * 1000)
            tx.run("UPDATE approvals SET expires_at = ?1 WHERE state = 'pending' AND expires_at > ?1", (longest,))
            over = "state = 'pending' AND expires_at <= ? ORDER BY no LIMIT ?"
            return [
                end(tx, it, ApprovalState.EXPIRED, "", "", f"{_about(it)} has expired: nobody decided.")
                for it in rows.APPROVALS.find(tx.db, over, (tx.now, limit))
            ]

        return await self._write(run)

    async def get(self, no: int) -> Approval | None:
        """Return a request."""
        return rows.get(self._reader, no)

    async def by_key(self, key: str) -> Approval | None:
        """Return the request that a call made."""
        return rows.by_key(self._reader, key)

    async def find(
        self,
        *,
        decider: str | None = None,
        states: Sequence[ApprovalState] = (),
        before: int | None = None,
        limit: int = 100,
    ) -> list[Approval]:
        """Return requests, the newest first, beginning below number `before`."""
        among = f"AND state IN ({marks(states)})" if states else ""
        mine = "" if decider is None else "AND decider = ?"
        return rows.APPROVALS.find(
            self._reader,
            f"no < ? {mine} {among} ORDER BY no DESC LIMIT ?",
            (
                2**62 if before is None else before,
                *(() if decider is None else (decider,)),
                *map(str, states),
                limit,
            ),
        )

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

    async def grants(self, agent_id: str | None = None) -> list[Grant]:
        """Return what was granted; `until` tells whether that is over."""
        found = self._reader.execute(
            "SELECT agent_id, kind, user, by, until FROM approval_grants WHERE ? IS NULL OR agent_id = ?"
            " ORDER BY agent_id, kind LIMIT 1000",
            (agent_id, agent_id),
        )
        return [rows.grant(row) for row in found]


# -- in the transaction ------------------------------------------------------------------------------------------------


def _request(tx: Tx, new: NewApproval, show: Show) -> tuple[Approval, bool]:
    if first := rows.by_key(tx.db, new.key):
        return first, False
    if tx.one("SELECT 1 FROM agents WHERE id = ? AND state = 'dead'", (new.agent_id,)) is not None:
        raise ConflictError("AGENT_DEAD", f"asking for approval of {new.path}: it has ended", hint="daycare agents")
    _same_base(tx, new.action, new.base_hash)
    root = approval_room.root_of(new.path)
    approval_room.check(tx.db, root, tx.now)
    it = Approval(
        **asdict(new),
        no=rows.next_no(tx),
        content_hash=content_hash(new, new.agent_id, new.kind),
        created_at=tx.now,
        expires_at=tx.now + int(APPROVAL_S * 1000),
    )
    granted = _granted(tx, it)
    if granted is not None:
        version = _do(tx, it, granted)
        it = replace(it, state=ApprovalState.APPROVED, decided_at=tx.now, decided_by=granted, version=version)
    rows.insert(tx, it, root)
    if granted is None:
        letter = show(it)
        if letter is not None:
            via = letter.agent
            outbox.insert(tx, (via.id, via.path, via.user, str(via.origin)), None, it.trace, letter.reply)
    return it, True


def _decide(
    tx: Tx, no: int, verdict: Literal["approve", "reject"], seen: str, by: str, why: str
) -> tuple[Approval, bool]:
    it = _must(tx, no)
    if _is_repeat(it, verdict, seen, by, why):
        return it, False
    it = _pending(tx, no, seen)
    because = f" They say: {why}" if why else ""
    if verdict == "reject":
        text = f"{_about(it)} was rejected, and nothing was changed.{because or ' No reason was given.'}"
        return end(tx, it, ApprovalState.REJECTED, by, why, text, EnvelopeKind.NOTICE), True
    if _there(tx, it.action) != it.base_hash:
        raise ConflictError("APPROVAL_BASE", f"approving request {no}: {it.action.place} was changed meanwhile")
    if isinstance(it.action, CallAction):
        return _let_call(tx, it, it.action, by, why), True
    version = _do(tx, it, by)
    now = f"it is at version {version} now" if version else "its text was there already"
    if it.edited_by:
        how = f"was approved with a text that the user wrote; {now}. Read it before you build on it."
    else:
        how = f"was approved and carried out; {now}."
    state = ApprovalState.EDITED if it.edited_by else ApprovalState.APPROVED
    return end(tx, it, state, by, why, f"{_about(it)} {how}{because}", EnvelopeKind.NOTICE, version), True


def _let_call(tx: Tx, it: Approval, call: CallAction, by: str, why: str) -> Approval:
    """Let the agent make an approved call: the turn that this message begins makes it, and no other."""
    if tx.one("SELECT 1 FROM agents WHERE id = ? AND state = 'dead'", (it.agent_id,)) is not None:
        return end(tx, it, ApprovalState.STALE, by, "the agent that asked for it has ended", "")
    text = f"{_about(it)} was approved; the call is made now.{why and f' They say: {why}'}"
    return end(tx, it, ApprovalState.APPROVED, by, why, text, EnvelopeKind.NOTICE, cause=Approved(it.no))


def _is_repeat(it: Approval, verdict: str, seen: str, by: str, why: str) -> bool:
    """After a crash a command runs again: the one who decided is told the same once more."""
    done = _DONE if verdict == "approve" else (ApprovalState.REJECTED,)
    return it.state in done and (it.decided_by, it.why) == (by, why) and _matches(it, seen)


def _revise(tx: Tx, no: int, revision: Revision, seen: str) -> Approval:
    it = _pending(tx, no, seen)
    _same_base(tx, revision.action, revision.base_hash)
    new = replace(
        it,
        action=revision.action,
        base_hash=revision.base_hash,
        salt=revision.salt,
        findings=revision.findings,
        content_hash=content_hash(revision, it.agent_id, it.kind),
        revision=it.revision + 1,
        edited_by=revision.edited_by or it.edited_by,
    )
    rows.save(tx, new)
    return new


def _undo(tx: Tx, no: int, by: str) -> tuple[Approval, bool]:
    it = _must(tx, no)
    if it.undone is not None:
        return it, False
    if it.state not in _DONE or it.version is None:
        raise ConflictError("APPROVAL_NOT_DONE", f"undoing request {no}: it changed nothing", hint="daycare approvals")
    assert isinstance(it.action, DocumentAction)  # what a call does has no version
    new = NewVersion(
        place=it.action.place,
        user=it.user,
        by=Attribution(origin=Origin.PERSON, author=by, reason=f"request {no} was undone"),
        key=f"approval:{no}:undone",
    )
    try:
        undone = tx.of(DocumentPort).undo(tx, new, it.version)
    except ConflictError as changed:
        what = f"undoing request {no}: {it.action.place.name} was changed since"
        raise ConflictError(changed.code, what, hint="take back the newer change first") from changed
    it = replace(it, undone=undone.version)
    rows.save(tx, it)
    text = f"{_about(it)} was undone: {it.action.name} is as it was before."
    _tell(tx, it, text, EnvelopeKind.NOTE, ":undone")
    return it, True


def _do(tx: Tx, it: Approval, by: str) -> int | None:
    """Carry a request out; return the version that came of it, None if nothing had to change."""
    action = it.action
    assert isinstance(action, DocumentAction)  # a call is the agent's to make, and none is granted
    words = Attribution(
        origin=Origin.PERSON if it.edited_by else Origin.AGENT,
        author=it.edited_by or it.path,
        approver=by,
        reason=it.reason,
        provenance=it.provenance,
    )
    new = NewVersion(
        place=action.place,
        user=it.user,
        by=words,
        text=None if action.verb == "delete" else action.text,
        base_hash=it.base_hash,
        key=f"approval:{it.no}",
    )
    put = tx.of(DocumentPort)
    written = put.append(tx, new, action.head, action.section) if action.verb == "append" else put.write(tx, new)
    return written.version if written.hash != it.base_hash else None


def end(
    tx: Tx,
    it: Approval,
    state: ApprovalState,
    by: str,
    why: str,
    text: str,
    kind: EnvelopeKind = EnvelopeKind.NOTE,
    version: int | None = None,
    cause: Approved | None = None,
) -> Approval:
    """Let a pending request end, and tell the agent."""
    ended = replace(it, state=state, decided_at=tx.now, decided_by=by, why=why, version=version)
    rows.save(tx, ended)
    _tell(tx, ended, text, kind, cause=cause)
    return ended


def _tell(tx: Tx, it: Approval, text: str, kind: EnvelopeKind, mark: str = "", cause: Approved | None = None) -> None:
    """Post to the agent that asked; one that is dead is not told, an inbox that is full gives a dead letter."""
    envelope = Envelope(
        to=it.path,
        agent_id=it.agent_id,
        user=it.user,
        origin=Origin.SYSTEM,
        sender=APPROVALS_SENDER,
        key=f"approval:{it.no}{mark}",
        text=text,
        trace=it.trace,
        kind=kind,
        cause=cause,
    )
    try:
        inbox.post(tx, envelope)
    except DaycareError as refused:
        if refused.code == "AGENT_DEAD":
            tx.commit.unheard += 1
        else:
            letters.bury(tx, "post", it.no, it.agent_id, envelope, refused.code, refused.message, 1)


# -- what is there -----------------------------------------------------------------------------------------------------


def _there(tx: Tx, action: Action) -> str:
    found = tx.of(DocumentPort).newest(tx.db, action.place) if action.place is not None else None
    return found.hash if found is not None else digest(None)


def _same_base(tx: Tx, action: Action, base_hash: str) -> None:
    if _there(tx, action) != base_hash:
        raise ConflictError("DOCUMENT_CHANGED", f"asking for a change of {action.name}: it was changed meanwhile")


def _granted(tx: Tx, it: Approval) -> str | None:
    """Return by whom a request is approved at once; flagged ones and those that another decides are not."""
    if not it.grantable:
        return None
    row = tx.one(
        "SELECT by FROM approval_grants WHERE agent_id = ? AND kind = ? AND user = ? AND until > ? AND until <= ?",
        # One that seems to hold for longer than any does was given by a clock that was ahead.
        (it.agent_id, it.kind, it.decider, tx.now, tx.now + int(GRANT_MAX_S * 1000)),
    )
    return None if row is None else str(row[0])


def _pending(tx: Tx, no: int, seen: str) -> Approval:
    """Return a request that may be decided by who saw this content."""
    it = _must(tx, no)
    if it.state is not ApprovalState.PENDING:
        by = f" by {it.decided_by}" if it.decided_by else ""
        at = f"{local_time(it.decided_at or 0, UTC):%Y-%m-%d %H:%M} UTC"
        raise ConflictError(
            "APPROVAL_DECIDED",
            f"deciding request {no}: it is {it.state} already{by}, since {at}",
            hint=f"daycare approvals show {no}",
        )
    if it.expires_at <= tx.now:
        raise ConflictError("APPROVAL_DECIDED", f"deciding request {no}: its time is over", hint="daycare approvals")
    if not _matches(it, seen):
        raise ConflictError(
            "APPROVAL_CHANGED",
            f"deciding request {no}: what you saw is not what it says now",
            hint=f"look at it again: daycare approvals show {no}",
        )
    return it


def _matches(it: Approval, seen: str) -> bool:
    return re.fullmatch(rf"[0-9a-f]{{{SEEN_MIN_CHARS},64}}", seen) is not None and it.content_hash.startswith(seen)


def _must(tx: Tx, no: int) -> Approval:
    it = rows.get(tx.db, no)
    if it is None:
        raise NotFoundError("APPROVAL_UNKNOWN", f"looking up request {no}: there is none", hint="daycare approvals")
    return it


def _about(it: Approval) -> str:
    return f"Request {it.no} ({_what(it)})"


def _what(it: Approval) -> str:
    return f"{it.action.verb} {it.action.name}"
