"""The plugin: one connector for each bot, `telegram` and `telegram-NAME`, and a task for each that keeps it going.

Nothing here or below costs memory before a token is stored: the client and the renderer are imported by then.
"""

from collections.abc import Callable

import trio
from msgspec.structs import replace

from daycare.plugin import Connector, Plugin, PluginContext
from daycare_plugins.telegram.bot import BotTask
from daycare_plugins.telegram.settings import TelegramSettings
from daycare_plugins.telegram.setup import NAME, STEP
from daycare_plugins.telegram.setup import bots as named


def _setup(context: PluginContext) -> Plugin:
    settings: TelegramSettings = context.config
    bots = [BotTask(context, name, secret, own) for name, (secret, own) in named(settings).items()]

    async def start(context: PluginContext) -> None:
        async with trio.open_nursery() as nursery:
            for bot in bots:
                nursery.start_soon(bot.listen)
                nursery.start_soon(context.while_connected, bot.name, bot.run)

    async def health(context: PluginContext) -> str:
        return ", ".join(f"{bot.name}: {bot.monitor.state}" for bot in bots)

    connectors = {bot.name: _factory(bot.connector) for bot in bots}
    return replace(plugin, connectors=connectors, start=start, health=health)


def _factory(connector: Connector) -> Callable[[], Connector]:
    return lambda: connector


plugin = Plugin(
    name=NAME,
    description="People talk to agents through Telegram bots.",
    config=TelegramSettings,
    setup=_setup,
    wizard=STEP,
    by_connector=True,
)
