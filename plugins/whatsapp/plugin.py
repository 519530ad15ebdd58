"""The plugin: the connector `whatsapp`, if it is switched on, which is a bridge that comes with daycare."""

import sys
from typing import Final

from daycare.plugin import Plugin, PluginContext
from daycare_plugins.bridge.settings import Supervision

NAME: Final = "whatsapp"
COMMAND: Final = (sys.executable, "-m", "daycare_plugins.whatsapp")


class Settings(Supervision, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[plugins.whatsapp]`. See doc/connectors/whatsapp.md."""

    enabled: bool = False


def _setup(context: PluginContext) -> Plugin:
    settings: Settings = context.config
    if not settings.enabled:
        return plugin
    from daycare_plugins.bridge.running import environment, keep, with_bridges

    return with_bridges(plugin, [keep(context, NAME, settings, lambda name, own: (COMMAND, environment()))])


plugin = Plugin(
    name=NAME,
    description="People talk to agents through WhatsApp, as a linked device.",
    config=Settings,
    setup=_setup,
)
