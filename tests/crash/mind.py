"""A plugin for the daemon under test: a model that acts out the messages it reads, and a tool that dawdles.

A message is one line, `VERB SENDER NUMBER [PATH]`; its name is `SENDER-NUMBER`:

| verb | what the model does before it answers |
| --- | --- |
| `m` | nothing |
| `note` | calls the tool `note`, which may be repeated |
| `charge` | calls `charge` (odd numbers) or `dawdle` (even ones), which may not |
| `remind` | asks for a reminder in one second, `reminded SENDER NUMBER` |
| `tell` | sends `told SENDER NUMBER` to the agent at PATH |
| `ask` | asks the agent at PATH `asked SENDER NUMBER`, and waits for the answer |
| `spawn`, `pair` | makes a helper, or two at once, for `first SENDER NUMBER` (and `second`), and waits |
| `deep` | makes a helper for `middle SENDER NUMBER` and waits; that one makes one for `leaf SENDER NUMBER` |
| `later` | makes a helper and does not wait: its answer comes as a message |
| `shell`, `write`, `post` | calls `shell`, `file_write` or `post`, for which a person's yes is needed each time |

A turn's answer has one line for each of its messages: `ack VERB SENDER NUMBER [STATUS OF THE TOOL]`, and behind it
what it was told by others, in brackets. Those answer `done TASK SENDER-NUMBER`. Of calls that a person has approved it
says `made ID STATUS`. The model is a function of the conversation, so after a crash it goes on as it would have done.
"""

import os
import re
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from typing import Annotated, Any

import msgspec
import trio

from daycare.agent.provenance import Provenance
from daycare.base.messages import Message, Text, ToolCall, ToolResult, Usage
from daycare.base.tool import STAYS
from daycare.features.approvals.rows import APPROVED_CALL
from daycare.plugin import (
    Completion,
    InferRequest,
    Plugin,
    ProviderConfig,
    StreamEvent,
    StructTool,
    TextDelta,
    ToolContext,
)

VERBS = ("m", "note", "charge", "remind", "tell")
DELEGATIONS = ("ask", "spawn", "pair", "deep", "later")
WISHES = {"shell": "shell", "write": "file_write", "post": "post"}  # verbs, and the tools that a person allows
TASKS = {  # what each delegation, or task, leads to
    "ask": ("asked",),
    "spawn": ("first",),
    "pair": ("first", "second"),
    "deep": ("middle",),
    "middle": ("leaf",),
    "later": ("first",),
}
ALL_TASKS = tuple(sorted({task for tasks in TASKS.values() for task in tasks}))
REMIND_S = 1.0
THINK_S = 0.004  # long enough for a kill to come in between
_LINE = re.compile(
    rf"\b({'|'.join((*VERBS, 'reminded', 'told', *DELEGATIONS, *WISHES, *ALL_TASKS))}) (s\d+) (\d+)(?: (/\S+))?"
    r"(?:\n</message \w+>)?$"  # the fence of what another agent says
)
DONE = re.compile(r"\bdone ([a-z]+) (s\d+-\d+)")


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


def calls_of(errand: Errand) -> tuple[ToolCall, ...]:
    """Return the tool calls that an errand leads to."""
    if errand.verb in TASKS:
        return tuple(_delegation(errand, task) for task in TASKS[errand.verb])
    wishes: dict[str, tuple[str, dict[str, Any]]] = {
        "note": ("note", {"word": errand.name}),
        "charge": ("charge" if errand.number % 2 else "dawdle", {"account": errand.name}),
        "remind": ("remind", {"after_s": REMIND_S, "text": f"reminded {errand.sender} {errand.number}"}),
        "tell": ("send_message", {"to": errand.path, "text": f"told {errand.sender} {errand.number}"}),
        "shell": ("shell", {"command": f"echo {errand.name} >> effects; sleep 0.02"}),
        "write": ("file_write", {"path": f"{errand.name}.txt", "text": errand.name}),
        "post": ("post", {"word": errand.name}),
    }
    wish = wishes.get(errand.verb)
    return () if wish is None else (ToolCall(f"call-{errand.name}", *wish),)


def _delegation(errand: Errand, task: str) -> ToolCall:
    text = f"{task} {errand.sender} {errand.number}"
    if errand.verb == "ask":
        return ToolCall(f"call-{errand.name}-{task}", "ask", {"to": errand.path, "text": text})
    return ToolCall(f"call-{errand.name}-{task}", "spawn", {"task": text, "wait": errand.verb != "later"})


class Mind:
    """The provider."""

    name = "mind"
    needs_key = False

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
    calls = [call for errand in errands for call in calls_of(errand) if call.id not in called]
    if calls and request.tools:
        return Completion(message=Message("assistant", tuple(calls[:2])), finish="tools", usage=Usage(10, 5))
    known = {result.call_id: result for message in turn for result in results(message)}
    lines = [answer(errand, [known[call.id] for call in calls_of(errand) if call.id in known]) for errand in errands]
    lines += [f"made {result.call_id} {result.status}" for result in known.values() if is_approved(result.call_id)]
    lines += [f"heard {words}" for message in turn if message.role == "user" if (words := told(message.text))]
    text = "\n".join(lines)
    return Completion(message=Message("assistant", (Text(text),)), finish="stop", usage=Usage(10, 5))


def is_approved(call_id: str) -> bool:
    """Return whether a call was made because a person has approved it."""
    return call_id.startswith(APPROVED_CALL)


def answer(errand: Errand, found: Sequence[ToolResult]) -> str:
    """Return the line that answers an errand, whose calls came to this."""
    words = [told(result.text) for result in found]
    if errand.verb in ALL_TASKS:
        return " ".join([f"done {errand.verb} {errand.name}", *words]).rstrip()
    statuses = sorted({result.status for result in found})  # they do not agree only where one failed
    return " ".join(
        word for word in ("ack", errand.verb, errand.sender, str(errand.number), *statuses[:1], *words) if word
    )


def told(text: str) -> str:
    """Return in brackets what another agent said it has done, if it does."""
    found = DONE.search(text)
    return f"[{found[1]} {found[2]}]" if found else ""


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


async def dawdle(context: ToolContext, arguments: Dawdle) -> str:
    """Take a while, and write down that it was done in the middle of it."""
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


def trusting(make: Callable[..., None], *tools: str) -> Callable[..., None]:
    """Return a `Provenance.__init__` that counts the trial's tools as the daemon's own: no errand waits for a yes."""

    def init(self: Provenance, *args: Any, trusted: Sequence[str], **more: Any) -> None:
        make(self, *args, trusted=(*trusted, *(tools or ("note", "charge", "dawdle"))), **more)

    return init


if "DAYCARE_CRASH_TRIAL" in os.environ:  # set for the daemon alone
    Provenance.__init__ = trusting(Provenance.__init__)  # type: ignore[method-assign]


plugin = Plugin(
    name="crash",
    providers={"mind": _make},
    tools=(StructTool("dawdle", Dawdle, dawdle, idempotent=False, **STAYS),),
)
