"""A tool's result as a message of the conversation, and what a person is told of one that nobody knows."""

import msgspec

from daycare.base.messages import Message, Origin, ToolCall, ToolResult


def tool_message(call: ToolCall, text: str, status: str, at_ms: int) -> Message:
    """Return a tool's result as a message."""
    result = ToolResult(call_id=call.id, name=call.name, text=text, status=status)  # type: ignore[arg-type]
    return Message("tool", (result,), at_ms, Origin.AGENT)


def uncertain(message: Message) -> bool:
    """Return whether a tool's message says that nobody knows whether it took effect."""
    return any(isinstance(part, ToolResult) and part.status == "uncertain" for part in message.parts)


def warning(call: ToolCall) -> str:
    """Return what a person is told of a call that may or may not have taken effect."""
    return (
        f"Note: I was interrupted while `{call.name}` ran ({shorten(call)}). It may or may not have taken effect; "
        "I did not repeat it."
    )


def shorten(call: ToolCall) -> str:
    """Return a call's arguments for people, cut to a line."""
    text = msgspec.json.encode(call.arguments).decode()
    return text if len(text) <= 120 else text[:117] + "..."
