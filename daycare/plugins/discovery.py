"""Finding plugins: entry points `daycare.plugins`, and what the configuration names besides."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Final, Literal, TypeVar

from daycare.base.error_boundary import error_boundary
from daycare.base.errors import BrokenError, DaycareError, UnavailableError
from daycare.base.limits import PLUGIN_LOAD_S
from daycare.plugin import Plugin
from daycare.plugins.contract import flaws

GROUP: Final = "daycare.plugins"

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class DiscoveredPlugin:
    """A plugin, or what stands in its way: `plugin` is None exactly when there is a `problem`.

    `loaded` are those that the configuration names, `given` those that a program hands in.
    """

    name: str
    reference: str
    source: Literal["built in", "installed", "loaded", "given"]
    version: str = ""
    plugin: Plugin | None = None
    problem: DaycareError | None = None

    def without(self, problem: DaycareError) -> DiscoveredPlugin:
        """Return it as one that is left out."""
        return replace(self, plugin=None, problem=problem)


def discover(load: Sequence[str] = (), disable: Sequence[str] = ()) -> list[DiscoveredPlugin]:
    """Return every plugin that is installed or named as `module:attribute`, but those disabled, by name.

    Built-in ones come first. One that cannot be used is told of, with its problem, and harms no other. Raises
    `BrokenError` PLUGIN_MISSING for a name in `load` that does not exist: somebody has typed it.
    """
    found = [_installed(*each) for each in _points() if each[0].name not in disable]
    for reference in load:
        one = load_one(DiscoveredPlugin(name=reference, reference=reference, source="loaded"))
        if isinstance(one.problem, BrokenError):
            raise one.problem
        found.append(one)
    return [one for one in found if one.name not in disable]


def given(plugin: Plugin) -> DiscoveredPlugin:
    """Return a plugin that a program hands in. Raises `BrokenError` when it does not keep the contract."""
    one = _judged(DiscoveredPlugin(name=plugin.name, reference=plugin.name, source="given"), plugin)
    if one.problem is not None:
        raise BrokenError(one.problem.code, one.problem.message) from one.problem
    return one


def in_time(work: Callable[[], T], doing: str) -> T:
    """Return what foreign code returns, from a thread of its own, so that nobody waits for one that hangs.

    Raises `UnavailableError` PLUGIN_HANGS or PLUGIN_FAILED, or the `DaycareError` that it raises itself.
    """
    done: queue.SimpleQueue[tuple[T | None, DaycareError | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            with error_boundary("PLUGIN_FAILED", doing):
                done.put((work(), None))
        except DaycareError as error:
            done.put((None, error))

    threading.Thread(target=run, name="daycare-plugin", daemon=True).start()
    try:
        result, error = done.get(timeout=PLUGIN_LOAD_S)
    except queue.Empty:
        raise UnavailableError("PLUGIN_HANGS", f"{doing}: it was not done after {PLUGIN_LOAD_S:g} s") from None
    if error is not None:
        raise error
    return result  # type: ignore[return-value]  # None only where T allows it


def _points() -> Iterator[tuple[EntryPoint, str, bool]]:
    """Yield each entry point once with the version of what brings it and whether that is us.

    Ours come first, so that nobody takes a built-in name.
    """
    about: dict[int, tuple[str, str]] = {}  # each look at a distribution's name reads all of its metadata
    found = []
    for point in entry_points(group=GROUP):
        if point.dist is not None and id(point.dist) not in about:
            metadata = point.dist.metadata
            about[id(point.dist)] = (metadata["Name"] or "", metadata["Version"] or "")
        name, version = about.get(id(point.dist), ("", ""))
        found.append((point, version, name == "daycare"))
    seen: set[tuple[str, str]] = set()
    for point, version, ours in sorted(found, key=lambda it: (not it[2], it[0].name)):
        if (point.name, point.value) not in seen:  # a source tree on the path shows itself twice
            seen.add((point.name, point.value))
            yield point, version, ours


def _installed(point: EntryPoint, version: str, ours: bool) -> DiscoveredPlugin:
    source: Literal["built in", "installed"] = "built in" if ours else "installed"
    return load_one(DiscoveredPlugin(name=point.name, reference=point.value, source=source, version=version))


def load_one(one: DiscoveredPlugin) -> DiscoveredPlugin:
    """Import what is found at `reference`, and judge it."""

    def work() -> DiscoveredPlugin:
        return _judged(one, _import(one.reference))

    if one.source == "built in":
        return work()
    try:
        return in_time(work, f"importing the plugin {one.reference}")
    except DaycareError as problem:
        return one.without(problem)


def _import(reference: str) -> object:
    module, _, attribute = reference.partition(":")
    try:
        return getattr(import_module(module), attribute or "plugin")
    except (ModuleNotFoundError, AttributeError) as error:
        absent = error.name if isinstance(error, ModuleNotFoundError) else ""
        if absent and module != absent and not module.startswith(f"{absent}."):
            raise  # it is there, but something that it needs is not
        if isinstance(error, AttributeError) and getattr(error.obj, "__name__", None) != module:
            raise
        raise BrokenError(
            "PLUGIN_MISSING",
            f"loading the plugin {reference}: {error}",
            hint="correct [plugins] load in config.toml, or install it again",
        ) from error


def _judged(one: DiscoveredPlugin, plugin: object) -> DiscoveredPlugin:
    wrong = flaws(plugin)
    if isinstance(plugin, Plugin) and not wrong:
        return replace(one, name=plugin.name, version=plugin.version or one.version, plugin=plugin)
    named = plugin.name if isinstance(plugin, Plugin) and isinstance(plugin.name, str) else one.name
    problem = UnavailableError(
        "PLUGIN_CONTRACT",
        f"loading the plugin {one.reference}: {'; '.join(wrong)}",
        hint="install a version of it made for this daycare, or leave it out with [plugins] disable",
    )
    return replace(one, name=named, problem=problem)
