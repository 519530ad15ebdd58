"""Slices of what takes too long for every day: each few cases, the first of them by chance; all of them with WHOLE=1.

`SLICE=n` takes the same slices as a run that said so.
"""

import os
import random
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Final, TypeVar

WHOLE: Final = bool(os.environ.get("WHOLE"))
_RUN: Final = os.environ.get("PYTEST_XDIST_TESTRUNUID")  # workers that share a run have to agree on its tests
SLICE: Final = int(os.environ.get("SLICE", random.Random(_RUN).randrange(1_000)))
T = TypeVar("T")


def commits(every: int, *, begin: int = 1) -> Iterator[int]:
    """Yield numbers of commits, without end: all from `begin` on, or each `every`-th."""
    return count(begin) if WHOLE else count(begin + _first(every), every)


def sliced(cases: Sequence[T], every: int) -> Sequence[T]:
    """Return all cases, or each `every`-th of them."""
    return cases if WHOLE else cases[_first(every) :: every]


def _first(every: int) -> int:
    print(f"SLICE={SLICE}")
    return SLICE % every
