"""A busy daemon is told to end at random moments, again and again: in time, nothing lost and nobody left behind."""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec
import trio

from daycare.ops.crash_log import CrashRecord
from daycare.testing.daemon_process import BrokenDaemonError, DaemonProcess
from tests.crash.campaign import Campaign, When, say
from tests.crash.figures import Figures
from tests.crash.process import Home
from tests.service.mind import HANG

EXIT_MAX_S: Final = 10.0
WORK_S: Final = 1.2
START_S: Final = 1.0
HANG_SHARE: Final = 0.05  # of the lives in which a tool takes longer than the daemon waits for it
_FINE: Final = {"work": (0,), "start": (0, 143, -signal.SIGTERM), "birth": (0, 143, -signal.SIGTERM)}


class Ended(DaemonProcess):
    """A daemon that is asked to end."""

    async def ended(self) -> tuple[int, float]:
        """Send SIGTERM; return its status, and how long it took."""
        began = time.perf_counter()
        self._process.terminate()
        with trio.move_on_after(2 * EXIT_MAX_S):
            while (status := self._process.poll()) is None:
                await trio.sleep(0.005)
            return status, time.perf_counter() - began
        raise BrokenDaemonError(f"SIGTERM: it is still there after {2 * EXIT_MAX_S:g} s")

    @property
    def words(self) -> str:
        """What it wrote to stderr last."""
        return self._last_words()


@dataclass
class Stopper:
    """Ends daemons in order. `orphans` are processes that were still there afterwards."""

    exits_s: list[float] = field(default_factory=list)
    orphans: int = 0
    unclean: int = 0
    hung: int = 0
    moments: Counter[str] = field(default_factory=Counter)
    home: Home | None = None

    async def prepare(self, rng: random.Random) -> None:
        """Time is always there."""

    def start(self, home: Home, rng: random.Random, when: When) -> DaemonProcess:
        """Start one, now and then with a tool that hangs. The breaker is on: orderly ends never trip it."""
        self.home = home
        end_all(home)  # what a daemon left that the campaign itself has killed
        hangs = when == "work" and rng.random() < HANG_SHARE
        self.hung += hangs
        return Ended(home, environment={"DAYCARE_BREAKER": "on"} | ({HANG: "1"} if hangs else {}))

    async def strike(self, process: DaemonProcess, rng: random.Random, when: When) -> None:
        """Wait for the moment, tell it to end, and look at what is left."""
        assert isinstance(process, Ended) and self.home is not None
        if when == "work":
            await process.ready()
        await trio.sleep(rng.uniform(0.0, WORK_S if when == "work" else START_S))
        self.moments[when] += 1
        status, seconds = await process.ended()
        self.exits_s.append(seconds)
        for pid in processes_of(self.home):
            say(f"orphan ({when}, status {status} after {seconds:.2f} s): {_told(pid)}; {process.words[-300:]}")
            self.orphans += 1
        self.unclean += bool(running_since(self.home))
        if status not in _FINE[when]:
            raise BrokenDaemonError(f"SIGTERM ({when}): status {status}: {process.words}")

    def summary(self) -> dict[str, Any]:
        """Return the figures."""
        sorted_s = sorted(self.exits_s) or [0.0]
        return {
            "exit_s": {
                "p50": round(sorted_s[len(sorted_s) // 2], 3),
                "p99": round(sorted_s[int(len(sorted_s) * 0.99)], 3),
                "max": round(sorted_s[-1], 3),
            },
            "orphans": self.orphans,
            "unclean": self.unclean,
            "with_a_tool_that_hangs": self.hung,
            "moments": dict(self.moments),
        }


class StopCampaign(Campaign):
    """The crash campaign's people and judge."""

    def __init__(self, stops: int, seed: int, stopper: Stopper) -> None:
        super().__init__("stop", stops, seed, stopper)
        self._homes: list[Home] = []

    async def run(self) -> Figures:
        """Run it, and leave nobody behind."""
        try:
            return await super().run()
        finally:
            for home in self._homes:
                end_all(home)

    def _furnished(self) -> Home:
        home = Home()
        config = home.path / "config.toml"
        config.write_text(config.read_text().replace("tests.crash.mind:plugin", "tests.service.mind:plugin"))
        self._homes.append(home)
        return home


def processes_of(home: Home) -> Iterator[int]:
    """Yield the processes that a daemon of the home has started: they inherit its environment."""
    mark = f"DAYCARE_TEST_LEDGER={home.ledger_file}\0".encode()
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
                environment = (folder / "environ").read_bytes()
            except OSError:
                continue
            if mark in environment + b"\0" and state not in "ZX":
                yield int(folder.name)


def end_all(home: Home) -> None:
    """End what a daemon of the home has left."""
    for pid in processes_of(home):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _told(pid: int) -> str:
    try:
        return (Path("/proc") / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return f"{pid}, gone by now"


def running_since(home: Home) -> int | None:
    """Return since when a run has not ended, as the home says."""
    file = home.path / "starts.json"
    return msgspec.json.decode(file.read_bytes(), type=CrashRecord).running_since if file.exists() else None


def run(stops: int, seed: int) -> tuple[Figures, Stopper]:
    """Run one campaign of so many stops."""
    stopper = Stopper()
    figures = trio.run(StopCampaign(stops, seed, stopper).run)
    return figures, stopper


def broken(figures: Figures, stopper: Stopper) -> list[str]:
    """Return the promises that were broken."""
    found = [kind for kind, times in figures.counts.items() if times]
    late = max(stopper.exits_s, default=0.0)
    found += [f"an exit took {late:.2f} s"] if late >= EXIT_MAX_S else []
    found += [f"{stopper.orphans} orphans"] if stopper.orphans else []
    found += [f"{stopper.unclean} orderly ends were taken for crashes"] if stopper.unclean else []
    return found
