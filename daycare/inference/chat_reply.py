"""The Chat Completions format, the reply: put together from the frames of a stream. Does no I/O."""

from typing import Any, Final, Literal

import msgspec

from daycare.base.limits import MODEL_THOUGHT_MAX_CHARS, REPLY_MAX_CHARS
from daycare.base.messages import Message, Part, Text, Thinking, ToolCall, Usage
from daycare.base.sse import SseEvent, decode, decode_frame
from daycare.base.wellformed import JoinedText, well_formed
from daycare.inference.chat import KIND
from daycare.inference.history import unique_id
from daycare.inference.refusals import Refused
from daycare.plugin import Completion, InferRequest

_Finish = Literal["stop", "tools", "length", "refused"]
_FINISH: Final[dict[str, _Finish]] = {
    "stop": "stop",
    "tool_calls": "tools",
    "function_call": "tools",
    "length": "length",
    "content_filter": "refused",
}


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None  # some servers send the object itself


class _Call(msgspec.Struct):
    index: int | None = None  # some servers leave it out
    id: str | None = None
    function: _Function | None = None


class _Delta(msgspec.Struct):
    role: str | None = None
    content: str | None = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None


_KNOWN: Final = frozenset(_Delta.__struct_fields__)


class _Choice(msgspec.Struct):
    index: int | None = None
    delta: dict[str, Any] | None = None
    message: dict[str, Any] | None = None  # of a server that does not stream
    finish_reason: str | None = None


class _Frame(msgspec.Struct):
    """One frame of a reply, or a whole reply of a server that does not stream."""

    model: str | None = None
    choices: list[_Choice] | None = None
    usage: dict[str, Any] | None = None
    error: Any = None


class _OpenCall(msgspec.Struct):
    id: str = ""
    name: str = ""
    arguments: str = ""


