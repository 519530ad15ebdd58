"""Tools that act on Slack by themselves: listing channels, and writing to one. Agents have them with a bot token."""

from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from msgspec import Meta

from daycare.base.errors import DaycareError, InvalidError
from daycare.messenger.json_paths import list_at, text_at
from daycare.plugin import PluginContext, StructTool, Tool, ToolContext
from daycare_plugins.slack.settings import NAME, SlackSettings, workspaces

if TYPE_CHECKING:
    from daycare_plugins.slack.client import SlackApi

CHANNELS_MAX: Final = 1_000
_PAGE: Final = 200  # channels asked for at a time, as Slack recommends
_KINDS: Final = "public_channel,private_channel"

_Workspace = Annotated[str, Meta(max_length=41, description="Which workspace, if there are several; else leave it out")]


class ListSlackChannels(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """List the channels of the Slack workspace, as JSON with id, name and is_private of each."""

    limit: Annotated[int, Meta(ge=1, le=CHANNELS_MAX, description="At most so many")] = 100
    workspace: _Workspace = ""


class SendSlackMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Send a message to a channel of the Slack workspace, where everybody in it reads it."""

    channel: Annotated[str, Meta(min_length=2, max_length=80, description="Its id, such as C1234567890, or #name")]
    text: Annotated[str, Meta(min_length=1, max_length=12_000, description="Markdown")]
    workspace: _Workspace = ""


class _SendTool(StructTool[SendSlackMessage]):
    """Everybody in a channel reads what is sent there, so a person says yes to each message."""

    async def asks(self, context: ToolContext, arguments: SendSlackMessage) -> str:
        """Return why a person is asked."""
        return f"it writes to {arguments.channel} in Slack"


def tools_of(context: PluginContext, settings: SlackSettings) -> tuple[Tool, ...]:
    """Return the tools, which agents have as long as a workspace has a bot token."""
    calls = _Calls(context, settings)
    return (
        StructTool(
            "list_slack_channels",
            ListSlackChannels,
            calls.listed,
            idempotent=True,
            reads_private=True,
            reads_outside=True,
            changes_outside=False,
            ready=calls.ready,
        ),
        _SendTool(
            "send_slack_message",
            SendSlackMessage,
            calls.sent,
            idempotent=False,
            reads_private=False,
            reads_outside=False,
            changes_outside=True,
            ready=calls.ready,
        ),
    )


class _Calls:
    """What the tools do, each call over a connection of its own."""

    def __init__(self, context: PluginContext, settings: SlackSettings) -> None:
        self._context = context
        self._known = {name.removeprefix(NAME).lstrip("-"): each for name, each in workspaces(settings).items()}

    def ready(self) -> bool:
        """Return whether there is a workspace to work in."""
        return bool(self._usable())

    def _usable(self) -> list[str]:
        return [name for name, (secrets, _) in self._known.items() if _stored(self._context, secrets.token)]

    def _chosen(self, name: str) -> "SlackApi":
        from daycare_plugins.slack.client import SlackApi  # httpx

        name = name or next(iter(self._usable()), "")
        if name not in self._known:
            listed = ", ".join(filter(None, self._known)) or "there is only one, which needs no name"
            said = f"using the workspace {name!a}: there is none"
            raise InvalidError("SLACK_WORKSPACE", said, hint=f"one of: {listed}")
        secrets, own = self._known[name]
        return SlackApi(own, lambda: _stored(self._context, secrets.token))

    async def listed(self, tool: ToolContext, arguments: ListSlackChannels) -> str:
        """Return channels as JSON."""
        found: list[dict[str, Any]] = []
        cursor = ""
        async with self._chosen(arguments.workspace) as api:
            while len(found) < arguments.limit:
                page = await api.call(
                    "conversations.list",
                    types=_KINDS,
                    exclude_archived=True,
                    limit=min(arguments.limit - len(found), _PAGE),
                    cursor=cursor or None,
                )
                found += [_channel(each) for each in list_at(page, "channels") if isinstance(each, dict)]
                cursor = text_at(page, "response_metadata", "next_cursor")
                if not cursor:
                    break
        return msgspec.json.encode(found[: arguments.limit]).decode()

    async def sent(self, tool: ToolContext, arguments: SendSlackMessage) -> str:
        """Send a text, and return where it stands."""
        from daycare_plugins.slack.outgoing import posted, texts_of

        parts = texts_of(arguments.text)
        if not parts:
            raise InvalidError("MESSAGE_EMPTY", "sending to Slack: there is nothing to see in the text")
        answers = []
        async with self._chosen(arguments.workspace) as api:
            for part in parts:
                answers.append(await api.call("chat.postMessage", channel=arguments.channel, **posted(part)))
        first = answers[0]
        told = {"ok": True, "ts": first.get("ts"), "channel": first.get("channel"), "messages": len(answers)}
        return msgspec.json.encode(told).decode()


def _channel(each: dict[str, Any]) -> dict[str, Any]:
    name = each.get("name")
    return {
        "id": each.get("id"),
        "name": name if isinstance(name, str) else "",
        "is_private": each.get("is_private") is True,
    }


def _stored(context: PluginContext, name: str) -> str:
    try:
        return (context.secret(name) or "").strip()
    except DaycareError:
        return ""
