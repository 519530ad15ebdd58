"""The settings of bridges: `[plugins.bridge.to.NAME]` for each."""

import re
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

_ENVIRONMENT: Final = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")


class Supervision(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What can be chosen for any bridge. See doc/extend/bridge.md."""

    sandbox: Literal["auto", "off", "required"] = "auto"
    readable: list[str] = []  # folders that it may read, beside the system's and its own
    groups: Literal["addressed", "always"] = "addressed"
    text_max_chars: Annotated[int, Meta(ge=100, le=60_000)] = 4_000
    heartbeat_s: Annotated[float, Meta(ge=0.05, le=300)] = 20.0
    deaf_s: Annotated[float, Meta(ge=0.2, le=900)] = 60.0  # without a word it is ended, and started anew
    exits_max: Annotated[int, Meta(ge=0)] = 5  # within a minute, then it is left alone for a while; 0: never


class BridgeSettings(Supervision, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[plugins.bridge.to.NAME]`: the command of a bridge, and the secrets that it is given by name."""

    command: Annotated[list[str], Meta(min_length=1)]
    secrets: dict[str, str] = {}  # name of a variable: name of a stored secret, which begins with `bridge`
    environment: dict[str, str] = {}

    def __post_init__(self) -> None:
        for name in (*self.secrets, *self.environment):
            if not _ENVIRONMENT.fullmatch(name):
                raise ValueError(f"secrets, environment: {name!r} is not a name of a variable, such as SIGNAL_TOKEN")
        for secret in self.secrets.values():
            if secret != "bridge" and not secret.startswith("bridge."):  # noqa: S105
                raise ValueError(f"secrets: {secret!r} is not the bridges' own: call it bridge.{secret}")


class BridgePluginSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[plugins.bridge]`."""

    to: dict[Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_-]{0,40}$")], BridgeSettings] = {}
