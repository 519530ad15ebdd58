"""What is left of a task that is stopped: its words so far, for whoever asked."""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from daycare.agent.steps import Thought
from daycare.base.causes import Ending
from daycare.base.messages import EnvelopeKind, Message, Origin
from daycare.base.path import Kind
from daycare.store.records import Agent, InboxRow
from daycare.tools.catalogue import TASKS_ONLY

TASK_HAD_MAX_CHARS: Final = 4_000  # of what a task had when it was stopped


def cut_short(
    agent: Agent, control: Sequence[InboxRow], thought: Thought, reason: str
) -> tuple[Thought, str, set[str | None]]:
    """Return (the thought, what those hear that asked for it, ids of agents that need not hear it).

    For a task it is why it was stopped and what it had, for others the bare reason.
    """
    if agent.kind != Kind.TASK:
        return thought, reason, set()
    stops = [row.envelope for row in control if row.envelope.kind is EnvelopeKind.DISMISS]
    why = next((stop.text for stop in stops if stop.text), reason)
    had = _had(thought.history)
    untold: set[str | None] = {stop.cause.untold or None for stop in stops if isinstance(stop.cause, Ending)}
    return replace(thought, reply=had), f"{why}. What it had:\n{had}" if had else why, untold


def _had(history: Sequence[Message]) -> str:
    """Return what an agent said and told of its progress, the newest of it."""
    lines = []
    for message in history:
        if message.role != "assistant" or message.origin is not Origin.AGENT:
            continue
        told = (str(call.arguments.get("text", "")) for call in message.tool_calls if call.name == TASKS_ONLY)
        lines += [text for text in (message.text, *told) if text]
    text = "\n".join(lines)
    return text if len(text) <= TASK_HAD_MAX_CHARS else f"[...] {text[-TASK_HAD_MAX_CHARS:]}"
