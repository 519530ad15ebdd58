"""The self-test: kills and power cuts in a folder of its own, within a bound of time, and nothing left behind."""

import random
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import httpx
import trio

from daycare.base.errors import UnavailableError
from daycare.testing.daemon_process import BrokenDaemonError, ThrowawayHome
from daycare.testing.kill_trial import CONFIG, KillFigures, KillTrial
from daycare.testing.powercut import examined

PREFIX: Final = "daycare-selftest-"
_CUT_S: Final = 0.06  # for each second that a daemon takes to start: both tell how fast the machine is
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass
class CutFigures:
    """What became of the disks."""

    cuts: int = 0
    promises: int = 0  # what had been acknowledged before the cuts and was looked for, all in all
    findings: list[tuple[str, str]] = field(default_factory=list)


@dataclass
class SelfTest:
    """One self-test: what it is to do, and after `run` what was found. `kept` is the folder, if it is still there."""

    place: Path
    seed: int
    kills: int
    power_cuts: int
    keep: bool = False
    kill_figures: KillFigures = field(default_factory=KillFigures)
    cut_figures: CutFigures = field(default_factory=CutFigures)
    seconds: float = 0.0
    kept: Path | None = None

    @property
    def findings(self) -> list[tuple[str, str]]:
        """The promises that were broken: `lost`, `doubled`, `torn`, `reordered` or `broken`, and what was seen."""
        return self.kill_figures.findings + self.cut_figures.findings

    @property
    def complete(self) -> bool:
        """Whether there was time for everything."""
        return (self.kill_figures.kills, self.cut_figures.cuts) == (self.kills, self.power_cuts)

    def counts(self) -> Counter[str]:
        """Return how many promises of each kind were broken."""
        return Counter(kind for kind, _ in self.findings)

    def run(self, expected: Callable[[float, float], None], told: Callable[[str, int, int], None]) -> None:
        """Do it.

        `expected` is called once it is known how long it will take, and at most, in seconds; `told` with the part, what
        is done of it and what is to do. A signal that ends programs ends this one after daemon and folder are gone.
        Raises `UnavailableError` when the disk refuses.
        """
        refused: list[BaseException] = []
        try:
            trio.run(self._run, expected, told)
        except* OSError as errors:
            refused += errors.exceptions
        if refused:
            what = f"test in {self.place}: {refused[0]}"
            raise UnavailableError("FOLDER_REFUSES", what, hint="daycare selftest --dir DIR")

    async def _run(self, expected: Callable[[float, float], None], told: Callable[[str, int, int], None]) -> None:
        began = time.perf_counter()
        async with _until_signalled():
            folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=self.place))
            keep = False
            try:
                await self._try(folder, began, expected, told)
                keep = self.keep or bool(self.findings)
            finally:
                if not keep:
                    shutil.rmtree(folder)
            self.kept = folder if keep else None
        self.seconds = time.perf_counter() - began

    async def _try(
        self,
        folder: Path,
        began: float,
        expected: Callable[[float, float], None],
        told: Callable[[str, int, int], None],
    ) -> None:
        trial = KillTrial(ThrowawayHome(folder, CONFIG), random.Random(f"{self.seed}/kills"))
        try:
            start_s = await trial.begin()
        except (BrokenDaemonError, httpx.HTTPError) as error:
            self.kill_figures.findings.append(("broken", f"the first start: {error}"))
            return
        kills_s, cuts_s = (2 + 1.5 * self.kills) * start_s, _CUT_S * self.power_cuts * start_s
        spare_s = 60.0  # for what is unlike the first start
        most_s = 4 * (kills_s + cuts_s) + 2 * spare_s
        expected(kills_s + cuts_s, most_s)
        if self.kills:
            until = began + 4 * kills_s + spare_s
            self.kill_figures = await trial.run(self.kills, until, lambda done: told("kills", done, self.kills))
        async with aclosing(examined(self.power_cuts, self.seed, folder)) as images:
            async for image in images:
                found = self.cut_figures
                found.cuts += 1
                found.promises += image.promised
                where = f"power cut after {image.at} of {image.total} operations of run {image.run}"
                found.findings += [(kind, f"{where}: {what}") for kind, what in image.findings]
                told("power cuts", found.cuts, self.power_cuts)
                if time.perf_counter() > began + most_s:
                    break


@asynccontextmanager
async def _until_signalled() -> AsyncIterator[None]:
    """Cancel what is inside when this program is told to end, and end it once that has cleaned up."""
    caught: list[int] = []

    async def watch(task_status: trio.TaskStatus[None]) -> None:
        with trio.open_signal_receiver(*_SIGNALS) as signals:
            task_status.started()
            async for number in signals:
                caught.append(number)
                nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        await nursery.start(watch)
        yield
        nursery.cancel_scope.cancel()
    if caught and caught[0] == signal.SIGINT:
        raise KeyboardInterrupt
    if caught:
        raise SystemExit(128 + caught[0])
