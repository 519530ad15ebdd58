"""How long 100 kB of text are looked through for what is suspicious, and for how long the event loop is held meanwhile.

The reference is counting to two million in Python, measured by turns. Processor time of one thread, so that other
programs count little. The texts: this project's own pages, and the dangers among the cases that the tests know.
"""

import argparse
import gc
import json
from functools import partial
from pathlib import Path
from typing import Any

import trio

from daycare.rules.suspicion import scan, scan_gently
from tests.cost import cost, holds

from .measure import median, median_ratio, rounded, say

_PLACE = Path(__file__).parents[2]
_COUNTED = 2_000_000


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--chars", type=int, default=100_000, help="how long each text is")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Run the rounds and return milliseconds and ratios for each text."""
    gc.disable()
    return {name: _measured(name, text, args.rounds) for name, text in _texts(args.chars).items()}


def _texts(chars: int) -> dict[str, str]:
    cases = (_PLACE / "tests" / "data" / "suspicious.jsonl").read_text(encoding="utf-8").splitlines()
    dangers = [case["text"] for case in map(json.loads, cases) if case["label"] == "danger"]
    pages = [page.read_text(encoding="utf-8") for page in sorted((_PLACE / "doc").rglob("*.md"))]
    units = {"pages": "\n".join(pages), "dangers": " ".join(dangers) + " "}
    return {name: (unit * (chars // len(unit) + 1))[:chars] for name, unit in units.items()}


def _measured(name: str, text: str, rounds: int) -> dict[str, float | None]:
    scan(text)  # the first reads its words
    scans, counts, held = [], [], []
    for number in range(rounds):
        scans.append(cost(lambda: scan(text)))
        counts.append(cost(_count))
        held.append(trio.run(holds, partial(scan_gently, text))[-1])
        say(f"{name}, round {number + 1}: {scans[-1] * 1e3:.0f} ms, held {held[-1] * 1e3:.1f} ms")
    return {
        "scan_ms": rounded(_ms(median(scans))),
        "scan_vs_counting": rounded(median_ratio(scans, counts)),
        "held_ms": rounded(_ms(median(held))),
    }


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e3


def _count() -> int:
    count = 0
    for number in range(_COUNTED):
        count += number & 1
    return count
