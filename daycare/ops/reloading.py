"""Config.toml taken anew while the daemon runs: whole or not at all, and without ending any turn.

It is watched, and read at once where somebody asks. What it says is checked as at a start; with a mistake in it what
held before stays in force. A turn that runs goes on with the model it has; rules and budgets count from the next call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
import trio

from daycare.base.blame import blamed
from daycare.base.errors import BrokenError, ConflictError, DaycareError
from daycare.base.events import ConfigRefused, ConfigReloaded
from daycare.base.health import Finding
from daycare.base.limits import CONFIG_MAX_BYTES, CONFIG_REASON_MAX_CHARS
from daycare.base.problems import Problem, located
from daycare.base.secrecy import without_secrets
from daycare.config import load
from daycare.inference.configured import sources
from daycare.inference.sources import Source
from daycare.observe import log
from daycare.ops.effects import MODELS, Effect, changed, effect
from daycare.ops.replugging import replug
from daycare.ops.watching import Watched
from daycare.ops.watching import stamp as watched_stamp
from daycare.plugins.extensions import Change
from daycare.settings import Config
from daycare.store.worker import Worker

if TYPE_CHECKING:
    from daycare.daemon import Daemon

_LARGE_BYTES: Final = 32 * 1024  # read beside the loop: it takes over 20 ms


class Reloaded(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a reading: keys `changed`, plugins `restarted`, and keys that wait for a restart (`pending`)."""

    changed: tuple[str, ...] = ()
    restarted: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()


class _Wish:
    """Somebody wants it read; `told` says that the owner hears of it when it is refused."""

    def __init__(self, *, told: bool) -> None:
        self.told = told
        self.done = trio.Event()
        self.found: Reloaded | DaycareError = Reloaded()


