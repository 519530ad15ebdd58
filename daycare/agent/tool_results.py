"""A tool's result as a message of the conversation, and what a person is told of one that nobody knows."""

from collections.abc import Sequence

import msgspec

from daycare.base.messages import Message, Origin, Origins, Told, ToolCall, ToolResult
from daycare.store.records import InboxRow, Step


def tool_message(
    call: ToolCall, text: str, status: str, at_ms: int, origins: Origins = None, told: Told | None = None
) -> Message:
    """Return a tool's result as a message."""
    result = ToolResult(call_id=call.id, name=call.name, text=text, status=status, origins=origins, told=told)  # type: ignore[arg-type]
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


def answers_among(rows: Sequence[InboxRow], steps: Sequence[Step]) -> list[InboxRow]:
    """Return the rows that hold results of the steps' calls."""
    return [row for row in rows if any(is_answer(row, step) for step in steps)]


def answer_to(call: ToolCall, step: Step, rows: Sequence[InboxRow], at_ms: int) -> tuple[Message, str] | None:
    """Return the answer to a step's call as its result, and its status; None if it is not among the rows."""
    found = [(it, row.envelope) for row in rows if (it := row.envelope.answers) and it.wait == step.wait]
    if not found or not step.wait:
        return None
    it, answer = min(found, key=lambda each: each[0].late)  # one that came goes before the word that none came in time
    status = "uncertain" if it.unsure else "ok" if it.ok else "error"
    return tool_message(call, f"{answer.sender}: {answer.text}", status, at_ms, answer.origins, answer.told), status


def is_answer(row: InboxRow, step: Step) -> bool:
    """Return whether a row holds the result of a step's call."""
    it = row.envelope.answers
    return it is not None and step.wait != "" and it.wait == step.wait
