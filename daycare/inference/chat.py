"""The Chat Completions format: a request as its JSON, and a reply put together from its frames. Does no I/O."""

from collections.abc import Iterator
from typing import Any, Final, Literal, TypeVar

import msgspec

from daycare.base.limits import REPLY_MAX_CHARS
from daycare.base.messages import Message, Part, Text, ToolCall, ToolResult, Usage
from daycare.plugin import Completion, InferRequest

_T = TypeVar("_T")

_RESULT_PREFIX: Final = {
    "ok": "",
    "error": "Error: ",
    "uncertain": "Uncertain: it is not known whether this ran, and it will not be run again. ",
}

_Finish = Literal["stop", "tools", "length", "refused"]
_FINISH: Final[dict[str, _Finish]] = {
    "stop": "stop",
    "tool_calls": "tools",
    "function_call": "tools",
    "length": "length",
    "content_filter": "refused",
}


# -- the request -----------------------------------------------------------------------------------------------------


def encode_request(request: InferRequest) -> dict[str, Any]:
    """Return the body of a streaming request, without token limit: servers differ in the name of that field."""
    body: dict[str, Any] = {
        "model": request.model,
        "messages": list(_encode_messages(request)),
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if request.tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {"name": tool.name, "description": tool.description, "parameters": tool.schema},
            }
            for tool in request.tools
        ]
    if request.temperature is not None:
        body["temperature"] = request.temperature
    return body


def _encode_messages(request: InferRequest) -> Iterator[dict[str, Any]]:
    if request.system:
        yield {"role": "system", "content": request.system}
    for message in request.messages:
        if message.role == "tool":
            for part in message.parts:
                if isinstance(part, ToolResult):
                    content = _RESULT_PREFIX[part.status] + part.text
                    yield {"role": "tool", "tool_call_id": part.call_id, "content": content}
        elif message.tool_calls:
            calls = [_encode_call(call) for call in message.tool_calls]
            yield {"role": "assistant", "content": message.text or None, "tool_calls": calls}
        elif message.text or message.role == "user":
            yield {"role": message.role, "content": message.text}
        # An assistant that said nothing is left out: several servers refuse an empty assistant message.


def _encode_call(call: ToolCall) -> dict[str, Any]:
    arguments = msgspec.json.encode(call.arguments).decode()
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


# -- the reply -------------------------------------------------------------------------------------------------------


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None  # some servers send the object itself


class _Call(msgspec.Struct):
    index: int | None = None  # some servers leave it out
    id: str | None = None
    function: _Function | None = None


class _Delta(msgspec.Struct):
    content: str | None = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(msgspec.Struct):
    index: int | None = None
    delta: _Delta | None = None
    message: _Delta | None = None  # of a server that does not stream
    finish_reason: str | None = None


class Frame(msgspec.Struct):
    """One frame of a reply, or a whole reply of a server that does not stream."""

    model: str | None = None
    choices: list[_Choice] | None = None
    usage: dict[str, Any] | None = None
    error: Any = None


def decode(raw: str | bytes, type_: type[_T]) -> _T:
    """Decode JSON from outside. Raises `ValueError` for whatever is wrong with it."""
    try:
        return msgspec.json.decode(raw, type=type_)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(str(error)) from error


class _OpenCall(msgspec.Struct):
    id: str = ""
    name: str = ""
    arguments: str = ""


class Reply:
    """A reply in the making. Feed it frames; `completion` is whole tool calls or none.

    A reply that outgrows `REPLY_MAX_CHARS` is `full`: it ends there, as one that a token limit cut.
    """

    def __init__(self, request: InferRequest) -> None:
        self._request = request
        self._text: list[str] = []
        self._calls: dict[int, _OpenCall] = {}
        self._chars = 0
        self._finish: _Finish | None = None
        self._refused = False
        self._usage = Usage()
        self._model = request.model

    @property
    def full(self) -> bool:
        """Whether nothing more is taken."""
        return self._chars >= REPLY_MAX_CHARS

    @property
    def finished(self) -> bool:
        """Whether the server said that the reply is whole."""
        return self._finish is not None

    def add(self, frame: Frame) -> str | None:
        """Take a frame; return its text, "" if it carried something else of the reply, None if nothing."""
        self._model = frame.model or self._model
        if frame.usage:
            self._usage = _usage(frame.usage)
        choice = frame.choices[0] if frame.choices else None
        if choice is None:
            return None
        delta = choice.delta or choice.message or _Delta()
        self._refused = self._refused or bool(delta.refusal)
        text = self._room((delta.content or "") + (delta.refusal or ""))
        self._text.append(text)
        for call in delta.tool_calls or ():
            self._add_call(call)
        if choice.finish_reason:
            self.finish(choice.finish_reason)
        return text

    def finish(self, reason: str) -> None:
        """Note that the reply is whole, and why it ended; the first reason stands."""
        if self._finish is None:
            self._finish = _FINISH.get(reason, "stop")

    def completion(self) -> Completion:
        """Return the reply. Raises `ValueError` if the model's tool calls make no sense."""
        finish: _Finish = "length" if self.full else "refused" if self._refused else self._finish or "stop"
        calls: tuple[ToolCall, ...] = ()
        if finish in ("stop", "tools"):  # a reply that was cut or filtered may hold half a call
            calls = tuple(self._decode_call(call, number) for number, call in enumerate(self._calls.values()))
            finish = "tools" if calls else "stop"
        text = "".join(self._text)
        parts: tuple[Part, ...] = ((Text(text),) if text else ()) + calls
        message = Message("assistant", parts, at_ms=self._request.now_ms)
        return Completion(message=message, finish=finish, usage=self._usage, model=self._model)

    def _room(self, text: str) -> str:
        text = text[: REPLY_MAX_CHARS - self._chars]
        self._chars += len(text)
        return text

    def _add_call(self, delta: _Call) -> None:
        if delta.index is not None:
            key = delta.index
        elif delta.id or not self._calls:
            key = len(self._calls)
        else:
            key = next(reversed(self._calls))
        call = self._calls.setdefault(key, _OpenCall())
        call.id = delta.id or call.id
        if delta.function:
            call.name = call.name or delta.function.name or ""
            arguments = delta.function.arguments or ""
            if isinstance(arguments, dict):
                arguments = msgspec.json.encode(arguments).decode()
            call.arguments += self._room(arguments)
        self._chars += 1  # so that a flood of empty calls is bounded, too

    def _decode_call(self, call: _OpenCall, number: int) -> ToolCall:
        if not call.name:
            raise ValueError("a tool call has no name")
        try:
            arguments = decode(call.arguments.strip() or "{}", dict[str, Any])
        except ValueError as error:
            raise ValueError(f"the arguments of {call.name} are not a JSON object: {error}") from error
        return ToolCall(self._unique_id(call.id, number), call.name, arguments)

    def _unique_id(self, given: str, number: int) -> str:
        """Some servers number calls from 0 in each reply, or not at all; ids must be unique in a turn."""
        taken = {call.id for message in self._request.messages for call in message.tool_calls}
        same = [call.id for call in self._calls.values()].count(given) > 1
        if given and given not in taken and not same:
            return given
        return f"call_{len(self._request.messages)}_{number}"


def _usage(raw: dict[str, Any]) -> Usage:
    def count(value: Any) -> int:
        return value if isinstance(value, int) and value > 0 else 0

    details = raw.get("prompt_tokens_details")
    return Usage(
        input_tokens=count(raw.get("prompt_tokens")),
        output_tokens=count(raw.get("completion_tokens")),
        cached_tokens=count(details.get("cached_tokens")) if isinstance(details, dict) else 0,
    )
