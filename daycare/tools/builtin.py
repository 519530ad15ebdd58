"""The tools every agent has: messages, reminders, questions, helpers, files, choices, and the time."""

import codecs
from typing import Annotated, Final

import msgspec

from daycare.base.errors import InvalidError
from daycare.base.limits import CHOICES_MAX, WAIT_MAX_S
from daycare.base.times import local_time
from daycare.base.tool import ACTS, READS, STAYS, Sourced
from daycare.base.zones import zone_of
from daycare.plugin import Choice, Plugin, StructTool, ToolContext, Waiting
from daycare.tools.catalogue import REACT

READ_MAX_BYTES: Final = 12_000  # of a file or a kept result, read at a time

REMIND_MAX_S = 366 * 86_400.0


class SendMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Send a message to another agent of the same user. It is delivered when this turn ends, without an answer."""

    to: Annotated[str, msgspec.Meta(description="The agent's address, such as /ann/agent/research")]
    text: Annotated[str, msgspec.Meta(min_length=1, description="What to tell it")]


class Remind(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Wake this agent with a text after some seconds, so that it can remind the user. Survives restarts."""

    after_s: Annotated[float, msgspec.Meta(ge=1, le=REMIND_MAX_S, description="Seconds from now")]
    text: Annotated[str, msgspec.Meta(min_length=1, description="What to remind of")]


class AskAgent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Ask another agent of the same user and get its answer as this call's result."""

    to: Annotated[str, msgspec.Meta(description="The agent's address, such as /ann/agent/research")]
    text: Annotated[str, msgspec.Meta(min_length=1, description="The question, complete in itself")]
    deadline_s: Annotated[float, msgspec.Meta(ge=1, le=WAIT_MAX_S, description="Seconds to wait for it")] = 600.0


class Spawn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Make a helper that works on a task by itself, with a conversation of its own. With wait its answer is this call's
    result; otherwise it comes as a message later, and you can go on. Several helpers work at the same time."""

    task: Annotated[str, msgspec.Meta(min_length=1, description="Everything the helper has to know and do")]
    prompt: Annotated[str, msgspec.Meta(description="Its role, such as: You are a careful translator")] = ""
    tools: Annotated[list[str] | None, msgspec.Meta(description="The only tools it may use; default: yours")] = None
    wait: bool = True
    deadline_s: Annotated[float, msgspec.Meta(ge=1, le=WAIT_MAX_S, description="Seconds to wait for it")] = 3600.0


class ListAgents(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """List the agents of this user that can be asked or sent a message: address and description."""


class ReadResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Read on in a long tool result or in an attached text file, by its number."""

    file: int
    offset: Annotated[int, msgspec.Meta(ge=0, description="Byte to begin with, as told where it was cut")] = 0


