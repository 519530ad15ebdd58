"""The Anthropic Messages format, the reply: put together from the events of a stream. Does no I/O."""

from typing import Any, Final, Literal

import msgspec

from daycare.base.limits import MODEL_THOUGHT_MAX_CHARS, REPLY_MAX_CHARS
from daycare.base.messages import Message, Part, Text, Thinking, ToolCall, Usage
from daycare.base.sse import SseEvent, decode, decode_frame
from daycare.base.wellformed import JoinedText, well_formed
from daycare.inference.history import unique_id
from daycare.inference.messages_api import KIND
from daycare.inference.refusals import Refused
from daycare.plugin import Completion, InferRequest

_Finish = Literal["stop", "tools", "length", "refused"]
_FINISH: Final[dict[str, _Finish]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",  # of tools that the server runs: what it found so far stands
    "tool_use": "tools",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refused",
}
_FIELDS: Final = {  # of a delta: in which block it may stand, and what it carries
    "text_delta": ("text", "text"),
    "input_json_delta": ("tool_use", "partial_json"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("thinking", "signature"),
}
_KNOWN: Final = ("text", "tool_use", "thinking", "redacted_thinking")
_THEIRS: Final = ("server_", "mcp_")  # calls that the server runs itself begin with this
_PING_CHARS: Final = 100  # what a ping counts for, so that pings within a thought come to an end
_COUNTS: Final = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")


class _Frame(msgspec.Struct):
    type: str
    index: int | None = None
    message: dict[str, Any] | None = None
    content_block: dict[str, Any] | None = None
    delta: dict[str, Any] | None = None
    usage: dict[str, Any] | None = None
    error: Any = None


class _Block(msgspec.Struct):
    index: int
    type: str
    start: dict[str, Any]
    pieces: dict[str, list[str]] = {}
    closed: bool = False
    joined: JoinedText = msgspec.field(default_factory=JoinedText)  # what is said of it

    def add(self, field: str, piece: str) -> None:
        self.pieces.setdefault(field, []).append(piece)

    def whole(self, field: str) -> str:
        return well_formed("".join(self.pieces.get(field, ())))


class MessagesReply:
    """A reply in the making, see `http.ProviderReply`; `completion` is whole tool calls or none.

    Strict about the order of events and about what may stand where: what is not understood within a block may be a
    piece of a tool call. Blocks of kinds never seen are left out. A reply that outgrows `REPLY_MAX_CHARS` is `full`: it
    ends there, as one that a token limit cut.
    """

    def __init__(self, request: InferRequest) -> None:
        self._request = request
        self._model = request.model
        self._blocks: list[_Block] = []
        self._open: _Block | None = None
        self._reason = ""
        self._counts = dict.fromkeys(_COUNTS, 0)
        self._chars = 0
        self._thought_chars = 0
        self._finished = False

    @property
    def full(self) -> bool:
        """Whether nothing more is taken."""
        return self._chars >= REPLY_MAX_CHARS or self._thought_chars >= MODEL_THOUGHT_MAX_CHARS

    @property
    def finished(self) -> bool:
        """Whether the server said that the reply is whole."""
        return self._finished

    def add(self, event: SseEvent) -> str | None:
        """Take an event; return its text, "" if it carried something else of the reply, None if nothing."""
        frame: _Frame = decode_frame(event.data, _Frame)
        if event.name and event.name != frame.type:
            raise ValueError("an event is not what its name says")
        if frame.usage:
            self._count(frame.usage)
        match frame.type:
            case "error":
                raise Refused({"error": frame.error})
            case "ping":
                return self._ping()
            case "message_start":
                return self._start(frame.message or {})
            case "content_block_start":
                return self._start_block(frame)
            case "content_block_delta":
                return self._add_delta(self._block(frame), frame.delta or {})
            case "content_block_stop":
                self._block(frame).closed = True
                self._open = None
                return ""
            case "message_delta":
                reason = (frame.delta or {}).get("stop_reason")
                self._reason = reason if isinstance(reason, str) else self._reason
                return ""
            case "message_stop":
                self._end()
        return None  # a kind of event never seen: there may be new ones

    def completion(self) -> Completion:
        """Return the reply. Raises `ValueError` if the model's tool calls make no sense."""
        finish: _Finish = "length" if self.full else _FINISH.get(self._reason, "stop")
        cut = finish in ("length", "refused")  # such a reply may hold half a call
        parts: list[Part] = []
        for block in self._blocks:
            parts += self._part(block, parts, cut=cut)
        calls = any(isinstance(part, ToolCall) for part in parts)
        if finish == "tools" and not calls and not any(isinstance(part, Text) for part in parts):
            raise ValueError("the server speaks of tool calls and sent none")
        if not cut:
            finish = "tools" if calls else "stop"
        message = Message("assistant", tuple(parts), at_ms=self._request.now_ms)
        return Completion(message=message, finish=finish, usage=self._usage(), model=self._model)

    # -- events ------------------------------------------------------------------------------------------------------

    def _ping(self) -> str | None:
        """A model may think in silence; otherwise a ping says that the server lives, not that the model does."""
        if self._open is None or self._open.type != "thinking":
            return None
        self._thought_chars += _PING_CHARS
        return ""

    def _start(self, message: dict[str, Any]) -> str:
        model, usage = message.get("model"), message.get("usage")
        self._model = model if isinstance(model, str) and model else self._model
        if isinstance(usage, dict):
            self._count(usage)
        return ""

    def _start_block(self, frame: _Frame) -> str:
        start = frame.content_block or {}
        if self._open is not None or self._finished or frame.index is None:
            raise ValueError("a block begins where none can")
        kind = _text(start, "type")
        if kind == "tool_use":
            _text(start, "id")
            if not _text(start, "name"):
                raise ValueError("a tool call has no name")
        elif kind not in _KNOWN and {"id", "name", "input"} <= start.keys() and not kind.startswith(_THEIRS):
            raise ValueError("a block looks like a tool call and is of no kind that is known")
        self._open = _Block(frame.index, kind, start)
        self._blocks.append(self._open)
        self._thought_chars += 1  # so that a flood of empty blocks is bounded, too
        return self._say(self._open, start["text"]) if kind == "text" and start.get("text") else ""

    def _block(self, frame: _Frame) -> _Block:
        if self._open is None or frame.index != self._open.index:
            raise ValueError("a piece belongs to no block that is open")
        return self._open

    def _add_delta(self, block: _Block, delta: dict[str, Any]) -> str:
        kind = _text(delta, "type")
        home, field = _FIELDS.get(kind, ("", ""))
        if home != block.type:
            known = block.type in _KNOWN and not (block.type == "text" and kind == "citations_delta")
            if known or home in ("text", "thinking"):
                raise ValueError(f"a {block.type} block holds what it cannot")
            self._chars += 1
            return ""
        piece = _text(delta, field)
        if block.type == "text":
            return self._say(block, piece)
        if block.type == "thinking":
            self._thought_chars += 1 + len(piece)
        else:
            self._chars += 1
            piece = self._room(piece)
        block.add(field, piece)
        return ""

    def _say(self, block: _Block, text: str) -> str:
        """Return what is said on the stream: a message's texts are joined by line ends."""
        text = block.joined.feed(text)
        follows = not block.pieces and any(other.type == "text" and other.pieces for other in self._blocks)
        text = self._room(text, beside=1 if follows and text else 0)
        if not text:
            return ""
        block.add("text", text)
        return "\n" + text if follows else text

    def _end(self) -> None:
        if self._open is not None:
            raise ValueError("the reply ends within a block")
        self._finished = True

    def _room(self, text: str, beside: int = 0) -> str:
        """Return what there is room for, when so many characters stand beside it."""
        text = text[: max(REPLY_MAX_CHARS - self._chars - beside, 0)]
        self._chars += len(text) + beside
        return text

    # -- the whole ---------------------------------------------------------------------------------------------------

    def _part(self, block: _Block, before: list[Part], *, cut: bool) -> list[Part]:
        if block.type == "text":
            text = block.whole("text") + block.joined.end()
            return [Text(text)] if text else []
        if not block.closed:
            return []
        if block.type == "thinking":
            data = dict(block.start)
            for field in ("thinking", "signature"):
                data[field] = str(data.get(field) or "") + block.whole(field)
            return [Thinking(KIND, data)]
        if block.type == "redacted_thinking":
            return [Thinking(KIND, block.start)]
        if block.type == "tool_use" and not cut:
            return [self._call(block, [part.id for part in before if isinstance(part, ToolCall)])]
        return []

    def _call(self, block: _Block, others: list[str]) -> ToolCall:
        name, raw = block.start["name"], block.whole("partial_json").strip()
        try:
            arguments = decode(raw, dict[str, Any]) if raw else block.start.get("input") or {}
        except ValueError as error:
            raise ValueError(f"the arguments of {name} are not a JSON object: {error}") from error
        if not isinstance(arguments, dict):
            raise ValueError(f"the arguments of {name} are not a JSON object")
        return ToolCall(unique_id(block.start["id"], others, self._request.messages), name, arguments)

    def _count(self, usage: dict[str, Any]) -> None:
        """Counts are of the whole reply so far; some servers know those of the prompt at the end only."""
        for name in _COUNTS:
            value = usage.get(name)
            if isinstance(value, int):
                self._counts[name] = max(self._counts[name], value)

    def _usage(self) -> Usage:
        uncached, written, read, output = (self._counts[name] for name in _COUNTS)
        return Usage(
            input_tokens=uncached + written + read,
            output_tokens=output,
            cached_tokens=read,
            cache_write_tokens=written,
        )


def _text(raw: dict[str, Any], field: str) -> str:
    value = raw.get(field)
    if not isinstance(value, str):
        raise ValueError(f"the field {field} is missing")
    return value
