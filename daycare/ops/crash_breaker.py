"""Keeping connectors down after crash upon crash, and trying them again one by one: a breaker for the whole daemon.

Everything else works meanwhile: the API, `daycare chat`, jobs and agents. Replies wait in the outbox.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import trio

from daycare.base.clock import Clock
from daycare.base.connector import Connector, Health
from daycare.base.limits import HOLD_S
from daycare.base.times import local_time
from daycare.connectors.host import Host
from daycare.observe import log
from daycare.ops.crash_log import CrashLog, CrashVerdict

HOLD_TRY_S: Final = 60.0  # that one is watched before the next is tried; what kills, kills within seconds
HOLD_LOOK_S: Final = 1.0

Tell = Callable[[str], Awaitable[None]]


class CrashBreaker:
    """What one run keeps down. `pushing` are the connectors of each plugin that has some; `tell` reaches the owner."""

    def __init__(
        self,
        verdict: CrashVerdict,
        starts: CrashLog,
        pushing: Mapping[str, Sequence[str]],
        connectors: Mapping[str, Connector],
        host: Host,
        clock: Clock,
        tell: Tell,
    ) -> None:
        self._verdict = verdict
        self._starts = starts
        self._connectors = connectors
        self._host = host
        self._clock = clock
        self._tell = tell
        self._told = False
        self.held = {
            plugin: tuple(names) for plugin, names in pushing.items() if verdict.all or plugin == verdict.suspect
        }
        self._open = {plugin: trio.Event() for plugin in self.held}
        self._plugins = {name: plugin for plugin, names in self.held.items() for name in names}
        if self.held:
            self._say()

    def _say(self) -> None:
        until_ms = self._clock.now_ms() + round(HOLD_S * 1000)
        at = local_time(until_ms, None).strftime("%H:%M")
        reason = f"kept down: {self._verdict.reason}; tried again at {at}"
        log.logger().error("breaker.open", plugins=sorted(self.held), reason=self._verdict.reason, until=at)
        for name in self._plugins:
            self._host.report(name, Health(state="held", reason=reason, hint="daycare logs"))

    async def plugin(self, name: str) -> None:
        """Return when a plugin may start."""
        if name in self._open:
            await self._open[name].wait()

    async def connector(self, name: str) -> None:
        """Return when a connector may be used."""
        if name in self._plugins:
            await self.plugin(self._plugins[name])

    async def run(self) -> None:
        """Wait, then let one plugin after the other start, and tell the owner once one is back."""
        if not self.held:
            return
        await trio.sleep(HOLD_S)
        for plugin, names in self.held.items():
            self._starts.trying(plugin)  # should it be what kills the daemon, the next start knows
            log.logger().warning("breaker.trying", plugin=plugin)
            for name in names:
                self._host.forget(name)
            self._open[plugin].set()
            give_up = trio.current_time() + HOLD_TRY_S
            while trio.current_time() < give_up:
                await trio.sleep(HOLD_LOOK_S)
                await self._look()
                states = self._host.status(self._connectors)
                if all(name not in states or states[name]["state"] == "off" for name in names):
                    break  # nobody has set it up: it does nothing
        self._starts.steady()
        log.logger().warning("breaker.closed")
        while not self._told:  # the platforms are away: that is another matter
            await trio.sleep(HOLD_LOOK_S)
            await self._look()

    async def _look(self) -> None:
        """Tell the owner of it when a connector is back: no sooner could they hear of it."""
        if self._told:
            return
        states = self._host.status(self._connectors)
        back = [name for name, plugin in self._plugins.items() if self._open[plugin].is_set()]
        up = next((name for name in back if name in states and states[name]["state"] == "up"), None)
        if up is not None:
            self._told = True
            others = sorted(plugin for plugin, event in self._open.items() if not event.is_set())
            more = f" Next is tried: {', '.join(others)}." if others else ""
            await self._tell(
                f"I was restarted again and again ({self._verdict.reason}), so I kept {', '.join(self.held)} down"
                f" for {HOLD_S / 60:.0f} minutes. {up} is back.{more} `daycare logs` may say what happened."
            )
