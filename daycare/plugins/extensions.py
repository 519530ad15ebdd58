"""All plugins of one daemon: what they add to it, their hooks and their lives."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import trio

from daycare.agent.hooks import Hooked, Hooks
from daycare.base.connector import Health
from daycare.base.error_boundary import error_boundary
from daycare.base.errors import DaycareError, NotFoundError
from daycare.base.roles import of_connector
from daycare.config import Config, plugin_settings
from daycare.observe.bus import Bus
from daycare.plugin import Connector, Plugin
from daycare.plugins.absent import stand_in
from daycare.plugins.admission import Admitted, admit, admit_anew, orphans
from daycare.plugins.behaviours import acting
from daycare.plugins.chat_commands import offered
from daycare.plugins.context import Surroundings
from daycare.plugins.discovery import DiscoveredPlugin, discover, given
from daycare.plugins.running import Running


@dataclass(frozen=True)
class PluginChange:
    """A plugin as it was and as its new settings make it; `old` is None for one that was left out until now."""

    old: Admitted | None
    new: Admitted

    @property
    def name(self) -> str:
        """The plugin's name."""
        return self.new.plugin.name

    @property
    def before(self) -> Plugin:
        """The plugin as it was; one that was left out gave nothing."""
        return self.old.plugin if self.old is not None else Plugin(name=self.name)


