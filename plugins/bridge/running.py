"""A plugin's bridges: what each is given, and the tasks that keep them going."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import trio
from msgspec.structs import replace

from daycare.plugin import Connector, Plugin, PluginContext
from daycare_plugins.bridge.connector import BridgeConnector
from daycare_plugins.bridge.folder import BridgeFolder
from daycare_plugins.bridge.keeper import BridgeKeeper
from daycare_plugins.bridge.settings import Supervision

S = TypeVar("S", bound=Supervision)


def environment() -> dict[str, str]:
    """Return what every bridge is given of the daemon's environment."""
    kept = {name: os.environ[name] for name in ("LANG", "LC_ALL", "TZ") if name in os.environ}
    return {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8", **kept}


def keep(
    context: PluginContext,
    name: str,
    settings: S,
    command: Callable[[str, S], tuple[Sequence[str], Mapping[str, str]]],
) -> BridgeKeeper:
    """Return the keeper of one bridge, with its connector; `command` is asked at each start."""
    connector = BridgeConnector(name, settings, lambda: BridgeFolder(context.data / name))
    return BridgeKeeper(context, connector, settings, lambda: command(name, settings))


def with_bridges(plugin: Plugin, keepers: Sequence[BridgeKeeper]) -> Plugin:
    """Return a plugin that has these bridges."""

    async def start(context: PluginContext) -> None:
        async with trio.open_nursery() as nursery:
            for keeper in keepers:
                nursery.start_soon(context.while_connected, keeper.connector.name, keeper.run)

    async def health(context: PluginContext) -> str:
        return ", ".join(f"{each.connector.name}: {each.state or 'starting'}" for each in keepers)

    connectors = {each.connector.name: _factory(each.connector) for each in keepers}
    return replace(plugin, connectors=connectors, start=start, health=health, by_connector=True)


def _factory(connector: Connector) -> Callable[[], Connector]:
    return lambda: connector
