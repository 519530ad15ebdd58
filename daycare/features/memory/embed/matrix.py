"""Vectors kept as they are, float32, to be compared with a query one and all.

They lie in panels, of `PANEL_ROWS` rows first the first dimension of all, then the next: so a comparison reads memory
straight on and adds up in the processor's cache, which is half as long again as fast as going row by row (faiss does
that). The newest rows lie in a tail, row by row, until they fill a panel: many owners have few.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from daycare.features.memory.embed.arrays import Floats, Numbers, distinct, np

PANEL_ROWS: Final = 2_048  # the best of those tried; their sums, 8 KB, stay in the first-level cache
_TAIL_ROWS: Final = 32  # room in a new tail


class Rows(NamedTuple):
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
        self.rows = Rows(0, (), np.empty((0, dimensions), np.float32))

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
            self.rows = Rows(count, panels, tail)

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
