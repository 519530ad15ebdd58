"""Requests for approval on a WebSocket: what is pending is shown to those who may see it, and decided as it was shown.

The names are those of memory edits, which most requests are; a request to use a tool has the operation `call`.
"""

import re
from typing import Annotated, Any, Final, Literal

import msgspec

from daycare.api.callers import deciders
from daycare.api.sockets import ClientMessage, Heard, MessageId, Ok, ServerMessage, Socket, SocketPart
from daycare.base.clock import Clock
from daycare.base.errors import ConflictError, InvalidError, NotFoundError
from daycare.base.events import ApprovalDecided, ApprovalRequested
from daycare.base.limits import APPROVALS_PAGE, DOCUMENT_MAX_BYTES, DOCUMENT_REASON_MAX_CHARS
from daycare.features.approvals.call_patterns import PatternWish, pattern_of
from daycare.features.approvals.questions import FIELDS_MAX, AskedQuestion, QuestionAction
from daycare.features.approvals.records import SEEN_MIN_CHARS, Approval, ApprovalFinding, ApprovalState, CallAction
from daycare.features.approvals.routes import approver_of
from daycare.features.approvals.rows import ApprovalRows
from daycare.features.approvals.service import ApprovalsService
from daycare.features.approvals.views import worst_first
from daycare.observe.bus import Bus, Gap
from daycare.store.sqlite.store import Store

WS_APPROVALS_S: Final = 0.05  # within which requests are shown, and their ends

_HEARD: Final = frozenset({"approval.requested", "approval.decided"})
_ID: Final = re.compile(r"mem_([1-9]\d{0,17})")
_DONE: Final = (ApprovalState.APPROVED, ApprovalState.EDITED)


class SuspiciousFlag(msgspec.Struct, frozen=True, kw_only=True):
    """Something suspicious in a proposed text: `match` is the passage at `offset` (characters) of it.

    `kind` is what was found and `pattern` the rule that found it, which is not a regular expression.
    """

    pattern: str
    kind: str
    match: str
    offset: int
    description: str
    severity: Literal["warning", "danger"]


class MemoryEditRequest(ServerMessage, frozen=True, kw_only=True, tag="memory_edit_request"):
    """An agent asks for a change of a document at `path`, or, with `call`, for the use of the tool of that name.

    `current_content` is null where there is no document yet, `proposed_content` where it would be deleted. `agent` is
    the path of who asks, `decider` the user who decides, `seen` the hash of all that a decision binds, `expires_at` is
    in wall ms. `pattern` says which calls like it may be approved along with it, null where none may; `others`: after
    words of others, too. With `answer` an MCP server asks a `question`, and `path` is its name.
    """

    request_id: str
    tool_call_id: str
    path: str
    operation: Literal["write", "append", "delete", "call", "answer"]
    current_content: str | None
    proposed_content: str | None
    reason: str
    suspicious_flags: list[SuspiciousFlag]
    agent: str
    decider: str
    seen: str
    warnings: tuple[str, ...]
    expires_at: int
    pattern: str | None
    others: bool
    question: AskedQuestion | None


class MemoryEditPending(ServerMessage, frozen=True, kw_only=True, tag="memory_edit_pending"):
    """All that is pending was sent: these. Any other request that a client still shows was decided meanwhile."""

    request_ids: list[str]


class MemoryEditDecision(ClientMessage, frozen=True, kw_only=True, tag="memory_edit_decision"):
    """Decide a request as it was shown last on this socket, or as `seen`.

    `edited_content` is what the whole document, or with `write` and `append` its proposed content, is to be instead.
    A question is answered by approving it with `fields`, declined by rejecting it, or left unanswered (`dismiss`).
    Operators may decide for a `user`. `more`: calls like it, too, as its `pattern` says, in this session of the
    conversation or always.
    """

    request_id: Annotated[str, msgspec.Meta(max_length=64)]
    decision: Literal["approve", "reject", "edit", "dismiss"]
    edited_content: Annotated[str, msgspec.Meta(max_length=DOCUMENT_MAX_BYTES)] | None = None
    why: Annotated[str, msgspec.Meta(max_length=DOCUMENT_REASON_MAX_CHARS)] = ""
    seen: Annotated[str, msgspec.Meta(min_length=SEEN_MIN_CHARS, max_length=64)] | None = None
    more: Literal["session", "always"] | None = None
    fields: Annotated[dict[str, Any], msgspec.Meta(max_length=FIELDS_MAX)] | None = None
    user: MessageId | None = None


class MemoryEditComplete(ServerMessage, frozen=True, kw_only=True, tag="memory_edit_complete"):
    """A request has ended. `success` is whether it was approved and done; `state` says how it ended, and `by` whom.

    `version` is the document's that it led to.
    """

    request_id: str
    success: bool
    path: str
    state: str
    by: str
    why: str
    version: int | None


