"""The life of a daemon that runs by itself: what it tells systemd, how it starts after crashes, and how it leaves."""

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Final

import trio

from daycare.base.clock import Clock
from daycare.base.errors import DaycareError
from daycare.base.limits import CLOSE_MAX_S, SHUTDOWN_REST_S
from daycare.daemon import Daemon
from daycare.observe import log
from daycare.ops.holding import Holding
from daycare.ops.leaving import Leaving
from daycare.ops.notify import Notify
from daycare.ops.starts import Starts, Verdict
from daycare.ops.stop import ending
from daycare.ops.watchdog import Pulse, Starting, Watchdog
from daycare.store.home import Home

BREAKER: Final = "DAYCARE_BREAKER"  # `off` in the environment, for whoever kills on purpose; a restart inherits it


class Life:
    """One run of the daemon of a home, whose lock the caller holds.

    `again` starts the program afresh, `early` are signals that came before anybody listened.
    """

    def __init__(
        self,
        home: Home,
        clock: Clock,
        again: Callable[[], object],
        early: list[int],
        *,
        breaker: bool = True,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._clock = clock
        self._again = again
        self._early = early
        self._served = False
        self._notify = Notify.found(environment)
        wanted = breaker and environment.get(BREAKER) != "off"
        self._starts = Starts(home.starts_file, clock) if wanted else None
        self._verdict = Verdict()
        self._starting = Starting(self._notify)
        self._leaving = Leaving(self._ended)

    @contextmanager
    def span(self) -> Iterator[None]:
        """From before the store is opened to after it is closed; a crash leaves it, and is remembered."""
        try:
            if self._starts is not None:
                self._verdict = self._starts.begin()
            with self._starting:
                yield
        except (DaycareError, SystemExit, KeyboardInterrupt):
            if not self._served:  # refused, or told to end while it started
                self._ended()
            raise
        else:
            self._ended()
        finally:
            self._over()

    def _over(self) -> None:
        if left := self._leaving.sweep():
            log.logger().warning("daemon.children_left", killed=left)
        self._leaving.disarm()

    def _ended(self) -> None:
        if self._starts is not None:
            self._starts.end()

    def note_signals(self) -> None:
        """Let a wish to end wait until the daemon listens: raised where the loop begins, it would break the loop.

        Until then the store is opened. What takes long there, like a migration, is cut off in time, as by any crash.
        """

        def note(number: int, _frame: object) -> None:
            if self._early:
                self._leaving.at_once(128 + number, f"{signal.Signals(number).name} came twice")
            self._early.append(number)
            self._leaving.arm(CLOSE_MAX_S)

        for number in ending():
            signal.signal(number, note)

    # -- with the loop -------------------------------------------------------------------------------------------------

    async def attend(self, daemon: Daemon, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Accompany a daemon from before it runs until cancelled."""
        holding = self._holding(daemon)
        daemon.extensions.hold(holding.plugin)
        daemon.courier.gate = holding.connector
        with self._obeying_signals(daemon):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(holding.run)
                if self._notify:
                    pulses: dict[str, Pulse] = {"store": daemon.store.pulse, "agents": partial(_sweeping, daemon)}
                    nursery.start_soon(Watchdog(self._notify, pulses, partial(_described, daemon)).run)
                task_status.started()
                await daemon.stop.event.wait()
                self._leaving.arm(daemon.live.now.daemon.shutdown_grace_s + SHUTDOWN_REST_S)
                if daemon.stop.restart:
                    self._leaving.again = self._again
                    self._notify.reloading(daemon.stop.reason)
                else:
                    self._notify.stopping(daemon.stop.reason)
                await daemon.extensions.ended.wait()
                self._leaving.arm(CLOSE_MAX_S)  # what is left takes no longer, but for plugins that ignore their end
                await trio.sleep_forever()

    def ready(self, daemon: Daemon) -> None:
        """The API answers."""
        self._served = True
        self._starting.end()
        self._notify.ready(_described(daemon))
        log.logger().info("daemon.ready", home=str(daemon.home.path))

    def _holding(self, daemon: Daemon) -> Holding:
        starts = self._starts or Starts(daemon.home.starts_file, self._clock)  # with none nothing is held
        tell = partial(daemon.notifier.notify, daemon.owner, topic="breaker")
        return Holding(
            self._verdict, starts, daemon.extensions.pushing, daemon.connectors, daemon.host, self._clock, tell
        )

    @contextmanager
    def _obeying_signals(self, daemon: Daemon) -> Iterator[None]:
        """Handlers of our own, and not trio's: they come into force also while the loop is kept from going round."""
        token = trio.lowlevel.current_trio_token()
        asked = False

        def obey(number: int, _frame: object) -> None:
            nonlocal asked
            name = signal.Signals(number).name
            if asked:
                self._leaving.at_once(128 + number, f"{name} came twice")
            asked = True
            self._leaving.arm(daemon.live.now.daemon.shutdown_grace_s + SHUTDOWN_REST_S)
            with suppress(trio.RunFinishedError):
                token.run_sync_soon(daemon.stop.ask, False, name)

        def reload(_number: int, _frame: object) -> None:
            with suppress(trio.RunFinishedError):
                token.run_sync_soon(daemon.reloading.ask)

        signal.signal(signal.SIGHUP, reload)
        for number in ending():
            signal.signal(number, obey)  # for good: until the process is gone, a second one ends it at once
        if self._early:
            obey(self._early[0], None)
        yield


def _sweeping(daemon: Daemon) -> int | None:
    return daemon.supervisor.swept if daemon.supervisor.awake and not daemon.stop.event.is_set() else None


def _described(daemon: Daemon) -> str:
    """Return in a line how a daemon is, for `systemctl status`."""
    if daemon.stop.event.is_set():
        return f"stopping: {daemon.stop.reason}"
    wrong = [f"{name} is {each['state']}" for name, each in daemon.connections.wrong().items()]
    wrong += [f"{name} is away" for name in daemon.pool.away]
    wrong += ["config.toml has a mistake, and what held before goes on"] if daemon.reloading.refused else []
    wrong += [f"the store refuses: {daemon.alarm.trouble}"] if daemon.alarm.trouble else []
    lost = daemon.store.lost
    wrong += [str(lost)] if lost is not None and lost.is_recent(daemon.clock.now_ms()) else []
    return f"degraded: {'; '.join(wrong)}" if wrong else f"working, {len(daemon.supervisor.awake)} agents awake"
