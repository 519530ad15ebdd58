"""Clocks, percentiles, memory and scratch folders that all benchmarks share."""

import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import trio

_LAG_PAUSE_S = 0.002  # between two samples: often enough for a p99 in a second, rare enough not to be the load
_PROBE_BYTES = 4096  # one page of a database


def median(values: Sequence[float | None]) -> float | None:
    """Return the median of the rounds that have a value, or None if none has."""
    found = [value for value in values if value is not None]
    return statistics.median(found) if found else None


def median_ratio(top: Sequence[float | None], bottom: Sequence[float | None]) -> float | None:
    """Return the median of the ratios of each round: drift of the machine hits both sides of one round alike."""
    return median([a / b if a is not None and b else None for a, b in zip(top, bottom, strict=True)])


def percentile(values: Sequence[float], percent: float) -> float | None:
    """Return the smallest value that at least `percent` of all values do not exceed (nearest rank)."""
    if not values:
        return None
    rank = max(1, -(-len(values) * percent // 100))
    return sorted(values)[int(rank) - 1]


def rounded(value: float | None, digits: int = 3) -> float | None:
    """Round what is there."""
    return None if value is None else round(value, digits)


def say(text: str) -> None:
    """Report progress where it does not mix with results."""
    print(text, file=sys.stderr, flush=True)


@contextmanager
def scratch(parent: Path) -> Iterator[Path]:
    """Make a folder on the disk under test and remove it at the end."""
    parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class DiskProbe:
    """Times what a durable write costs on this disk without any database: append 4 KB, fdatasync."""

    def __init__(self, folder: Path) -> None:
        self._fd = os.open(folder / "probe", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._page = os.urandom(_PROBE_BYTES)

    def sample(self) -> float:
        """Return the seconds that one append and fdatasync took."""
        begin = time.perf_counter()
        os.write(self._fd, self._page)
        os.fdatasync(self._fd)
        return time.perf_counter() - begin

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)


async def sample_lag(into: list[float]) -> None:
    """Time single checkpoints until cancelled: the seconds another task waits for its turn of the loop.

    A checkpoint and not the lateness of a sleep, because timers are late by the kernel's slack on an idle machine, too.
    """
    while True:
        await trio.sleep(_LAG_PAUSE_S)
        begin = time.perf_counter()
        await trio.lowlevel.checkpoint()
        into.append(time.perf_counter() - begin)


def rss_kib(pid: int | str = "self") -> float:
    """Return the resident memory of a process, shared pages included."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024


def uss_kib(pid: int | str = "self") -> float:
    """Return the memory that only this process uses: what would be free if it ended."""
    private = 0
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith(("Private_Clean:", "Private_Dirty:", "Private_Hugetlb:")):
            private += int(line.split()[1])
    return float(private)
