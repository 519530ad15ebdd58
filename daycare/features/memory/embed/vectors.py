"""The vectors of one owner's memories, to search: a block in memory, made of the store's rows and thrown away at will.

A small block is a matrix of float32, and every cosine is computed. A large one, or one for which there is little room,
keeps a bit per dimension, which gives a shortlist, and the shortlist's cosines are computed from the rows: exact in
what it returns, and of the true nearest ten one in a thousand is missing.

A block may be searched in other threads while one thread, always the same, changes it.

A matrix lies in panels, of `PANEL_ROWS` rows first the first dimension of all, then the next: so a comparison reads
memory straight on and adds up in the processor's cache, which is half as long again as fast as going row by row (faiss
does that). The newest rows lie in a tail, row by row, until they fill a panel: many owners have few.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from daycare.features.memory.embed.arrays import (
    Bools,
    Floats,
    Halves,
    NDArray,
    Numbers,
    distinct,
    np,
)
from daycare.features.memory.embed.packing import unpacked
from daycare.features.memory.embed.sign_bits import DIMENSIONS_MAX, SignBits, Words, shortlist
from daycare.features.memory.store.records import VectorPage

PANEL_ROWS: Final = 2_048  # the best of those tried; their sums, 8 KB, stay in the first-level cache
_TAIL_ROWS: Final = 32  # room in a new tail


class MatrixRows(NamedTuple):
    """What a matrix has at one moment. Rows that are added later are not in it; what is cleared later may be."""

    size: int
    panels: Sequence[Floats]
    tail: Floats

    def cosines(self, query: Floats) -> Floats:
        """Return the product of each row with a query."""
        found = np.empty(self.size, np.float32)
        full = len(self.panels) * PANEL_ROWS
        for begin, panel in zip(range(0, full, PANEL_ROWS), self.panels, strict=True):
            np.dot(query, panel, out=found[begin : begin + PANEL_ROWS])
        np.dot(self.tail[: self.size - full], query, out=found[full:])
        return found

    def at(self, places: Numbers) -> Floats:
        """Return some rows."""
        found = np.empty((len(places), self.tail.shape[1]), np.float32)
        panels = places // PANEL_ROWS
        for number in distinct(panels).tolist():
            here, inside = panels == number, places[panels == number] % PANEL_ROWS
            found[here] = self.panels[number][:, inside].T if number < len(self.panels) else self.tail[inside]
        return found


class Matrix:
    """Rows that only grow; what is removed is overwritten in place."""

    def __init__(self, dimensions: int) -> None:
        self.rows = MatrixRows(0, (), np.empty((0, dimensions), np.float32))

    @property
    def nbytes(self) -> int:
        """How much memory the rows take."""
        return int(4 * self.rows.size * self.rows.tail.shape[1])

    def extend(self, new: Floats) -> None:
        """Add rows behind the last."""
        while len(new):
            count, panels, tail = self.rows
            filled = count - len(panels) * PANEL_ROWS
            part, new = new[: PANEL_ROWS - filled], new[PANEL_ROWS - filled :]
            if filled + len(part) > len(tail):
                room = min(PANEL_ROWS, max(_TAIL_ROWS, filled + len(part), 2 * len(tail)))
                tail = np.concatenate((tail[:filled], np.empty((room - filled, tail.shape[1]), np.float32)))
            tail[filled : filled + len(part)] = part
            count += len(part)
            if filled + len(part) == PANEL_ROWS:
                panels, tail = (*panels, np.ascontiguousarray(tail.T)), tail[:0].copy()
            self.rows = MatrixRows(count, panels, tail)

    def clear(self, places: Numbers) -> None:
        """Overwrite rows."""
        panels = places // PANEL_ROWS
        for number in distinct(panels).tolist():
            inside = places[panels == number] % PANEL_ROWS
            if number < len(self.rows.panels):
                self.rows.panels[number][:, inside] = 0
            else:
                self.rows.tail[inside] = 0

    def only(self, places: Numbers) -> "Matrix":
        """Return another matrix, of these rows alone."""
        other = Matrix(self.rows.tail.shape[1])
        for begin in range(0, len(places), PANEL_ROWS):
            other.extend(self.rows.at(places[begin : begin + PANEL_ROWS]))
        return other


EXACT_MAX_BYTES: Final = 16 * 1024 * 1024  # of a matrix: a scan of about 1 ms; 10,900 rows of 384 dimensions
SHORTLIST: Final = 400  # rows whose cosines are computed at least ...
SHORTLIST_FOLD: Final = 4  # ... and for each that is wanted: so 94 to 98 % of these are among them
SAMPLE_ROWS: Final = 1_024  # of a large block, for mean and deviation: to within 2 % ...
_SAMPLE_LEAST: Final = 256  # ... and of a smaller one, to within 5 %, ...
_SAMPLE_SHARE: Final = 8  # ... one of so many rows
_SPARE_ROWS: Final = 1_024  # removed rows that are worth no tidying up; past it when a quarter of all is removed

Fetch = Callable[[Sequence[int]], VectorPage]


class FoundRows(NamedTuple):
    """Rows and their cosines. `mean` and `deviation` are of the cosines of all rows of the block."""

    numbers: Numbers
    scores: Floats
    mean: float
    deviation: float


class _Held(NamedTuple):
    """What is there at one moment; rows are added behind these, and what is removed is marked and overwritten."""

    size: int
    numbers: Numbers
    living: "_Living"
    order: Numbers | None  # places in order of number; None: numbers rise
    exact: MatrixRows | None  # None: there are bits
    panels: Sequence[Words]


class _Living:
    """Which rows are not removed. One for all moments, so that who began to look before a removal knows of it, too."""

    def __init__(self, flags: Bools) -> None:
        self.flags = flags


class VectorBlock:
    """Vectors of length 1 by number. `exact_max_bytes` is how large a matrix may be before bits take its place.

    If so many rows are `expected` that they will, they do so as soon as there are enough to go by.
    """

    def __init__(self, dimensions: int, exact_max_bytes: int = EXACT_MAX_BYTES, *, expected: int = 0) -> None:
        assert 0 < dimensions <= DIMENSIONS_MAX, f"{dimensions} dimensions"
        self.dimensions = dimensions
        self._expected = expected
        self._exact_max_bytes = exact_max_bytes
        if 4 * dimensions * expected > exact_max_bytes:
            self._exact_max_bytes = min(exact_max_bytes, 4 * dimensions * SAMPLE_ROWS)
        self._matrix = Matrix(dimensions)
        self._signs: SignBits | None = None
        self._sample = _Sample(dimensions, 0)
        living = _Living(np.empty(0, np.bool_))
        self._held = _Held(0, np.empty(0, np.int64), living, None, self._matrix.rows, ())
        self._removed = 0

    @property
    def size(self) -> int:
        """How many rows can be found."""
        return self._held.size - self._removed

    @property
    def exact(self) -> bool:
        """Whether every cosine is computed, and nothing fetched."""
        return self._signs is None

    @property
    def worn(self) -> bool:
        """Whether so much was removed that it is to be made anew: its centre and sample are those of other rows."""
        return not self.exact and 2 * self.size < self._sample.seen

    @property
    def nbytes(self) -> int:
        """How much memory it takes."""
        held = self._held
        large = self._signs.nbytes + self._sample.nbytes if self._signs else self._matrix.nbytes
        ordered = 0 if held.order is None else held.order.nbytes
        return large + ordered + held.size * (held.numbers.itemsize + 1)

    # -- changes -----------------------------------------------------------------------------------------------------

    def extend(self, page: VectorPage) -> None:
        """Add rows, in any order; a number that is there already gets the new vector."""
        numbers = np.array(page.numbers, np.int64)
        rows = self._read(page)
        held = self._held
        if held.order is not None or not _rising(numbers, held):
            numbers, last = np.unique(numbers[::-1], return_index=True)
            rows = rows[len(rows) - 1 - last]
            self.remove(numbers)
        self._append(numbers, rows)

    def remove(self, numbers: Sequence[int] | Numbers) -> None:
        """Remove rows, those of them that are there. Nothing of their vectors is left."""
        held = self._held
        places = _places(held, np.asarray(numbers, np.int64))
        places = distinct(places[places >= 0])
        if not len(places):
            return
        held.living.flags[places] = False
        if self._signs is None:
            self._matrix.clear(places)
        else:
            self._signs.clear(places)
            self._sample.remove(held.numbers[places])
        self._removed += len(places)
        if self._removed > max(_SPARE_ROWS, held.size // 4):
            self._tidy()

    # -- searching ---------------------------------------------------------------------------------------------------

    def search(self, query: Floats, count: int, fetch: Fetch) -> FoundRows:
        """Return the nearest `count` rows, the nearest first.

        `fetch` reads rows of the store by their numbers; it is not called if the block is `exact`.
        """
        held = self._held
        if held.exact is not None:
            found = self._compared(held, held.exact, query)
        else:
            assert self._signs is not None
            mean, deviation = _spread(self._sample.rows.astype(np.float32) @ query)
            wanted = max(SHORTLIST, SHORTLIST_FOLD * count)
            places = shortlist(held.panels, _eligible(held), self._signs.query(query), wanted)
            page = fetch(held.numbers[places].tolist())
            found = FoundRows(np.array(page.numbers, np.int64), self._read(page) @ query, mean, deviation)
        return FoundRows(*_best(found.numbers, found.scores, count), found.mean, found.deviation)

    def scores(self, query: Floats) -> FoundRows | None:
        """Return all rows, in no order; None if the block is not `exact`."""
        held = self._held
        return None if held.exact is None else self._compared(held, held.exact, query)

    # -- inside ------------------------------------------------------------------------------------------------------

    def _compared(self, held: _Held, rows: MatrixRows, query: Floats) -> FoundRows:
        scores = rows.cosines(query)
        mean, deviation = self._spread(scores)
        numbers, eligible = held.numbers[: held.size], _eligible(held)
        if not eligible.all():
            numbers, scores = numbers[eligible], scores[eligible]
        return FoundRows(numbers, scores, mean, deviation)

    def _read(self, page: VectorPage) -> Floats:
        return unpacked(page.data, self.dimensions)

    def _spread(self, scores: Floats) -> tuple[float, float]:
        """Return mean and deviation of all rows' cosines: those of removed ones are zero."""
        living = max(1, self.size)
        mean = float(scores.sum(dtype=np.float64)) / living
        return mean, max(0.0, float(np.dot(scores, scores)) / living - mean * mean) ** 0.5

    def _append(self, numbers: Numbers, rows: Floats) -> None:
        held = self._held
        total = held.size + len(numbers)
        all_numbers, flags = _grown(held.numbers, held.size, total), _grown(held.living.flags, held.size, total)
        all_numbers[held.size : total] = numbers
        flags[held.size : total] = True
        held.living.flags = flags
        order = _ordered(held, numbers)
        if self._signs is None:
            self._matrix.extend(rows)
            self._held = _Held(total, all_numbers, held.living, order, self._matrix.rows, ())
            if self._matrix.nbytes > self._exact_max_bytes:
                self._shrink()
        else:
            self._signs.extend(rows)
            self._sample.add(numbers, rows)
            self._held = _Held(total, all_numbers, held.living, order, None, self._signs.panels)

    def _shrink(self) -> None:
        """Let bits take the place of the matrix."""
        held = self._held
        kept = np.flatnonzero(held.living.flags[: held.size])
        rows = self._matrix.rows.at(np.arange(held.size))
        signs = SignBits(rows[kept].mean(axis=0))
        signs.extend(rows)
        self._sample = _Sample(self.dimensions, max(self._expected, len(kept)) // _SAMPLE_SHARE)
        self._sample.add(held.numbers[kept], rows[kept])
        self._signs = signs
        self._held = held._replace(exact=None, panels=signs.panels)
        self._matrix = Matrix(self.dimensions)

    def _tidy(self) -> None:
        """Close the gaps. A search that began before goes on over what it holds."""
        held = self._held
        kept = np.flatnonzero(held.living.flags[: held.size])
        numbers, living = held.numbers[kept], _Living(np.ones(len(kept), np.bool_))
        order = None if held.order is None else np.argsort(numbers)
        if self._signs is None:
            self._matrix = self._matrix.only(kept)
            self._held = _Held(len(kept), numbers, living, order, self._matrix.rows, ())
        else:
            self._signs = self._signs.only(kept)
            self._held = _Held(len(kept), numbers, living, order, None, self._signs.panels)
        self._removed = 0


class _Sample:
    """`size` rows of a block, each as likely as any other, however many there are and whenever they came."""

    def __init__(self, dimensions: int, size: int) -> None:
        self._size = min(SAMPLE_ROWS, max(_SAMPLE_LEAST, size))
        self.rows: Halves = np.empty((0, dimensions), np.float16)
        self._numbers = np.empty(0, np.int64)
        self.seen = 0
        self._random = np.random.default_rng(0)

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes + self._numbers.nbytes

    def add(self, numbers: Numbers, rows: Floats) -> None:
        first = max(0, self._size - self.seen)
        if first:
            self._numbers = np.concatenate((self._numbers, numbers[:first]))
            self.rows = np.concatenate((self.rows, rows[:first].astype(np.float16)))
        slots = self._random.integers(0, self.seen + first + 1 + np.arange(max(0, len(rows) - first)))
        taken = np.flatnonzero(slots < len(self.rows))
        self._numbers[slots[taken]] = numbers[first:][taken]
        self.rows[slots[taken]] = rows[first:][taken]
        self.seen += len(rows)

    def remove(self, numbers: Numbers) -> None:
        gone = np.isin(self._numbers, numbers)
        if gone.any():
            self._numbers, self.rows = self._numbers[~gone], self.rows[~gone]


def _spread(scores: Floats) -> tuple[float, float]:
    return (float(scores.mean()), float(scores.std())) if len(scores) else (0.0, 0.0)


def _eligible(held: _Held) -> Bools:
    """Return which rows may be found. To be asked after comparing floats: one overwritten meanwhile is none of them."""
    return held.living.flags[: held.size].copy()


def _best(numbers: Numbers, scores: Floats, count: int) -> tuple[Numbers, Floats]:
    """Return the `count` best, the best first and the newest first of equals."""
    if count < len(scores):
        kept = np.argpartition(scores, len(scores) - count)[len(scores) - count :]
        numbers, scores = numbers[kept], scores[kept]
    order = np.lexsort((-numbers, -scores))
    return numbers[order], scores[order]


def _rising(numbers: Numbers, held: _Held) -> bool:
    """Return whether numbers rise, from above the last that is held."""
    above = not held.size or not len(numbers) or numbers[0] > held.numbers[held.size - 1]
    return bool(above and (numbers[1:] > numbers[:-1]).all())


def _ordered(held: _Held, numbers: Numbers) -> Numbers | None:
    """Return the places in order of number after these, which rise among themselves, are added."""
    if held.order is None and _rising(numbers, held):
        return None
    known = held.numbers[: held.size]
    order = np.arange(held.size) if held.order is None else held.order
    at = np.searchsorted(known, numbers, side="right", sorter=order)
    return np.insert(order, at, np.arange(held.size, held.size + len(numbers)))


def _places(held: _Held, numbers: Numbers) -> Numbers:
    """Return where numbers are, -1 for those that are not there, or not any more."""
    if not held.size:
        return np.full(len(numbers), -1, np.int64)
    known = held.numbers[: held.size]
    # Of several rows with one number the last is the newest, and the others were removed.
    places = np.searchsorted(known, numbers, side="right", sorter=held.order) - 1
    if held.order is not None:
        places = np.where(places < 0, -1, held.order[places])
    return np.where((places >= 0) & (known[places] == numbers) & held.living.flags[places], places, -1)


def _grown(array: NDArray[Any], count: int, total: int) -> NDArray[Any]:
    """Return an array with room for `total`, the first `count` of it as they were; an eighth larger if it is new."""
    if total <= len(array):
        return array
    larger = np.empty(max(total, len(array) + len(array) // 8), array.dtype)
    larger[:count] = array[:count]
    return larger