class Extensions:
    """Finds, admits, runs and ends plugins; `plugins`, `connectors`, `commands`, `hooks` are of those that take part.
    `runs` says that they work, and not only stand by.

    Their connectors are registered in `connectors`, `around` is what they all are given, `extra` are plugins that a
    program hands in. Raises `BrokenError` for one in `[plugins] load` that does not exist.
    """

    def __init__(
        self,
        config: Config,
        home: Path,
        bus: Bus,
        around: Surroundings,
        connectors: dict[str, Connector],
        extra: Sequence[Plugin] = (),
    ) -> None:
        wish = config.plugins
        found = [*discover(wish.load, wish.disable), *map(given, extra)]
        self._home, self._found = home, found
        self._around, clock = around, around.clock
        admitted, left_out = admit(found, partial(plugin_settings, home, config), around)
        self._admitted = admitted
        absent = {section.kind for section in config.providers.values()}
        absent -= {kind for each in admitted for kind in each.plugin.providers}
        stand_ins = [stand_in(absent)] if absent and left_out else []  # with none left out it is a slip of the owner's
        left_out += orphans(wish.settings, found, wish.disable)
        self.plugins: list[Plugin] = [*(each.plugin for each in admitted), *stand_ins]
        self.connectors = connectors
        for each in admitted:
            connectors |= each.connectors
        self.pushing = {  # by plugin: what connects with the world outside
            each.plugin.name: names
            for each in admitted
            if (names := [name for name, connector in each.connectors.items() if not connector.pull])
        }
        self._bus, self._clock = bus, clock
        self.commands = offered(admitted, bus, clock)
        self.behaviours = acting(admitted, bus, clock)
        hooked = [Hooked(each.plugin.name, each.plugin.hooks, each.context) for each in admitted]
        self.hooks = Hooks(hooked, bus, clock)
        self.runs = False
        self.ended = trio.Event()
        self._running = Running(admitted, left_out, bus, clock)

    def hold(self, gate: Callable[[str], Awaitable[None]]) -> None:
        """Let each plugin start only when `gate` of its name returns. To be called before `run`."""
        self._running.gate = gate

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run plugins and hooks until cancelled; started once hooks hear what happens."""
        self.runs = True
        async with trio.open_nursery() as nursery:
            await nursery.start(self.hooks.run)
            task_status.started()
            await self._running.run()

    def role_of(self, connector: str) -> str:
        """Return the role of the node that is connected with an account: its own, or that of all of its plugin's."""
        for each in self._admitted:
            if connector in each.connectors:
                return of_connector(connector if each.plugin.by_connector else each.plugin.name)
        return of_connector(connector)

    def place(self, while_held: Callable[[str, Callable[[], Awaitable[None]]], Awaitable[None]]) -> None:
        """Let each plugin that connects with the world outside run while `while_held` of its role runs it."""

        async def run(plugin: str, live: Callable[[], Awaitable[None]]) -> None:
            by_itself = any(each.plugin.by_connector for each in self._admitted if each.plugin.name == plugin)
            if plugin in self.pushing and not by_itself:
                await while_held(of_connector(plugin), live)
            else:
                await live()

        self._running.place = run

    async def stop(self) -> None:
        """Let hooks hear the last of it and plugins say goodbye; takes 8 s at most, and sets `ended`."""
        await self.hooks.stop()
        await self._running.stop()
        self.ended.set()

    # -- other settings ----------------------------------------------------------------------------------------------

    def prepare(self, before: Config, after: Config, again: str = "") -> list[PluginChange]:
        """Set up each plugin anew whose own section is another one, or that is named; nothing is ended or started yet.

        Raises `DaycareError` for the first whose settings are wrong, or that cannot be set up with them, and
        `NotFoundError` PLUGIN_UNKNOWN for a name that no plugin has.
        """
        changes: list[PluginChange] = []
        if again and all(one.name != again for one in self._found):
            hint = "daycare plugins list; one that is disabled begins with the daemon"
            raise NotFoundError("PLUGIN_UNKNOWN", f"restarting {again}: no such plugin, or it is disabled", hint=hint)
        for one in self._found:
            if one.name == again and one.problem is not None:
                raise one.problem
            was, now = before.plugins.settings.get(one.name, {}), after.plugins.settings.get(one.name, {})
            if one.plugin is None or (one.name != again and (one.plugin.config is None or was == now)):
                continue
            old = next((each for each in self._admitted if each.found.name == one.name), None)
            others = [each for each in self._admitted if each is not old and all(each is not it.old for it in changes)]
            others += [change.new for change in changes]
            settings = partial(plugin_settings, self._home, after)
            changes.append(PluginChange(old, admit_anew(one, settings, self._around, others)))
        return changes

    async def change(self, change: PluginChange) -> None:
        """Let a plugin live on with what was prepared for it, and nobody else notice."""
        old, new = change.old, change.new
        if old is not None:
            self._admitted[self._admitted.index(old)] = new
            self.plugins[self.plugins.index(old.plugin)] = new.plugin
        else:
            self._admitted.append(new)
            self.plugins.append(new.plugin)
            self._running.left_out = [one for one in self._running.left_out if one.name != change.name]
        for name in old.connectors if old is not None else ():
            del self.connectors[name]
        self.connectors |= new.connectors
        self.pushing.pop(change.name, None)
        if names := [name for name, connector in new.connectors.items() if not connector.pull]:
            self.pushing[change.name] = names
        self.commands = offered(self._admitted, self._bus, self._clock)
        self.behaviours = acting(self._admitted, self._bus, self._clock)
        self.hooks.change(Hooked(change.name, new.plugin.hooks, new.context))
        await self._running.change(old, new)

    def expected(self, config: Config) -> None:
        """Tell of sections whose plugins do not exist, as config.toml has them now."""
        found = [one for one in self._running.left_out if not _is_orphan(one)]
        self._running.left_out = found + orphans(config.plugins.settings, self._found, config.plugins.disable)

    def elsewhere(self, has: Callable[[str], bool]) -> list[str]:
        """Return the connectors that push which this node does not have."""
        return [name for names in self.pushing.values() for name in names if not has(name)]

    def at_rest(self) -> dict[str, Health]:
        """Return how connections with the world outside are while plugins do not run, by the connectors' names."""
        return {
            name: health
            for each in self._admitted
            for name, health in _resting(each, self.pushing.get(each.plugin.name, ()))
        }

    def problems(self) -> dict[str, str]:
        """Return why plugins that should run do not, by name."""
        return self._running.problems()

    async def report(self) -> list[dict[str, Any]]:
        """Return what `GET /v1/plugins` shows."""
        return await self._running.report(self.hooks.standing())


def _resting(one: Admitted, connectors: Sequence[str]) -> Iterator[tuple[str, Health]]:
    """Yield each connector of a plugin that does not run, with why nothing comes in over it."""
    in_use = connectors  # what asks for nothing needs no setting up
    try:
        if connectors and one.plugin.wizard is not None:
            with error_boundary("SETUP_FAILED", f"asking the plugin {one.plugin.name} for its connectors"):
                in_use = one.plugin.wizard.connectors(one.context.config, one.context.secret)
    except DaycareError as error:
        yield from ((name, Health(state="off", reason=error.message, hint=error.hint)) for name in connectors)
        return
    for name in connectors:
        known = ("not running", "daycare run") if name in in_use else ("not set up", "daycare init")
        yield name, Health(state="off", reason=known[0], hint=known[1])


def _is_orphan(one: DiscoveredPlugin) -> bool:
    return one.problem is not None and one.problem.code == "PLUGIN_UNKNOWN"


def look(config: Config, home: Path) -> list[DiscoveredPlugin]:
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
