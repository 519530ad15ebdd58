"""`/chat/completions`: the last words of a conversation are said to an agent."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daycare.api.described import MediaBody, described
from daycare.api.documents import answer, body
from daycare.api.errors import openai_error
from daycare.api.replies import spoken
from daycare.base.errors import DaycareError
from daycare.features.openai.requests import ChatRequest, asked_in_chat
from daycare.features.openai.speakers import talkers
from daycare.features.openai.streams import AnswerStream, event
from daycare.features.openai.talking import HEADERS, Talking
from daycare.store.records import Receipt

_COMPLETION: Final = {"id": str, "object": str, "created": int, "model": str, "choices": list[dict[str, Any]]}


class ChatRoutes:
    """`/openai/v1/chat/completions`."""

    def __init__(self, talking: Talking) -> None:
        self._talking = talking

    def routes(self) -> list[Route]:
        """Return the routes of chats."""
        return [Route("/openai/v1/chat/completions", self.complete, methods=["POST"])]

    @talkers
    @described(
        {200: (_COMPLETION, MediaBody("text/event-stream", _COMPLETION))},
        body=ChatRequest,
        headers=HEADERS,
        refuses=(409,),
    )
    async def complete(self, request: Request) -> Response:
        """Say the last message to an agent and answer with what it says, as it comes with `stream`."""
        wish = await body(request, ChatRequest)
        caller, asked, talking = await self._talking.speakers.of(request), asked_in_chat(wish), self._talking
        heard = talking.listen()
        named = wish.user if isinstance(wish.user, str) else None  # an object is a program's account of its user
        receipt, _ = await talking.say(request, caller, asked, wish.model, named)
        told = ChatWords(
            receipt,
            wish.model,
            talking.clock.now_ms(),
            with_usage=wish.stream_options is not None and wish.stream_options.include_usage,
        )
        if wish.stream:
            return AnswerStream(talking, heard, receipt, told)
        receipt, rows = await talking.answered(request, receipt)
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": spoken(rows, receipt), "refusal": None},
            "logprobs": None,
            "finish_reason": "stop",
        }
        done = answer(told.of("chat.completion", [choice], usage=_usage(await talking.tokens(receipt.turn))))
        done.background = BackgroundTask(talking.confirm, rows)  # once it is sent
        return done


class ChatWords:
    """An answer as `chat.completion`, or in chunks: all its documents have their id, model and time in common."""

    def __init__(self, receipt: Receipt, model: str, now_ms: int, *, with_usage: bool) -> None:
        self._common = {"id": f"chatcmpl-{receipt.trace}", "model": model, "created": now_ms // 1_000}
        self._with_usage = with_usage

    def of(self, kind: str, choices: list[dict[str, Any]], *, usage: Mapping[str, int] | None = None) -> dict[str, Any]:
        """Return a document."""
        found: dict[str, Any] = {**self._common, "object": kind, "choices": choices}
        return found if usage is None else {**found, "usage": usage}

    def begun(self) -> Iterable[bytes]:
        """Tell whose words come."""
        yield self._chunk({"role": "assistant", "content": ""})

    def more(self, text: str) -> Iterable[bytes]:
        """Tell words."""
        yield self._chunk({"content": text})

    def ended(self, text: str, tokens: tuple[int, int]) -> Iterable[bytes]:
        """Tell the end."""
        yield self._chunk({}, "stop")
        if self._with_usage:
            yield event(self.of("chat.completion.chunk", [], usage=_usage(tokens)))
        yield b"data: [DONE]\n\n"

    def failed(self, error: DaycareError) -> Iterable[bytes]:
        """Tell an error, which is the end, too."""
        yield event({"error": openai_error(error, error.http_status)})

    def _chunk(self, delta: dict[str, str], finish: str | None = None) -> bytes:
        return event(self.of("chat.completion.chunk", [{"index": 0, "delta": delta, "finish_reason": finish}]))


def _usage(tokens: tuple[int, int]) -> dict[str, int]:
    given, made = tokens
    return {"prompt_tokens": given, "completion_tokens": made, "total_tokens": given + made}
