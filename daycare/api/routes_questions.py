"""Questions to memory: a search agent answers them, and each source that it names was found."""

from typing import Annotated, Any

import msgspec
import trio
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daycare.agent.searcher import answered
from daycare.api.documents import answer, body
from daycare.api.routes_memory import Whose, agent_of
from daycare.api.services import Services
from daycare.api.wanted import outcome
from daycare.base.ids import new_trace_id
from daycare.base.limits import API_WAIT_MAX_S, KEY_MAX_CHARS, QUESTION_MAX_CHARS

_KEY_MAX_CHARS = KEY_MAX_CHARS - 10  # `ask:` comes before it


class Ask(Whose, frozen=True, kw_only=True):
    """A question. A repeat with its key asks it once; without `wait_s` nobody waits for the answer."""

    question: Annotated[str, msgspec.Meta(min_length=1, max_length=QUESTION_MAX_CHARS)]
    key: Annotated[str, msgspec.Meta(min_length=1, max_length=_KEY_MAX_CHARS)] | None = None
    wait_s: Annotated[float, msgspec.Meta(ge=0, le=API_WAIT_MAX_S)] | None = None


class Questions:
    """`/v1/memories/ask`."""

    def __init__(self, services: Services, closing: trio.Event) -> None:
        self._services = services
        self._controls = services.memories
        self._closing = closing

    def routes(self) -> list[Route]:
        """Return the routes of this file."""
        return [Route("/v1/memories/ask", self.ask, methods=["POST"])]

    async def ask(self, request: Request) -> Response:
        """Put a question to an agent's memory; with `wait_s`, wait for its answer."""
        wish = await body(request, Ask)
        agent = await agent_of(self._services, wish.agent)
        trace = new_trace_id()
        # No connector of this name: the answer is what becomes of the message, and no reply that somebody has to fetch.
        sender = f"api:{self._services.owner}"
        receipt = await self._controls.ask(
            agent, wish.question, sender=sender, key=f"ask:{wish.key or trace}", trace=trace
        )
        if wish.wait_s:
            waited = await outcome(request, self._closing, self._services.router, receipt, wish.wait_s)
            receipt = replace(waited, duplicate=receipt.duplicate)
        view: dict[str, Any] = msgspec.to_builtins(receipt)
        ended = receipt.state in ("done", "stopped")
        if ended:
            told = answered(view.pop("result") or "")
            view |= {"answer": told.text, "documents": told.documents}
            view["sources"] = await self._controls.sources(agent, told.labels)
        return answer(view, 200 if ended else 202)
