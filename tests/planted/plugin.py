"""A plugin that plants a fault into the daemon which loads it; campaigns load it while `planted` names one."""

from contextvars import ContextVar
from typing import Final

import msgspec

from daycare.plugin import Plugin, PluginContext

PATIENCE_S: Final = 20.0  # for a daemon with a fault: what does not come by then does not come

planted: ContextVar[str] = ContextVar("planted", default="")  # the fault of the campaigns that run in this context


class Settings(msgspec.Struct, frozen=True):
    """`fault` is the name of a function of `faults`."""

    fault: str


def to_load() -> list[str]:
    """Return the plugin, if a fault is to be planted."""
    return ["tests.planted.plugin:plugin"] if planted.get() else []


def section() -> str:
    """Return its section of config.toml."""
    return f'\n[plugins.planted]\nfault = "{planted.get()}"\n' if planted.get() else ""


def patience_s(seconds: float) -> float:
    """Return how long to wait for a daemon, which waits long only where nothing is planted."""
    return min(seconds, PATIENCE_S) if planted.get() else seconds


def _plant(context: PluginContext) -> Plugin:
    from tests.planted import faults

    getattr(faults, context.config.fault)()
    return plugin


plugin = Plugin(name="planted", config=Settings, setup=_plant)
