"""What can be asked of the configuration."""

from typing import Annotated, Any

import msgspec

from daycare.api.operations import Operation
from daycare.base.limits import CONFIG_MAX_BYTES
from daycare.base.meaning import meaning

Text = Annotated[str, meaning("The whole of config.toml", max_length=CONFIG_MAX_BYTES)]
BaseHash = Annotated[str, meaning("The hash of the text that was changed: another one by now is not overwritten")]


class ShowConfig(Operation, frozen=True, kw_only=True):
    """Show config.toml: its text without secrets, what is wrong in it, and each setting with its meaning and bounds."""

    ROUTE = "GET /v1/config"


class CheckConfig(Operation, frozen=True, kw_only=True):
    """Tell what is wrong in a text that could be config.toml; nothing is written."""

    ROUTE = "POST /v1/config/check"
    text: Text


class WriteConfig(Operation, frozen=True, kw_only=True):
    """Replace config.toml, and let the daemon go by it; what it does not take is refused, and the old text stays."""

    ROUTE = "PUT /v1/config"
    text: Text
    base_hash: BaseHash


class ChangeConfig(Operation, frozen=True, kw_only=True):
    """Change settings, and let the daemon go by them. Comments and every other line of the file stay."""

    ROUTE = "PATCH /v1/config"
    changes: Annotated[
        dict[str, Any],
        meaning('Values by section and key, such as {"daemon": {"idle_s": 60}}; null for the default'),
    ]
    base_hash: BaseHash | None = None


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it: the file's new hash; keys that `changed`, plugins that restarted, keys that wait for a restart.

    `reloaded` is false if no daemon works here that could go by it.
    """

    hash: str
    reloaded: bool
    changed: tuple[str, ...] = ()
    restarted: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
