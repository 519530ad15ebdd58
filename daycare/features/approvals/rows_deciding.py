"""What happens to a request for approval, as the open transaction sees it: made, decided, revised, ended, undone."""

import re
from datetime import UTC
from typing import Final, Literal

from msgspec.structs import asdict, replace

from daycare.base.causes import Approved
from daycare.base.consent import APPROVALS_SENDER
from daycare.base.documents import Attribution, NewVersion, digest
from daycare.base.errors import ConflictError, DaycareError, NotFoundError
from daycare.base.limits import APPROVAL_S, GRANT_MAX_S
from daycare.base.messages import Envelope, EnvelopeKind, Origin
from daycare.base.times import local_time
from daycare.features.approvals import rows_grants, rows_room
from daycare.features.approvals import rows_requests as rows
from daycare.features.approvals.call_patterns import PatternWish
from daycare.features.approvals.questions import QuestionAction
from daycare.features.approvals.records import (
    SEEN_MIN_CHARS,
    Action,
    Approval,
    ApprovalState,
    CallAction,
    DocumentAction,
    NewApproval,
    Revision,
    Show,
    content_hash,
)
from daycare.store.sqlite import inbox, letters, outbox
from daycare.store.sqlite.ports import DocumentPort
from daycare.store.sqlite.writer import Tx

_DONE: Final = (ApprovalState.APPROVED, ApprovalState.EDITED)


def request(tx: Tx, new: NewApproval, show: Show) -> tuple[Approval, bool]:
    """Make a request, and return it with whether it is new."""
    if first := rows.by_key(tx.db, new.key):
        return first, False
    if tx.one("SELECT 1 FROM agents WHERE id = ? AND state = 'dead'", (new.agent_id,)) is not None:
        raise ConflictError("AGENT_DEAD", f"asking for approval of {new.path}: it has ended", hint="daycare agents")
    _same_base(tx, new.action, new.base_hash)
    root = rows_room.root_of(new.path)
    rows_room.check(tx.db, root, tx.now)
    it = Approval(
        **asdict(new),
        no=rows.next_no(tx),
        content_hash=content_hash(new, new.agent_id, new.kind),
        created_at=tx.now,
        expires_at=tx.now + int(1000 * (new.action.within_s if isinstance(new.action, QuestionAction) else APPROVAL_S)),
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


def decide(
    tx: Tx,
    no: int,
    verdict: Literal["approve", "reject"],
    seen: str,
    by: str,
    why: str,
    *,
    once: bool = False,
    more: PatternWish | None = None,
    answered: QuestionAction | None = None,
) -> tuple[Approval, bool]:
    """Decide a request, do what it asks for, grant `more`, and tell the agent; return whether it was new.

    `answered` is a question with its answer, which is for the server that asked: it is not told.
    """
    it = _must(tx, no)
    if not once and _is_repeat(it, verdict, seen, by, why) and answered in (None, it.action):
        return it, False
    it = _pending(tx, no, seen)
    if answered is not None:
        state = ApprovalState.APPROVED if verdict == "approve" else ApprovalState.REJECTED
        return end(tx, replace(it, action=answered), state, by, why, ""), True
    because = f" They say: {why}" if why else ""
    if verdict == "reject":
        text = f"{_about(it)} was rejected, and nothing was changed.{because or ' No reason was given.'}"
        return end(tx, it, ApprovalState.REJECTED, by, why, text, EnvelopeKind.NOTICE), True
    if _there(tx, it.action) != it.base_hash:
        raise ConflictError("APPROVAL_BASE", f"approving request {no}: {it.action.place} was changed meanwhile")
    if more is not None:
        rows_grants.add(tx, it, more, by)
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


def revise(tx: Tx, no: int, revision: Revision, seen: str) -> Approval:
    """Give a pending request new content or a new base."""
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


def outdate(tx: Tx, no: int, seen: str, why: str) -> Approval:
    """End a pending request that cannot be done any more."""
    it = _pending(tx, no, seen)
    text = f"Request {no} cannot be done any more ({_what(it)}): {why}. Nothing was changed."
    return end(tx, it, ApprovalState.STALE, "", why, text, EnvelopeKind.NOTICE)


def expire(tx: Tx, it: Approval) -> Approval:
    """End a pending request whose time is over."""
    text = f"{_about(it)} has expired: nobody decided in time, which is a no. Nothing was done."
    return end(tx, it, ApprovalState.EXPIRED, "", "", text)


def undo(tx: Tx, no: int, by: str) -> tuple[Approval, bool]:
    """Take back what an approved request did to its document; return whether it was new."""
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
    """Let a pending request end, and tell the agent; of a question it hears by the result of the call."""
    ended = replace(it, state=state, decided_at=tx.now, decided_by=by, why=why, version=version)
    rows.save(tx, ended)
    if not isinstance(it.action, QuestionAction):
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
