"""Signs of life for the service manager: given only while every part that has something to do gets on with it.

A part's pulse is a number that changes as it gets on, or None while it has nothing to do. The loop needs none: where it
hangs, nobody gives signs. What is far away (a platform, a provider) has no pulse: it makes the daemon degraded, and
killing it would not bring them back.
"""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

import trio

from daycare.base.limits import START_EXTEND_S, START_MAX_S
from daycare.observe import log
from daycare.ops.notify import ServiceNotify

WATCHDOG_STALLED_S: Final = 15.0  # without getting on: three rounds of SWEEP_S, or a disk that takes no commit
STATUS_EVERY_S: Final = 10.0  # between two looks at what `systemctl status` shows, where no watchdog is asked for
START_LOOK_S: Final = 10.0  # between two looks whether a start is at work

Pulse = Callable[[], int | None]


class Watchdog:
    """Looks at `pulses` and tells `notify`; `describe` says in a line how the daemon is."""

    def __init__(self, notify: ServiceNotify, pulses: Mapping[str, Pulse], describe: Callable[[], str]) -> None:
        self._notify = notify
        self._pulses = pulses
        self._describe = describe
        self._seen: dict[str, tuple[int, float]] = {}  # a pulse, and since when it has been that
        self._stalled: list[str] = []
        self._said = ""

    async def run(self) -> None:
        """Give signs until cancelled."""
        while True:
            self.look()
            await trio.sleep(self._notify.every_s or STATUS_EVERY_S)

    def look(self) -> None:
        """Give a sign of life, unless a part stands still."""
        stalled = self.stalled()
        if stalled != self._stalled:
            self._stalled = stalled
            if stalled:
                log.logger().error("watchdog.stalled", parts=stalled)
            else:
                log.logger().warning("watchdog.recovered")
        if not stalled:
            self._notify.alive()
        said = f"stalled: {', '.join(stalled)}" if stalled else self._describe()
        if said != self._said:
            self._said = said
            self._notify.status(said)

    def stalled(self) -> list[str]:
        """Return the parts that have something to do and have not got on for `WATCHDOG_STALLED_S`."""
        now = trio.current_time()
        found = []
        for name, pulse in self._pulses.items():
            beat = pulse()
            if beat is None:
                self._seen.pop(name, None)
                continue
            known = self._seen.get(name)
            if known is None or known[0] != beat:
                self._seen[name] = (beat, now)
            elif now - known[1] >= WATCHDOG_STALLED_S:
                found.append(name)
        return found


class Starting:
    """`with Starting(notify):` asks for more time while a start is at work: a migration may take minutes.

    Work is a hundredth of the processor's time; a start that waits for something gets no more than it has.
    """

    def __init__(self, notify: ServiceNotify) -> None:
        self._notify = notify
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="starting", daemon=True)

    def __enter__(self) -> "Starting":
        if self._notify:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """It has started, or failed."""
        self._over.set()

    def _run(self) -> None:
        until = time.monotonic() + START_MAX_S
        used = time.process_time()
        while not self._over.wait(START_LOOK_S) and time.monotonic() < until:
            now = time.process_time()
            if now - used > START_LOOK_S / 100:
                self._notify.extend(START_EXTEND_S)
                self._notify.alive()  # of a restart, during which the watchdog goes on
            used = now
