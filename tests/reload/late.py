"""A plugin to be loaded by name, with a setting that may be written wrong."""

import msgspec

from daycare.plugin import ChatCommand, Plugin, PluginContext
from daycare.testing.fake_connector import FakeConnector


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[plugins.late]`."""

    word: str = ""


async def _say(context: PluginContext, path: str, user: str, rest: str) -> str:
    return str(context.config.word)


plugin = Plugin(
    name="late", config=Settings, connectors={"late": FakeConnector}, commands={"late": ChatCommand("say it", _say)}
)
