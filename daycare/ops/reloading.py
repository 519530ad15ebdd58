"""Config.toml taken anew while the daemon runs: whole or not at all, and without ending any turn.

It is watched, and read at once where somebody asks. What it says is checked as at a start; with a mistake in it what
held before stays in force. A turn that runs goes on with the model it has; rules and budgets count from the next call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
import trio

from daycare.base.clock import Clock
from daycare.base.errors import BrokenError, ConflictError, DaycareError
from daycare.base.events import ConfigRefused, ConfigReloaded
from daycare.base.health import Finding
from daycare.base.limits import CONFIG_MAX_BYTES
from daycare.base.problems import Problem
from daycare.base.secrecy import without_secrets
from daycare.config import load
from daycare.feature import Feature
from daycare.observe import log
from daycare.observe.bus import Bus
from daycare.ops.applying import Applying, Reloaded
from daycare.ops.stop import StopRequest
from daycare.ops.watching import Watched
from daycare.ops.watching import stamp as watched_stamp
from daycare.settings import Live
from daycare.store.home import Home
from daycare.store.worker import Worker

CONFIG_REASON_MAX_CHARS: Final = 2_000  # of the reason why one was refused

_LARGE_BYTES: Final = 32 * 1024  # read beside the loop: it takes over 20 ms


class _Wish:
    """Somebody wants it read; `told` says that the owner hears of it when it is refused.

    With a `plugin` only that one is to start anew, and nothing is read.
    """

    def __init__(self, *, told: bool, plugin: str = "") -> None:
        self.told = told
        self.plugin = plugin
        self.done = trio.Event()
        self.found: Reloaded | DaycareError = Reloaded()


class Reloading(Feature):
    """Keeps a daemon and its config.toml in line. `tell` reaches the operator."""

    name = "config"

    def __init__(
        self,
        home: Home,
        applying: Applying,
        live: Live,
        stop: StopRequest,
        bus: Bus,
        clock: Clock,
        tell: Callable[[str], Awaitable[None]],
    ) -> None:
        self._home = home
        self._file = home.config
        self._applying = applying
        self._live = live
        self._stop = stop
        self._bus = bus
        self._clock = clock
        self._tell = tell
        live.watch(lambda settings: (settings.daemon.log_level, settings.daemon.log_max_mb), self._adjust_log)
        self._watched = Watched(self._file)
        self._had_file = watched_stamp(self._file).there
        self._wishes: list[_Wish] = []
        self._served: list[_Wish] = []  # those of the reading that is going on
        self._worker = Worker(self._look)
        self._runs = False
        self.taken_at = clock.now_ms()
        self.refused = ""
        self.pending: tuple[str, ...] = ()

    # -- when ----------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Watch the file and do what is asked, one reading at a time, until the daemon is to end."""
        self._runs = True
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._worker.run)
                await self._stop.event.wait()
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
        readers = [wish for wish in self._served if not wish.plugin]
        if readers or not self._served:
            found = await self.read(told=not readers or any(wish.told for wish in readers))
            for wish in readers:
                wish.found = found
        for wish in self._served:
            if wish.plugin:
                wish.found = await self._restart(wish.plugin)
            wish.done.set()
        self._served = []
        return 0.0

    def ask(self, *, told: bool = True, plugin: str = "") -> _Wish:
        """Have it read now, or a plugin started anew, without waiting for that."""
        self._wishes.append(wish := _Wish(told=told, plugin=plugin))
        self._worker.wake()
        return wish

    async def reload(self, plugin: str = "") -> Reloaded:
        """Read it now, or let a plugin start anew; return what came of it, or raise why it was refused."""
        if not self._runs or self._stop.event.is_set():
            raise _stopping()
        wish = self.ask(told=False, plugin=plugin)
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
                gone = "is gone: what it said stays in force; an empty one asks for the defaults"
                raise BrokenError("CONFIG_GONE", str(Problem(str(self._file), 1, "", gone)))
            self._had_file = self._had_file or stamp.there
            if _LARGE_BYTES < stamp.size <= CONFIG_MAX_BYTES:
                config = await trio.to_thread.run_sync(load, self._home.path)
            else:
                config = load(self._home.path)
            found = await self._applying.go_by(config)
        except DaycareError as error:
            await self._refuse(error, told=told)
            return error
        if self.refused or found != Reloaded(pending=self.pending):
            self.taken_at = self._clock.now_ms()
            self.refused, self.pending = "", found.pending
            self._bus.publish(ConfigReloaded(at_ms=self.taken_at, **msgspec.structs.asdict(found)))
        return found

    async def _restart(self, plugin: str) -> Reloaded | DaycareError:
        try:
            found = await self._applying.restart(plugin)
        except DaycareError as error:
            return error
        self.pending = found.pending
        self._bus.publish(ConfigReloaded(at_ms=self._clock.now_ms(), **msgspec.structs.asdict(found)))
        return found

    def _adjust_log(self) -> None:
        section = self._live.now.daemon
        log.adjust(section.log_level, section.log_max_mb)

    async def _refuse(self, error: DaycareError, *, told: bool) -> None:
        reason = without_secrets(error.message)[:CONFIG_REASON_MAX_CHARS]
        if reason == self.refused:
            return  # it is known
        self.refused = reason
        self._bus.publish(ConfigRefused(at_ms=self._clock.now_ms(), code=error.code, reason=reason))
        if told:
            text = f"config.toml was changed and cannot be taken; what held before goes on.\n{reason}"
            await self._tell(text)

    # -- how it is -----------------------------------------------------------------------------------------------------

    async def status(self) -> Mapping[str, Any]:
        """Return what `GET /v1/status` shows of it."""
        return {"taken_at": self.taken_at, "refused": self.refused, "pending": list(self.pending)}

    async def findings(self) -> Sequence[Finding]:
        """Return how it is, for who looks at everything."""
        waits = f"{', '.join(self.pending)}: after `daycare restart`" if self.pending else "it is in force"
        return (Finding(name="config", ok=not self.refused, text=self.refused or waits),)


def _stopping() -> ConflictError:
    return ConflictError("RELOAD_STOPPING", "reloading config.toml: this daemon does not work, or is stopping")
