"""`/responses`: what an agent has answered, from which a program can go on by its id."""

from collections.abc import Iterable
from typing import Any, Final, Literal

from msgspec.structs import replace
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daycare.api.described import MediaBody, described
from daycare.api.documents import answer, body
from daycare.api.errors import openai_error
from daycare.api.replies import spoken
from daycare.base.errors import DaycareError, NotFoundError
from daycare.features.openai.records import ProgramExchange
from daycare.features.openai.requests import ResponseRequest, asked_in_response, conversation_in
from daycare.features.openai.speakers import talkers
from daycare.features.openai.streams import AnswerStream, event
from daycare.features.openai.talking import HEADERS, Talking

_ID: Final = "resp_"
_ONE: Final = "/openai/v1/responses/{response_id}"

_RESPONSE: Final = {
    "id": str,
    "object": str,
    "created_at": int,
    "status": str,
    "model": str,
    "output": list[dict[str, Any]],
    "usage": dict[str, Any] | None,
}


class ResponseRoutes:
    """`/openai/v1/responses`."""

    def __init__(self, talking: Talking) -> None:
        self._talking = talking

    def routes(self) -> list[Route]:
        """Return the routes of responses."""
        return [
            Route("/openai/v1/responses", self.create, methods=["POST"]),
            Route(_ONE, self.get),
            Route(_ONE, self.delete, methods=["DELETE"]),
        ]

    @talkers
    @described(
        {200: (_RESPONSE, MediaBody("text/event-stream", {"type": str, "sequence_number": int}))},
        body=ResponseRequest,
        headers=HEADERS,
        refuses=(409,),
    )
    async def create(self, request: Request) -> Response:
        """Say something to an agent and answer with what it says, as it comes with `stream`."""
        wish = await body(request, ResponseRequest)
        caller, asked, talking = await self._talking.speakers.of(request), asked_in_response(wish), self._talking
        previous = _ref(wish.previous_response_id) if wish.previous_response_id else ""
        named = None if previous else conversation_in(wish.conversation) or conversation_in(wish.user)
        store, heard = wish.store is not False, talking.listen()
        receipt, exchange = await talking.say(request, caller, asked, wish.model, named, previous, store=store)
        if wish.stream:
            return AnswerStream(talking, heard, receipt, ResponseWords(exchange, wish.metadata or {}, store=store))
        receipt, rows = await talking.answered(request, receipt)
        exchange = replace(exchange, answer=spoken(rows, receipt))
        tokens = await talking.tokens(receipt.turn)
        done = answer(_response(exchange, "completed", tokens, metadata=wish.metadata or {}, store=store))
        done.background = BackgroundTask(talking.confirm, rows)  # once it is sent
        return done

    @talkers
    @described({200: _RESPONSE})
    async def get(self, request: Request) -> Response:
        """Show a response that was kept: also one whose program went away before it was there."""
        caller, talking = await self._talking.speakers.of(request), self._talking
        exchange = await talking.exchange(_ref(request.path_params["response_id"]), caller)
        waits: _Status = "failed" if exchange.failed else "in_progress"
        status = waits if exchange.answer is None else "completed"
        return answer(_response(exchange, status, await talking.tokens(exchange.turn)))

    @talkers
    @described({200: {"id": str, "object": str, "deleted": bool}})
    async def delete(self, request: Request) -> Response:
        """Forget a response, so that nobody can go on from it. What the agent has kept itself stays."""
        caller, talking = await self._talking.speakers.of(request), self._talking
        ref = _ref(request.path_params["response_id"])
        await talking.exchange(ref, caller)
        await talking.exchanges.delete(ref, talking.whose(caller))
        return answer({"id": f"{_ID}{ref}", "object": "response.deleted", "deleted": True})


class ResponseWords:
    """An answer as the numbered events of a response."""

    def __init__(self, exchange: ProgramExchange, metadata: dict[str, str], *, store: bool) -> None:
        self._exchange = exchange
        self._metadata = metadata
        self._store = store
        self._number = 0

    def begun(self) -> Iterable[bytes]:
        """Tell of the response, and of its one message."""
        begun = self._shown("in_progress")
        yield self._event("response.created", response=begun)
        yield self._event("response.in_progress", response=begun)
        yield self._event(
            "response.output_item.added", output_index=0, item=_message(self._exchange, "in_progress", text=None)
        )
        yield self._event("response.content_part.added", **self._place, part=_part(""))

    def more(self, text: str) -> Iterable[bytes]:
        """Tell words."""
        yield self._event("response.output_text.delta", **self._place, delta=text, logprobs=[])

    def ended(self, text: str, tokens: tuple[int, int]) -> Iterable[bytes]:
        """Tell that the message is whole, and the response with it."""
        self._exchange = replace(self._exchange, answer=text)
        yield self._event("response.output_text.done", **self._place, text=text, logprobs=[])
        yield self._event("response.content_part.done", **self._place, part=_part(text))
        yield self._event(
            "response.output_item.done", output_index=0, item=_message(self._exchange, "completed", text=text)
        )
        yield self._event("response.completed", response=self._shown("completed", tokens))

    def failed(self, error: DaycareError) -> Iterable[bytes]:
        """Tell why there is no answer."""
        told = openai_error(error, error.http_status)
        failed = self._shown("failed") | {"error": {"code": "server_error", "message": told["message"]}}
        yield self._event("response.failed", response=failed)

    @property
    def _place(self) -> dict[str, Any]:
        return {"item_id": f"msg_{self._exchange.ref}", "output_index": 0, "content_index": 0}

    def _shown(self, status: "_Status", tokens: tuple[int, int] | None = None) -> dict[str, Any]:
        return _response(self._exchange, status, tokens, metadata=self._metadata, store=self._store)

    def _event(self, name: str, **more: Any) -> bytes:
        self._number += 1
        return event({"type": name, "sequence_number": self._number - 1, **more}, name)


_Status = Literal["in_progress", "completed", "failed"]


def _response(
    exchange: ProgramExchange,
    status: _Status,
    tokens: tuple[int, int] | None = None,
    *,
    metadata: dict[str, str] | None = None,
    store: bool = True,
) -> dict[str, Any]:
    done = status == "completed"
    given, made = tokens or (0, 0)
    usage = {
        "input_tokens": given,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": made,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": given + made,
    }
    return {
        "id": f"{_ID}{exchange.ref}",
        "object": "response",
        "created_at": exchange.created_at // 1_000,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": exchange.instructions or None,
        "metadata": metadata or {},
        "model": exchange.model,
        "output": [_message(exchange, "completed", text=exchange.answer or "")] if done else [],
        "parallel_tool_calls": False,
        "previous_response_id": f"{_ID}{exchange.previous}" if exchange.previous else None,
        "conversation": {"id": exchange.conversation} if exchange.conversation else None,
        "store": store,
        "temperature": None,
        "top_p": None,
        "text": {"format": {"type": "text"}},
        "tool_choice": "none",
        "tools": [],
        "truncation": "auto",
        "usage": usage if done else None,
    }


def _message(exchange: ProgramExchange, status: _Status, *, text: str | None) -> dict[str, Any]:
    content = [] if text is None else [_part(text)]
    return {
        "id": f"msg_{exchange.ref}",
        "type": "message",
        "role": "assistant",
        "status": status,
        "content": content,
    }


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _ref(response_id: str) -> str:
    if not response_id.startswith(_ID):
        raise NotFoundError("RESPONSE_UNKNOWN", "looking up a response: there is none of this id", hint="resp_...")
    return response_id.removeprefix(_ID)
