"""Bars stand on each other, are as high as what they show, and the scale is not below them."""

import math

from daycare.features.dashboard.charts import COLOURS, HEIGHT, stacked


def test_parts_of_a_bar_stand_on_each_other_and_are_as_high_as_their_amounts() -> None:
    names = [f"m{number}" for number in range(COLOURS + 2)]
    amounts = {("2026-11-01", name): 10 * (place + 1) for place, name in enumerate(names)} | {("2026-11-02", "m0"): 110}
    chart = stacked(["2026-11-01", "2026-11-02", "2026-11-03"], names, amounts)
    high, low, none = chart.columns
    assert (high.total, low.total, none.total, none.bars) == (550, 110, 0, ())
    for below, above in zip(high.bars, high.bars[1:], strict=False):
        assert math.isclose(below.y, above.y + above.height, abs_tol=0.2)
    assert math.isclose(sum(bar.height for bar in high.bars), 5 * low.bars[0].height, abs_tol=1)
    assert high.bars[-1].y >= chart.lines[-1][0] and chart.lines[-1][1] == 600
    assert {bar.colour for bar in high.bars} == set(range(COLOURS))
    assert all(0 <= bar.y <= HEIGHT and bar.x + bar.width <= chart.width for each in chart.columns for bar in each.bars)


def test_a_chart_of_nothing_and_of_very_little_is_a_chart() -> None:
    assert stacked([], [], {}).columns == ()
    (column,) = stacked(["2026-11-01"], ["m"], {("2026-11-01", "m"): 1}).columns
    assert (column.label, column.bars[0].amount) == ("11-01", 1)
