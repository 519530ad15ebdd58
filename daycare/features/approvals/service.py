"""The approvals service: agents ask for what only a person may decide, and the decision is carried out.

A request is committed together with the message that shows it, and decided by one person through an authenticated
connector, once, on exactly the content that they saw. What a model says, or a text that somebody forwards, decides
nothing: a decision needs an `Approver`, which only the place that authenticated somebody makes.
"""

import hashlib
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Literal

import msgspec
import trio
from msgspec.structs import replace

from daycare.base.clock import Clock
from daycare.base.documents import Attribution, Place, check_attribution, digest
from daycare.base.errors import BusyError, ConflictError, DaycareError, InvalidError, NotFoundError
from daycare.base.events import ApprovalDecided, ApprovalRequested, ApprovalUsed
from daycare.base.limits import APPROVALS_PAGE, DOCUMENT_REASON_MAX_CHARS, GRANT_MAX_S
from daycare.base.messages import Origin
from daycare.features.approvals.approvers import Approvers
from daycare.features.approvals.call_patterns import PatternGrant, PatternWish
from daycare.features.approvals.display import Display, Reach
from daycare.features.approvals.questions import QuestionAction
from daycare.features.approvals.records import (
    GRANTABLE,
    SEEN_MIN_CHARS,
    Action,
    Approval,
    ApprovalFinding,
    ApprovalState,
    CallAction,
    DocumentAction,
    Grant,
    NewApproval,
    Revision,
    is_suspicious,
    measured,
)
from daycare.features.approvals.rows import ApprovalRows
from daycare.features.approvals.views import ApprovalView, name_of, worst_first
from daycare.features.memory.documents.rows import DocumentRows
from daycare.observe.about import about
from daycare.observe.bus import Bus
from daycare.store.records import Agent, Reply
from daycare.store.sqlite.store import Store

APPROVAL_FINDINGS_MAX: Final = 32  # kept of one request
APPROVAL_TRIES_MAX: Final = 3  # to make a request of a document that others change meanwhile

Scan = Callable[[str], Awaitable[Sequence[ApprovalFinding]]]
Notify = Callable[..., Awaitable[None]]
Verdict = Literal["approve", "edit", "reject", "dismiss"]


class Approver(msgspec.Struct, frozen=True):
    """Somebody whom a connector has authenticated: their user id, and the connector key they came by."""

    user: str
    key: str


