"""Vectors as the store keeps them: a byte a number, in half the space of float16.

A vector has length 1, so its direction is all that is to be kept: whole numbers in proportion to its own, the largest
of them 127. That turns it by less than a hundredth, and of what LoCoMo asks for the same memories are found. What was
stored before has two bytes a number, float16, and is read as well.
"""

from collections.abc import Sequence
from typing import Final

from daycare.features.memory.embed.arrays import Floats, NDArray, np, widened

_LARGEST: Final = 127


def packed(vectors: Floats) -> list[bytes]:
    """Return vectors of length 1 as they are stored, none of them zero."""
    whole = np.rint(vectors * (_LARGEST / np.abs(vectors).max(axis=1, keepdims=True)))
    return [row.tobytes() for row in whole.astype(np.int8)]


def unpacked(rows: Sequence[bytes], dimensions: int) -> Floats:
    """Return stored vectors of so many dimensions, of length 1 each."""
    data = b"".join(rows)
    if len(data) == len(rows) * dimensions:
        return _scaled(np.frombuffer(data, np.int8).reshape(-1, dimensions))
    if len(data) == 2 * len(rows) * dimensions:
        return widened(np.frombuffer(data, "<f2").reshape(-1, dimensions))
    found = np.empty((len(rows), dimensions), np.float32)
    old = np.array([len(row) != dimensions for row in rows])
    for places, kind in ((~old, False), (old, True)):
        found[places] = unpacked([row for row, is_old in zip(rows, old, strict=True) if is_old == kind], dimensions)
    return found


def _scaled(whole: NDArray[np.int8]) -> Floats:
    floats = whole.astype(np.float32)
    floats /= np.sqrt(np.einsum("ij,ij->i", floats, floats))[:, None]
    return floats
