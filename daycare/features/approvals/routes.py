"""What agents ask for: listed, shown as a diff, decided, undone, and granted for a while."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daycare.actors.directory import Directory
from daycare.api.callers import Caller, May, caller_of, deciders, persons
from daycare.api.described import With, described
from daycare.api.documents import Number, RequestDocument, answer, body, query, segment
from daycare.base.clock import Clock
from daycare.base.documents import Place
from daycare.base.errors import DaycareError, InvalidError, NotFoundError
from daycare.base.limits import (
    APPROVALS_PAGE,
    APPROVALS_SHOWN_PAGE,
    DOCUMENT_MAX_BYTES,
    DOCUMENT_REASON_MAX_CHARS,
    GRANT_MAX_S,
    KEY_MAX_CHARS,
)
from daycare.base.scope import is_subusers
from daycare.features.approvals.call_patterns import CallPattern, PatternGrant, PatternWish, pattern_of
from daycare.features.approvals.questions import FIELDS_MAX, AskedQuestion, QuestionAction
from daycare.features.approvals.records import (
    SEEN_MIN_CHARS,
    Approval,
    ApprovalFinding,
    ApprovalState,
    AskedWords,
    CallAction,
    Grant,
)
from daycare.features.approvals.rows import ApprovalRows
from daycare.features.approvals.service import ApprovalsService, Approver, unknown
from daycare.features.approvals.views import ApprovalView, flags, name_of, title
from daycare.rules.lengthy import aside
from daycare.store.sqlite.people import PeopleStore
from daycare.store.sqlite.store import Store

_Text = Annotated[str, msgspec.Meta(max_length=KEY_MAX_CHARS)]
_Seen = Annotated[str, msgspec.Meta(min_length=SEEN_MIN_CHARS, max_length=64)]
_Why = Annotated[str, msgspec.Meta(max_length=DOCUMENT_REASON_MAX_CHARS)]
_BATCH_MAX = 100

_GRANTED = With(Grant, {"path": str})
_LISTED = {
    **dict.fromkeys(("kind", "title", "document", "where", "verb", "path", "agent_id", "user", "decider"), str),
    **dict.fromkeys(("content_hash", "base_hash", "reason", "edited_by", "decided_by", "why", "trace"), str),
    **dict.fromkeys(("no", "revision", "created_at", "expires_at", "session", "turn"), int),
    "grantable": bool,
    **dict.fromkeys(("decided_at", "version", "undone", "made_in"), int | None),
    "state": ApprovalState,
    "place": Place | None,
    "provenance": list[str],
    "findings": list[ApprovalFinding],
    "flags": list[str],
    "pattern": CallPattern | None,
    "pattern_text": str,
    "others": bool,
    "question": AskedQuestion | None,
}
_CALLS_GRANTED = With(PatternGrant, {"path": str, "title": str})
_SHOWN = _LISTED | {"text": str, "diff": str, "warnings": list[str], "asked": AskedWords | None}


class ApprovalsQuery(RequestDocument, frozen=True, kw_only=True):
    """Whose, and whether decided ones too; the newest first, below the number `before`.

    `texts`: each as it is shown alone, and no more than 20 at once.
    """

    user: str | None = None
    all: bool = False
    texts: bool = False
    before: Number | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=APPROVALS_PAGE)] = APPROVALS_PAGE


class DecisionBody(RequestDocument, frozen=True, kw_only=True):
    """A decision on what was seen: `seen` is the content hash or its beginning; `text` is the new one of an edit.

    A question is answered by approving it with `fields`, declined by rejecting it, or left unanswered (`dismiss`).

    `more` are calls of the same tool that are approved with it in advance; a request proposes a `pattern` for these.
    """

    verdict: Literal["approve", "edit", "reject", "dismiss"]
    seen: _Seen
    text: Annotated[str, msgspec.Meta(max_length=DOCUMENT_MAX_BYTES)] = ""
    why: _Why = ""
    more: PatternWish | None = None
    fields: Annotated[dict[str, Any], msgspec.Meta(max_length=FIELDS_MAX)] | None = None
    user: str | None = None


class Item(RequestDocument, frozen=True, kw_only=True):
    """One of several."""

    no: Number
    seen: _Seen


class Batch(RequestDocument, frozen=True, kw_only=True):
    """Several unflagged requests of one kind."""

    items: Annotated[tuple[Item, ...], msgspec.Meta(min_length=1, max_length=_BATCH_MAX)]
    user: str | None = None


class Rejection(Batch, frozen=True, kw_only=True):
    """Several requests, and what their agents are told."""

    why: _Why = ""


class Undoing(RequestDocument, frozen=True, kw_only=True):
    """Who takes it back."""

    user: str | None = None


class GrantBody(RequestDocument, frozen=True, kw_only=True):
    """What is approved at once for so many hours; 0 ends it."""

    path: _Text
    kind: _Text = "memory"
    hours: Annotated[float, msgspec.Meta(ge=0, le=GRANT_MAX_S / 3600)]
    user: str | None = None


class ApprovalRoutes:
    """`/v1/approvals`."""

    def __init__(self, service: ApprovalsService, store: Store, directory: Directory, clock: Clock, owner: str) -> None:
        self._service = service
        self._store = store
        self._rows = store.of(ApprovalRows)
        self._directory = directory
        self._clock = clock
        self._owner = owner

    def routes(self) -> list[Route]:
        """Return the routes of this file."""
        return [
            Route("/v1/approvals", self.find),
            Route("/v1/approvals/approve", self.approve, methods=["POST"]),
            Route("/v1/approvals/reject", self.reject, methods=["POST"]),
            Route("/v1/approvals/auto", self.auto, methods=["POST"]),
            Route("/v1/approvals/grants/{no}/revoke", self.revoke, methods=["POST"]),
            Route("/v1/approvals/{no}", self.show),
            Route("/v1/approvals/{no}/decide", self.decide, methods=["POST"]),
            Route("/v1/approvals/{no}/undo", self.undo, methods=["POST"]),
        ]

    @deciders
    @described(
        {
            200: {
                "approvals": ([_LISTED], [_SHOWN]),
                "granted": [_GRANTED],
                "calls": [_CALLS_GRANTED],
                "next": int | None,
            }
        },
        query=ApprovalsQuery,
    )
    async def find(self, request: Request) -> Response:
        """List requests, with their texts where these are asked for, and what is granted; `next` is the next page."""
        wish, caller = query(request, ApprovalsQuery), caller_of(request)
        user = caller.user if caller.own_only and wish.user is None else wish.user
        if user is not None:
            caller.check_user(user)
        states = () if wish.all else (ApprovalState.PENDING,)
        most = min(wish.limit, APPROVALS_SHOWN_PAGE) if wish.texts else wish.limit
        found = await self._rows.find(decider=user, states=states, before=wish.before, limit=most)
        older = found[-1].no if len(found) == most else None
        found = [it for it in found if caller.within(it.path)]
        now_ms = self._clock.now_ms()
        granted = [await self._grant(each) for each in await self._rows.grants() if each.until > now_ms]
        granted = [each for each in granted if each["user"] == caller.user or not caller.own_only]
        granted = [each for each in granted if caller.within(each["path"])]
        calls = [await self._call(it) for it in await self._service.granted(caller.user if caller.own_only else user)]
        calls = [each for each in calls if caller.within(each["path"])]
        shown = await self._shown(caller, found) if wish.texts else [_listed(it) for it in found]
        return answer({"approvals": shown, "granted": granted, "calls": calls, "next": older})

    @deciders
    @described({200: _SHOWN}, segments={"no": Number})
    async def show(self, request: Request) -> Response:
        """Show a request with its text and what it would change."""
        no = segment(request, "no", Number)
        await self._check(caller_of(request), no)
        [shown] = await self._shown(caller_of(request), [await self._service.get(no)])
        return answer(shown)

    @deciders
    @described({200: (_SHOWN, _LISTED)}, body=DecisionBody, segments={"no": Number}, refuses=(409,))
    async def decide(self, request: Request) -> Response:
        """Decide a request; an edited one is pending still, and shown as it is now."""
        no = segment(request, "no", Number)
        wish = await body(request, DecisionBody)
        await self._check(caller_of(request), no)
        it = await self._service.decide(
            no,
            wish.verdict,
            await self._person(request, wish.user),
            wish.seen,
            text=wish.text,
            why=wish.why,
            more=wish.more,
            fields=wish.fields,
        )
        return answer(
            (await self._shown(caller_of(request), [it]))[0] if it.state is ApprovalState.PENDING else _listed(it)
        )

    @deciders
    @described({200: {"results": list[dict[str, Any]]}}, body=Batch)
    async def approve(self, request: Request) -> Response:
        """Approve several; each is decided by itself."""
        wish = await body(request, Batch)
        done = await self._service.approve_each(
            await self._items(request, wish), await self._person(request, wish.user)
        )
        return answer({"results": [_result(it, error, "approved") for it, error in done]})

    @deciders
    @described({200: {"results": list[dict[str, Any]]}}, body=Rejection)
    async def reject(self, request: Request) -> Response:
        """Reject several, whatever they are; each is decided by itself."""
        wish = await body(request, Rejection)
        items, by = await self._items(request, wish), await self._person(request, wish.user)
        done = await self._service.reject_each(items, by, wish.why)
        return answer({"results": [_result(it, error, "rejected") for it, error in done]})

    @deciders
    @described({200: _LISTED}, body=Undoing, segments={"no": Number}, refuses=(409,))
    async def undo(self, request: Request) -> Response:
        """Take back what a request did."""
        no = segment(request, "no", Number)
        wish = await body(request, Undoing)
        await self._check(caller_of(request), no)
        return answer(_listed(await self._service.undo(no, await self._person(request, wish.user))))

    @persons
    @described({200: _GRANTED}, body=GrantBody, refuses=(409,))
    async def auto(self, request: Request) -> Response:
        """Let a kind of request of an agent be approved at once for a while."""
        wish = await body(request, GrantBody)
        caller_of(request).check_path(wish.path)
        agent = await self._directory.at(wish.path)
        grant = await self._service.auto(agent, wish.kind, wish.hours, await self._person(request, wish.user))
        return answer(await self._grant(grant))

    @deciders
    @described({200: _CALLS_GRANTED}, body=Undoing, segments={"no": Number})
    async def revoke(self, request: Request) -> Response:
        """Take back calls that were approved in advance."""
        no = segment(request, "no", Number)
        wish, caller = await body(request, Undoing), caller_of(request)
        known = await self._service.granted(caller.user if caller.own_only else None)
        found = next((it for it in known if it.no == no), None)
        if found is None or not caller.within((await self._call(found))["path"]):
            raise NotFoundError("GRANT_UNKNOWN", f"taking back {no}: there is no such grant", hint="daycare approvals")
        return answer(await self._call(await self._service.revoke(no, await self._person(request, wish.user))))

    async def _call(self, grant: PatternGrant) -> dict[str, Any]:
        agent = await self._store.agents.get(grant.agent_id)
        fields: dict[str, Any] = msgspec.to_builtins(grant)
        return fields | {"path": agent.path if agent else "", "title": str(grant)}

    async def _grant(self, grant: Grant) -> dict[str, Any]:
        agent = await self._store.agents.get(grant.agent_id)
        fields: dict[str, Any] = msgspec.to_builtins(grant)
        return fields | {"path": agent.path if agent else ""}

    async def _items(self, request: Request, wish: Batch) -> list[tuple[int, str]]:
        for item in wish.items:
            await self._check(caller_of(request), item.no)
        return [(item.no, item.seen) for item in wish.items]

    async def _shown(self, caller: Caller, found: Sequence[Approval]) -> list[dict[str, Any]]:
        """Return requests as each is shown; the words that led to it, to whoever may read that conversation."""
        asked = await self._rows.asked([it for it in found if _reads(caller, it.path)])
        return [await _shown(await self._service.view(it), asked.get(it.no)) for it in found]

    async def _check(self, caller: Caller, no: int) -> None:
        """Raise `NotFoundError` for a request that is another person's to decide, or of an agent elsewhere."""
        if caller.own_only:
            asked = (await self._service.show(no)).approval
            if asked.decider != caller.user or not caller.within(asked.path):
                raise unknown(no)

    async def _person(self, request: Request, user: str | None) -> Approver:
        return await approver_of(caller_of(request), user, self._store.people, self._owner)


