"""A plugin for the daemon under test: a model that acts out the messages it reads, and a tool that dawdles.

A message is one line, `VERB SENDER NUMBER [PATH]`; its name is `SENDER-NUMBER`:

| verb | what the model does before it answers |
| --- | --- |
| `m` | nothing |
| `note` | calls the tool `note`, which may be repeated |
| `charge` | calls `charge` (odd numbers) or `dawdle` (even ones), which may not |
| `remind` | asks for a reminder in one second, `reminded SENDER NUMBER` |
| `tell` | sends `told SENDER NUMBER` to the agent at PATH |

A turn's answer has one line for each of its messages: `ack VERB SENDER NUMBER [STATUS OF THE TOOL]`. The model is a
function of the conversation, so after a crash it goes on as it would have done.
"""

import os
import re
from collections.abc import AsyncGenerator, Iterator
from typing import Annotated, Any

import msgspec
import trio

from daycare.base.messages import Message, Text, ToolCall, ToolResult, Usage
from daycare.plugin import Completion, InferRequest, Plugin, ProviderConfig, StreamEvent, TextDelta, ToolContext
from daycare.tools.registry import StructTool

VERBS = ("m", "note", "charge", "remind", "tell")
REMIND_S = 1.0
THINK_S = 0.004  # long enough for a kill to come in between
_LINE = re.compile(r"\b(m|note|charge|remind|tell|reminded|told) (s\d+) (\d+)(?: (/\S+))?$")


class Errand(msgspec.Struct, frozen=True):
    """What one message asks for."""

    verb: str
    sender: str
    number: int
    path: str = ""

    @property
    def name(self) -> str:
        """What tools are told: unique in a campaign."""
        return f"{self.sender}-{self.number}"

    def __str__(self) -> str:
        return f"{self.verb} {self.sender} {self.number}" + (f" {self.path}" if self.path else "")


def errand_of(text: str) -> Errand | None:
    """Read the errand at the end of a message, whatever stands before it."""
    found = _LINE.search(text)
    return Errand(found[1], found[2], int(found[3]), found[4] or "") if found else None


def call_of(errand: Errand) -> ToolCall | None:
    """Return the tool call that an errand leads to."""
    wishes: dict[str, tuple[str, dict[str, Any]]] = {
        "note": ("note", {"word": errand.name}),
        "charge": ("charge" if errand.number % 2 else "dawdle", {"account": errand.name}),
        "remind": ("remind", {"after_s": REMIND_S, "text": f"reminded {errand.sender} {errand.number}"}),
        "tell": ("send_message", {"to": errand.path, "text": f"told {errand.sender} {errand.number}"}),
    }
    wish = wishes.get(errand.verb)
    return None if wish is None else ToolCall(f"call-{errand.name}", *wish)


class Mind:
    """The provider."""

    name = "mind"

    async def infer(self, request: InferRequest) -> AsyncGenerator[StreamEvent, None]:
        """Think for a moment, then say it."""
        await trio.sleep(THINK_S)
        completion = think(request)
        yield TextDelta(completion.message.text)
        yield completion

    async def models(self) -> list[str]:
        """There is one model."""
        return ["errands"]


def think(request: InferRequest) -> Completion:
    """Call the tools that the turn's messages need and that were not called yet, two at a time; then answer."""
    turn = current(request.messages)
    errands = [errand for message in turn if message.role == "user" and (errand := errand_of(message.text))]
    called = {call.id for message in turn for call in message.tool_calls}
    calls = [call for errand in errands if (call := call_of(errand)) is not None and call.id not in called]
    if calls and request.tools:
        return Completion(message=Message("assistant", tuple(calls[:2])), finish="tools", usage=Usage(10, 5))
    statuses = {result.call_id: result.status for message in turn for result in results(message)}
    text = "\n".join(answer(errand, statuses.get(f"call-{errand.name}", "")) for errand in errands)
    return Completion(message=Message("assistant", (Text(text),)), finish="stop", usage=Usage(10, 5))


def answer(errand: Errand, status: str) -> str:
    """Return the line that answers an errand."""
    return f"ack {errand.verb} {errand.sender} {errand.number} {status}".rstrip()


def results(message: Message) -> Iterator[ToolResult]:
    """Yield what tools answered."""
    return (part for part in message.parts if isinstance(part, ToolResult))


def current(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Return the messages since the last answer."""
    ends = [n for n, message in enumerate(messages) if message.role == "assistant" and not message.tool_calls]
    return messages[ends[-1] + 1 if ends else 0 :]


class Dawdle(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Charge an account once, slowly; doing it again would charge it twice."""

    account: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


async def _dawdle(context: ToolContext, arguments: Dawdle) -> str:
    await trio.sleep(THINK_S)
    fd = os.open(os.environ["DAYCARE_TEST_LEDGER"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(fd, f"charge {arguments.account}\n".encode())
    finally:
        os.close(fd)
    await trio.sleep(THINK_S)
    return f"charged {arguments.account}"


def _make(_config: ProviderConfig) -> Mind:
    return Mind()


plugin = Plugin(
    name="crash",
    providers={"mind": _make},
    tools=(StructTool("dawdle", Dawdle, _dawdle, idempotent=False),),
)
