"""A model server's brain that proposes what it is asked to remember, and says what became of each request.

`please remember p3-7` makes it propose a line about p3-7 for MEMORY.md. The brain is a function of the conversation, so
after a crash it goes on as it would have done.
"""

import re
from collections.abc import Callable
from typing import Any, Final

from daycare.testing.model_server import ScriptedAnswer, ScriptedCall, said

REASON: Final = "so that I need not ask again"
TOLD: Final = "told: request"
_ASKED: Final = re.compile(r"please remember (p\d+-\d+)$", re.MULTILINE)
_DECIDED: Final = re.compile(r"^Request (\d+) \(append MEMORY\.md\) (?:was|has) (\w+)", re.MULTILINE)
_PROPOSED: Final = re.compile(r"proposed, request (\d+)")


def asking(name: str) -> str:
    """Return what a person says who wants something remembered."""
    return f"please remember {name}"


def fact(name: str) -> str:
    """Return the line that is proposed; every other one is suspicious, as there is a mail address in it."""
    suspicious = sum(map(int, re.findall(r"\d+", name))) % 2 == 0
    return f"- {name} gets mail as {name}@example.org" if suspicious else f"- {name} likes tea"


class Proposer:
    """The brain. `on_asked` hears of each request before it is answered."""

    def __init__(self) -> None:
        self.on_asked: list[Callable[[dict[str, Any]], None]] = []

    def __call__(self, body: dict[str, Any]) -> ScriptedAnswer:
        """Answer a request."""
        for listener in self.on_asked:
            listener(body)
        turn = current(body["messages"])
        heard = "\n".join(said(message.get("content")) for message in turn if message["role"] == "user")
        called = str([message.get("tool_calls") for message in turn])
        wanted = [name for name in dict.fromkeys(_ASKED.findall(heard)) if fact(name) not in called]
        if wanted:
            return ScriptedAnswer(tool_calls=tuple(_append(name) for name in wanted))
        results = "\n".join(said(message.get("content")) for message in turn if message["role"] == "tool")
        lines = [f"I have proposed it, request {no}." for no in _PROPOSED.findall(results)]
        lines += [f"{TOLD} {no} was {state}." for no, state in dict.fromkeys(_DECIDED.findall(heard))]
        return ScriptedAnswer(text="\n\n".join(lines) or "I could not propose that.")


def current(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages since the last answer."""
    ends = [n for n, one in enumerate(messages) if one["role"] == "assistant" and not one.get("tool_calls")]
    return messages[ends[-1] + 1 if ends else 0 :]


def _append(name: str) -> ScriptedCall:
    return ScriptedCall("memory_append", {"path": "MEMORY.md", "text": f"{fact(name)}\n", "reason": REASON})