async def approver_of(caller: Caller, user: str | None, people: PeopleStore, owner: str) -> Approver:
    """Return as whom a caller decides: operators for a user they name, as everywhere, others for themselves."""
    user = user or caller.user or owner
    caller.check_user(user)
    if await people.get(user) is None:
        raise InvalidError("USER_UNKNOWN", f"deciding as {user}: no such user", hint="daycare users list")
    return Approver(user, caller.actor(f"direct:{user}"))


def _reads(caller: Caller, path: str) -> bool:
    return caller.may is not May.APPROVE and caller.sees(path) and not (caller.own_only and is_subusers(path))


def _listed(it: Approval) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(it)
    del fields["salt"], fields["key"]
    action = fields.pop("action")
    return fields | {
        "title": title(it),
        "document": name_of(it),
        "where": it.action.where if isinstance(it.action, CallAction) else "",
        "verb": it.action.verb,
        "place": action.get("place"),
        "flags": flags(it),
        "turn": it.turn,
        "grantable": it.grantable,
        "pattern": pattern_of(it.action) if isinstance(it.action, CallAction) and not it.alone else None,
        "pattern_text": str(pattern_of(it.action)) if isinstance(it.action, CallAction) else "",
        "others": isinstance(it.action, CallAction) and it.action.others,
        "question": it.action.asked if isinstance(it.action, QuestionAction) else None,
    }


async def _shown(view: ApprovalView, asked: AskedWords | None) -> dict[str, Any]:
    it, diff = view.approval, await aside(lambda: view.diff, view.old, view.new)
    return _listed(it) | {"text": it.action.text, "diff": diff, "warnings": view.warnings, "asked": asked}


def _result(it: Approval, error: DaycareError | None, done: str) -> dict[str, Any]:
    if error is None:
        return {"no": it.no, done: _listed(it), "error": None}
    refusal = {"code": error.code, "message": error.message, "hint": error.hint}
    return {"no": it.no, done: None, "error": refusal}
