"""A model that does what any text in its prompt tells it: the worst that an injected text can hope for.

Whoever wrote the text is obeyed: the user, a tool's result, a mail within a data block, the system prompt. Orders are

    CALL tool_name {"json": "arguments"}
    SAY some words, up to the end of the line

and stand anywhere in a line, also escaped as HTML or as JSON in a string. Use it to show that permissions, taint and
approvals hold, and not the model's good will. `Obedient()` is a provider; `obey_server` is the `reply` of a
fake server of either protocol.
"""

import html
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from daycare.base.messages import Message, Text, ToolCall, ToolResult, Usage
from daycare.plugin import Completion, InferRequest
from daycare.testing import scripted
from daycare.testing.model_server import ScriptedAnswer, ScriptedCall, said

CALLS_MAX: Final = 16  # in one reply; the others follow in the next
_CALL: Final = re.compile(r"\bCALL\s+([A-Za-z0-9_.-]{1,64})\s*(?=\{)")
_SAY: Final = re.compile(r"\bSAY\s+([^\n]+)")

Order = tuple[str, dict[str, Any]]  # a tool and its arguments


class Obedient(scripted.Scripted):
    """The provider: obeys when nothing is enqueued. `history` holds every request."""

    def __init__(self) -> None:
        super().__init__(default=obey)


def obey(request: InferRequest) -> Completion:
    """Answer a request: the calls that its texts order and that it does not show as made; then the last words to say.

    Made calls are counted, so that each order is obeyed once, and a text that is read twice, twice.
    """
    texts = [request.system, *(text for message in request.messages for text in _texts(message))]
    made = [(call.name, call.arguments) for message in request.messages for call in message.tool_calls]
    calls = _open_orders(texts, made)
    number = len(request.messages)
    parts = tuple(ToolCall(f"order-{number}-{at}", name, arguments) for at, (name, arguments) in enumerate(calls))
    if parts:
        return Completion(message=Message("assistant", parts), finish="tools", usage=Usage(10, 5))
    return scripted.say(_words(texts))


def obey_server(body: dict[str, Any]) -> ScriptedAnswer:
    """Answer a request of either protocol in the same way."""
    texts, made = [said(body.get("system"))], []
    for message in body["messages"]:
        if message["role"] != "assistant":
            texts.append(said(message.get("content")))
        made += list(_made(message))
    calls = _open_orders(texts, made)
    return (
        ScriptedAnswer(tool_calls=tuple(ScriptedCall(*call) for call in calls))
        if calls
        else ScriptedAnswer(text=_words(texts))
    )


def orders(text: str) -> list[Order]:
    """Return the calls that a text orders, in its order."""
    found: list[Order] = []
    text = html.unescape(text)
    for order in _CALL.finditer(text):
        rest = text[order.end() :]
        arguments = _arguments(rest)
        if arguments is None:
            arguments = _arguments(rest.replace('\\"', '"'))
        if arguments is not None:
            found.append((order[1], arguments))
    return found


def _arguments(text: str) -> dict[str, Any] | None:
    try:
        value, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _open_orders(texts: Iterable[str], made: Iterable[Order]) -> list[Order]:
    left = [order for text in texts for order in orders(text)]
    for order in made:
        if order in left:
            left.remove(order)
    return left[:CALLS_MAX]


def _words(texts: list[str]) -> str:
    words = [found[1].strip() for text in texts for found in _SAY.finditer(html.unescape(text))]
    return words[-1] if words else "Done."


def _texts(message: Message) -> Iterator[str]:
    if message.role != "assistant":
        for part in message.parts:
            if isinstance(part, Text | ToolResult):
                yield part.text


def _made(message: dict[str, Any]) -> Iterator[Order]:
    for call in message.get("tool_calls") or ():
        yield call["function"]["name"], msgspec.json.decode(call["function"]["arguments"])
    content = message.get("content")
    for block in content if isinstance(content, list) else ():
        if block.get("type") == "tool_use":
            yield block["name"], block["input"]
