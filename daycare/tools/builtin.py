"""The tools every agent has: send a message, set a reminder."""

from datetime import datetime
from typing import Annotated
from zoneinfo import ZoneInfo

import msgspec

from daycare.plugin import Plugin, ToolContext
from daycare.tools.registry import StructTool

REMIND_MAX_S = 366 * 86_400.0


class SendMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Send a message to another agent of the same user. It is delivered when this turn ends, without an answer."""

    to: Annotated[str, msgspec.Meta(description="The agent's address, such as /ann/agent/research")]
    text: Annotated[str, msgspec.Meta(min_length=1, description="What to tell it")]


class Remind(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Wake this agent with a text after some seconds, so that it can remind the user. Survives restarts."""

    after_s: Annotated[float, msgspec.Meta(ge=1, le=REMIND_MAX_S, description="Seconds from now")]
    text: Annotated[str, msgspec.Meta(min_length=1, description="What to remind of")]


async def _send_message(context: ToolContext, arguments: SendMessage) -> str:
    await context.send(arguments.to, arguments.text)
    return f"will be sent to {arguments.to} when this turn ends"


async def _remind(context: ToolContext, arguments: Remind) -> str:
    due_ms = context.remind(arguments.after_s, arguments.text)
    due = datetime.fromtimestamp(due_ms / 1000, ZoneInfo(context.zone))
    return f"reminder set for {due:%a %Y-%m-%d %H:%M:%S %Z}"


plugin = Plugin(
    name="tools",
    tools=(
        StructTool("send_message", SendMessage, _send_message, idempotent=True),
        StructTool("remind", Remind, _remind, idempotent=True),
    ),
)