class Reloading:
    """Keeps a daemon and its config.toml in line."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._file = daemon.home.config
        self._started = daemon.live.now
        daemon.live.watch(lambda settings: (settings.daemon.log_level, settings.daemon.log_max_mb), self._adjust_log)
        self._watched = Watched(self._file)
        self._had_file = watched_stamp(self._file).there
        self._wishes: list[_Wish] = []
        self._served: list[_Wish] = []  # those of the reading that is going on
        self._worker = Worker(self._look)
        self._runs = False
        self.taken_at = daemon.started_at
        self.refused = ""
        self.pending: tuple[str, ...] = ()

    # -- when ----------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Watch the file and do what is asked, one reading at a time, until the daemon is to end."""
        self._runs = True
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._worker.run)
                await self._daemon.stop.event.wait()
                nursery.cancel_scope.cancel()
        finally:
            self._runs = False
            for wish in (*self._served, *self._wishes):
                wish.found = _stopping()
                wish.done.set()

    async def _look(self) -> float:
        self._served, self._wishes = self._served + self._wishes, []  # none is lost, should a look be cut short
        if not self._served and self._watched.look() != 0:
            return self._watched.wait_s()
        found = await self.read(told=not self._served or any(wish.told for wish in self._served))
        served, self._served = self._served, []
        for wish in served:
            wish.found = found
            wish.done.set()
        return 0.0

    def ask(self, *, told: bool = True) -> _Wish:
        """Have it read now, without waiting for that."""
        self._wishes.append(wish := _Wish(told=told))
        self._worker.wake()
        return wish

    async def reload(self) -> Reloaded:
        """Read it now; return what came of it, or raise why it was refused."""
        if not self._runs or self._daemon.stop.event.is_set():
            raise _stopping()
        wish = self.ask(told=False)
        await wish.done.wait()
        if isinstance(wish.found, DaycareError):
            raise wish.found
        return wish.found

    # -- reading -------------------------------------------------------------------------------------------------------

    async def read(self, *, told: bool = True) -> Reloaded | DaycareError:
        """Read the file and go by it. With `told` the owner hears of it when it is refused."""
        stamp = self._watched.take()
        try:
            if not stamp.there and self._had_file:
                gone = "is gone: what it said stays in force; an empty one is a wish for the defaults"
                raise BrokenError("CONFIG_GONE", str(Problem(str(self._file), 1, "", gone)))
            self._had_file = self._had_file or stamp.there
            if _LARGE_BYTES < stamp.size <= CONFIG_MAX_BYTES:
                config = await trio.to_thread.run_sync(load, self._daemon.home.path)
            else:
                config = load(self._daemon.home.path)
            found = await self._go_by(config)
        except DaycareError as error:
            await self._refuse(error, told=told)
            return error
        if self.refused or found != Reloaded(pending=self.pending):
            self.taken_at = self._daemon.clock.now_ms()
            self.refused, self.pending = "", found.pending
            self._daemon.bus.publish(ConfigReloaded(at_ms=self.taken_at, **msgspec.structs.asdict(found)))
        return found

    async def _go_by(self, config: Config) -> Reloaded:
        """Check what no file alone can tell, then put it in force. Raises before anything is changed."""
        daemon, before = self._daemon, self._daemon.live.now
        keys = changed(before, config)
        kinds = {leaf.kind for leaf in keys}
        plugins = any(effect(leaf.kind) is Effect.PLUGIN for leaf in keys)
        with blamed("RELOAD_FAILED", "trying the new config.toml, of which nothing is in force"):
            changes = daemon.extensions.prepare(before, config)
            providers = self._providers(config, changes) if kinds.intersection(MODELS) or changes else None
        try:
            with blamed("RELOAD_FAILED", "going by the new config.toml, some of which is in force now"):
                daemon.live.take(config)
                for change in changes:
                    await replug(daemon, change)
                if plugins:
                    daemon.extensions.expected(config)
                if providers is not None:
                    await daemon.pool.take(providers, config.models.by_role(), config.models.fallbacks)
        except DaycareError:
            daemon.live.take(before)  # the next reading tries all of it again
            raise
        if keys or changes:
            daemon.supervisor.failures.changed()
        return Reloaded(
            changed=tuple(leaf.key for leaf in keys),
            restarted=tuple(change.name for change in changes),
            pending=self._waiting(config, changes),
        )

    def _providers(self, config: Config, changes: Sequence[Change]) -> Mapping[str, Source]:
        """Return the providers there are to be; those whose settings stay are the same objects."""
        daemon = self._daemon
        new = {change.before.name: change.new.plugin for change in changes}
        plugins = [new.pop(plugin.name, plugin) for plugin in daemon.extensions.plugins] + list(new.values())
        known = sorted({kind for plugin in plugins for kind in plugin.providers})
        vectors = {kind for plugin in plugins for kind in plugin.embedders}
        wrong = [
            (("providers", name, "kind"), f"no plugin provides {section.kind}; use one of: {', '.join(known)}")
            for name, section in config.providers.items()
            if section.kind not in known and section.kind not in vectors
        ]
        if wrong:
            raise BrokenError("CONFIG_INVALID", "\n".join(map(str, located(self._file, wrong))))
        made = sources(config, plugins, daemon.store.secrets, daemon.vault)
        fresh = {kind for it in changes for kind in (*it.before.providers, *it.new.plugin.providers)}
        before = daemon.live.now.providers
        for name, source in daemon.pool.sources.items():
            section = config.providers.get(name)
            if name in made and before.get(name) == section and (section is None or section.kind not in fresh):
                made[name] = source
        return made

    def _waiting(self, config: Config, changes: Sequence[Change]) -> tuple[str, ...]:
        """Return what takes effect after a restart only, of all that has changed since the start."""
        waiting = [leaf.key for leaf in changed(self._started, config) if effect(leaf.kind) is Effect.RESTART]
        embedder, slash, _ = self._started.memory.embedder.partition("/")
        section = self._started.providers.get(embedder)
        if slash and config.providers.get(embedder) != section:
            waiting.append(f"providers.{embedder} for memory.embedder")
        kind = section.kind if section is not None else ""
        waiting += [f"plugins.{it.name} for memory.embedder" for it in changes if kind in it.new.plugin.embedders]
        return tuple(waiting)

    def _adjust_log(self) -> None:
        section = self._daemon.live.now.daemon
        log.adjust(section.log_level, section.log_max_mb)

    async def _refuse(self, error: DaycareError, *, told: bool) -> None:
        reason = without_secrets(error.message)[:CONFIG_REASON_MAX_CHARS]
        if reason == self.refused:
            return  # it is known
        self.refused = reason
        self._daemon.bus.publish(ConfigRefused(at_ms=self._daemon.clock.now_ms(), code=error.code, reason=reason))
        if told:
            text = f"config.toml was changed and cannot be taken; what held before goes on.\n{reason}"
            await self._daemon.notifier.notify(self._daemon.owner, text, topic="config")

    # -- how it is -----------------------------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """Return what `GET /v1/status` shows of it."""
        return {"taken_at": self.taken_at, "refused": self.refused, "pending": list(self.pending)}

    def finding(self) -> Finding:
        """Return how it is, for who looks at everything."""
        waits = f"{', '.join(self.pending)}: after `daycare restart`" if self.pending else "it is in force"
        return Finding(name="config", ok=not self.refused, text=self.refused or waits)


def _stopping() -> ConflictError:
    return ConflictError("RELOAD_STOPPING", "reloading config.toml: this daemon does not work, or is stopping")
