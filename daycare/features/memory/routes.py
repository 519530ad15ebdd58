"""Routes of memories: what is remembered of conversations, answers from it, why it came up, how it is forgotten.

As for documents: what people keep whom a user has let in is not read here by others, and persons use their own.
"""

from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import trio
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from daycare.api.callers import Caller, caller_of, persons
from daycare.api.described import MediaBody, described
from daycare.api.documents import Limit, Number, answer, body, query
from daycare.api.operations import route
from daycare.api.wanted import outcome
from daycare.base.errors import InvalidError
from daycare.base.ids import new_trace_id
from daycare.base.limits import API_PAGE_MAX_ROWS, API_WAIT_MAX_S, FORGET_MAX, KEY_MAX_CHARS, QUESTION_MAX_CHARS
from daycare.base.memories import Tier
from daycare.features.memory.controls import Shown, Why
from daycare.features.memory.documents.passages import Processed
from daycare.features.memory.documents.routes import Whose
from daycare.features.memory.documents.whose import agent_of, by
from daycare.features.memory.operations import SearchMemories
from daycare.features.memory.search.searcher import answered
from daycare.features.memory.store.records import OWN_BITS, Forgotten, MemoryCounts
from daycare.store.records import Agent, Receipt

if TYPE_CHECKING:
    from daycare.features.memory.service import MemoryFeature

_KEY_MAX_CHARS: Final = KEY_MAX_CHARS - 10  # `ask:` comes before it
_ANSWERED: Final = {
    **dict.fromkeys(("agent_id", "state", "trace", "path", "answer"), str),
    "seq": int,
    "duplicate": bool,
    "turn": int | None,
    "documents": list[str],
    "sources": list[Shown],
}
_MENTION: Final = {"no": int, "text": str}
_encode = msgspec.json.Encoder().encode


class Listing(Whose, frozen=True, kw_only=True):
    """A page of one tier, the newest first; `all`: facts that hold no longer as well.

    `sources`: with the log entries that these were learned from, as far as they are kept, 1,000 at most.
    """

    words: Annotated[str, msgspec.Meta(max_length=1_000)] = ""
    all: bool = False
    sources: bool = False
    before: Number | None = None
    limit: Limit = 100


class OfTurn(Whose, frozen=True, kw_only=True):
    """A turn; without its number the last that something was recalled for."""

    turn: Number | None = None


class Forget(Whose, frozen=True, kw_only=True):
    """Which memories, by number or label. `dry_run` only tells what would go."""

    numbers: Annotated[tuple[Number | str, ...], msgspec.Meta(min_length=1, max_length=FORGET_MAX)]
    dry_run: bool = False


class Process(Whose, frozen=True, kw_only=True):
    """Whose memory worker to wake; without an agent all that have something to look at.

    With a `path` no worker: the passages of this document are made anew, with their vectors.
    """

    path: Annotated[str, msgspec.Meta(max_length=1_000)] | None = None


class Ask(Whose, frozen=True, kw_only=True):
    """A question. A repeat with its key asks it once; without `wait_s` nobody waits for the answer."""

    question: Annotated[str, msgspec.Meta(min_length=1, max_length=QUESTION_MAX_CHARS)]
    key: Annotated[str, msgspec.Meta(min_length=1, max_length=_KEY_MAX_CHARS)] | None = None
    wait_s: Annotated[float, msgspec.Meta(ge=0, le=API_WAIT_MAX_S)] | None = None


