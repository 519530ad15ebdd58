"""What `daycare spend` and `daycare budget` print."""

from typing import Any

import pytest

from daycare.base.budget import LIFTED
from daycare.base.errors import InvalidError
from daycare.features.budgets.cli import _limits, budgets
from daycare.features.budgets.cli_spend import listing, picture


def row(key: str, path: str, micros: int, **more: Any) -> dict[str, Any]:
    return {
        "key": key,
        "path": path,
        "user": "ann",
        "provider": "p",
        "model": "m",
        "calls": 1,
        "input_tokens": 1_000,
        "output_tokens": 10,
        "cost_micros": micros,
        "wall_ms": 3_000,
    } | more


DOCUMENT = {
    "today": "2026-11-21",
    "days": 3,
    "spent": [
        row("2026-11-21", "/ann/direct", 4_000_000),
        row("2026-11-21", "/ann/direct/sub/0", 500_000),
        row("2026-11-19", "/ann/agent/work", 1_000_000, unsettled=2, unsettled_micros=250_000),
    ],
}


def test_helpers_count_for_their_agent_and_the_dearest_comes_first() -> None:
    lines = listing(DOCUMENT, "agent").splitlines()
    assert [line.split()[:2] for line in lines[1:4]] == [
        ["/ann/direct", "$4.50"],
        ["/ann/agent/work", "$1.25"],
        ["all", "$5.75"],
    ]
    assert lines[4] == "unsettled: 2 calls were cut off and count in full as reserved ($0.25 of the above)"
    assert "/ann/direct/sub/0" in listing(DOCUMENT, "path")


def test_days_come_newest_first() -> None:
    assert [line.split()[0] for line in listing(DOCUMENT, "day").splitlines()[1:3]] == ["2026-11-21", "2026-11-19"]


def test_an_unknown_price_is_said_and_is_no_zero() -> None:
    unpriced = {"today": "2026-11-21", "days": 1, "spent": [row("2026-11-21", "/ann/direct", 0, unpriced=1)]}
    _, line, remark = listing(unpriced, "model").splitlines()
    assert line.split()[:2] == ["p/m", "unknown"]
    assert remark == "price unknown: p/m; they count 0 dollars, see daycare models"
    assert "1,010 tokens" in picture(unpriced, "agent")


def test_the_picture_has_a_line_for_each_agent_and_a_column_for_each_day() -> None:
    assert picture(DOCUMENT, "agent").splitlines()[:3] == [
        "/ann/direct     │  █│ $4.50",
        "/ann/agent/work │▂  │ $1.25",
        "                 2026-11-19 to 2026-11-21, █ is $4.50 a day",
    ]


def test_the_picture_by_day_has_a_bar_for_each() -> None:
    first, second, third, _ = picture(DOCUMENT, "day").splitlines()
    assert first.count("█") == 11 and second.split() == ["2026-11-20", "$0.00"] and third.count("█") == 40


def test_nothing_spent_is_said() -> None:
    nothing = {"today": "2026-11-21", "days": 7, "spent": []}
    assert listing(nothing, "agent") == picture(nothing, "day") == "nothing was spent in 7 days"


def test_a_budget_shows_what_is_used_and_what_is_raised() -> None:
    limit = {
        "name": "day.usd",
        "limit": 3_000_000,
        "raised": 1_000_000,
        "used": 1_500_000,
        "reserved": 0,
        "until_ms": 0,
        "source": "set",
    }
    views = [{"path": "/ann", "limits": [limit], "lifted": []}, {"path": "/", "limits": [], "lifted": ["day.usd"]}]
    shown = str(budgets({"budgets": views}))
    assert "$3.00 a day ($1.00 of it for now)" in shown and "no limits" in shown and " 50 " in shown


def test_amounts_of_an_option_may_be_several_and_none_lifts_all() -> None:
    assert _limits("day", ["5usd,100k tokens"]) == {"day.usd": 5_000_000, "day.tokens": 100_000}
    assert _limits("month", ["none"]) == dict.fromkeys(
        ("month.usd", "month.tokens", "month.calls", "month.minutes"), LIFTED
    )
    with pytest.raises(InvalidError):
        _limits("day", ["much"])