class OfferChoices(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Let the user answer the question in your reply by a touch: with buttons where there are some."""

    choices: Annotated[
        list[Annotated[str, msgspec.Meta(min_length=1, max_length=60)]],
        msgspec.Meta(min_length=1, max_length=CHOICES_MAX, description="Short answers, as the user would say them"),
    ]


class ReactToMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Put an emoji to the message you are answering, as people do with a short yes, thanks or laugh. Words may follow,
    and need not."""

    emoji: Annotated[str, msgspec.Meta(min_length=1, max_length=16, description="One emoji, such as 👍 ❤ 😁 🎉 👀")]


class SendFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Send the user a file with your reply: one that was attached or kept, by its number, or a new text file."""

    file: Annotated[int | None, msgspec.Meta(description="Number of the file; leave it out for a new one")] = None
    name: Annotated[str, msgspec.Meta(max_length=100, description="Name of a new file, such as plan.md")] = ""
    text: Annotated[str, msgspec.Meta(description="Content of a new file")] = ""


class Now(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Tell the date and time, where the user is or in another time zone."""

    zone: Annotated[str, msgspec.Meta(description="IANA name, such as Europe/Berlin; default: the user's")] = ""


async def _ask(context: ToolContext, arguments: AskAgent) -> Waiting:
    return await context.ask(arguments.to, arguments.text, arguments.deadline_s)


async def _spawn(context: ToolContext, arguments: Spawn) -> Waiting | Sourced:
    deadline_s = arguments.deadline_s if arguments.wait else None
    path, waiting = await context.spawn(
        arguments.task, prompt=arguments.prompt, tools=arguments.tools, deadline_s=deadline_s
    )
    return waiting or Sourced(f"{path} works on it; its answer will come as a message", ())


async def _list_agents(context: ToolContext, arguments: ListAgents) -> str:
    lines = [
        f"{path}{' (you)' if path == context.path else ''}{': ' if description else ''}{description}"
        for path, description in await context.agents()
    ]
    return "\n".join(lines)


async def _read_result(context: ToolContext, arguments: ReadResult) -> str:
    file, data = await context.read(arguments.file, arguments.offset, READ_MAX_BYTES)
    if arguments.offset >= file.size > 0:
        raise InvalidError("FILE_END", f"reading {file.name} from {arguments.offset}: it has {file.size} bytes")
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(data, arguments.offset + len(data) >= file.size)
    end = arguments.offset + len(data) - len(decoder.getstate()[0])  # a character that is cut is for the next call
    return f"{text}\n[{file.size - end} bytes more, from offset {end}]" if end < file.size else text


async def _offer_choices(context: ToolContext, arguments: OfferChoices) -> str:
    for label in arguments.choices:
        if next((char for char in label if char.isprintable() and not char.isspace()), "") == "/":
            raise InvalidError("CHOICE_COMMAND", f"offering {label[:60]!r}: a command is the user's own to give")
    context.offer([Choice(label, label) for label in arguments.choices])
    return "the user will see them with your reply"


async def _react(context: ToolContext, arguments: ReactToMessage) -> str:
    if arguments.emoji.isascii():
        raise InvalidError("REACTION_NO_EMOJI", f"reacting with {arguments.emoji!r}: that is no emoji")
    await context.react(arguments.emoji)
    return "the user will see it when this turn ends; words of yours need not follow"


async def _send_file(context: ToolContext, arguments: SendFile) -> str:
    number = arguments.file
    if number is None:
        if not arguments.name or not arguments.text:
            raise InvalidError("FILE_EMPTY", "sending a new file: it needs a name and a text")
        number = (await context.write(arguments.name, "text/plain", arguments.text.encode())).id
    file = await context.attach(number)
    return f"{file.name} ({file.size} bytes) goes out with your reply"


async def _now(context: ToolContext, arguments: Now) -> str:
    zone = zone_of(arguments.zone or context.zone)
    return f"{local_time(context.now_ms, zone):%A %Y-%m-%d %H:%M:%S %Z}"


async def _send_message(context: ToolContext, arguments: SendMessage) -> str:
    await context.send(arguments.to, arguments.text)
    return f"will be sent to {arguments.to} when this turn ends"


async def _remind(context: ToolContext, arguments: Remind) -> str:
    due_ms = context.remind(arguments.after_s, arguments.text)
    due = local_time(due_ms, zone_of(context.zone))
    return f"reminder set for {due:%a %Y-%m-%d %H:%M:%S %Z}"


plugin = Plugin(
    name="tools",
    tools=(
        StructTool("send_message", SendMessage, _send_message, idempotent=True, group="agents", **ACTS),
        StructTool("remind", Remind, _remind, idempotent=True, **STAYS, outlasts=True),
        StructTool(
            "ask",
            AskAgent,
            _ask,
            idempotent=True,
            group="agents",
            reads_private=True,
            reads_outside=True,
            changes_outside=True,
        ),
        StructTool(
            "spawn",
            Spawn,
            _spawn,
            idempotent=True,
            group="agents",
            reads_private=False,
            reads_outside=True,
            changes_outside=False,
            outlasts=lambda it: not it.wait,
        ),
        StructTool("list_agents", ListAgents, _list_agents, idempotent=True, group="agents", **READS),
        StructTool(
            "read_result",
            ReadResult,
            _read_result,
            idempotent=True,
            reads_private=True,
            reads_outside=True,
            changes_outside=False,
        ),
        StructTool("offer_choices", OfferChoices, _offer_choices, idempotent=True, **STAYS),
        StructTool(REACT, ReactToMessage, _react, idempotent=True, **STAYS),
        StructTool("send_file", SendFile, _send_file, idempotent=True, **READS),
        StructTool("now", Now, _now, idempotent=True, **STAYS),
    ),
)
