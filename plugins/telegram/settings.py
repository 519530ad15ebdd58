"""The settings of Telegram: `[plugins.telegram]`, and `[plugins.telegram.bots.NAME]` for each further bot."""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

API_URL: Final = "https://api.telegram.org"

Groups = Literal["addressed", "always"]
_Url = Annotated[str, Meta(pattern=r"^https?://[^/\s?#@]+[^\s?#@]*$")]


class BotSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What can be chosen for one bot. See doc/operate/connectors/telegram.md."""

    base_url: _Url = API_URL
    base_file_url: Annotated[str, Meta(pattern=r"^(https?://[^/\s?#@]+[^\s?#@]*)?$")] = ""
    local_mode: bool = False
    poll_s: Annotated[int, Meta(ge=1, le=25)] = 20  # a stalled poll is noticed `STALLED_AFTER_S` later: 35 s at most
    groups: Groups = "addressed"
    group_overrides: dict[str, Groups] = {}
    group_context: Annotated[int, Meta(ge=0, le=20)] = 0
    long_answers: Literal["split", "file"] = "split"
    file_over_chars: Annotated[int, Meta(ge=1000)] = 12_000
    webhook_url: Annotated[str, Meta(pattern=r"^(https?://[^/\s?#@]+[^\s?#@]*)?$")] = ""
    webhook_listen: Annotated[str, Meta(pattern=r"^(\[[0-9a-fA-F:]+\]|[^:\s]+):\d{1,5}$")] = "127.0.0.1:8443"

    def __post_init__(self) -> None:
        for chat in self.group_overrides:
            if not chat.lstrip("-").isdecimal():
                raise ValueError(f"group_overrides: {chat!r} is no chat id, such as -1001234567890")

    @property
    def bot_url(self) -> str:
        """What stands before the token in the address of a method."""
        return _joined(self.base_url, "/bot")

    @property
    def file_url(self) -> str:
        """What stands before the token in the address of a file."""
        if self.base_file_url:
            return _joined(self.base_file_url.rstrip("/").removesuffix("/file"), "/file/bot")
        return _joined(self.base_url.rstrip("/").removesuffix("/bot"), "/file/bot")


class TelegramSettings(BotSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[plugins.telegram]`: the first bot, and any others by name."""

    bots: dict[Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9_-]{0,40}$")], BotSettings] = {}

    def __post_init__(self) -> None:
        super().__post_init__()
        listening = [bot.webhook_listen for bot in (self, *self.bots.values()) if bot.webhook_url]
        if len(set(listening)) < len(listening):
            raise ValueError("two bots have the same webhook_listen: give each its own port")


def _joined(url: str, end: str) -> str:
    """Both ways of writing such an address are in use: with what stands before the token, and without."""
    url = url.rstrip("/")
    return url if url.endswith(end) else f"{url}{end}"