class ApprovalAsk(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool call asks for. A repeat of the call, so of `turn` and `step` (and `mark`), finds the first request.

    `provenance`: the way its words came, outermost source first, in words for a person.
    """

    kind: str
    action: Action
    turn: int
    step: int
    reason: str = ""
    provenance: tuple[str, ...] = ()
    trace: str = ""
    session: int = 0
    mark: str = ""


async def _nothing(text: str) -> Sequence[ApprovalFinding]:
    """Find nothing, as long as there is no scanner."""
    return ()


class ApprovalsService:
    """Takes requests and decisions.

    `owner` is the operator. `reach(user, preferred)` returns in which agent's conversation, and over which connector, a
    user is reached now; `notify(user, text, topic=, path=)` tells them something in a digest. `scan` finds what is
    suspicious in a text.
    """

    def __init__(
        self,
        store: Store,
        bus: Bus,
        clock: Clock,
        owner: str,
        reach: Reach,
        notify: Notify,
        *,
        scan: Scan = _nothing,
    ) -> None:
        self._store = store
        self._rows = store.of(ApprovalRows)
        self._bus = bus
        self._clock = clock
        self._approvers = Approvers(store, owner)
        self._notify = notify
        self.scan = scan
        self._display = Display(store, clock, reach)
        self._ends: dict[int, trio.Event] = {}  # of those that somebody waits for

    # -- asking --------------------------------------------------------------------------------------------------------

    async def request(self, agent: Agent, ask: ApprovalAsk) -> Approval:
        """Ask for something; committed when this returns, together with the message that shows it.

        It is pending, or approved and done already where that was granted. Raises what the model should read:
        `InvalidError` for what cannot be kept, `ConflictError` APPROVAL_POINTLESS, `BusyError` past the bounds.
        """
        key = f"{agent.id}:{ask.turn}:{ask.step}{ask.mark and f':{ask.mark}'}"
        first = await self._rows.by_key(key)
        if first is not None:
            return first
        check_attribution(
            Attribution(origin=Origin.AGENT, author=agent.path, reason=ask.reason, provenance=ask.provenance),
            ask.action.name,
        )
        await self._approvers.check_place(agent, ask.action)
        decider = await self._approvers.of(agent, ask.action)
        try:
            await self._rows.check_room(agent.path, self._clock.now_ms())
            it, is_new = await self._made(agent, ask, key, decider)
        except BusyError as full:
            if full.code in ("APPROVALS_OPEN", "APPROVALS_HOURLY"):
                told = f"{agent.path} may ask for nothing more now: {full.message}. /approvals shows what waits."
                await self._notify(decider, told, topic=f"approvals:{agent.id}", path=agent.path)
            raise
        if is_new:
            self._publish(it, it.state)
        return it

    async def _made(self, agent: Agent, ask: ApprovalAsk, key: str, decider: str) -> tuple[Approval, bool]:
        findings = await self._scanned(ask.action)
        for number in range(APPROVAL_TRIES_MAX):
            base_hash, old, after = await self._measured(ask.action)
            new = NewApproval(
                key=key,
                kind=ask.kind,
                agent_id=agent.id,
                path=agent.path,
                user=agent.user,
                decider=decider,
                action=ask.action,
                base_hash=base_hash,
                salt=_salt(),
                reason=ask.reason,
                provenance=ask.provenance,
                findings=findings,
                trace=ask.trace,
                session=ask.session,
            )
            show = await self._display.letter(agent, decider, ask.action, old, after, new.salt)
            try:
                return await self._rows.request(new, show)
            except ConflictError as changed:
                if changed.code != "DOCUMENT_CHANGED" or number == APPROVAL_TRIES_MAX - 1:
                    raise
        raise AssertionError("the last try returns or raises")

    async def ended(self, no: int) -> Approval:
        """Wait until a request is decided or over, and return it; one that ends with its user is not heard of."""
        event = self._ends.setdefault(no, trio.Event())
        it = await self.get(no)
        if it.state is ApprovalState.PENDING:
            await event.wait()
            return await self.get(no)
        self._ends.pop(no, None)
        return it

    async def withdraw(self, no: int, why: str) -> Approval:
        """End a request that nobody needs decided any more, unless it was decided; return it."""
        it = await self.get(no)
        try:
            it = await self._rows.outdate(no, seen=it.content_hash, why=why)
        except ConflictError:
            await self.expire()
            return await self.get(no)
        self._publish(it, it.state)
        return it

    async def withdraw_all(self, kind: str, why: str) -> None:
        """End all requests of a kind. Those of others are not read: one that is damaged must not be in the way."""
        before: int | None = None
        states = [ApprovalState.PENDING]
        while page := await self._rows.find(states=states, kind=kind, before=before, limit=APPROVALS_PAGE):
            before = page[-1].no
            for it in page:
                await self.withdraw(it.no, why)

    # -- looking -------------------------------------------------------------------------------------------------------

    async def open(self, decider: str) -> list[Approval]:
        """Return what waits for a person's decision, the oldest first."""
        found = await self._rows.find(decider=decider, states=[ApprovalState.PENDING], limit=APPROVALS_PAGE)
        now_ms = self._clock.now_ms()
        return [it for it in reversed(found) if it.expires_at > now_ms]

    async def get(self, no: int) -> Approval:
        """Return a request. Raises `NotFoundError`."""
        it = await self._rows.get(no)
        if it is None:
            raise unknown(no)
        return it

    async def show(self, no: int) -> ApprovalView:
        """Return a request with what it would change now, or what it has changed. Raises `NotFoundError`."""
        return await self.view(await self.get(no))

    async def view(self, it: Approval) -> ApprovalView:
        """Return what `show` does of a request that is at hand."""
        if it.state is ApprovalState.PENDING:
            old = await self._there(it.action)
            new = it.action.after(old)
            warnings = await self._display.warnings(it.action, old, new)
            return ApprovalView(approval=it, old=old, new=new, warnings=warnings)
        place = it.action.place
        if it.version is None or place is None:
            return ApprovalView(approval=it, old=None, new=it.action.after(None))
        before = await self._store.of(DocumentRows).before(place, it.version)
        after = await self._store.of(DocumentRows).at(place, it.version)
        return ApprovalView(approval=it, old=before.text if before else None, new=after.text if after else None)

    async def reply(self, no: int, connector: str, user: str) -> Reply:
        """Return the message that shows a pending request in a user's conversation over a connector."""
        view = await self.show(no)
        it = view.approval
        return (await self._display.maker(it.action, connector, user, view.old, view.new, it.salt))(it)

    async def pending_reply_to(self, by: str, connector: str, user: str, receipt: str) -> int | None:
        """Return the request that a person answers who replies to a message: a pending one that is theirs to decide."""
        it = await self._rows.shown_by(by, connector, user, receipt)
        return None if it is None or it.action.verb in ("delete", "call") else it.no  # a question is answered so

    async def seen_for_sure(self, it: Approval, user: str) -> bool:
        """Return whether who names a request by its number alone, in a user's conversation, can mean nothing but this.

        It never was different, its message arrived there, and nothing about it is suspicious.
        """
        return it.revision == 1 and not it.flagged and await self._rows.was_shown(it.no, it.content_hash, user)

    async def batch(self, kind: str, by: Approver, user: str) -> list[Approval]:
        """Return what a person may approve together in a user's conversation: unflagged, and shown there as it is."""
        return [
            it
            for it in await self.open(by.user)
            if it.kind == kind and it.action.verb != "answer" and not it.flagged
            if await self._rows.was_shown(it.no, it.content_hash, user)
        ]

    async def outcome(self, it: Approval, *, already: bool = False) -> str:
        """Return in a few words what was decided, by whom and when."""
        return await self._display.outcome(it, already=already)

    async def check(self, it: Approval, by: Approver) -> None:
        """Raise `ForbiddenError` APPROVAL_OTHERS unless a person may decide a request."""
        await self._approvers.check(it.decider, by.user, f"deciding request {it.no}")

    # -- deciding ------------------------------------------------------------------------------------------------------

    async def decide(
        self,
        no: int,
        verdict: Verdict,
        by: Approver,
        seen: str,
        *,
        text: str = "",
        why: str = "",
        whole: bool = False,
        once: bool = False,
        more: PatternWish | None = None,
        fields: Mapping[str, object] | None = None,
    ) -> Approval:
        """Approve, edit or reject a request as `seen`, the content hash or its beginning.

        A question is answered by an approval with its `fields`, declined by a rejection, and may be dismissed, which
        is neither; `InvalidError` ANSWER_WRONG for what does not fit.

        An edit is new content: the request is pending still, to be shown and decided again; with `whole` it is all of
        the document's, also where something was to be appended. A repeat is an error only with `once`. Where the
        document was changed meanwhile nothing is written: the request builds on what is there now, under a new content
        hash, and `ConflictError` APPROVAL_CHANGED says so; whoever shows it shows it again. `more` are calls that are
        approved with it in advance, as they were shown; `InvalidError` GRANT_REFUSED where they cannot be.
        """
        it = await self._mine(no, by)
        answered = it.action.answered(no, verdict, fields) if isinstance(it.action, QuestionAction) else None
        if verdict == "edit":
            return await self._edit(it, by, seen, text, whole=whole)
        try:
            decided, is_new = await self._rows.decide(
                no,
                "approve" if verdict == "approve" else "reject",
                seen=seen,
                by=by.key,
                why=why[:DOCUMENT_REASON_MAX_CHARS],
                once=once,
                more=more,
                answered=answered,
            )
        except ConflictError as error:
            if error.code != "APPROVAL_BASE":
                raise
            raise await self._rebase(it) from error
        if is_new:
            self._publish(decided, decided.state, by.key)
        return decided

    async def approve_batch(
        self, kind: str, by: Approver, user: str, seen: str
    ) -> list[tuple[Approval, DaycareError | None]]:
        """Approve the whole `batch`; `seen` is `batch_hash` of just these."""
        batch = await self.batch(kind, by, user)
        if not batch or len(seen) < SEEN_MIN_CHARS or not batch_hash(batch).startswith(seen):
            raise ConflictError(
                "APPROVAL_CHANGED", f"approving all of {kind}: these are not the ones you saw", hint="look again"
            )
        return await self.approve_each([(it.no, it.content_hash) for it in batch], by)

    async def approve_each(
        self, items: Sequence[tuple[int, str]], by: Approver
    ) -> list[tuple[Approval, DaycareError | None]]:
        """Approve several as seen, (number, hash), each by itself: what cannot be done comes with why.

        What is added to a document that nothing but this very yes has changed meanwhile is added all the same. Raises
        `InvalidError` BATCH_REFUSED if they are of several kinds, or one is flagged.
        """
        found = [await self.get(no) for no, _ in items]
        flagged = [it.no for it in found if it.flagged]
        if flagged or len({it.kind for it in found}) > 1 or any(it.action.verb == "answer" for it in found):
            why = f"request {flagged[0]} is flagged" if flagged else "they are of several kinds, or questions"
            raise InvalidError(
                "BATCH_REFUSED", f"approving {len(found)} requests together: {why}", hint="approve them one by one"
            )
        done: list[tuple[Approval, DaycareError | None]] = []
        written: dict[Place, str] = {}  # the hashes that these have led to
        for it, (_, seen) in zip(found, items, strict=True):
            place = it.action.place
            try:
                decided = await self._one_of_several(it, by, seen, written.get(place) if place else None)
                if place is not None and decided.version is not None:
                    version = await self._store.of(DocumentRows).at(place, decided.version)
                    written[place] = version.version.hash if version is not None else ""
                done.append((decided, None))
            except DaycareError as error:
                done.append((it, error))
        return done

    async def reject_each(
        self, items: Sequence[tuple[int, str]], by: Approver, why: str
    ) -> list[tuple[Approval, DaycareError | None]]:
        """Reject several as seen, (number, hash), flagged ones and of any kind: what cannot be done comes with why."""
        done: list[tuple[Approval, DaycareError | None]] = []
        for it, seen in [(await self.get(no), seen) for no, seen in items]:
            try:
                done.append((await self.decide(it.no, "reject", by, seen, why=why), None))
            except DaycareError as error:
                done.append((it, error))
        return done

    async def _one_of_several(self, it: Approval, by: Approver, seen: str, written: str | None) -> Approval:
        try:
            return await self.decide(it.no, "approve", by, seen)
        except ConflictError as error:
            if error.code != "APPROVAL_CHANGED" or it.action.verb != "append" or not it.content_hash.startswith(seen):
                raise
            now = await self.get(it.no)
            if (now.action, now.base_hash) != (it.action, written):
                raise
        return await self.decide(it.no, "approve", by, now.content_hash)

    async def undo(self, no: int, by: Approver) -> Approval:
        """Take back what an approved request did to its document, by a new version of that."""
        await self._mine(no, by)
        undone, is_new = await self._rows.undo(no, by=by.key)
        if is_new:
            self._publish(undone, "undone", by.key)
        return undone

    async def auto(self, agent: Agent, kind: str, hours: float, by: Approver) -> Grant:
        """Let what an agent asks for of one kind be approved at once for a while, at most a day; 0 ends it."""
        if kind not in GRANTABLE:
            raise InvalidError("GRANT_REFUSED", f"granting {kind} to {agent.path}: each of these is asked for")
        if not 0 <= hours <= GRANT_MAX_S / 3600:
            raise InvalidError("GRANT_REFUSED", f"granting for {hours:g} h: at most {GRANT_MAX_S / 3600:g} h are given")
        decider = await self._approvers.of(agent)
        await self._approvers.check(decider, by.user, f"granting something to {agent.path}")
        if agent.user != decider:
            raise InvalidError("GRANT_REFUSED", f"granting something to {agent.path}: a group's requests are asked for")
        until = self._clock.now_ms() + round(hours * 3_600_000)
        grant = Grant(agent_id=agent.id, kind=kind, user=decider, by=by.key, until=until)
        await self._rows.grant(grant)
        return grant

    async def is_granted(self, agent: Agent, action: CallAction, session: int) -> bool:
        """Return whether a call may be made without asking: a person has approved such, and nothing is suspicious."""
        found = [it for it in await self._rows.call_grants(agent.id) if it.covers(action, session)]
        if not found or found[0].user != await self._approvers.of(agent) or is_suspicious(await self._scanned(action)):
            return False
        self._bus.publish(
            ApprovalUsed(
                **about(self._clock, agent),
                grant=found[0].no,
                what=str(found[0].pattern),
            )
        )
        return True

    async def granted(self, user: str | None) -> list[PatternGrant]:
        """Return the calls that a person, or anybody, has approved in advance."""
        return [it for it in await self._rows.call_grants() if user in (None, it.user)]

    async def revoke(self, no: int, by: Approver) -> PatternGrant:
        """Take back calls that were approved in advance: from now on each is asked for. Raises `NotFoundError`."""
        found = next((it for it in await self._rows.call_grants() if it.no == no), None)
        if found is None:
            raise NotFoundError("GRANT_UNKNOWN", f"taking back {no}: there is no such grant", hint="daycare approvals")
        await self._approvers.check(found.user, by.user, f"taking back {no}")
        await self._rows.revoke(no)
        return found

    async def expire(self) -> int:
        """End requests whose time is over, a bounded number; return how many."""
        ended = await self._rows.expire(APPROVALS_PAGE)
        for it in ended:
            self._publish(it, it.state)
        return len(ended)

    async def _edit(self, it: Approval, by: Approver, seen: str, text: str, *, whole: bool) -> Approval:
        if it.action.verb == "delete" or not isinstance(it.action, DocumentAction):
            what = {"delete": "a deletion", "call": "the use of a tool"}.get(it.action.verb, "a question")
            raise InvalidError("APPROVAL_NO_TEXT", f"editing request {it.no}: {what} has no text", hint="reject it")
        if not text.strip():
            raise InvalidError("APPROVAL_NO_TEXT", f"editing request {it.no}: there is no text", hint="say what it is")
        if seen and not (len(seen) >= SEEN_MIN_CHARS and it.content_hash.startswith(seen)):
            raise _changed(it.no, "what you saw is not what it says now")
        action = replace(it.action, text=text)
        if whole:
            action = DocumentAction(verb="write", place=it.action.place, text=text)
        return await self._revised(it, action, by.key)

    async def _rebase(self, it: Approval) -> ConflictError:
        """Let a request build on the document as it is now, or end it if that makes no sense any more."""
        what = f"{name_of(it)} was changed meanwhile, and nothing was written"
        try:
            await self._revised(it, it.action, "")
        except (InvalidError, ConflictError) as error:
            if isinstance(error, ConflictError) and error.code != "APPROVAL_POINTLESS":
                return error
            ended = await self._rows.outdate(it.no, seen=it.content_hash, why=error.message)
            self._publish(ended, ended.state)
            return ConflictError("APPROVAL_STALE", f"approving request {it.no}: {what}; it has ended: {error.message}")
        return _changed(it.no, f"{what}. Look at it again as it would be now")

    async def _revised(self, it: Approval, action: Action, edited_by: str) -> Approval:
        findings = await self._scanned(action) if edited_by else it.findings
        for number in range(APPROVAL_TRIES_MAX):
            base_hash, _, _ = await self._measured(action)
            revision = Revision(
                action=action, base_hash=base_hash, salt=_salt(), findings=findings, edited_by=edited_by
            )
            try:
                revised = await self._rows.revise(it.no, revision, seen=it.content_hash)
                break
            except ConflictError as changed:
                if changed.code != "DOCUMENT_CHANGED" or number == APPROVAL_TRIES_MAX - 1:
                    raise
        self._publish(revised, revised.state)
        return revised

    # -- what it takes -------------------------------------------------------------------------------------------------

    async def _measured(self, action: Action) -> tuple[str, str | None, str | None]:
        """Return a document's hash and text, and what its text would be."""
        old = await self._there(action)
        base = old if isinstance(action, DocumentAction) else None  # a call is bound by its arguments alone
        return digest(base), old, measured(action, old)

    async def _there(self, action: Action) -> str | None:
        if not isinstance(action, DocumentAction):
            return action.old if isinstance(action, CallAction) else None
        document = await self._store.of(DocumentRows).get(action.place)
        return document.text if document else None

    async def _scanned(self, action: Action) -> tuple[ApprovalFinding, ...]:
        if action.verb == "delete":
            return ()
        return tuple(worst_first(await self.scan(action.text))[:APPROVAL_FINDINGS_MAX])

    async def _mine(self, no: int, by: Approver) -> Approval:
        it = await self.get(no)
        await self.check(it, by)
        return it

    def _publish(self, it: Approval, state: str, by: str = "") -> None:
        now_ms = self._clock.now_ms()
        if it.state is not ApprovalState.PENDING and (event := self._ends.pop(it.no, None)) is not None:
            event.set()
        if state == ApprovalState.PENDING:
            self._bus.publish(
                ApprovalRequested(
                    at_ms=now_ms,
                    path=it.path,
                    user=it.user,
                    agent_id=it.agent_id,
                    trace=it.trace,
                    no=it.no,
                    kind=it.kind,
                    decider=it.decider,
                    what=f"{it.action.verb} {name_of(it)}",
                    revision=it.revision,
                    flagged=it.flagged,
                )
            )
            return
        self._bus.publish(
            ApprovalDecided(
                at_ms=now_ms,
                path=it.path,
                user=it.user,
                agent_id=it.agent_id,
                trace=it.trace,
                no=it.no,
                kind=it.kind,
                state=str(state),
                by=by or it.decided_by,
            )
        )


def batch_hash(batch: Sequence[Approval]) -> str:
    """Return the hash of a set of requests with their contents."""
    return hashlib.sha256("".join(f"{it.no}:{it.content_hash}\n" for it in batch).encode()).hexdigest()


def _changed(no: int, why: str) -> ConflictError:
    return ConflictError("APPROVAL_CHANGED", f"deciding request {no}: {why}", hint=f"daycare approvals show {no}")


def _salt() -> str:
    return secrets.token_hex(16)


def unknown(no: int) -> NotFoundError:
    """Return what is told of a request that there is not, or that is not for somebody to see."""
    return NotFoundError("APPROVAL_UNKNOWN", f"looking up request {no}: there is none", hint="daycare approvals")
