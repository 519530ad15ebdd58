"""Finding plugins: entry points `daycare.plugins`, and what the configuration names besides."""

from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import entry_points

from daycare.base.errors import BrokenError
from daycare.plugin import CONTRACT_VERSION, Plugin

GROUP = "daycare.plugins"


def discover(load: Sequence[str] = (), disable: Sequence[str] = ()) -> list[Plugin]:
    """Return every plugin that is installed or named as `module:attribute`, but those disabled, by name.

    Raises `BrokenError` naming the plugin that cannot be imported or speaks another version of the contract.
    """
    found: dict[str, Plugin] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        if point.name not in disable:
            plugin = _load(point.value)
            found[plugin.name] = plugin
    for reference in load:
        plugin = _load(reference)
        found[plugin.name] = plugin
    return list(found.values())


def _load(reference: str) -> Plugin:
    module, _, attribute = reference.partition(":")
    try:
        plugin = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise BrokenError(
            "PLUGIN_MISSING",
            f"loading the plugin {reference}: {error}",
            hint="correct [plugins] load in config.toml, or install it again",
        ) from error
    if not isinstance(plugin, Plugin) or plugin.contract != CONTRACT_VERSION:
        raise BrokenError(
            "PLUGIN_CONTRACT",
            f"loading the plugin {reference}: it does not speak version {CONTRACT_VERSION} of the contract",
            hint="install a version of it made for this daycare",
        )
    return plugin
