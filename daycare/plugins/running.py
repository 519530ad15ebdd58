"""Keeping plugins alive: each in a task of its own that starts anew when it crashes, and that nobody waits for."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import trio

from daycare.base import foreign
from daycare.base.clock import Clock
from daycare.base.error_boundary import error_boundary
from daycare.base.errors import DaycareError
from daycare.base.events import PluginFailed, PluginStarted
from daycare.base.limits import RETRY_BASE_S, RETRY_FACTOR, RETRY_MAX_S
from daycare.base.secrecy import without_secrets
from daycare.observe.bus import Bus
from daycare.plugins.admission import Admitted
from daycare.plugins.context import in_its_own
from daycare.plugins.contract import provides
from daycare.plugins.discovery import DiscoveredPlugin

PLUGIN_STOP_S: Final = 5.0  # for a cancelled plugin to say goodbye to its platform
PLUGIN_HEALTH_S: Final = 5.0
PLUGIN_STEADY_S: Final = 300.0  # a plugin that ran for so long begins its backoff again


Place = Callable[[str, Callable[[], Awaitable[None]]], Awaitable[None]]


async def _anywhere(plugin: str, run: Callable[[], Awaitable[None]]) -> None:
    await run()


@dataclass
class PluginLife:
    """One plugin's life. `state` is `stopped`, `held` (may not start yet), `running`, `failed` (waits for a start)."""

    admitted: Admitted
    state: str = "stopped"
    crashes: int = 0
    problem: DaycareError | None = None
    retry_at: float = 0.0
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    ended: trio.Event | None = None


