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


class ChartBar(NamedTuple):
    """A part of a bar: where it stands, and in which colour."""

    x: float
    y: float
    width: float
    height: float
    colour: int
    name: str
    amount: int


class ChartColumn(NamedTuple):
    """A bar of several parts, `label` if it is written below; `key` is what it is about."""

    key: str
    x: float
    width: float
    total: int
    label: str
    bars: tuple[ChartBar, ...]


class StackedChart(NamedTuple):
    """A chart of bars. `lines` are (y, amount) of the scale."""

    width: float
    height: float
    left: float
    columns: tuple[ChartColumn, ...]
    lines: tuple[tuple[float, int], ...]


def stacked(keys: Sequence[str], names: Sequence[str], amounts: Mapping[tuple[str, str], int]) -> StackedChart:
    """Return a bar for each key, made of what `amounts` has of it by (key, name); names have colours in order."""
    totals = {key: sum(amounts.get((key, name), 0) for name in names) for key in keys}
    top = _rounded(max(totals.values(), default=0))
    scale = (HEIGHT - _TOP - _BOTTOM) / top
    step = (WIDTH - _LEFT - _RIGHT) / max(len(keys), 1)
    every = ceil(len(keys) / _LABELS)
    columns = []
    for place, key in enumerate(keys):
        x, y, bars = _LEFT + place * step, HEIGHT - _BOTTOM, []
        for number, name in enumerate(names):
            if amount := amounts.get((key, name), 0):
                height = amount * scale
                y -= height
                bar = ChartBar(_r(x + step * 0.1), _r(y), _r(step * 0.8), _r(height), colour(number), name, amount)
                bars.append(bar)
        label = key[5:] if (len(keys) - 1 - place) % every == 0 else ""
        columns.append(ChartColumn(key, _r(x), _r(step), totals[key], label, tuple(bars)))
    lines = tuple((_r(HEIGHT - _BOTTOM - share * top * scale), round(share * top)) for share in (0, 0.5, 1))
    return StackedChart(WIDTH, HEIGHT, _LEFT, tuple(columns), lines)


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
