"""Messages in, replies out: what a terminal or a program needs to talk to an agent."""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import trio
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daycare.actors.failures import Trouble
from daycare.api.callers import Caller, caller_of, persons
from daycare.api.described import With, described
from daycare.api.documents import Limit, Number, PathQuery, RequestDocument, answer, body, query
from daycare.api.errors import error_view
from daycare.api.replies import DirectReplies
from daycare.api.routes_agents import agent_at, agent_view
from daycare.api.routes_files import FileNumbers, attached
from daycare.api.services import Services
from daycare.api.stopping import fresh_key, stop_turn
from daycare.api.wanted import outcome
from daycare.base.connector import DIRECT
from daycare.base.errors import ConflictError, DaycareError, InvalidError, NotFoundError
from daycare.base.limits import API_WAIT_MAX_S, OUTBOX_MAX_MESSAGES
from daycare.observe.spans import accept_id, joined, trace_id
from daycare.plugin import Inbound
from daycare.store.records import Agent, InboxRow, OutboxRow, Receipt

_WAITS = With(Receipt, {"trouble?": Trouble})
Seqs = Annotated[tuple[Number, ...], msgspec.Meta(max_length=OUTBOX_MAX_MESSAGES)]


class PostBody(RequestDocument, frozen=True, kw_only=True):
    """A message. `user` is whose it is; without a path it goes to that user's `direct` agent, or to `all` of theirs.

    `instead` is the last turn of the agent, whose place the turn of this message takes: what was said in that one stays
    in the history and stands in no later prompt. 409 TURN_NOT_LAST if something was said since, or a turn runs.
    `shown` are replies that were shown before: they are confirmed once the message is committed, which saves a call.
    """

    text: str
    files: FileNumbers = ()
    path: str | None = None
    all: bool = False
    key: str | None = None
    user: str | None = None
    wait_s: Annotated[float, msgspec.Meta(ge=0, le=API_WAIT_MAX_S)] | None = None
    instead: Number = 0
    shown: Seqs = ()


class Page(PathQuery, frozen=True, kw_only=True):
    """Rows of one path behind a number."""

    after: Number = 0
    limit: Limit = 100


class DropQuery(PathQuery, frozen=True, kw_only=True):
    """A message that waits for the agent at a path."""

    seq: Number


class ShownReplies(RequestDocument, frozen=True, kw_only=True):
    """Replies that a terminal has shown."""

    seqs: Seqs


