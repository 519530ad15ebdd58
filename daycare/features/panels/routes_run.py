"""A message to a chat, its answer, and which memory stood behind that."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import trio
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daycare.api.callers import caller_of, persons
from daycare.api.described import described
from daycare.api.documents import RequestDocument, answer, body
from daycare.api.replies import DirectReplies
from daycare.api.wanted import outcome
from daycare.base.connector import DIRECT
from daycare.base.consent import IDENTITY_DOCUMENTS
from daycare.base.errors import NotFoundError
from daycare.base.ids import new_trace_id
from daycare.base.limits import API_WAIT_MAX_S, KEY_MAX_CHARS
from daycare.features.panels.subject import Subjects, iso
from daycare.plugin import Inbound
from daycare.rules.document_paths import MEMORY
from daycare.store.records import Agent, Receipt

if TYPE_CHECKING:
    from daycare.features.memory.service import MemoryFeature

_KEY_MAX_CHARS: Final = KEY_MAX_CHARS - 100  # what says whose it is comes before it

_TAKEN: Final = {"chatId": str, "message": {"seq": int, "trace": str, "turn": int | None}, "state": str}
_STOOD: Final = {"path": str, "layer": str, "version": int, "updatedAt": str | None}
_RECALLED: Final = {
    **dict.fromkeys(("label", "tier", "content"), str),
    "score": float | None,
    "updatedAt": str | None,
}


class ChatMessage(RequestDocument, frozen=True, kw_only=True):
    """A message. A repeat with its key, or the same `Idempotency-Key`, is answered as the first was."""

    message: str
    key: Annotated[str, msgspec.Meta(min_length=1, max_length=_KEY_MAX_CHARS)] | None = None
    wait_s: Annotated[float, msgspec.Meta(ge=0, le=API_WAIT_MAX_S)] = API_WAIT_MAX_S


class RunPanel:
    """`/v1/chats/{chatId}/run`."""

    def __init__(
        self,
        memory: "MemoryFeature",
        subjects: Subjects,
        accept: Callable[[Inbound], Awaitable[Receipt]],
        closing: trio.Event,
    ) -> None:
        self._memory = memory
        self._documents = memory.documents
        self._subjects = subjects
        self._accept = accept
        self._closing = closing
        self._replies = DirectReplies(memory.store.outbox, memory.bus, memory.clock)

    def routes(self) -> list[Route]:
        """Return the routes of this file."""
        return [Route("/v1/chats/{chatId}/run", self.run, methods=["POST"])]

    @persons
    @described(
        {200: {**_TAKEN, "answer": str, "memory": {"documents": [_STOOD], "recalled": [_RECALLED]}}, 202: _TAKEN},
        body=ChatMessage,
        headers={"Idempotency-Key": "As `key`: a repeat is answered as the first was."},
        refuses=(409,),
    )
    async def run(self, request: Request) -> Response:
        """Say something in a chat, as its person, and wait for the answer. 202: there is none yet."""
        agent, wish = await self._subjects.named(request, "chatId"), await body(request, ChatMessage)
        stands = await self._standing(agent)
        receipt = await self._accept(self._inbound(request, agent, wish))
        final = await outcome(request, self._closing, self._memory.router, receipt, wish.wait_s)
        view: dict[str, Any] = {
            "chatId": agent.id,
            "message": {"seq": final.seq, "trace": final.trace, "turn": final.turn},
            "state": final.state,
        }
        if final.state not in ("done", "stopped"):
            return answer(view, 202)
        rows = await self._replies.answering(final)
        view["answer"] = "\n\n".join(row.text for row in rows if row.text) or final.result or ""
        view["memory"] = {"documents": stands, "recalled": await self._recalled(agent, final.turn)}
        said = answer(view)
        said.background = BackgroundTask(self._replies.confirm, rows)  # once it is sent
        return said

    def _inbound(self, request: Request, agent: Agent, wish: ChatMessage) -> Inbound:
        key = wish.key or request.headers.get("idempotency-key", "")[:_KEY_MAX_CHARS]
        return Inbound(
            connector=DIRECT,
            sender=f"{DIRECT}:{agent.user}",
            key=f"run:{caller_of(request).name}:{key}" if key else f"run:{new_trace_id()}",
            text=wish.message,
            path=agent.path,
        )

    async def _standing(self, agent: Agent) -> list[dict[str, Any]]:
        """Return the documents that stand in each prompt of a chat, as they are now."""
        found = [(await self._documents.approved(agent, name))[0] for name in IDENTITY_DOCUMENTS]
        if any(state.wins for state in await self._documents.explain(agent, MEMORY)):
            found.append(await self._documents.read(agent, MEMORY))
        return [
            {"path": it.path, "layer": it.layer, "version": it.version, "updatedAt": iso(it.updated_at)}
            for it in found
            if it is not None
        ]

    async def _recalled(self, agent: Agent, turn: int | None) -> list[dict[str, Any]]:
        """Return what was looked up for a turn and stood in its prompt."""
        if turn is None:
            return []
        try:
            why = await self._memory.controls.why(agent, turn)
        except NotFoundError:
            return []
        return [
            {"label": it.label, "tier": it.tier, "content": it.text, "score": it.score, "updatedAt": iso(it.at_ms)}
            for it in why.memories
        ]
