"""The life of a daemon that runs by itself: what it tells systemd, how it starts after crashes, and how it leaves."""

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final

import trio

from daycare.base.clock import Clock
from daycare.base.errors import DaycareError, StoreAwayError
from daycare.base.limits import SHUTDOWN_REST_S, START_EXTEND_S
from daycare.observe import log
from daycare.ops.crash_breaker import CrashBreaker
from daycare.ops.crash_log import CrashLog, CrashVerdict
from daycare.ops.heap import trimming
from daycare.ops.notify import ServiceNotify
from daycare.ops.program import BREAKER
from daycare.ops.shutdown import ShutdownGuard
from daycare.ops.standing import DaemonStanding
from daycare.ops.stop import ending
from daycare.ops.watchdog import Starting, Watchdog
from daycare.settings import Live
from daycare.store.home import Home

CLOSE_MAX_S: Final = 5.0  # from the end of turns and plugins to that of the process

Hold = Callable[[CrashVerdict, CrashLog], CrashBreaker]


class DaemonLifecycle:
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
        self._home = home
        self._clock = clock
        self._again = again
        self._early = early
        self._served = False
        self._refused = ""  # why the store could not be opened at the last try
        self._notify = ServiceNotify.found(environment)
        wanted = breaker and environment.get(BREAKER) != "off"
        self._starts = CrashLog(home.starts_file, clock) if wanted else None
        self._verdict = CrashVerdict()
        self._starting = Starting(self._notify)
        self._shutdown = ShutdownGuard(self._ended)

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
        if left := self._shutdown.sweep():
            log.logger().warning("daemon.children_left", killed=left)
        self._shutdown.disarm()

    def _ended(self) -> None:
        if self._starts is not None:
            self._starts.end()

    def note_signals(self) -> None:
        """Let a wish to end wait until the daemon listens: raised where the loop begins, it would break the loop.

        Until then the store is opened. What takes long there, like a migration, is cut off in time, as by any crash.
        """

        def note(number: int, _frame: object) -> None:
            if self._early:
                self._shutdown.at_once(128 + number, f"{signal.Signals(number).name} came twice")
            self._early.append(number)
            self._shutdown.arm(CLOSE_MAX_S)

        for number in ending():
            signal.signal(number, note)

    # -- with the loop -------------------------------------------------------------------------------------------------

    async def attend(
        self,
        standing: DaemonStanding,
        live: Live,
        hold: Hold,
        ended: trio.Event,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Accompany a daemon from before it runs until cancelled.

        `hold` keeps down what a verdict says; `ended` is set once its plugins have said goodbye.
        """
        stop = standing.run.stop
        starts = self._starts or CrashLog(self._home.starts_file, self._clock)  # with none nothing is held
        breaker = hold(self._verdict, starts)
        with self._obeying_signals(standing, live):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(breaker.run)
                nursery.start_soon(trimming)
                if self._notify:
                    nursery.start_soon(Watchdog(self._notify, standing.pulses, standing.line).run)
                task_status.started()
                await stop.event.wait()
                self._shutdown.arm(live.now.daemon.shutdown_grace_s + SHUTDOWN_REST_S)
                if stop.restart:
                    self._shutdown.again = self._again
                    self._notify.reloading(stop.reason)
                else:
                    self._notify.stopping(stop.reason)
                await ended.wait()
                self._shutdown.arm(CLOSE_MAX_S)  # what is left takes no longer, but for plugins that ignore their end
                await trio.sleep_forever()

    def waits(self, refusal: StoreAwayError) -> bool:
        """Tell that the start waits for the disk, and ask for the time; return False once a signal has come."""
        if refusal.message != self._refused:
            self._refused = refusal.message
            log.logger().warning("start.waits", reason=refusal.message, hint=refusal.hint)
            self._notify.status(f"waiting for the disk: {refusal.message}")
        self._notify.extend(START_EXTEND_S)
        self._notify.alive()  # of a restart, during which the watchdog goes on
        return not self._early

    def ready(self, standing: DaemonStanding) -> None:
        """The API answers."""
        self._served = True
        self._starting.end()
        self._notify.ready(standing.line())
        log.logger().info("daemon.ready", home=str(self._home.path))

    @contextmanager
    def _obeying_signals(self, standing: DaemonStanding, live: Live) -> Iterator[None]:
        """Handlers of our own, and not trio's: they come into force also while the loop is kept from going round."""
        token = trio.lowlevel.current_trio_token()
        asked = False

        def obey(number: int, _frame: object) -> None:
            nonlocal asked
            name = signal.Signals(number).name
            if asked:
                self._shutdown.at_once(128 + number, f"{name} came twice")
            asked = True
            self._shutdown.arm(live.now.daemon.shutdown_grace_s + SHUTDOWN_REST_S)
            with suppress(trio.RunFinishedError):
                token.run_sync_soon(standing.run.stop.ask, False, name)

        def reload(_number: int, _frame: object) -> None:
            with suppress(trio.RunFinishedError):
                token.run_sync_soon(standing.reloading.ask)

        signal.signal(signal.SIGHUP, reload)
        for number in ending():
            signal.signal(number, obey)  # for good: until the process is gone, a second one ends it at once
        if self._early:
            obey(self._early[0], None)
        yield
