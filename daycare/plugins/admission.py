"""From what was found to what takes part: settings read, set up, names free. Whoever fails is left out and told why."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from daycare.base.consent import TOOLS
from daycare.base.errors import ConflictError, DaycareError, InvalidError, UnavailableError
from daycare.base.likeness import nearest_name
from daycare.plugin import Connector, Plugin
from daycare.plugins.absent import sure
from daycare.plugins.checked import connectors_of, held
from daycare.plugins.context import HostContext, Surroundings
from daycare.plugins.contract import flaws, provides
from daycare.plugins.discovery import DiscoveredPlugin, in_time

Settings = Callable[[str, type[msgspec.Struct]], Any]


OURS: Final = (*TOOLS, "memory_ask")  # tools of memory, which is no plugin: nobody else may answer in their place


@dataclass(frozen=True)
class Admitted:
    """A plugin that takes part."""

    found: DiscoveredPlugin
    plugin: Plugin
    context: HostContext
    connectors: Mapping[str, Connector]


@dataclass
class TakenNames:
    """Names that are given away, each with who has it."""

    names: dict[tuple[str, str], str] = field(
        default_factory=lambda: dict.fromkeys((("tool", it) for it in OURS), "tools")
    )

    def take(self, plugin: Plugin) -> None:
        """Take all names of a plugin, or none. Raises `ConflictError` PLUGIN_COLLIDES."""
        wanted = [("plugin name", plugin.name)]
        wanted += [
            (what.removesuffix("s"), name)
            for what, names in provides(plugin).items()
            if what != "hooks"  # anybody may listen
            for name in names
        ]
        for what, name in wanted:
            owner = self.names.get((what, name))
            if owner is not None:
                raise ConflictError(
                    "PLUGIN_COLLIDES",
                    f"loading the plugin {plugin.name}: the {what} {name} is that of the plugin {owner}",
                    hint=f'leave one of them out: [plugins] disable = ["{owner}"]',
                )
        self.names |= dict.fromkeys(wanted, plugin.name)


def admit(
    found: Iterable[DiscoveredPlugin], settings: Settings, around: Surroundings
) -> tuple[list[Admitted], list[DiscoveredPlugin]]:
    """Return who takes part and who is left out, both in the order found. A program's own plugins raise."""
    admitted: list[Admitted] = []
    left_out: list[DiscoveredPlugin] = []
    taken = TakenNames()
    for one in found:
        if one.plugin is None:
            left_out.append(one)
            continue
        try:
            admitted.append(_admit(one, one.plugin, settings, around, taken))
        except DaycareError as problem:
            if one.source in ("built in", "given"):
                raise
            left_out.append(one.without(problem))
    return admitted, left_out


def admit_anew(one: DiscoveredPlugin, settings: Settings, around: Surroundings, others: Iterable[Admitted]) -> Admitted:
    """Return a plugin set up with the settings it has now, beside `others`, which keep their names.

    As at a start everybody waits for that: a setup may read secrets, and it is not given long.

    Raises `DaycareError` for settings that are wrong, or when it cannot be set up.
    """
    taken = TakenNames()
    for other in others:
        taken.take(other.plugin)
    assert one.plugin is not None
    return _admit(one, one.plugin, settings, around, taken)


def orphans(
    sections: Iterable[str], found: Sequence[DiscoveredPlugin], disable: Sequence[str]
) -> list[DiscoveredPlugin]:
    """Return each `[plugins.NAME]` section whose plugin does not exist, as something that is missing."""
    names = {one.name for one in found} | set(disable)
    missing = []
    for name in sections:
        if name not in names:
            near = nearest_name(name, names)
            problem = InvalidError(
                "PLUGIN_UNKNOWN",
                f"config.toml has settings for [plugins.{name}], and no such plugin is installed",
                hint=f"did you mean {near[0]}?" if near else "install it, or delete the section",
            )
            missing.append(DiscoveredPlugin(name=name, reference="", source="loaded", problem=problem))
    return missing


def _admit(
    one: DiscoveredPlugin, plugin: Plugin, settings: Settings, around: Surroundings, taken: TakenNames
) -> Admitted:
    config = settings(plugin.name, plugin.config) if plugin.config is not None else None
    context = HostContext(plugin.name, config, around)
    trusted = one.source in ("built in", "given")

    def set_up() -> tuple[Plugin, dict[str, Connector]]:
        made = plugin.setup(context) if plugin.setup is not None else plugin
        wrong = flaws(made) if made is not plugin else []  # that one was judged when it was found
        if not wrong and made.name != plugin.name:
            wrong = [f"setup renamed it to {made.name}"]
        if wrong:
            raise UnavailableError("PLUGIN_CONTRACT", f"setting up the plugin {plugin.name}: {'; '.join(wrong)}")
        return made, connectors_of(made)

    plain = plugin.setup is None and not plugin.connectors
    context.setting_up = True
    try:
        made, connectors = set_up() if trusted or plain else in_time(set_up, f"setting up the plugin {plugin.name}")
    finally:
        context.setting_up = False
    taken.take(made)
    if not trusted:
        made = replace(made, providers={kind: sure(made.name, make) for kind, make in made.providers.items()})
    context.connectors = frozenset(connectors)
    return Admitted(one, held(made), context, connectors)