class Messages:
    """`/v1/messages`, `/v1/stop`, `/v1/inbox`, `/v1/replies`."""

    def __init__(self, services: Services, closing: trio.Event) -> None:
        self._services = services
        self._store = services.store
        self._closing = closing
        self._replies = DirectReplies(services.store.outbox, services.bus, services.clock)

    def routes(self) -> list[Route]:
        """Return the routes of this file."""
        return [
            Route("/v1/messages", self.post, methods=["POST"]),
            Route("/v1/stop", self.stop, methods=["POST"]),
            Route("/v1/inbox", self.inbox),
            Route("/v1/inbox", self.drop, methods=["DELETE"]),
            Route("/v1/replies", self.replies),
            Route("/v1/replies/ack", self.acknowledge, methods=["POST"]),
        ]

    @persons
    @described(
        {
            200: With(Receipt, {"replies": list[OutboxRow]}),
            202: (_WAITS, {"messages": list[Receipt], "refused": list[dict[str, Any]]}),
        },
        body=PostBody,
        headers={"traceparent": "The trace that the message joins, as W3C has it"},
        refuses=(409,),
    )
    async def post(self, request: Request) -> Response:
        """Commit a message, or one to each agent of the user; with `wait_s`, wait for its answer."""
        caller = caller_of(request)
        wish = await body(request, PostBody)
        if wish.all and (wish.path is not None or wish.wait_s is not None or wish.instead):
            raise InvalidError(
                "BODY_INVALID", "posting to all agents: with neither path, wait_s nor instead", hint="doc/extend/api.md"
            )
        user = caller.user or self._services.owner if wish.user is None else wish.user
        caller.check_user(user)
        caller.check_path(wish.path or f"/{user}/{'**' if wish.all or caller.paths else DIRECT}")
        files = await attached(self._store, wish.files, user)
        if wish.instead:
            await self._check_last(wish.path or f"/{user}/{DIRECT}", wish.instead, wish.key)
        outside = joined(request.headers.get("traceparent", ""))
        if outside is not None:
            self._services.join(outside)
        inbound = Inbound(
            connector=DIRECT,
            sender=f"{DIRECT}:{user}",
            key=fresh_key() if wish.key is None else wish.key,
            text=wish.text,
            files=files,
            path=wish.path or "",
            instead=wish.instead,
            trace=outside.trace if outside is not None else "",
        )
        if wish.all:
            posted = await self._post_to_all(inbound, user)
            await self._confirm(caller, wish.shown)
            return posted
        receipt = await self._services.accept(inbound)
        await self._confirm(caller, wish.shown)
        mine = f"00-{trace_id(receipt.trace)}-{accept_id(receipt.trace, receipt.seq)}-01"
        if wish.wait_s:
            waited = await outcome(request, self._closing, self._services.router, receipt, wish.wait_s)
            receipt = replace(waited, duplicate=receipt.duplicate)
        view = msgspec.to_builtins(receipt)
        trouble = self._services.supervisor.failures.trouble_of(receipt.agent_id)
        if receipt.state == "waiting" and trouble is not None:
            view["trouble"] = msgspec.to_builtins(trouble)
        ended = receipt.state in ("done", "stopped")
        if ended:
            view["replies"] = await self._replies.answering(receipt)
        response = answer(view, 200 if ended else 202)
        response.headers["traceparent"] = mine
        return response

    async def _post_to_all(self, inbound: Inbound, user: str) -> Response:
        posted = await self._services.accept_all(inbound)
        if not posted:
            raise NotFoundError("AGENT_NONE", f"posting to all agents of {user}: there are none", hint="daycare agents")
        taken = [it for _, it in posted if isinstance(it, Receipt)]
        refused = [{"path": each.to, "error": error_view(it)} for each, it in posted if isinstance(it, DaycareError)]
        return answer({"messages": taken, "refused": refused}, 202)

    async def _check_last(self, path: str, turn: int, key: str | None) -> None:
        """Raise `ConflictError` TURN_NOT_LAST unless a message may take the place of a turn now, or is a repeat."""
        agent = await agent_at(self._services, path)
        if key is not None and await self._store.inbox.known(agent.id, key):
            return
        if await self._store.turns.replaceable(agent) != turn:
            raise ConflictError(
                "TURN_NOT_LAST",
                f"posting to {path} in place of turn {turn}: it is not the last one, or a turn runs now",
                hint=f"stop what runs, and take the number of the last turn: daycare history {path} --limit 1",
            )

    @persons
    @described({202: Receipt}, body=PathQuery, refuses=(409,))
    async def stop(self, request: Request) -> Response:
        """Stop the running turn of any user's agent; the confirmation is a reply to the terminal."""
        path = (await body(request, PathQuery)).path
        receipt = await stop_turn(self._services, caller_of(request), path)
        return answer(receipt, 202)

    @persons
    @described({200: {"agent": Agent, "rows": list[InboxRow]}}, query=Page)
    async def inbox(self, request: Request) -> Response:
        """Show what waits for an agent, in order."""
        wish = query(request, Page)
        caller_of(request).check_path(wish.path)
        agent = await agent_at(self._services, wish.path)
        rows = await self._store.inbox.waiting(agent.id, after=wish.after, limit=wish.limit)
        return answer({"agent": agent_view(self._services, agent), "rows": rows})

    @persons
    @described({200: {"dropped": int}}, query=DropQuery, refuses=(409,))
    async def drop(self, request: Request) -> Response:
        """Give up a message that waits: nobody answers it, and it becomes a dead letter, which can be sent again."""
        wish, caller = query(request, DropQuery), caller_of(request)
        caller.check_path(wish.path)
        agent = await agent_at(self._services, wish.path)
        reason = f"dropped by {caller.user or self._services.owner}"
        await self._services.supervisor.dropping.drop(agent, wish.seq, reason)
        return answer({"dropped": wish.seq})

    @persons
    @described({200: {"replies": list[OutboxRow]}}, query=Page)
    async def replies(self, request: Request) -> Response:
        """Show the replies of a path, dead incarnations included, that no terminal has confirmed."""
        wish = query(request, Page)
        caller_of(request).check_path(wish.path)
        rows = await self._replies.unread(wish.path, after=wish.after, limit=wish.limit)
        if not rows:
            await agent_at(self._services, wish.path)  # there is nothing, or there is no such agent
        return answer({"replies": rows})

    @persons
    @described({200: {"acknowledged": int}}, body=ShownReplies)
    async def acknowledge(self, request: Request) -> Response:
        """Take the word of a terminal that it has shown these replies; replies of other connectors stay as they are."""
        shown = (await body(request, ShownReplies)).seqs
        return answer({"acknowledged": await self._confirm(caller_of(request), shown)})

    async def _confirm(self, caller: Caller, seqs: Sequence[int]) -> int:
        """Take somebody's word that replies of theirs were shown; return how many were unread until now."""
        found = await self._replies.of([*dict.fromkeys(seqs)])
        rows = [row for row in found if caller.sees(row.path) and (row.user == caller.user or not caller.own_only)]
        return await self._replies.confirm(rows)
