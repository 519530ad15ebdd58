"""The plugin: a connector for each `[plugins.bridge.to.NAME]`, and a task for each that keeps its process going.

What it takes to run one is imported where there is one.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from daycare.base.errors import NotFoundError
from daycare.plugin import Plugin, PluginContext
from daycare_plugins.bridge.settings import BridgePluginSettings, BridgeSettings

NAME: Final = "bridge"


def _setup(context: PluginContext) -> Plugin:
    settings: BridgePluginSettings = context.config
    if not settings.to:
        return plugin
    from daycare_plugins.bridge.running import environment, keep, with_bridges

    def command(name: str, own: BridgeSettings) -> tuple[Sequence[str], Mapping[str, str]]:
        found = {**environment(), **own.environment}
        for variable, secret in own.secrets.items():
            value = context.secret(secret)
            if value is None:
                raise NotFoundError(
                    "SECRET_MISSING", f"starting {name}: no secret {secret}", hint=f"daycare keys add {secret}"
                )
            found[variable] = value
        return own.command, found

    return with_bridges(plugin, [keep(context, name, own, command) for name, own in settings.to.items()])


plugin = Plugin(
    name=NAME,
    description="People talk to agents through messengers that processes of their own connect.",
    config=BridgePluginSettings,
    setup=_setup,
)
