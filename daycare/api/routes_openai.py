"""OpenAI's protocol, for programs that speak it: each agent is a model, and what is said to it its own conversation.

Only the last message of a request goes to the agent: it remembers the others, and must not hear them twice. What a
client says as `system` is left out, an agent has a character of its own; so are settings such as `temperature`.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec
import trio
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from daycare.api.callers import Caller, caller_of, persons
from daycare.api.described import MediaBody, described
from daycare.api.documents import answer, body
from daycare.api.errors import openai_error
from daycare.api.replies import DirectReplies
from daycare.api.services import Services
from daycare.api.wanted import outcome, while_wanted
from daycare.base.connector import DIRECT
from daycare.base.errors import DaycareError, InvalidError, NotFoundError, UnavailableError
from daycare.base.events import ToolStarted, TurnDelta
from daycare.base.ids import new_trace_id
from daycare.base.limits import API_PAGE_MAX_ROWS, API_WAIT_MAX_S
from daycare.observe.bus import Gap, Subscription
from daycare.plugin import Inbound
from daycare.store.records import OutboxRow, Receipt

OPENAI_KEEPALIVE_S: Final = 10.0  # a comment, so that no proxy takes a long turn for a dead one

_MODEL: Final = "daycare"  # the caller's own agent; `daycare/ann/agent/scribe` is another
_HEARD: Final = frozenset({"turn.delta", "tool.started"})

_encode = msgspec.json.Encoder().encode


_COMPLETION: Final = {"id": str, "object": str, "created": int, "model": str, "choices": list[dict[str, Any]]}


class TextPart(msgspec.Struct, frozen=True, tag_field="type", tag="text"):
    """Words."""

    text: str


class LastMessage(msgspec.Struct, frozen=True, kw_only=True):
    """The last message of a request."""

    role: Literal["user"]
    content: str | list[TextPart]

    @property
    def text(self) -> str:
        """What is said."""
        return self.content if isinstance(self.content, str) else "\n".join(part.text for part in self.content)


class StreamOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a stream ends."""

    include_usage: bool = False


class ChatRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked for; other fields are for models, and left out."""

    model: str
    messages: list[msgspec.Raw]
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    n: int | None = 1
    tools: list[msgspec.Raw] | None = None


class OpenAIRoutes:
    """`/openai/v1`."""

    def __init__(self, services: Services, closing: trio.Event) -> None:
        self._services = services
        self.router = services.router
        self.closing = closing
        self.replies = DirectReplies(services.store.outbox, services.bus, services.clock)

    def routes(self) -> list[Route]:
        """Return the routes of this file."""
        return [
            Route("/openai/v1/models", self.models),
            Route("/openai/v1/chat/completions", self.complete, methods=["POST"]),
        ]

    @persons
    @described({200: {"object": str, "data": list[dict[str, Any]]}})
    async def models(self, request: Request) -> Response:
        """List the agents that can be talked to, as models."""
        caller = caller_of(request)
        user = caller.user if caller.own_only else None
        agents = await self._services.store.agents.find(user=user, limit=API_PAGE_MAX_ROWS)
        named = [] if caller.paths else [(_MODEL, 0)]
        named += [(f"{_MODEL}{it.path}", it.created_at // 1_000) for it in agents if caller.sees(it.path)]
        models = [{"id": name, "object": "model", "created": at, "owned_by": _MODEL} for name, at in named]
        return answer({"object": "list", "data": models})

    @persons
    @described(
        {200: (_COMPLETION, MediaBody("text/event-stream", _COMPLETION))},
        body=ChatRequest,
        headers={"idempotency-key": "A repeat with it is answered as the first was"},
        refuses=(409,),
    )
    async def complete(self, request: Request) -> Response:
        """Say the last message to an agent and answer with what it says, as it comes with `stream`."""
        wish, caller = await body(request, ChatRequest), caller_of(request)
        text, path = _said(wish), _path(wish.model)
        if path or caller.paths:
            caller.check_path(path or f"/{caller.user}/**")
        heard = self._services.bus.subscribe(types=_HEARD)  # from here on: the answer may begin at once
        receipt = await self._services.accept(
            self._inbound(caller, path, text, request.headers.get("idempotency-key", ""))
        )
        shape = _Shape(receipt, wish.model, self._services.clock.now_ms())
        if wish.stream:
            with_usage = wish.stream_options is not None and wish.stream_options.include_usage
            return CompletionStream(self, heard, receipt, shape, with_usage=with_usage)
        receipt = await outcome(request, self.closing, self.router, receipt, API_WAIT_MAX_S)
        if receipt.state == "waiting":
            raise UnavailableError(
                "ANSWER_LATE",
                f"completing a chat: no answer to message {receipt.seq} yet",
                hint="the message is kept and will be answered: GET /v1/replies",
            )
        rows = await self.replies.answering(receipt)
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": _text(rows, receipt)},
            "finish_reason": "stop",
        }
        done = answer(shape.of("chat.completion", [choice], usage=await self.usage(receipt)))
        done.background = BackgroundTask(self.replies.confirm, rows)  # once it is sent
        return done

    async def usage(self, receipt: Receipt) -> dict[str, int]:
        """Return the tokens of all calls of models that an answer took."""
        given, made = (0, 0) if receipt.turn is None else await self._services.store.ledger.tokens(receipt.turn)
        return {"prompt_tokens": given, "completion_tokens": made, "total_tokens": given + made}

    def _inbound(self, caller: Caller, path: str, text: str, key: str) -> Inbound:
        return Inbound(
            connector=DIRECT,
            sender=f"{DIRECT}:{caller.user or self._services.owner}",
            key=f"openai:{caller.name}:{key}" if key else f"openai:{new_trace_id()}",
            text=text,
            path=path,
        )


class _Shape:
    """What all documents of one answer have in common."""

    def __init__(self, receipt: Receipt, model: str, now_ms: int) -> None:
        self._common = {"id": f"chatcmpl-{receipt.trace}", "model": model, "created": now_ms // 1_000}

    def of(self, kind: str, choices: list[dict[str, Any]], *, usage: Mapping[str, int] | None = None) -> dict[str, Any]:
        """Return a document."""
        found: dict[str, Any] = {**self._common, "object": kind, "choices": choices}
        return found if usage is None else {**found, "usage": usage}

    def chunk(self, delta: dict[str, str], finish: str | None = None) -> dict[str, Any]:
        """Return a piece of a streamed answer."""
        return self.of("chat.completion.chunk", [{"index": 0, "delta": delta, "finish_reason": finish}])


class CompletionStream(Response):
    """An answer as it comes. Tools that the agent uses meanwhile are told as comments.

    What was streamed is a preview; what the reply has beyond it follows at the end.
    """

    def __init__(
        self, routes: OpenAIRoutes, heard: Subscription, receipt: Receipt, shape: _Shape, *, with_usage: bool
    ) -> None:
        super().__init__(media_type="text/event-stream", headers={"Cache-Control": "no-store"})
        del self.headers["content-length"]
        self._routes = routes
        self._heard = heard
        self._receipt = receipt
        self._shape = shape
        self._with_usage = with_usage
        self._shown = ""  # of what the model says at the moment
        self._parted = False  # it said something before that, and used a tool

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the stream."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async with self._heard, while_wanted(self._routes.closing, receive):
            await self._send(send, self._shape.chunk({"role": "assistant", "content": ""}))
            try:
                receipt = await self._follow(send)
                rows = await self._routes.replies.answering(receipt)
                if rest := self._rest(_text(rows, receipt)):
                    await self._send(send, self._shape.chunk({"content": rest}))
                await self._send(send, self._shape.chunk({}, "stop"))
                if self._with_usage:
                    usage = await self._routes.usage(receipt)
                    await self._send(send, self._shape.of("chat.completion.chunk", [], usage=usage))
                await self._write(send, b"data: [DONE]\n\n")
                await self._routes.replies.confirm(rows)
            except DaycareError as error:
                await self._send(send, {"error": openai_error(error, error.http_status)})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _follow(self, send: Send) -> Receipt:
        """Pass on what is heard until there is an answer, which is returned."""
        final: list[Receipt | DaycareError] = []
        with trio.CancelScope() as listening:

            async def wait() -> None:
                try:
                    final.append(await self._routes.router.wait(self._receipt, API_WAIT_MAX_S))
                except DaycareError as error:
                    final.append(error)
                listening.cancel()

            async with trio.open_nursery() as nursery:
                nursery.start_soon(wait)
                while True:
                    await self._hear(send)
        [found] = final
        if isinstance(found, DaycareError):
            raise found
        return found

    async def _hear(self, send: Send) -> None:
        with trio.move_on_after(OPENAI_KEEPALIVE_S) as quiet:
            heard = await anext(self._heard, None)
            if heard is None:  # the daemon stops, and ends this in a moment
                await trio.sleep_forever()
            _, event = heard
        if quiet.cancelled_caught:
            await self._write(send, b": still here\n\n")
        elif isinstance(event, Gap) or event.trace != self._receipt.trace:
            return
        elif isinstance(event, TurnDelta):
            parted = "\n\n" if self._parted and not self._shown else ""
            self._shown += event.text
            await self._send(send, self._shape.chunk({"content": parted + event.text}))
        elif isinstance(event, ToolStarted):
            self._parted, self._shown = self._parted or bool(self._shown), ""
            await self._write(send, f": tool {event.tool}\n\n".encode())

    def _rest(self, text: str) -> str:
        """Return what is to be sent yet of the reply, all of it if what was streamed is something else."""
        if text.startswith(self._shown):
            return ("\n\n" if self._parted and not self._shown and text else "") + text[len(self._shown) :]
        return f"\n\n{text}"

    async def _send(self, send: Send, document: Any) -> None:
        await self._write(send, b"data: %s\n\n" % _encode(document))

    async def _write(self, send: Send, data: bytes) -> None:
        with trio.CancelScope(shield=True):  # a chunk is sent whole; a reader that hangs is cut by the server
            await send({"type": "http.response.body", "body": data, "more_body": True})


def _said(wish: ChatRequest) -> str:
    """Return the words of the last message. Raises `InvalidError` for what an agent cannot be asked."""
    if wish.n not in (None, 1):
        raise InvalidError("BODY_INVALID", "completing a chat: n: an agent gives one answer")
    if wish.tools:
        raise InvalidError("BODY_INVALID", "completing a chat: tools: an agent has its own, and takes none of a client")
    if not wish.messages:
        raise InvalidError("BODY_INVALID", "completing a chat: messages: there is none")
    try:
        text = msgspec.json.decode(wish.messages[-1], type=LastMessage).text
    except msgspec.ValidationError as error:
        raise InvalidError(
            "BODY_INVALID", f"completing a chat: the last message: {error}; it has to be a user's, in words"
        ) from None
    if not text.strip():
        raise InvalidError("BODY_INVALID", "completing a chat: the last message says nothing")
    return text


def _path(model: str) -> str:
    """Return the path of the agent that a model stands for, "" for the caller's own. Raises `NotFoundError`."""
    name, slash, path = model.partition("/")
    if name != _MODEL or (slash and not path):
        raise NotFoundError(
            "MODEL_UNKNOWN", f"completing a chat: no model is called {model[:200]}", hint=f"{_MODEL}, or {_MODEL}/PATH"
        )
    return f"/{path}" if path else ""


def _text(rows: list[OutboxRow], receipt: Receipt) -> str:
    """Return what replies say; those to a message that was sent before were confirmed then."""
    return "\n\n".join(row.text for row in rows if row.text) or receipt.result or ""
