"""Bars stand on each other, are as high as what they show, and the scale is not below them."""

import math
import re
from itertools import pairwise

from daycare.features.dashboard.charts import COLOURS, HEIGHT, WIDTH, stacked

PART = re.compile(r"M([\d.]+) ([\d.]+)h([\d.]+)v([\d.]+)h-([\d.]+)z")


def test_parts_of_a_bar_stand_on_each_other_and_are_as_high_as_their_amounts() -> None:
    names = [f"m{number}" for number in range(COLOURS + 2)]
    amounts = {("2026-11-01", name): 10 * (place + 1) for place, name in enumerate(names)} | {("2026-11-02", "m0"): 110}
    chart = stacked(["2026-11-01", "2026-11-02", "2026-11-03"], names, amounts)
    assert [column.total for column in chart.columns] == [550, 110, 0]
    parts = [[tuple(map(float, part)) for part in PART.findall(layer.path)] for layer in chart.layers]
    assert [len(each) for each in parts] == [2, *[1] * (COLOURS + 1)]
    high, low = [each[0] for each in parts], parts[0][1]
    for below, above in pairwise(high):
        assert math.isclose(below[1], above[1] + above[3], abs_tol=0.5)
    assert math.isclose(sum(part[3] for part in high), 5 * low[3], abs_tol=1)
    assert high[-1][1] >= chart.lines[-1][0] and chart.lines[-1][1] == 600
    assert {layer.colour for layer in chart.layers} == set(range(COLOURS))
    assert all(0 <= y <= HEIGHT and x + width <= WIDTH for each in parts for x, y, width, *_ in each)


def test_a_chart_of_nothing_and_of_very_little_is_a_chart() -> None:
    assert stacked([], [], {}).columns == ()
    chart = stacked(["2026-11-01"], ["m"], {("2026-11-01", "m"): 1})
    assert (chart.columns[0].label, len(PART.findall(chart.layers[0].path))) == ("11-01", 1)