class ChatReply:
    """A reply in the making, see `http.ProviderReply`; `completion` is whole tool calls or none.

    A reply that outgrows `REPLY_MAX_CHARS` is `full`: it ends there, as one that a token limit cut. Thoughts are signs
    of life, and are kept only where the server may want them back: `reasoning_content` beside tool calls.
    """

    def __init__(self, request: InferRequest) -> None:
        self._request = request
        self._text: list[str] = []
        self._joined = JoinedText()
        self._thoughts: list[str] = []
        self._calls: dict[int, _OpenCall] = {}
        self._numbered = False  # the server gives its calls an index
        self._chars = 0
        self._thought_chars = 0
        self._finish: _Finish | None = None
        self._refused = False
        self._usage = Usage()
        self._model = request.model

    @property
    def full(self) -> bool:
        """Whether nothing more is taken."""
        return self._chars >= REPLY_MAX_CHARS or self._thought_chars >= MODEL_THOUGHT_MAX_CHARS

    @property
    def finished(self) -> bool:
        """Whether the server said that the reply is whole."""
        return self._finish is not None

    def add(self, event: SseEvent) -> str | None:
        """Take a frame; return its text, "" if it carried something else of the reply, None if nothing."""
        if event.data.strip() == "[DONE]":
            self._end("stop")
            return None
        frame: _Frame = decode_frame(event.data, _Frame)
        if frame.error:
            raise Refused({"error": frame.error})
        self._model = frame.model or self._model
        if frame.usage:
            self._usage = _usage(frame.usage)
        if not frame.choices:
            self._must(frame.choices is not None or bool(frame.usage))
            return None
        choice = frame.choices[0]
        raw = choice.delta if choice.delta is not None else choice.message
        self._must(raw is not None or bool(choice.finish_reason))
        text = self._add_delta(raw or {})
        if choice.finish_reason:
            self._end(choice.finish_reason)
        return text

    def _add_delta(self, raw: dict[str, Any]) -> str:
        delta = _delta(raw)
        self._must(not raw or not _KNOWN.isdisjoint(raw))
        text = delta.content or ""
        if delta.refusal:
            self._refused = True
            text += delta.refusal
        if text:
            text = self._room(self._joined.feed(text))
            self._text.append(text)
        if delta.reasoning_content:
            self._thoughts.append(delta.reasoning_content)
        self._thought_chars += 1 + len(delta.reasoning_content or delta.reasoning or "")
        if delta.tool_calls:
            for call in delta.tool_calls:
                self._add_call(call)
        return text

    def _must(self, understood: bool) -> None:
        """Refuse a frame in the midst of tool calls that says nothing we know: it may have held a piece of one.

        What is left could be JSON by chance, and not what the model wrote.
        """
        if self._calls and self._finish is None and not understood:
            raise ValueError("in the midst of a tool call it says nothing that is known")

    def _end(self, reason: str) -> None:
        """Note that the reply is whole, and why it ended; the first reason stands. One never seen is a plain end."""
        if self._finish is None:
            self._finish = _FINISH.get(reason, "stop")

    def completion(self) -> Completion:
        """Return the reply. Raises `ValueError` if the model's tool calls make no sense."""
        finish: _Finish = "length" if self.full else "refused" if self._refused else self._finish or "stop"
        calls: tuple[ToolCall, ...] = ()
        if finish in ("stop", "tools"):  # a reply that was cut or filtered may hold half a call
            for call in self._calls.values():
                calls += (self._decode_call(call, [other.id for other in calls]),)
            if finish == "tools" and not calls and not any(self._text):
                raise ValueError("the server speaks of tool calls and sent none")
            finish = "tools" if calls else "stop"
        text = "".join(self._text) + self._joined.end()
        thought = well_formed("".join(self._thoughts)) if calls else ""
        parts: tuple[Part, ...] = (Text(text),) if text else ()
        if thought:
            parts += (Thinking(KIND, {"model": self._request.model, "reasoning_content": thought}),)
        parts += calls
        message = Message("assistant", parts, at_ms=self._request.now_ms)
        return Completion(message=message, finish=finish, usage=self._usage, model=self._model)

    def _room(self, text: str) -> str:
        text = text[: REPLY_MAX_CHARS - self._chars]
        self._chars += len(text)
        return text

    def _add_call(self, delta: _Call) -> None:
        if delta.function is None and not delta.id:
            raise ValueError("a piece of a tool call is empty")
        if delta.index is not None:
            key = delta.index
            self._numbered = True
            there = self._calls.get(key)
            if there and delta.function and delta.function.name and delta.id and there.id not in ("", delta.id):
                key = max(self._calls) + 1  # some servers give each call the same number
        elif self._numbered:
            raise ValueError("a piece of a tool call does not say of which")
        elif delta.id or not self._calls:
            key = len(self._calls)
        else:
            key = next(reversed(self._calls))
        call = self._calls.setdefault(key, _OpenCall())
        call.id = delta.id or call.id
        if delta.function:
            if delta.function.name is None and delta.function.arguments is None:
                raise ValueError("a piece of a tool call is empty")
            call.name = call.name or delta.function.name or ""
            arguments = delta.function.arguments or ""
            if isinstance(arguments, dict):
                arguments = msgspec.json.encode(arguments).decode()
            call.arguments += self._room(arguments)
        self._chars += 1  # so that a flood of empty calls is bounded, too

    def _decode_call(self, call: _OpenCall, others: list[str]) -> ToolCall:
        if not call.name:
            raise ValueError("a tool call has no name")
        try:
            arguments = decode(well_formed(call.arguments.strip()) or "{}", dict[str, Any])
        except ValueError as error:
            raise ValueError(f"the arguments of {call.name} are not a JSON object: {error}") from error
        return ToolCall(unique_id(call.id, others, self._request.messages), call.name, arguments)


def _delta(raw: dict[str, Any]) -> _Delta:
    try:
        return msgspec.convert(raw, _Delta)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error


def _usage(raw: dict[str, Any]) -> Usage:
    def count(value: Any) -> int:
        return value if isinstance(value, int) and value > 0 else 0

    details = raw.get("prompt_tokens_details")
    return Usage(
        input_tokens=count(raw.get("prompt_tokens")),
        output_tokens=count(raw.get("completion_tokens")),
        cached_tokens=count(details.get("cached_tokens")) if isinstance(details, dict) else 0,
    )
