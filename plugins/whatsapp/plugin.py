"""The plugin: the connector `whatsapp`, if it is switched on, which is a bridge that comes with daycare."""

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Final

from daycare.plugin import Plugin, PluginContext, Secret, SetupStep
from daycare_plugins.bridge.settings import Supervision

NAME: Final = "whatsapp"
COMMAND: Final = (sys.executable, "-m", "daycare_plugins.whatsapp")


class WhatsAppSettings(Supervision, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[plugins.whatsapp]`. See doc/operate/connectors/whatsapp.md."""

    enabled: bool = False


def _setup(context: PluginContext) -> Plugin:
    settings: WhatsAppSettings = context.config
    if not settings.enabled:
        return plugin
    from daycare_plugins.bridge.running import environment, keep, with_bridges

    return with_bridges(plugin, [keep(context, NAME, settings, lambda name, own: (COMMAND, environment()))])


def _missing() -> str:
    """Return what is missing to connect; importing the library would take 58 MB."""
    return "" if find_spec("neonize") else "its library is not installed: pip install 'daycare[whatsapp]'"


def _in_use(settings: WhatsAppSettings, _: Secret) -> Sequence[str]:
    return [NAME] if settings.enabled else []


plugin = Plugin(
    name=NAME,
    description="People talk to agents through WhatsApp, as a linked device.",
    config=WhatsAppSettings,
    setup=_setup,
    wizard=SetupStep(
        title="WhatsApp",
        about="daycare becomes a linked device of your telephone, by an unofficial library",
        connector=NAME,
        connectors=_in_use,
        settings={"enabled": True},
        missing=_missing,
        after="daycare bridge login whatsapp  # draws a code to scan with the telephone",
    ),
)
