"""The settings of Slack: `[plugins.slack]`, and `[plugins.slack.workspaces.NAME]` for each further workspace."""

from typing import Annotated, Final, Literal, NamedTuple
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

NAME: Final = "slack"  # of the plugin, the first connector, and the secret that is its bot token
API_URL: Final = "https://slack.com/api"
PATH: Final = "/slack"

ChannelAnswers = Literal["addressed", "always"]
_Url = Annotated[str, Meta(pattern=r"^https?://[^/\s?#@]+[^\s?#@]*$")]


class SlackWorkspaceSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What can be chosen for one workspace. See doc/operate/connectors/slack.md."""

    base_url: _Url = API_URL
    file_hosts: tuple[Annotated[str, Meta(pattern=r"^[A-Za-z0-9.-]+$")], ...] = ("files.slack.com",)
    channels: ChannelAnswers = "addressed"
    channel_overrides: dict[Annotated[str, Meta(pattern=r"^[CG][A-Z0-9]{2,30}$")], ChannelAnswers] = {}
    threads: Literal["topics", "channel"] = "topics"
    events_url: Annotated[str, Meta(pattern=r"^(https?://[^/\s?#@]+[^\s?#@]*)?$")] = ""
    listen: Annotated[str, Meta(pattern=r"^(\[[0-9a-fA-F:]+\]|[^:\s]+):\d{1,5}$")] = "127.0.0.1:8445"

    @property
    def path(self) -> str:
        """The path at which events are listened for."""
        return (urlsplit(self.events_url).path or "/") if self.events_url else PATH


class SlackSettings(SlackWorkspaceSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[plugins.slack]`: the first workspace, and any others by name."""

    workspaces: dict[Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9-]{0,40}$")], SlackWorkspaceSettings] = {}

    def __post_init__(self) -> None:
        listening = [each.listen for each in (self, *self.workspaces.values()) if each.events_url]
        if len(set(listening)) < len(listening):
            raise ValueError("two workspaces have the same listen: give each its own port")


class SlackSecrets(NamedTuple):
    """The names of a workspace's secrets."""

    token: str  # xoxb-...: calls the Web API

    @property
    def app_token(self) -> str:
        """Opens Socket Mode: xapp-..."""
        return f"{self.token}.app_token"

    @property
    def signing_secret(self) -> str:
        """Proves the requests of the Events API."""
        return f"{self.token}.signing_secret"


def workspaces(settings: SlackSettings) -> dict[str, tuple[SlackSecrets, SlackWorkspaceSettings]]:
    """Return the name of each workspace's connector with its secrets' names and its settings."""
    named: dict[str, tuple[SlackSecrets, SlackWorkspaceSettings]] = {NAME: (SlackSecrets(NAME), settings)}
    return named | {
        f"{NAME}-{name}": (SlackSecrets(f"{NAME}.{name}"), own) for name, own in settings.workspaces.items()
    }
