"""What tests leave to chance, and slices of what takes too long for every day: each few cases.

All that is drawn is the same each time, so that what passed once passes again. `SEED=any` draws anew, to find what
nobody knows yet, `SEED=n` takes the seed of a run that printed it, `WHOLE=1` all cases.
"""

import os
import random
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Final, TypeVar

from hypothesis import settings

_GIVEN: Final = os.environ.get("SEED", "1")
_RUN: Final = os.environ.get("PYTEST_XDIST_TESTRUNUID")  # workers that share a run have to agree on its tests
WHOLE: Final = bool(os.environ.get("WHOLE"))
SEED: Final = random.Random(_RUN).randrange(1, 1 << 31) if _GIVEN == "any" else int(_GIVEN)
T = TypeVar("T")


def settle() -> None:
    """Let hypothesis draw the same, too; and no machine is too slow for it."""
    settings.register_profile("settled", deadline=None, derandomize=_GIVEN != "any")
    settings.load_profile("settled")


def commits(every: int, *, begin: int = 1) -> Iterator[int]:
    """Yield numbers of commits, without end: all from `begin` on, or each `every`-th."""
    return count(begin) if WHOLE else count(begin + _first(every), every)


def sliced(cases: Sequence[T], every: int) -> Sequence[T]:
    """Return all cases, or each `every`-th of them."""
    return cases if WHOLE else cases[_first(every) :: every]


def _first(every: int) -> int:
    print(f"SEED={SEED}")
    return SEED % every
