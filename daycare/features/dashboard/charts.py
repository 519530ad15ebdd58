"""Charts as shapes: where each bar of a chart stands, which templates draw as SVG. No number is only in a picture."""

from collections.abc import Mapping, Sequence
from math import ceil, floor, log10
from typing import Final, NamedTuple

COLOURS: Final = 8  # classes `s0` to `s7` of app.css; the last is for all others
WIDTH: Final = 720.0
HEIGHT: Final = 180.0

_LEFT: Final = 56.0  # for the scale
_RIGHT: Final = 8.0  # the last label is wider than its bar
_BOTTOM: Final = 20.0  # for the days
_TOP: Final = 8.0
_LABELS: Final = 8  # below the bars, at most
_ENDS: Final = (1, 2, 3, 4, 6, 8, 10)  # of a scale, with noughts


class ChartColumn(NamedTuple):
    """A bar: where it stands, what it is about, what all of it is; `label` if it is written below."""

    key: str
    x: float
    total: int
    label: str


class ChartLayer(NamedTuple):
    """The parts of all bars that have one name: `path` draws them, in one colour."""

    name: str
    colour: int
    path: str


class StackedChart(NamedTuple):
    """A chart of bars. `lines` are (y, amount) of the scale, `step` is from one bar to the next."""

    width: float
    height: float
    left: float
    step: float
    columns: tuple[ChartColumn, ...]
    layers: tuple[ChartLayer, ...]
    lines: tuple[tuple[float, int], ...]


def stacked(keys: Sequence[str], names: Sequence[str], amounts: Mapping[tuple[str, str], int]) -> StackedChart:
    """Return a bar for each key, made of what `amounts` has of it by (key, name); names have colours in order."""
    totals = [sum(amounts.get((key, name), 0) for name in names) for key in keys]
    top = _rounded(max(totals, default=0))
    floor_y, scale = HEIGHT - _BOTTOM, (HEIGHT - _TOP - _BOTTOM) / top
    step = (WIDTH - _LEFT - _RIGHT) / max(len(keys), 1)
    every = ceil(len(keys) / _LABELS)
    below = [0] * len(keys)
    layers = []
    for number, name in enumerate(names):
        parts = []
        for place, key in enumerate(keys):
            if amount := amounts.get((key, name), 0):
                below[place] += amount
                x, y, width = _LEFT + step * (place + 0.1), floor_y - below[place] * scale, step * 0.8
                parts.append(f"M{x:.4g} {y:.4g}h{width:.3g}v{amount * scale:.3g}h-{width:.3g}z")
        layers.append(ChartLayer(name, colour(number), "".join(parts)))
    columns = tuple(
        ChartColumn(key, _r(_LEFT + place * step), total, key[5:] if (len(keys) - 1 - place) % every == 0 else "")
        for place, (key, total) in enumerate(zip(keys, totals, strict=True))
    )
    lines = tuple((_r(floor_y - share * top * scale), round(share * top)) for share in (0, 0.5, 1))
    return StackedChart(WIDTH, HEIGHT, _LEFT, _r(step), columns, tuple(layers), lines)


def colour(number: int) -> int:
    """Return the colour of the group at a place."""
    return min(number, COLOURS - 1)


def _rounded(most: int) -> int:
    """Return the end of a scale: a number that halves well, and not below what there is."""
    if most <= 0:
        return 1
    unit = 10 ** floor(log10(most))
    return int(next(unit * each for each in _ENDS if unit * each >= most))


def _r(number: float) -> float:
    return round(number, 1)
