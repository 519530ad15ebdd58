"""All plugins of one daemon: what they add to it, their hooks and their lives."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import trio

from daycare.agent.hooks import Hooked, Hooks
from daycare.base.clock import Clock
from daycare.base.errors import DaycareError
from daycare.config import Config, plugin_settings
from daycare.observe.bus import Bus
from daycare.plugin import Connector, Inbound, Plugin
from daycare.plugins.absent import stand_in
from daycare.plugins.admission import admit, orphans
from daycare.plugins.behaviours import acting
from daycare.plugins.chat_commands import offered
from daycare.plugins.context import Host, Surroundings
from daycare.plugins.discovery import Found, discover, given
from daycare.plugins.running import Running
from daycare.store.records import Receipt


class Extensions:
    """Finds, admits, runs and ends plugins; `plugins`, `connectors`, `commands`, `hooks` are of those that take part.

    `token` finds a stored secret by name and `unseal` decrypts it; `accept` commits a message, `host` serves
    connectors; `extra` are plugins that a program hands in. Raises `BrokenError` for one in `[plugins] load` that does
    not exist.
    """

    def __init__(
        self,
        config: Config,
        home: Path,
        bus: Bus,
        clock: Clock,
        token: Callable[[str], bytes | None],
        unseal: Callable[[bytes], str],
        accept: Callable[[Inbound], Awaitable[Receipt]],
        host: Host,
        extra: Sequence[Plugin] = (),
    ) -> None:
        wish = config.plugins
        found = [*discover(wish.load, wish.disable), *map(given, extra)]
        around = Surroundings(home / "plugins", clock, token, unseal, accept, host)
        admitted, left_out = admit(found, partial(plugin_settings, home, config), around)
        absent = {section.kind for section in config.providers.values()}
        absent -= {kind for each in admitted for kind in each.plugin.providers}
        stand_ins = [stand_in(absent)] if absent and left_out else []  # with none left out it is a slip of the owner's
        left_out += orphans(wish.settings, found, wish.disable)
        self.plugins: list[Plugin] = [*(each.plugin for each in admitted), *stand_ins]
        self.connectors: dict[str, Connector] = {
            name: connector for each in admitted for name, connector in each.connectors.items()
        }
        self.pushing = {  # by plugin: what connects with the world outside
            each.plugin.name: names
            for each in admitted
            if (names := [name for name, connector in each.connectors.items() if not connector.pull])
        }
        self.commands = offered(admitted, bus, clock)
        self.behaviours = acting(admitted, bus, clock)
        hooked = [Hooked(each.plugin.name, each.plugin.hooks, each.context) for each in admitted]
        self.hooks = Hooks(hooked, bus, clock)
        self.ended = trio.Event()
        self._running = Running(admitted, left_out, bus, clock)

    def hold(self, gate: Callable[[str], Awaitable[None]]) -> None:
        """Let each plugin start only when `gate` of its name returns. To be called before `run`."""
        self._running.gate = gate

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run plugins and hooks until cancelled; started once hooks hear what happens."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self.hooks.run)
            task_status.started()
            await self._running.run()

    async def stop(self) -> None:
        """Let hooks hear the last of it and plugins say goodbye; takes 8 s at most, and sets `ended`."""
        await self.hooks.stop()
        await self._running.stop()
        self.ended.set()

    def problems(self) -> dict[str, str]:
        """Return why plugins that should run do not, by name."""
        return self._running.problems()

    async def report(self) -> list[dict[str, Any]]:
        """Return what `GET /v1/plugins` shows."""
        return await self._running.report(self.hooks.standing())


def look(config: Config, home: Path) -> list[Found]:
    """Return all plugins as a daemon would find them, settings read, without setting any of them up."""
    wish = config.plugins
    found = discover(wish.load, wish.disable)
    judged = []
    for one in found:
        try:
            if one.plugin is not None and one.plugin.config is not None:
                plugin_settings(home, config, one.plugin.name, one.plugin.config)
            judged.append(one)
        except DaycareError as problem:
            judged.append(one.without(problem))
    return judged + orphans(wish.settings, found, wish.disable)
