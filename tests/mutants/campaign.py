"""Runs slices with and without faults, each in a process of its own, and says which were caught."""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.mutants.plant import MARK
from tests.mutants.table import Mutant, Slice

REPOSITORY: Final = Path(__file__).resolve().parents[2]
DEADLINE_S: Final = 600.0
# What planted code says that does not fit the product any more: that fails by itself, and shows nothing.
_SPOILED: Final = re.compile(
    r"\b(NameError|SyntaxError|ImportError|UnboundLocalError|PlantError|NotImplementedError)\b"
)
_INHERITED: Final = ("PATH", "VIRTUAL_ENV", "LANG", "HOME", "TMPDIR")


@dataclass
class Figures:
    """What came of it: `uncaught` and `unsound` must be empty."""

    planted: int = 0
    caught: Counter[str] = field(default_factory=Counter)  # by campaign
    uncaught: dict[str, str] = field(default_factory=dict)  # by name: why it counts as that
    unsound: dict[str, str] = field(default_factory=dict)  # slices that fail without a fault
    took_s: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "mutants": len(self.took_s),
            "planted": self.planted,
            "caught": sum(self.caught.values()),
            "caught_by": dict(sorted(self.caught.items())),
            "uncaught": self.uncaught,
            "unsound": self.unsound,
            "seconds": round(self.seconds, 1),
            "slowest": dict(sorted(self.took_s.items(), key=lambda each: -each[1])[:5]),
        }

    def lines(self) -> list[str]:
        """Return it for people."""
        found = self.as_json()
        return [f"{name}: {value}" for name, value in found.items()]


def run(mutants: Sequence[Mutant], jobs: int, report: Callable[[str], None]) -> Figures:
    """Run all, so many at once; report each as it ends."""
    began = time.perf_counter()
    figures = Figures()

    def whole(slice_: Slice) -> None:
        status, words = _whole(slice_)
        if status:
            figures.unsound[" ".join(slice_.command)] = words[-1500:]
        report(f"{'FAILS' if status else 'passes':10} without a fault: {' '.join(slice_.command)}")

    def planted(mutant: Mutant) -> None:
        why, planted, took_s = _try(mutant)
        figures.planted += planted
        figures.took_s[mutant.name] = round(took_s, 1)
        if why:
            figures.uncaught[mutant.name] = why
        else:
            figures.caught[mutant.seen_by.campaign] += 1
        report(f"{'NOT CAUGHT' if why else 'caught':10} {mutant.name}, {took_s:.0f} s: {why or mutant.what}")

    with ThreadPoolExecutor(jobs) as pool:
        # Those of the suite it holds itself, each day.
        slices = dict.fromkeys(it.seen_by for it in mutants if it.seen_by.campaign != "tests")
        for done in [*[pool.submit(whole, it) for it in slices], *[pool.submit(planted, it) for it in mutants]]:
            done.result()
    figures.seconds = time.perf_counter() - began
    return figures


def _whole(slice_: Slice) -> tuple[int, str]:
    with tempfile.TemporaryDirectory() as folder:
        return _run((*slice_.command, *slice_.short), Path(folder), {})


def _try(mutant: Mutant) -> tuple[str, bool, float]:
    """Return why a mutant counts as not caught, "" if it was; whether it was planted; how long that took."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        mark = Path(folder, "mark")
        status, words = _run(mutant.seen_by.command, Path(folder), {"DAYCARE_MUTANT": mutant.name, MARK: str(mark)})
        marks = set(mark.read_text().splitlines()) if mark.exists() else set()
    took_s = time.perf_counter() - began
    planted = "planted" in marks
    lost = [line for line in marks if line.startswith("lost: ")]
    if lost or not planted:
        return "; ".join(lost) or "its module was not imported", False, took_s
    if "reached" not in marks:
        return "the slice did not come by", planted, took_s
    if spoiled := _SPOILED.search(words):
        return f"what was planted is in error: {_around(words, spoiled.start())}", planted, took_s
    if status == 0:
        return "the slice passed", planted, took_s
    if status != 1:
        return f"the slice ended with status {status}: {words[-1000:]}", planted, took_s
    if not re.search(mutant.sees, words):
        return f"the slice failed, and said nothing like {mutant.sees!r}: {words[-1000:]}", planted, took_s
    return "", planted, took_s


def _run(command: Sequence[str], folder: Path, more: dict[str, str]) -> tuple[int, str]:
    """Run `python -m ...` with what it plants; return the status and what it said."""
    environment = {name: value for name, value in os.environ.items() if name in _INHERITED} | more
    environment["PYTHONPATH"] = f"{Path(__file__).parent / 'start'}{os.pathsep}{REPOSITORY}"
    environment["TMPDIR"] = str(folder)
    try:
        done = subprocess.run(
            [sys.executable, "-m", *command],
            cwd=REPOSITORY,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=DEADLINE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 124, f"it did not end within {DEADLINE_S:g} s"
    return done.returncode, done.stdout + done.stderr


def _around(words: str, at: int) -> str:
    return words[max(0, at - 300) : at + 300]
