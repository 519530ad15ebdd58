"""numpy for whoever computes with vectors, kept to one thread; import it from here, and late.

Its matrix library starts a thread per core, and these wait for each other: on a machine whose cores are busy a
multiplication of 0.5 ms takes 70. How many it starts is read once, from the environment, when numpy is first imported.
"""

import os
from typing import Final

_THREADS: Final = "OPENBLAS_NUM_THREADS"

_before = os.environ.get(_THREADS)
os.environ[_THREADS] = _before or "1"
import numpy as np  # noqa: E402  (reads the environment)

if _before is None:
    del os.environ[_THREADS]  # for numpy alone, not for the programs that the daemon starts

from numpy.typing import NDArray  # noqa: E402

Floats = NDArray[np.float32]
Numbers = NDArray[np.int64]
Bools = NDArray[np.bool_]

Halves = NDArray[np.float16]

__all__ = ["Bools", "Floats", "Halves", "NDArray", "Numbers", "distinct", "np", "widened"]

_KEPT: Final = np.int32(-0x70000001)  # all bits but the three between the sign and the exponent
_RAISED: Final = np.float32(2.0**112)  # what lies between the two kinds' exponents


def distinct(numbers: Numbers) -> Numbers:
    """Return numbers in order, each once, seven times as fast as numpy's own `unique` does it for some thousand."""
    found: Numbers = np.sort(numbers)
    if len(found) > 1:
        kept = np.empty(len(found), np.bool_)
        kept[0] = True
        np.not_equal(found[1:], found[:-1], out=kept[1:])
        found = found[kept]
    return found


def widened(halves: Halves) -> Floats:
    """Return finite float16 numbers as float32, four times as fast as numpy's own conversion."""
    bits = halves.view("<i2").astype(np.int32)
    bits <<= 13
    bits &= _KEPT
    floats: Floats = bits.view(np.float32)
    floats *= _RAISED
    return floats
