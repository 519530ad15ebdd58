"""Vectors kept as one bit per dimension, in a thirtieth of the memory, and compared in bulk: the rows near a query.

A row's bit says on which side of the centre its number is. A query keeps two bits of size beside its sign, so that the
dimensions in which it says little count for little: of the true nearest 50, 98 % are in a shortlist of 400 (91 % with
the query's signs alone, measured on 130,000 sentences).

Bits lie in panels: of `PANEL_ROWS` rows first the first 64 dimensions of all, then the next 64. So each step of a
comparison runs over memory that the processor's cache holds. Only the last panel may be shorter; it is copied to grow.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from daycare.features.memory.embed.arrays import Bools, Floats, NDArray, Numbers, distinct, np

PANEL_ROWS: Final = 16_384  # 128 KB for a step of a comparison: within the second-level cache
_FIRST_ROWS: Final = 2_048  # room in a new panel, and so much more when it is full: most blocks are small
_FAR: Final = 0xFFFF  # of a row that is not to be found; real distances end at three times the dimensions
DIMENSIONS_MAX: Final = _FAR // 3 - 1
_SECOND_FOLD: Final = 8  # rows that get a second look, for each that is wanted; by 4 a hundredth of them is lost
_PICKED: Final = 12  # times as long a row takes that is picked out of its panel for that, than one in turn
_STEP_ROWS: Final = 512  # made into bits at once
_STEP: Final = 0.65  # of the query's root mean square: sizes 0 to 3, the best of those tried

Words = NDArray[np.uint64]
Distances = NDArray[np.uint16]


class BitsQuery(NamedTuple):
    """A query's bits, 64 dimensions a word: signs, and the two bits of the sizes."""

    signs: Words
    ones: Words
    twos: Words


class SignBits:
    """Rows that only grow; what is removed is overwritten in place. Panels that were handed out stay valid."""

    def __init__(self, centre: Floats) -> None:
        self._centre = centre
        self._words = -(-len(centre) // 64)
        self._panels: list[Words] = []
        self._rows = 0

    @property
    def panels(self) -> Sequence[Words]:
        """The panels as they are now."""
        return tuple(self._panels)

    @property
    def nbytes(self) -> int:
        """How much memory the bits take."""
        return sum(panel.nbytes for panel in self._panels)

    def extend(self, rows: Floats) -> None:
        """Add rows behind the last."""
        done = 0
        while done < len(rows):
            at = self._rows % PANEL_ROWS
            if not at:
                self._panels.append(np.empty((self._words, _FIRST_ROWS), np.uint64))
            elif at == self._panels[-1].shape[1]:
                more = np.empty((self._words, _FIRST_ROWS), np.uint64)
                self._panels[-1] = np.concatenate((self._panels[-1], more), axis=1)
            part = rows[done : done + min(_STEP_ROWS, self._panels[-1].shape[1] - at)]
            self._panels[-1][:, at : at + len(part)] = _packed(part > self._centre).T
            self._rows += len(part)
            done += len(part)

    def clear(self, places: Numbers) -> None:
        """Overwrite rows."""
        for panel in distinct(places // PANEL_ROWS).tolist():
            self._panels[panel][:, places[places // PANEL_ROWS == panel] % PANEL_ROWS] = 0

    def only(self, places: Numbers) -> "SignBits":
        """Return other bits, of these rows alone."""
        other = SignBits(self._centre)
        for first in range(0, len(places), PANEL_ROWS):
            part = places[first : first + PANEL_ROWS]
            panel = np.empty((self._words, PANEL_ROWS), np.uint64)
            for number in distinct(part // PANEL_ROWS).tolist():
                here = part // PANEL_ROWS == number
                panel[:, : len(part)][:, here] = self._panels[number][:, part[here] % PANEL_ROWS]
            other._panels.append(panel)
        other._rows = len(places)
        return other

    def query(self, vector: Floats) -> BitsQuery:
        """Return a query's bits."""
        aside = vector - self._centre
        step = _STEP * float(np.sqrt(np.mean(aside * aside))) or 1.0
        sizes = np.clip(np.rint(np.abs(aside) / step), 0, 3).astype(np.uint8)
        return BitsQuery(*(_packed(bits[None, :])[0] for bits in (aside > 0, (sizes & 1) > 0, sizes > 1)))


def shortlist(panels: Sequence[Words], eligible: Bools, query: BitsQuery, count: int) -> Numbers:
    """Return the places of the eligible rows that seem to be the nearest, in order of place.

    Of many rows a first look counts the query's large dimensions only, and a second one weighs what that left.
    """
    rows, second = len(eligible), _SECOND_FOLD * count
    if rows <= _PICKED * second:
        ones, found = _differing(panels, rows, query, (query.ones, query.twos))
        found *= 2
        found += ones
        found[~eligible] = _FAR
        return nearest(found, count)
    (rough,) = _differing(panels, rows, query, (query.twos,))
    rough[~eligible] = _FAR
    places = nearest(rough, second)
    return places[nearest(distances(panels, places, query), count)]


def _differing(panels: Sequence[Words], rows: int, query: BitsQuery, among: Sequence[Words]) -> list[Distances]:
    """Return of each row in how many dimensions its sign differs from the query's: for each of some sets of these."""
    found = [np.zeros(rows, np.uint16) for _ in among]
    differ, masked = np.empty(PANEL_ROWS, np.uint64), np.empty(PANEL_ROWS, np.uint64)
    counts = np.empty(PANEL_ROWS, np.uint8)
    for number, panel in enumerate(panels):
        here = slice(number * PANEL_ROWS, min((number + 1) * PANEL_ROWS, rows))
        size = here.stop - here.start
        for word in range(len(panel)):
            np.bitwise_xor(panel[word, :size], query.signs[word], out=differ[:size])
            for into, dimensions in zip(found, among, strict=True):
                np.bitwise_and(differ[:size], dimensions[word], out=masked[:size])
                into[here] += np.bitwise_count(masked[:size], out=counts[:size])
    return found


def distances(panels: Sequence[Words], places: Numbers, query: BitsQuery) -> Distances:
    """Return of some rows, in order of place, the summed sizes of the query where their signs differ."""
    found = np.empty(len(places), np.uint16)
    ends = np.searchsorted(places, PANEL_ROWS * np.arange(len(panels) + 1)).tolist()
    for number, (begin, end) in enumerate(pairwise(ends)):
        differ = np.take(panels[number], places[begin:end] - number * PANEL_ROWS, axis=1)
        differ ^= query.signs[:, None]
        ones = np.bitwise_count(differ & query.ones[:, None]).sum(axis=0, dtype=np.uint16)
        differ &= query.twos[:, None]
        found[begin:end] = ones + 2 * np.bitwise_count(differ).sum(axis=0, dtype=np.uint16)
    return found


def nearest(found: Distances, count: int) -> Numbers:
    """Return the places of the `count` smallest distances, in order of place; fewer if the others are not eligible."""
    summed = np.cumsum(np.bincount(found)[:_FAR])
    limit = int(np.searchsorted(summed, count))
    if limit == len(summed):
        return np.flatnonzero(found != _FAR)
    places = np.flatnonzero(found <= limit)
    spare = len(places) - count
    if spare > 0:  # several have the largest distance of all: the oldest of them go
        places = np.delete(places, np.flatnonzero(found[places] == limit)[:spare])
    return places


def _packed(bits: NDArray[np.bool_]) -> Words:
    octets = np.packbits(bits, axis=1, bitorder="little")
    missing = -octets.shape[1] % 8
    if missing:
        octets = np.pad(octets, ((0, 0), (0, missing)))
    return octets.view("<u8")
