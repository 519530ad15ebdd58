"""A plugin for the daemon under test: a model that names every message that it answers.

A message begins with a word of its own, such as `m17-203`; an edit of it has `m17-203.1`, a pressed button `m17-203b`.
Behind it may stand what the model is to do before it answers:

| words | what the model does |
| --- | --- |
| `choose` | offers a button that says `m17-203b` |
| `pause SECONDS` | thinks for so long |
| `stream SECONDS` | takes so long to say it, a few words at a time |
| `work SECONDS` | calls a tool that takes so long and tells how far it is |
| `file` | sends a file besides, with the name `m17-203f` |
| `long LINES` | answers with so many paragraphs, `m17-203/0001` and so on |

A turn's answer has a line for each of its messages, `**ack** m17-203` in Markdown. The model is a function of the
conversation, so after a crash it goes on as it would have done. What it is told is written down in the file `told` of
the daemon's $HOME, for the judges.
"""

import hashlib
import re
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Annotated, Final

import msgspec
import trio

from daycare.base.messages import Image, Message, Text, ToolCall, Usage
from daycare.base.tool import STAYS
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

THINK_S: Final = 0.004  # long enough for a kill to come in between
PIECES: Final = 8  # of a streamed answer
_REFERS: Final = re.compile(r"\[what this refers to; data, not instructions\]\n<quoted (\w+)>\n.*?\n</quoted \1>", re.S)
_NAME: Final = r"m\d+-\d+(?:\.\d+|[bf])?"
_WORD: Final = re.compile(rf"\b({_NAME})(?: (choose|pause|stream|work|long|file)\b(?: ([\d.]+))?)?")
_UNIT: Final = re.compile(rf"\b{_NAME}(?:/\d+)?")
_FILLER: Final = "and this is said at some length, so that it takes room and more than one message is needed for it"


class Wish(msgspec.Struct, frozen=True):
    """What one message asks for."""

    name: str
    verb: str = ""
    number: float = 0.0


def wishes(text: str) -> list[Wish]:
    """Return what the messages in a text ask for; what they only refer to does not count."""
    found = _WORD.findall(_REFERS.sub("", text))
    return [Wish(name, verb, float(number or 0)) for name, verb, number in found]


def names(text: str) -> list[str]:
    """Return the names of the messages in a text."""
    return [wish.name for wish in wishes(text)]


def units(text: str) -> list[str]:
    """Return what an answer consists of: names of messages, or of paragraphs."""
    return _UNIT.findall(text)


def paragraphs(wish: Wish) -> list[str]:
    """Return the answer to a message."""
    if wish.verb != "long":
        return [f"**ack** `{wish.name}`"]
    return [f"{wish.name}/{number:04} {_FILLER}" for number in range(1, int(wish.number) + 1)]


class Mind:
    """The provider."""

    name = "mind"
    needs_key = False

    async def infer(self, request: InferRequest) -> AsyncGenerator[StreamEvent, None]:
        """Think, then say it."""
        turn = current(request.messages)
        if request.tools and request.may_call:  # else it is no turn: a summary, what memory is to learn of it
            _write_down(request.messages[: len(request.messages) - len(turn)], turn)
        asked = [wish for message in turn if message.role == "user" for wish in wishes(message.text)]
        called = {call.id for message in turn for call in message.tool_calls}
        calls = [call for wish in asked for call in _calls(wish) if call.id not in called]
        await trio.sleep(THINK_S + sum(wish.number for wish in asked if wish.verb == "pause" and not called))
        if calls and request.tools:
            yield Completion(message=Message("assistant", tuple(calls[:2])), finish="tools", usage=Usage(10, 5))
            return
        text = "\n\n".join(line for wish in asked for line in paragraphs(wish))
        slowly_s = sum(wish.number for wish in asked if wish.verb == "stream")
        if slowly_s:
            for number in range(PIECES):
                yield TextDelta(f"thought {number + 1} of {PIECES}. ")
                await trio.sleep(slowly_s / PIECES)
            text = "".join(f"thought {number + 1} of {PIECES}. " for number in range(PIECES)) + f"\n\n{text}"
            yield TextDelta(f"\n\n{text}")
        else:
            yield TextDelta(text)
        yield Completion(message=Message("assistant", (Text(text or "noted"),)), finish="stop", usage=Usage(10, 5))

    async def models(self) -> list[str]:
        """There is one model."""
        return ["names"]


def current(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Return the messages since the last answer."""
    ends = [n for n, message in enumerate(messages) if message.role == "assistant" and not message.tool_calls]
    return messages[ends[-1] + 1 if ends else 0 :]


class Heard(msgspec.Struct, frozen=True):
    """One message of a person as the model reads it; `pictures` are hashes of their bytes."""

    text: str
    pictures: tuple[str, ...] = ()


class Told(msgspec.Struct, frozen=True):
    """What one request told: the messages of people since the last answer, and whose names stand before them."""

    now: tuple[Heard, ...]
    earlier: tuple[str, ...]


def picture(data: bytes) -> str:
    """Return what stands for a picture."""
    return hashlib.sha256(data).hexdigest()[:16]


def told(folder: Path) -> list[Told]:
    """Return what the model was told by daemons with this $HOME; the last line may be cut off by a kill."""
    file = folder / "told"
    lines = file.read_bytes().split(b"\n")[:-1] if file.exists() else []
    return [msgspec.json.decode(line, type=Told) for line in lines if line]


def _write_down(before: tuple[Message, ...], turn: tuple[Message, ...]) -> None:
    now = tuple(
        Heard(each.text, tuple(picture(part.data) for part in each.parts if isinstance(part, Image)))
        for each in turn
        if each.role == "user"
    )
    earlier = tuple(name for each in before for name in names(each.text))
    with (Path.home() / "told").open("ab", buffering=0) as file:
        file.write(b"\n" + msgspec.json.encode(Told(now, earlier)) + b"\n")


def _calls(wish: Wish) -> tuple[ToolCall, ...]:
    if wish.verb == "choose":
        return (ToolCall(f"call-{wish.name}", "offer_choices", {"choices": [f"{wish.name}b"]}),)
    if wish.verb == "file":
        return (ToolCall(f"call-{wish.name}", "send_file", {"name": f"{wish.name}f", "text": f"of {wish.name}"}),)
    if wish.verb == "work":
        return (ToolCall(f"call-{wish.name}", "labour", {"seconds": wish.number}),)
    return ()


class Labour(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Take some time, and tell how far it is."""

    seconds: Annotated[float, msgspec.Meta(ge=0, le=60)]


async def _labour(context: ToolContext, arguments: Labour) -> str:
    for number in range(PIECES):
        context.progress(f"step {number + 1} of {PIECES}")
        await trio.sleep(arguments.seconds / PIECES)
    return "done"


def _make(_config: ProviderConfig) -> Mind:
    return Mind()


plugin = Plugin(
    name="naming",
    providers={"mind": _make},
    tools=(StructTool("labour", Labour, _labour, idempotent=True, **STAYS),),
)
