"""The connector: what the host asks of a bot. Everything goes through the governor, and only final answers may wait.

It exists from the start, also without a token; what is heavy is imported when it is first needed.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
import trio
from msgspec.structs import replace

from daycare.base.connector import BaseConnector, Capabilities, Identity, Outgoing
from daycare.base.errors import AwayError, BusyError, DaycareError, InvalidError, NotFoundError
from daycare.plugin import PluginContext
from daycare_plugins.telegram.governor import Governor
from daycare_plugins.telegram.known import Known, Newest
from daycare_plugins.telegram.settings import BotSettings

if TYPE_CHECKING:
    from daycare_plugins.telegram.client import Client
    from daycare_plugins.telegram.outgoing import Message, Place

FLOOD: Final = "flood"  # the name under which cool-downs are remembered
TYPING_S: Final = 5.0  # for so long a chat shows what the bot does
SOFTER_MAX: Final = 5  # things that can be left out of a refused message

_PRIVATE: Final = Capabilities(
    typing_s=TYPING_S,
    drafts=True,
    edits=True,
    withdrawals=True,
    reactions=True,
    choices=True,
    files=True,
    preview_every_s=1.0,
)
_GROUP: Final = replace(_PRIVATE, drafts=False, preview_every_s=3.0)  # 20 messages a minute, edits included


class TelegramConnector(BaseConnector):
    """One bot."""

    pull = False

    def __init__(self, context: PluginContext, name: str, settings: BotSettings, secret: str) -> None:
        self.name = name
        self.known = Known()
        self.who: Identity | None = None
        self._context = context
        self._settings = settings
        self._secret = secret
        self._newest = Newest()
        self._client: Client | None = None
        self._governor = Governor()