class MemoryRoutes:
    """`/v1/memories`."""

    def __init__(self, memory: "MemoryFeature", closing: trio.Event) -> None:
        self._memory = memory
        self._closing = closing
        self._controls = memory.controls

    def routes(self) -> list[Route]:
        """Return the routes of this file."""
        return [
            route(SearchMemories, self.search),
            Route("/v1/memories/ask", self.ask, methods=["POST"]),
            Route("/v1/memories/facts", self.facts),
            Route("/v1/memories/entities", self.entities),
            Route("/v1/memories/why", self.why),
            Route("/v1/memories/stats", self.stats),
            Route("/v1/memories/export", self.export),
            Route("/v1/memories/forget", self.forget, methods=["POST"]),
            Route("/v1/memories/process", self.process, methods=["POST"]),
            Route("/v1/memories/reembed", self.reembed, methods=["POST"]),
        ]

    @persons
    @described({200: {"found": list[Shown]}})
    async def search(self, it: SearchMemories, caller: Caller) -> dict[str, Any]:
        """Find memories that fit a question."""
        agent = await agent_of(self._memory, it.agent, caller, whole=True)
        return {"found": await self._controls.search(agent, it.query, it)}

    @described({200: _ANSWERED, 202: Receipt}, body=Ask, refuses=(409,))
    async def ask(self, request: Request) -> Response:
        """Put a question to an agent's memory; with `wait_s`, wait for its answer."""
        wish = await body(request, Ask)
        agent = await self._agent(wish, request)
        trace = new_trace_id()
        # No connector of this name: the answer is what becomes of the message, and no reply that somebody has to fetch.
        sender = f"api:{self._memory.owner}"
        receipt = await self._controls.ask(
            agent, wish.question, sender=sender, key=f"ask:{wish.key or trace}", trace=trace
        )
        if wish.wait_s:
            waited = await outcome(request, self._closing, self._memory.router, receipt, wish.wait_s)
            receipt = replace(waited, duplicate=receipt.duplicate)
        view: dict[str, Any] = msgspec.to_builtins(receipt)
        ended = receipt.state in ("done", "stopped")
        if ended:
            told = answered(view.pop("result") or "")
            view |= {"answer": told.text, "documents": told.documents}
            view["sources"] = await self._controls.sources(agent, told.labels)
        return answer(view, 200 if ended else 202)

    @persons
    @described({200: ({"facts": list[Shown]}, {"facts": list[Shown], "sources": list[Shown]})}, query=Listing)
    async def facts(self, request: Request) -> Response:
        """List facts."""
        return await self._list(request, Tier.FACT, "facts")

    @persons
    @described({200: ({"entities": list[Shown]}, {"entities": list[Shown], "sources": list[Shown]})}, query=Listing)
    async def entities(self, request: Request) -> Response:
        """List people, places, things and concepts."""
        return await self._list(request, Tier.ENTITY, "entities")

    @persons
    @described({200: Why}, query=OfTurn)
    async def why(self, request: Request) -> Response:
        """Return what was recalled for a turn."""
        wish = query(request, OfTurn)
        return answer(await self._controls.why(await self._agent(wish, request), wish.turn))

    @persons
    @described({200: {"agent": str, "own": MemoryCounts, "all": MemoryCounts, "embedder": dict[str, Any]}}, query=Whose)
    async def stats(self, request: Request) -> Response:
        """Return how much is remembered, and how the embedder is; to persons nothing of what others have."""
        agent = await self._agent(query(request, Whose), request)
        own, embedder = await self._controls.counts(agent), await self._memory.status()
        if caller_of(request).own_only:
            return answer({"agent": agent.path, "own": own, "all": own, "embedder": {"embedder": embedder["embedder"]}})
        return answer({"agent": agent.path, "own": own, "all": await self._controls.counts(), "embedder": embedder})

    @described({200: MediaBody("application/x-ndjson", Shown)}, query=Whose)
    async def export(self, request: Request) -> Response:
        """Stream all memories of an agent's scope, a JSON object a line."""
        agent = await self._agent(query(request, Whose), request)
        lines = (_encode(each) + b"\n" async for each in self._controls.export(agent))
        return StreamingResponse(lines, media_type="application/x-ndjson")

    @persons
    @described(
        {200: ({"forgotten": Forgotten, "mentions": [_MENTION]}, {"would_forget": dict[str, Any]})},
        body=Forget,
        refuses=(409,),
    )
    async def forget(self, request: Request) -> Response:
        """Remove memories for good, with the words they came from; or tell what would go."""
        wish = await body(request, Forget)
        agent = await self._agent(wish, request)
        plan = await self._controls.plan(agent, [*map(str, wish.numbers)])
        shown: dict[str, Any] = {
            "memories": [memory.text for memory in plan.memories],
            "turns": len(plan.turns),
            "documents": [place.name for place in plan.places],
            "mentions": [{"no": memory.no & OWN_BITS, "text": memory.text} for memory in plan.mentions],
        }
        if wish.dry_run:
            return answer({"would_forget": shown})
        author = by(self._memory, caller_of(request)).author
        return answer({"forgotten": await self._controls.forget(agent, plan, author), "mentions": shown["mentions"]})

    @described({200: ({"woken": int}, Processed)}, body=Process)
    async def process(self, request: Request) -> Response:
        """Wake memory workers for what nobody has looked at yet, or make the passages of a document again."""
        wish = await body(request, Process)
        if wish.path is not None:
            return answer(await self._memory.passages.process(await self._agent(wish, request), wish.path))
        agent = None if wish.agent is None else await self._agent(wish, request)
        return answer({"woken": await self._controls.process(agent)})

    @described({200: {"embedder": dict[str, Any]}})
    async def reembed(self, request: Request) -> Response:
        """Recompute all vectors in the background."""
        await self._memory.reembed()
        return answer({"embedder": await self._memory.status()})

    async def _list(self, request: Request, tier: Tier, name: str) -> Response:
        wish = query(request, Listing)
        if wish.before == 0:
            raise InvalidError(
                "QUERY_INVALID", "GET /v1/memories: before: numbers begin with 1", hint="doc/extend/api.md"
            )
        agent = await self._agent(wish, request)
        found = await self._controls.find(
            agent, tier, wish.words, living=not wish.all, before=wish.before, limit=wish.limit
        )
        if not wish.sources:
            return answer({name: found})
        numbers = dict.fromkeys(no for each in found for no in each.sources)
        sources = await self._controls.sources(agent, [*map(str, numbers)][:API_PAGE_MAX_ROWS])
        return answer({name: found, "sources": sources})

    async def _agent(self, wish: Whose, request: Request) -> Agent:
        return await agent_of(self._memory, wish.agent, caller_of(request), whole=True)
