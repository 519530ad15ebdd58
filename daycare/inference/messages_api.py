"""The Anthropic Messages format, the request: one of ours as its JSON. Does no I/O.

What that API is particular about: user and assistant take turns, a call's results come first in the message that
follows it, no text is blank, ids are plain and unique, and thoughts of the current turn come back as they were.
"""

import re
from base64 import b64encode
from collections.abc import Iterator, Sequence
from typing import Any, Final

from daycare.base.limits import MODEL_OUTPUT_TOKENS
from daycare.base.messages import Image, Message, Part, Text, Thinking, ToolCall, ToolResult
from daycare.inference.history import UNCERTAIN, turn_start
from daycare.plugin import InferRequest

KIND: Final = "anthropic"

_Block = dict[str, Any]

_CACHED: Final = {"cache_control": {"type": "ephemeral"}}
_NO_CONSTRAINTS: Final = {  # what the API refuses in a schema that replies must keep to; who asked checks it anyway
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength"),
    *("minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties"),
}
_MAPS: Final = {"properties", "$defs", "definitions"}  # of schemas, by names that are not keywords


def encode_request(request: InferRequest, extra: dict[str, Any]) -> dict[str, Any]:
    """Return the body of a streaming request; fields of `extra` stand above ours.

    The prompt is cached in three pieces: tools, system, and the conversation up to its last message.
    """
    body: dict[str, Any] = {
        "model": request.model,
        "max_tokens": request.max_output_tokens or MODEL_OUTPUT_TOKENS,
        "messages": _encode_messages(request.messages),
        "stream": True,
    }
    if request.system.strip():
        body["system"] = [{"type": "text", "text": request.system} | _CACHED]
    tools = [{"name": it.name, "description": it.description, "input_schema": it.schema} for it in request.tools]
    called = [] if tools else _called(request.messages)
    if tools := tools or called:
        body["tools"] = tools
        tools[-1] |= _CACHED
        if called or not request.may_call:
            body["tool_choice"] = {"type": "none"}
    if request.temperature is not None:
        body["temperature"] = request.temperature
    body |= extra
    if request.output is not None:
        wanted = {"format": {"type": "json_schema", "schema": _closed(request.output.schema)}}
        body["output_config"] = body.get("output_config", {}) | wanted
    _make_room_for_thought(body, extra)
    return body


def _called(messages: Sequence[Message]) -> list[_Block]:
    """Return declarations of the tools that a conversation speaks of: the API refuses it without any."""
    names = dict.fromkeys(call.name for message in messages for call in message.tool_calls)
    return [{"name": name, "description": "(not at hand)", "input_schema": {"type": "object"}} for name in names]


def _make_room_for_thought(body: dict[str, Any], extra: dict[str, Any]) -> None:
    """A model that thinks takes no temperature, and its budget is a part of `max_tokens`."""
    thinking = body.get("thinking")
    if not isinstance(thinking, dict) or thinking.get("type") == "disabled":
        return
    budget = thinking.get("budget_tokens")
    if isinstance(budget, int) and body["max_tokens"] <= budget:
        body["max_tokens"] += budget
    if "temperature" not in extra:
        body.pop("temperature", None)


def _closed(schema: Any) -> Any:
    """Return a JSON Schema in which each object is closed and nothing stands that the API refuses."""
    if isinstance(schema, list):
        return [_closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {
        key: {name: _closed(inner) for name, inner in value.items()}
        if key in _MAPS and isinstance(value, dict)
        else _closed(value)
        for key, value in schema.items()
        if key not in _NO_CONSTRAINTS
    }
    return closed | {"additionalProperties": False} if schema.get("type") == "object" else closed


# -- the conversation ------------------------------------------------------------------------------------------------


def _encode_messages(messages: Sequence[Message]) -> list[_Block]:
    start = turn_start(messages)
    ids = _Ids()
    wire: list[_Block] = []
    for number, message in enumerate(messages):
        role = "assistant" if message.role == "assistant" else "user"
        blocks = [block for part in message.parts for block in _encode_part(part, ids, thoughts=number > start)]
        if not blocks:
            if message.role != "user":
                continue  # an assistant that said nothing
            blocks = [{"type": "text", "text": "(no text)"}]
        if wire and wire[-1]["role"] == role:
            wire[-1]["content"] += blocks
        else:
            wire.append({"role": role, "content": blocks})
    if wire and wire[0]["role"] == "assistant":
        wire.insert(0, {"role": "user", "content": [{"type": "text", "text": "(earlier messages are left out)"}]})
    for turn in wire:
        turn["content"].sort(key=lambda block: turn["role"] == "user" and block["type"] != "tool_result")
    if wire:
        wire[-1]["content"][-1] |= _CACHED
    return wire


def _encode_part(part: Part, ids: "_Ids", *, thoughts: bool) -> Iterator[_Block]:
    match part:
        case Text(text) if text.strip():
            yield {"type": "text", "text": text}
        case Image(media_type, data):
            source = {"type": "base64", "media_type": media_type, "data": b64encode(data).decode()}
            yield {"type": "image", "source": source}
        case ToolCall(id, name, arguments):
            yield {"type": "tool_use", "id": ids.of_call(id), "name": name, "input": arguments}
        case ToolResult(call_id=call_id, text=text, status=status):
            text = UNCERTAIN + text if status == "uncertain" else text
            block: _Block = {"type": "tool_result", "tool_use_id": ids.of_result(call_id)}
            if text.strip():
                block["content"] = text
            if status == "error":
                block["is_error"] = True
            yield block
        case Thinking(provider, data) if thoughts and provider == KIND:
            yield dict(data)
        case _:
            pass  # blank text, thoughts of other turns or providers, files that nobody resolved


class _Ids:
    """Ids of calls as the API takes them: of few characters, and each once. The same request gives the same ids."""

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._now: dict[str, str] = {}  # id of ours -> of the latest call that had it

    def of_call(self, id_: str) -> str:
        plain = re.sub(r"[^a-zA-Z0-9_-]", "_", id_) or "call"
        wire, number = plain, 1
        while wire in self._used:
            number += 1
            wire = f"{plain}_{number}"
        self._used.add(wire)
        self._now[id_] = wire
        return wire

    def of_result(self, id_: str) -> str:
        return self._now.get(id_, id_)
