"""A tool of a server as agents have it: under a name that no other tool can have, and never trusted.

A result is words of others. Before a call a person is asked as before anything that reads what is private and changes
something outside, unless the operator trusts what the server says of a tool.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec

from daycare.base.errors import DaycareError
from daycare.base.messages import Origin
from daycare.base.tool import Sourced
from daycare.features.mcp.frames import McpResult
from daycare.features.mcp.records import PinnedTool
from daycare.plugin import ToolContext, ToolSpec, Waiting

ARGUMENTS_MAX_BYTES: Final = 1024 * 1024

_other_signs: Final = re.compile(r"[^A-Za-z0-9_-]")
_NAME_MAX_CHARS: Final = 64  # that providers take

CallTool = Callable[[PinnedTool, dict[str, Any], ToolContext], Awaitable[McpResult | Waiting]]


def called(server: str, tool: str) -> str:
    """Return the name under which agents call a tool: no server's name has a `_`, and no tool of ours two of them."""
    return f"{server}__{_other_signs.sub('_', tool)}"[:_NAME_MAX_CHARS]


def group_of(server: str) -> str:
    """Return the group in which the tools of a server are shown."""
    return f"mcp:{server}"


class McpTool:
    """A `Tool`. `ready` starts its server, `call` makes the call itself."""

    def __init__(
        self, pinned: PinnedTool, ready: Callable[[str], Awaitable[object]], call: CallTool, *, trusted: bool
    ) -> None:
        it = pinned.now
        self.spec = ToolSpec(
            name=called(pinned.server, pinned.tool),
            description=it.description or it.name,
            schema=it.schema,
            group=group_of(pinned.server),
            changes_outside=not (trusted and it.reads_only),
        )
        self.idempotent = trusted and it.repeatable
        self._pinned = pinned
        self._ready = ready
        self._call = call

    def decode(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments that are not too long and have what is needed; the host looks at them closer."""
        if len(msgspec.json.encode(arguments)) > ARGUMENTS_MAX_BYTES:
            raise msgspec.ValidationError(f"they have over {ARGUMENTS_MAX_BYTES >> 20} MiB")
        needed = self.spec.schema.get("required")
        for name in needed if isinstance(needed, list) else ():
            if name not in arguments:
                raise msgspec.ValidationError(f"Object missing required field `{name}`")
        return dict(arguments)

    async def asks(self, context: ToolContext, arguments: Any) -> str:
        """Want nothing of a person, but have the server started: while it starts the call counts as not begun."""
        await self._ready(self._pinned.server)
        return ""

    async def run(self, context: ToolContext, arguments: Any) -> Sourced | Waiting:
        """Make the call; what the server says is passed on as words of others, also that it did not work."""
        result = await self._call(self._pinned, arguments, context)
        return result if isinstance(result, Waiting) else Sourced(await words(result, context), (Origin.FILE,))


async def words(result: McpResult, context: ToolContext) -> str:
    """Return what a model reads of a result; what is no text is kept as files, which it can send to its user."""
    text = result.text or "(no text)"
    text = f"It did not work: {text}" if result.failed else text
    for each in result.files:
        try:
            file = await context.write(each.name, each.media_type, each.data)
        except DaycareError as error:
            text += f"\n[{each.name} could not be kept: {error.message}]"
        else:
            text += f"\n[{each.name}, {each.media_type}, {len(each.data)} bytes: kept as file {file.id}]"
    return text
