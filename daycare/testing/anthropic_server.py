"""A model server that speaks Anthropic's Messages API over a real socket, and says what a test tells it to.

    async with FakeAnthropic.serve() as server:
        server.enqueue("Sure.", thinking="a tool would help", tool_calls=[("remind", {"after_s": 600})])
        ...  # a provider of kind "anthropic" with base_url=server.base_url
        assert server.history[0].body["max_tokens"] > 0

It is as strict as the real one: see `_wrong` and the functions that it calls.
"""

import re
from base64 import b64decode
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import msgspec

from daycare.testing.model_server import MODELS, Answering, FakeModelServer, ScriptedAnswer, ScriptedCall, echo, said

_KINDS: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}
_FIELDS: Final = {
    *("model", "messages", "max_tokens", "metadata", "output_config", "service_tier", "stop_sequences", "stream"),
    *("system", "temperature", "thinking", "tool_choice", "tools", "top_k", "top_p", "cache_control"),
}
_ID: Final = re.compile(r"[a-zA-Z0-9_-]+")
_VERSION: Final = re.compile(r"20\d\d-\d\d-\d\d")  # clients send the one that they were made for
_Block = dict[str, Any]


class FakeAnthropic(FakeModelServer):
    """The server; see `FakeModelServer`. `models` is what it lists, page by page."""

    def __init__(self, port: int = 0, reply: Answering = echo) -> None:
        super().__init__(port, reply)
        self.models: tuple[str, ...] = MODELS

    def _route(self, method: str, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> ScriptedAnswer | None:
        url = urlsplit(path)
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        if self.api_key is not None and headers.get("x-api-key", bearer) != self.api_key:
            return ScriptedAnswer(status=401, text="invalid x-api-key")
        if not _VERSION.fullmatch(headers.get("anthropic-version", "")):
            return ScriptedAnswer(status=400, text="anthropic-version: header is required")
        if (method, url.path) == ("GET", "/v1/models"):
            return self._list(parse_qs(url.query))
        if (method, path) != ("POST", "/v1/messages"):
            return ScriptedAnswer(status=404, text=f"Not found: {method} {path}")
        wrong = _wrong(body)
        return ScriptedAnswer(status=400, text=wrong) if wrong else None

    def _list(self, query: dict[str, list[str]]) -> ScriptedAnswer:
        after = query.get("after_id", [""])[0]
        start = self.models.index(after) + 1 if after in self.models else 0
        page = self.models[start : start + int(query.get("limit", ["20"])[0])]
        more = start + len(page) < len(self.models)
        listed = {"data": [{"type": "model", "id": model} for model in page], "has_more": more}
        if page:
            listed |= {"first_id": page[0], "last_id": page[-1]}
        return ScriptedAnswer(raw=msgspec.json.encode(listed), headers={"Content-Type": "application/json"})

    def _error(self, answer: ScriptedAnswer) -> dict[str, Any]:
        kind = _KINDS.get(answer.status, "api_error")
        return {"type": "error", "error": {"type": kind, "message": answer.text}, "request_id": "req_fake"}

    def _whole(self, body: dict[str, Any], answer: ScriptedAnswer) -> dict[str, Any]:
        usage = _usage(body, answer) | {"output_tokens": len(answer.text.split())}
        content = [
            block | {"input": msgspec.json.decode(block["input"])} if "input" in block else block
            for block in self._blocks(answer)
        ]
        return _head(body) | {"content": content, "stop_reason": _finish(answer), "usage": usage}

    def _stream(self, body: dict[str, Any], answer: ScriptedAnswer) -> Iterator[bytes]:
        usage = _usage(body, answer)
        head = _head(body) | {"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
        yield _event("message_start", message=head)
        yield _event("ping")
        for index, block in enumerate(self._blocks(answer)):
            yield from _streamed(index, block)
        if answer.finish != "":
            delta = {"stop_reason": _finish(answer), "stop_sequence": None}
            yield _event("message_delta", delta=delta, usage={"output_tokens": len(answer.text.split())})
            yield _event("message_stop")

    def _blocks(self, answer: ScriptedAnswer) -> list[_Block]:
        """Return the content; arguments of tools as JSON, not as the object."""
        blocks: list[_Block] = []
        if answer.thinking:
            blocks.append({"type": "thinking", "thinking": answer.thinking, "signature": signature(answer.thinking)})
        if answer.text:
            blocks.append({"type": "text", "text": answer.text})
        return blocks + [
            {"type": "tool_use", "id": self._call_id(call, "toolu_"), "name": call.name, "input": call.json}
            for call in answer.tool_calls
        ]


def signature(thought: str) -> str:
    """Return what proves that a thought was this server's."""
    return sha256(f"fake {thought}".encode()).hexdigest()[:16]


def _streamed(index: int, block: _Block) -> Iterator[bytes]:
    kind = block["type"]
    empty: dict[str, _Block] = {
        "text": {"text": ""},
        "thinking": {"thinking": "", "signature": ""},
        "tool_use": {"input": {}},
    }
    yield _event("content_block_start", index=index, content_block=block | empty[kind])
    deltas: list[_Block] = []
    if kind == "tool_use":
        pieces = ["", *(block["input"][at : at + 7] for at in range(0, len(block["input"]), 7))]
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    else:
        deltas = [{"type": f"{kind}_delta", kind: word} for word in re.findall(r"\S+\s*|\s+", block[kind])]
    if kind == "thinking":
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
    for delta in deltas:
        yield _event("content_block_delta", index=index, delta=delta)
    yield _event("content_block_stop", index=index)


def _event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\n".encode() + b"data: " + msgspec.json.encode({"type": kind} | fields) + b"\n\n"


def _head(body: dict[str, Any]) -> dict[str, Any]:
    return {"id": "msg_fake", "type": "message", "role": "assistant", "model": body.get("model", "")}


def _finish(answer: ScriptedAnswer) -> str:
    return answer.finish or ("tool_use" if answer.tool_calls else "end_turn")


def _usage(body: dict[str, Any], answer: ScriptedAnswer) -> dict[str, int]:
    """Count words as tokens; what was read from the cache or written to it is not counted again."""
    read = sum(len(said(message.get("content")).split()) for message in body["messages"])
    read += len(said(body.get("system")).split())
    return {
        "input_tokens": max(read - answer.cached_tokens - answer.cache_write_tokens, 0),
        "cache_creation_input_tokens": answer.cache_write_tokens,
        "cache_read_input_tokens": answer.cached_tokens,
        "output_tokens": 1,
    }


# -- what the real server refuses ------------------------------------------------------------------------------------


def _wrong(body: dict[str, Any]) -> str:
    """Return what the real server would refuse in a request, "" for nothing."""
    limit, messages = body.get("max_tokens"), body.get("messages")
    if unknown := body.keys() - _FIELDS:
        return f"{sorted(unknown)[0]}: Extra inputs are not permitted"
    if not isinstance(body.get("model"), str):
        return "model: Field required"
    if not isinstance(limit, int) or limit < 1:
        return "max_tokens: Field required"
    if not isinstance(messages, list) or not messages:
        return "messages: at least one message is required"
    return _wrong_thinking(body) or _wrong_tools(body) or _wrong_cache(body) or _wrong_order(messages)


def _wrong_thinking(body: dict[str, Any]) -> str:
    thinking = body.get("thinking") or {"type": "disabled"}
    if thinking["type"] == "disabled":
        return ""
    if thinking["type"] == "enabled" and not 1024 <= thinking.get("budget_tokens", 0) < body["max_tokens"]:
        return "max_tokens must be greater than thinking.budget_tokens, which is at least 1024"
    if body.get("temperature", 1) != 1:
        return "temperature may only be set to 1 when thinking is enabled"
    assistants = [message["content"] for message in body["messages"] if message.get("role") == "assistant"]
    results = any(block.get("type") == "tool_result" for block in _content(body["messages"][-1]))
    if results and assistants and not str(assistants[-1][0].get("type")).endswith("thinking"):
        return "Expected `thinking` or `redacted_thinking`, but found `tool_use`"
    return ""


def _wrong_tools(body: dict[str, Any]) -> str:
    names = [tool.get("name", "") for tool in body.get("tools") or ()]
    blocks = [block for message in body["messages"] for block in _content(message)]
    if not names and any(block.get("type") in ("tool_use", "tool_result") for block in blocks):
        return "Requests which include `tool_use` or `tool_result` blocks must define tools"
    if "tool_choice" in body and not names:
        return "tool_choice: may only be specified while providing tools"
    if len(set(names)) < len(names):
        return "tools: Tool names must be unique"
    for tool in body.get("tools") or ():
        if not re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", tool.get("name", "")):
            return "tools.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'"
        if (tool.get("input_schema") or {}).get("type") != "object":
            return "tools.input_schema.type: Input should be 'object'"
    wanted = (body.get("output_config") or {}).get("format")
    if wanted and not _is_closed(wanted.get("schema")):
        return "output_config.format.schema: For 'object' type, 'additionalProperties' must be explicitly set to false"
    return ""


def _is_closed(schema: Any) -> bool:
    if not isinstance(schema, dict):
        return True
    if (schema.get("type") == "object" and schema.get("additionalProperties") is not False) or "minimum" in schema:
        return False
    return all(_is_closed(inner) for inner in [*schema.get("properties", {}).values(), schema.get("items")])


def _wrong_cache(body: dict[str, Any]) -> str:
    blocks = [*(body.get("tools") or ()), *_content({"content": body.get("system") or []})]
    blocks += [block for message in body["messages"] for block in _content(message)]
    marked = [block for block in blocks if "cache_control" in block]
    if len(marked) > 4:
        return f"A maximum of 4 blocks with cache_control may be provided. Found {len(marked)}."
    if any(str(block.get("type")).endswith("thinking") for block in marked):
        return "cache_control: Extra inputs are not permitted in thinking blocks"
    return ""


def _wrong_order(messages: list[dict[str, Any]]) -> str:
    waiting: list[str] = []
    used: set[str] = set()
    for number, message in enumerate(messages):
        role, blocks = message.get("role"), _content(message)
        if role != ("assistant" if number % 2 else "user"):
            return f"messages.{number}: roles must alternate between user and assistant, beginning with user"
        if not blocks:
            return f"messages.{number}: content must not be empty"
        results = [block["tool_use_id"] for block in blocks if block.get("type") == "tool_result"]
        if sorted(results) != sorted(waiting) or any(b.get("type") != "tool_result" for b in blocks[: len(results)]):
            return f"messages.{number}: tool_result blocks must come first, one for each tool_use before: {waiting}"
        waiting = [block["id"] for block in blocks if block.get("type") == "tool_use"]
        if used & set(waiting) or len(set(waiting)) < len(waiting):
            return f"messages.{number}: tool_use ids must be unique"
        used.update(waiting)
        for block in blocks:
            if wrong := _wrong_block(block, str(role)):
                return f"messages.{number}.content: {wrong}"
    return "" if len(messages) % 2 else "the last message must be of role user"


def _wrong_block(block: _Block, role: str) -> str:
    match block.get("type"), role:
        case "text", _:
            return "" if block["text"].strip() else "text content blocks must contain non-whitespace text"
        case "image", "user":
            source = block["source"]
            try:
                good = source["media_type"].startswith("image/") and b64decode(source["data"], validate=True)
            except ValueError:
                good = None
            return "" if good else "image.source.base64: Could not process image"
        case "tool_result", "user":
            return ""
        case "tool_use", "assistant":
            good = _ID.fullmatch(block["id"]) and isinstance(block["input"], dict)
            return "" if good else "tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
        case "thinking", "assistant":
            good = block.get("signature") == signature(block["thinking"])
            return "" if good else "Invalid `signature` in `thinking` block"
        case "redacted_thinking", "assistant":
            return "" if block.get("data") else "redacted_thinking.data: Field required"
    return f"Input tag {block.get('type')!r} found in a message of role {role}"


def _content(message: dict[str, Any]) -> list[_Block]:
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return content if isinstance(content, list) else []


__all__ = ["MODELS", "FakeAnthropic", "ScriptedAnswer", "ScriptedCall", "signature"]