class Running:
    """Runs the plugins that were admitted, and tells how all are, those left out included."""

    def __init__(
        self, admitted: Sequence[Admitted], left_out: Sequence[DiscoveredPlugin], bus: Bus, clock: Clock
    ) -> None:
        self._lives = [PluginLife(each) for each in admitted]
        self.left_out = left_out
        self._bus = bus
        self._clock = clock
        self._tasks: trio.Nursery | None = None  # open while plugins may start
        self.gate: Callable[[str], Awaitable[None]] | None = None  # returns when a plugin may start
        self.place: Place = _anywhere  # runs a plugin while it is to run here

    async def run(self) -> None:
        """Run all plugins until cancelled or stopped. Nothing that one of them does ends this or another."""
        for one in self.left_out:
            assert one.problem is not None
            self._failed(one.name, "load", one.problem, None)
        async with trio.open_nursery() as self._tasks:
            for life in self._lives:
                self._tasks.start_soon(self._keep, life)

    async def change(self, old: Admitted | None, new: Admitted) -> None:
        """End a plugin and start it anew as another setup made it; with no `old` one, start it."""
        if old is not None:
            life = next(life for life in self._lives if life.admitted is old)
            life.scope.cancel()
            with trio.move_on_after(PLUGIN_STOP_S):
                if life.ended is not None:
                    await life.ended.wait()
            if life.ended is not None and not life.ended.is_set():
                self._stubborn(life)
            self._lives[self._lives.index(life)] = begun = PluginLife(new)
        else:
            self._lives.append(begun := PluginLife(new))
        if self._tasks is not None:
            self._tasks.start_soon(self._keep, begun)
            self._bus.publish(PluginStarted(at_ms=self._clock.now_ms(), plugin=new.plugin.name))

    async def stop(self) -> list[str]:
        """Cancel all plugins; return the names of those that are not gone after `PLUGIN_STOP_S`."""
        self._tasks = None
        for life in self._lives:
            life.scope.cancel()
        running = [life for life in self._lives if life.ended is not None]
        with trio.move_on_after(PLUGIN_STOP_S):
            for life in running:
                await life.ended.wait()  # type: ignore[union-attr]
        stubborn = [life for life in running if not life.ended.is_set()]  # type: ignore[union-attr]
        for life in stubborn:
            self._stubborn(life)
        return [life.admitted.plugin.name for life in stubborn]

    def problems(self) -> dict[str, str]:
        """Return why plugins that should run do not, by name."""
        failed = {life.admitted.plugin.name: str(life.problem) for life in self._lives if life.state == "failed"}
        return failed | {one.name: one.problem.message for one in self.left_out if one.problem is not None}

    async def report(self, hooks: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return what is known of each plugin; `hooks` has what is known of the hooks, by plugin."""
        health: dict[str, str] = {}
        async with trio.open_nursery() as nursery:
            for life in self._lives:
                nursery.start_soon(self._ask, life, health)
        told = [self._told(life, health, hooks) for life in self._lives]
        return told + [left_out(one) for one in self.left_out]

    # -- one life ----------------------------------------------------------------------------------------------------

    async def _keep(self, life: PluginLife) -> None:
        life.ended = trio.Event()
        delay_s = RETRY_BASE_S
        try:
            with life.scope:
                if self.gate is not None:
                    life.state = "held"
                    await self.gate(life.admitted.plugin.name)
                while True:
                    began = trio.current_time()
                    problem = await self._placed(life)
                    if trio.current_time() - began >= PLUGIN_STEADY_S:
                        delay_s = RETRY_BASE_S
                    life.crashes += 1
                    life.state, life.problem, life.retry_at = "failed", problem, trio.current_time() + delay_s
                    self._failed(life.admitted.plugin.name, "start", problem, delay_s)
                    await trio.sleep(delay_s)
                    delay_s = min(delay_s * RETRY_FACTOR, RETRY_MAX_S)
                    self._bus.publish(PluginStarted(at_ms=self._clock.now_ms(), plugin=life.admitted.plugin.name))
        finally:
            life.state = "stopped"
            life.ended.set()

    async def _placed(self, life: PluginLife) -> DaycareError:
        """Run a plugin, while it is to run here, until it crashes; return of what."""
        found: list[DaycareError] = []

        async def live() -> None:
            try:
                found.append(await self._live(life))
            finally:
                life.state = "held"

        life.state = "held"
        await self.place(life.admitted.plugin.name, live)
        return found[0]

    async def _live(self, life: PluginLife) -> DaycareError:
        """Run a plugin until it crashes; return of what."""
        plugin, context = life.admitted.plugin, life.admitted.context
        try:
            with error_boundary("PLUGIN_CRASHED", f"running the plugin {plugin.name}"):
                async with trio.open_nursery() as tasks:
                    context.tasks, life.state = tasks, "running"
                    if plugin.start is not None:
                        await plugin.start(context)
                    await trio.sleep_forever()  # it may still have tasks, or get some
        except DaycareError as problem:
            return problem
        finally:
            context.tasks = None
        raise AssertionError("sleeps forever")

    # -- how it is ---------------------------------------------------------------------------------------------------

    async def _ask(self, life: PluginLife, health: dict[str, str]) -> None:
        plugin, context = life.admitted.plugin, life.admitted.context
        ask = plugin.health
        if ask is None or life.state != "running":
            return
        try:
            doing = f"asking the plugin {plugin.name} for its health"
            said = await in_its_own(context, lambda: ask(context), PLUGIN_HEALTH_S, doing)
            health[plugin.name] = without_secrets(said[: foreign.REASON_MAX_CHARS])
        except DaycareError as problem:
            health[plugin.name] = f"unhealthy: {problem.message}"

    def _told(self, life: PluginLife, health: Mapping[str, str], hooks: Mapping[str, Any]) -> dict[str, Any]:
        one, plugin = life.admitted.found, life.admitted.plugin
        failed = life.state == "failed" and life.problem is not None
        return {
            "name": plugin.name,
            "version": one.version,
            "description": plugin.description,
            "source": one.source,
            "reference": one.reference,
            "provides": provides(plugin),
            "state": life.state,
            "health": health.get(plugin.name, ""),
            "crashes": life.crashes,
            "retry_in_s": round(max(life.retry_at - trio.current_time(), 0.0), 1) if failed else None,
            "problem": life.problem.message if life.problem else "",
            "hint": life.problem.hint if life.problem else "",
            "hooks": hooks.get(plugin.name, {}),
        }

    def _stubborn(self, life: PluginLife) -> None:
        name = life.admitted.plugin.name
        reason = f"stopping the plugin {name}: it was not gone after {PLUGIN_STOP_S:g} s"
        self._failed(name, "stop", DaycareError("PLUGIN_STUBBORN", reason), None)

    def _failed(self, name: str, part: str, problem: DaycareError, retry_in_s: float | None) -> None:
        self._bus.publish(
            PluginFailed(
                at_ms=self._clock.now_ms(),
                plugin=name,
                part=part,
                code=problem.code,
                reason=problem.message,
                retry_in_s=retry_in_s,
            )
        )


def left_out(one: DiscoveredPlugin) -> dict[str, Any]:
    """Return what is known of a plugin that does not take part."""
    assert one.problem is not None
    return {
        "name": one.name,
        "version": one.version,
        "description": "",
        "source": one.source,
        "reference": one.reference,
        "provides": {},
        "state": "left out",
        "health": "",
        "crashes": 0,
        "retry_in_s": None,
        "problem": one.problem.message,
        "hint": one.problem.hint,
        "hooks": {},
    }