class DecidingOnSocket(SocketPart):
    """What one client is shown of requests, and decides."""

    def __init__(
        self, socket: Socket, service: ApprovalsService, store: Store, bus: Bus, clock: Clock, owner: str
    ) -> None:
        self._socket = socket
        self._service = service
        self._store = store
        self._rows = store.of(ApprovalRows)
        self._bus = bus
        self._clock = clock
        self._owner = owner
        self._shown: dict[int, str] = {}  # the content hashes that the client has seen last

    def messages(self) -> list[Heard]:
        """Return what it takes."""
        return [Heard(MemoryEditDecision, self.decide)]

    async def run(self) -> None:
        """Show what is pending and what comes, and how it ends."""
        async with self._bus.subscribe(types=_HEARD) as events:
            await self._show_pending()
            while await events.waited(WS_APPROVALS_S):
                while (item := events.take()) is not None:
                    event = item[1]
                    if isinstance(event, Gap):
                        await self._show_pending()
                    elif isinstance(event, ApprovalRequested):
                        await self._show(event.no)
                    elif isinstance(event, ApprovalDecided) and event.state != "undone":
                        await self._show_end(event.no)

    @deciders
    async def decide(self, wish: MemoryEditDecision) -> None:
        """Decide a request, once: what another has decided already is refused."""
        named = _ID.fullmatch(wish.request_id)
        it = None if named is None else await self._rows.get(int(named[1]))
        if it is None or not self._may_see(it):
            raise NotFoundError("APPROVAL_UNKNOWN", f"deciding {wish.request_id}: there is no such request")
        seen = wish.seen or self._shown.get(it.no)
        if seen is None and it.state is ApprovalState.PENDING:
            raise ConflictError("APPROVAL_UNSEEN", f"deciding {wish.request_id}: it was not shown on this socket yet")
        by = await approver_of(self._socket.caller, wish.user, self._store.people, self._owner)
        seen = seen or it.content_hash
        if wish.decision == "edit":
            if wish.edited_content is None:
                raise InvalidError("APPROVAL_NO_TEXT", f"editing {wish.request_id}: without edited_content")
            it = await self._service.decide(it.no, "edit", by, seen, text=wish.edited_content, whole=True)
            if it.flagged:
                raise ConflictError(
                    "APPROVAL_FLAGGED",
                    f"editing {wish.request_id}: the text is suspicious, and nothing was written; it is shown again",
                    hint="approve it as it is shown then",
                )
            seen = it.content_hash
        verdict = "approve" if wish.decision == "edit" else wish.decision
        more = None
        if wish.more is not None:
            if not isinstance(it.action, CallAction):
                raise InvalidError("GRANT_REFUSED", f"approving more than {wish.request_id}: it is no call of a tool")
            more = PatternWish(scope=wish.more, pattern=pattern_of(it.action), others=it.action.others)
        await self._service.decide(it.no, verdict, by, seen, why=wish.why, once=True, more=more, fields=wish.fields)
        await self._socket.send(Ok(id=wish.id or wish.request_id))

    def _may_see(self, it: Approval) -> bool:
        caller = self._socket.caller
        return not caller.own_only or (it.decider == caller.user and caller.within(it.path))

    async def _show_pending(self) -> None:
        """Show all that waits for a decision, the oldest first, and how what was shown before has ended."""
        for no in list(self._shown):
            await self._show_end(no)
        caller = self._socket.caller
        pending: list[int] = []
        page: list[Approval] | None = None
        while page is None or len(page) == APPROVALS_PAGE:
            page = await self._rows.find(
                decider=caller.user if caller.own_only else None,
                states=[ApprovalState.PENDING],
                before=page[-1].no if page else None,
                limit=APPROVALS_PAGE,
            )
            pending += [it.no for it in page if it.expires_at > self._clock.now_ms()]
        for no in reversed(pending):
            await self._show(no)
        await self._socket.send(MemoryEditPending(request_ids=[_id(no) for no in reversed(pending)]))

    async def _show(self, no: int) -> None:
        """Show a pending request, unless it was shown as it is."""
        try:
            view = await self._service.show(no)
        except NotFoundError:
            return  # its agent was purged meanwhile
        it = view.approval
        if it.state is not ApprovalState.PENDING or not self._may_see(it) or self._shown.get(no) == it.content_hash:
            return
        self._shown[no] = it.content_hash  # before: who has it may decide at once
        await self._socket.send(
            MemoryEditRequest(
                request_id=_id(no),
                tool_call_id=_call(it),
                path=it.action.name,
                operation=it.action.verb,
                current_content=view.old,
                proposed_content=view.new,
                reason=it.reason,
                suspicious_flags=[_flag(each) for each in worst_first(it.findings)],
                agent=it.path,
                decider=it.decider,
                seen=it.content_hash,
                warnings=view.warnings,
                expires_at=it.expires_at,
                pattern=str(pattern_of(it.action)) if isinstance(it.action, CallAction) and not it.alone else None,
                others=isinstance(it.action, CallAction) and it.action.others,
                question=it.action.asked if isinstance(it.action, QuestionAction) else None,
            )
        )

    async def _show_end(self, no: int) -> None:
        """Show how a request has ended, if it has."""
        it = await self._rows.get(no)
        if it is None or it.state is ApprovalState.PENDING or not self._may_see(it):
            return
        self._shown.pop(no, None)
        await self._socket.send(
            MemoryEditComplete(
                request_id=_id(no),
                success=it.state in _DONE,
                path=it.action.name,
                state=str(it.state),
                by=it.decided_by,
                why=it.why,
                version=it.version,
            )
        )


def _id(no: int) -> str:
    return f"mem_{no}"


def _call(it: Approval) -> str:
    """Return the name of the call that asks, as `chat.tool` tells of it."""
    _, *of_turn = it.key.split(":")
    return "_".join(["call", *of_turn[:2]])


def _flag(found: ApprovalFinding) -> SuspiciousFlag:
    return SuspiciousFlag(
        pattern=found.kind or found.meaning,
        kind=found.kind,
        match=found.excerpt,
        offset=found.start,
        description=found.meaning,
        severity=found.severity,
    )
