"""Another config.toml put in force: whole or not at all, and without ending any turn."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from daycare.base.error_boundary import error_boundary
from daycare.base.errors import BrokenError, DaycareError
from daycare.base.problems import located
from daycare.inference.configured import sources
from daycare.inference.pool import Pool
from daycare.inference.sources import ProviderSource
from daycare.ops.effects import MODELS, Effect, changed, effect
from daycare.ops.replugging import Replugging
from daycare.plugins.extensions import Extensions, PluginChange
from daycare.settings import Config, Live
from daycare.store.sqlite.people import Secrets
from daycare.store.vault import Vault


class Reloaded(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a reading: keys `changed`, plugins `restarted`, and keys that wait for a restart (`pending`)."""

    changed: tuple[str, ...] = ()
    restarted: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()


@dataclass
class Applying:
    """Does it. `file` is what mistakes are told of; `changed` is called when something else is in force."""

    file: Path
    live: Live
    extensions: Extensions
    replugging: Replugging
    pool: Pool
    secrets: Secrets
    vault: Vault
    changed: Callable[[], None]

    def __post_init__(self) -> None:
        """Remember what the daemon started with."""
        self._started = self.live.now

    async def restart(self, plugin: str) -> Reloaded:
        """Set a plugin up anew with the settings it has, and start it. Raises as `go_by`, and `NotFoundError`."""
        return await self.go_by(self.live.now, again=plugin)

    async def go_by(self, config: Config, again: str = "") -> Reloaded:
        """Check what no file alone can tell, then put it in force. Raises before anything is changed.

        The plugin `again` starts anew, too.
        """
        before = self.live.now
        keys = changed(before, config)
        kinds = {leaf.kind for leaf in keys}
        plugins = any(effect(leaf.kind) is Effect.PLUGIN for leaf in keys)
        with error_boundary("RELOAD_FAILED", "trying the new config.toml, of which nothing is in force"):
            changes = self.extensions.prepare(before, config, again)
            providers = self._providers(config, changes) if kinds.intersection(MODELS) or changes else None
        try:
            with error_boundary("RELOAD_FAILED", "going by the new config.toml, some of which is in force now"):
                self.live.take(config)
                for change in changes:
                    await self.replugging.replug(change)
                if plugins:
                    self.extensions.expected(config)
                if providers is not None:
                    await self.pool.take(providers, config.models.by_role(), config.models.fallbacks)
        except DaycareError:
            self.live.take(before)  # the next reading tries all of it again
            raise
        if keys or changes:
            self.changed()
        return Reloaded(
            changed=tuple(leaf.key for leaf in keys),
            restarted=tuple(change.name for change in changes),
            pending=self._waiting(config, changes),
        )

    def _providers(self, config: Config, changes: Sequence[PluginChange]) -> Mapping[str, ProviderSource]:
        """Return the providers there are to be; those whose settings stay are the same objects."""
        new = {change.before.name: change.new.plugin for change in changes}
        plugins = [new.pop(plugin.name, plugin) for plugin in self.extensions.plugins] + list(new.values())
        known = sorted({kind for plugin in plugins for kind in plugin.providers})
        vectors = {kind for plugin in plugins for kind in plugin.embedders}
        wrong = [
            (("providers", name, "kind"), f"no plugin provides {section.kind}; use one of: {', '.join(known)}")
            for name, section in config.providers.items()
            if section.kind not in known and section.kind not in vectors
        ]
        if wrong:
            raise BrokenError("CONFIG_INVALID", "\n".join(map(str, located(self.file, wrong))))
        made = sources(config, plugins, self.secrets, self.vault)
        fresh = {kind for it in changes for kind in (*it.before.providers, *it.new.plugin.providers)}
        before = self.live.now.providers
        for name, source in self.pool.sources.items():
            section = config.providers.get(name)
            if name in made and before.get(name) == section and (section is None or section.kind not in fresh):
                made[name] = source
        return made

    def _waiting(self, config: Config, changes: Sequence[PluginChange]) -> tuple[str, ...]:
        """Return what takes effect after a restart only, of all that has changed since the start."""
        waiting = [leaf.key for leaf in changed(self._started, config) if effect(leaf.kind) is Effect.RESTART]
        embedder, slash, _ = self._started.memory.embedder.partition("/")
        section = self._started.providers.get(embedder)
        if slash and config.providers.get(embedder) != section:
            waiting.append(f"providers.{embedder} for memory.embedder")
        kind = section.kind if section is not None else ""
        waiting += [f"plugins.{it.name} for memory.embedder" for it in changes if kind in it.new.plugin.embedders]
        return tuple(waiting)
