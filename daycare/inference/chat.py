"""The Chat Completions format, the request: one of ours as its JSON. Does no I/O."""

from base64 import b64encode
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from daycare.base.bounded import MadeOnce
from daycare.base.limits import TOOLS_KNOWN_MAX
from daycare.base.messages import Audio, Image, Message, Text, Thinking, ToolCall, ToolResult
from daycare.inference.history import UNCERTAIN, turn_start
from daycare.plugin import InferRequest, OutputSpec, ToolSpec

KIND: Final = "openai"

_RESULT_PREFIX: Final = {
    "ok": "",
    "error": "Error: ",
    "uncertain": UNCERTAIN,
}


def encode_request(request: InferRequest) -> dict[str, Any]:
    """Return the body of a streaming request, without token limit: servers differ in the name of that field."""
    body: dict[str, Any] = {
        "model": request.model,
        "messages": list(_encode_messages(request)),
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if request.tools:
        body["tools"] = [_tools.of(tool) for tool in request.tools]
        if not request.may_call:
            body["tool_choice"] = "none"
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.output is not None:
        body["response_format"] = {"type": "json_schema", "json_schema": _encode_output(request.output)}
    return body


def _encode_tool(tool: ToolSpec) -> msgspec.Raw:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.schema}
    return msgspec.Raw(msgspec.json.encode({"type": "function", "function": function}))


_tools: Final = MadeOnce(_encode_tool, TOOLS_KNOWN_MAX)  # half of a request's bytes, and the same in each


def _encode_output(output: OutputSpec) -> dict[str, Any]:
    """OpenAI itself keeps to a schema only if it is `strict`, which it refuses for schemas that leave things open."""
    spec = {"name": output.name, "schema": output.schema}
    return spec | {"strict": True} if _is_closed(output.schema) else spec


def _is_closed(schema: Any) -> bool:
    """Whether each object of a JSON Schema names all that it may and must hold."""
    if isinstance(schema, list):
        return all(_is_closed(item) for item in schema)
    if not isinstance(schema, dict):
        return True
    if schema.get("type") == "object":
        fields = schema.get("properties", {})
        if schema.get("additionalProperties") is not False or set(schema.get("required", ())) != set(fields):
            return False
    return all(_is_closed(value) for value in schema.values())


def _encode_messages(request: InferRequest) -> Iterator[dict[str, Any]]:
    if request.system:
        yield {"role": "system", "content": request.system}
    start = turn_start(request.messages)
    for number, message in enumerate(request.messages):
        if message.role == "user":
            yield {"role": "user", "content": _encode_content(message)}
        elif message.role == "tool":
            for part in message.parts:
                if isinstance(part, ToolResult):
                    content = _RESULT_PREFIX[part.status] + part.text
                    yield {"role": "tool", "tool_call_id": part.call_id, "content": content}
        elif found := message.tool_calls:
            calls = [_encode_call(call) for call in found]
            thought = _thought(message, request.model) if number > start else {}
            yield {"role": "assistant", "content": message.text or None, "tool_calls": calls} | thought
        elif text := message.text:
            yield {"role": "assistant", "content": text}
        # An assistant that said nothing is left out: several servers refuse an empty assistant message.


HEARD: Final = {"audio/wav": "wav", "audio/mpeg": "mp3"}  # what a message may carry, as the protocol calls it


def _encode_content(message: Message) -> str | list[dict[str, Any]]:
    """Return plain text where there is nothing else: not every server takes a list."""
    if not {Image, Audio} & set(map(type, message.parts)):
        return message.text
    content: list[dict[str, Any]] = []
    for part in message.parts:
        if isinstance(part, Text):
            content.append({"type": "text", "text": part.text})
        elif isinstance(part, Image):
            url = f"data:{part.media_type};base64,{b64encode(part.data).decode()}"
            content.append({"type": "image_url", "image_url": {"url": url}})
        elif isinstance(part, Audio):
            sound = {"data": b64encode(part.data).decode(), "format": HEARD[part.media_type]}
            content.append({"type": "input_audio", "input_audio": sound})
    return content


def _thought(message: Message, model: str) -> dict[str, Any]:
    """Give a model its thoughts of this turn back: some refuse to go on after their tool calls without them."""
    for part in message.parts:
        if isinstance(part, Thinking) and part.provider == KIND and part.data.get("model") == model:
            return {"reasoning_content": part.data["reasoning_content"]}
    return {}


def _encode_call(call: ToolCall) -> dict[str, Any]:
    arguments = msgspec.json.encode(call.arguments).decode()
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}
