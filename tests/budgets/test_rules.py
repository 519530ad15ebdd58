"""Which limits bind a call, and how amounts and days are read and written."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daycare.base.budget import (
    LIFTED,
    MEASURES,
    Measure,
    Use,
    as_written,
    day_of,
    ends_ms,
    key_of,
    read_amount,
    shown_amount,
)
from daycare.base.errors import InvalidError
from daycare.features.budgets.records import BudgetRow, BudgetStanding, Ceiling
from daycare.features.budgets.rules import (
    Scope,
    ceilings_of,
    effective,
    is_background,
    may_change,
    near_end,
    scopes_of,
    tightest,
    until_words,
)

ONE = Use(usd=1, tokens=1, calls=1, minutes=1)


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def test_a_call_counts_for_its_path_and_everything_above_it() -> None:
    assert scopes_of("/ann/telegram/sub/0") == ["/ann/telegram/sub/0", "/ann/telegram/sub", "/ann/telegram", "/ann"]
    assert scopes_of("/ann/agent/work") == ["/ann/agent/work", "/ann/agent", "/ann"]


@pytest.mark.parametrize(
    ("path", "background"),
    [
        ("/ann/telegram", False),
        ("/ann/telegram/sub/0", False),
        ("/ann/telegram/search/1", False),
        ("/ann/telegram/memory", True),
        ("/ann/agent/memory", False),  # an agent of that name
        ("/ann/agent/memory/memory", True),
        ("/ann/cron/news", True),
        ("/ann/cron/news/sub/3", True),
        ("/ann/task/t1", True),
        ("/system/gc", True),
        ("/ann/subuser/bob", False),
    ],
)
def test_work_that_nobody_waits_for_is_told_by_its_path(path: str, background: bool) -> None:
    assert is_background(path) == background


def test_what_was_set_goes_before_the_default_and_raises_hold_for_their_time_only() -> None:
    default = {"day.usd": 5, "day.tokens": 7}
    row = BudgetRow(
        path="/bob", limits={"day.usd": 9, "day.tokens": LIFTED, "month.usd": 20}, raises={"2026-11-21": {"day.usd": 3}}
    )
    assert effective(None, default, "2026-11-21") == default
    assert effective(row, default, "2026-11-21") == {"day.usd": 12, "month.usd": 20}
    assert effective(row, default, "2026-11-22") == {"day.usd": 9, "month.usd": 20}


def test_a_limit_binds_only_calls_that_take_something_of_its_measure() -> None:
    scopes = [Scope("/ann", {"day.usd": 5, "day.tokens": 7})]
    free = ceilings_of(scopes, "2026-11-21", Use(usd=0, tokens=3, calls=1, minutes=1))
    assert [(it.name, it.key, it.most) for it in free] == [("day.tokens", "2026-11-21", 7)]


def test_the_background_leaves_the_last_fifth_of_a_shared_budget_to_people() -> None:
    scopes = [Scope("/ann/cron/news", {"day.usd": 100}), Scope("/ann", {"month.usd": 1000})]
    mosts = {it.path: it.most for it in ceilings_of(scopes, "2026-11-21", ONE, background=True)}
    assert mosts == {"/ann/cron/news": 100, "/ann": 800}


def ceiling(name: str = "day.usd", most: int = 10, path: str = "/ann") -> Ceiling:
    measure: Measure = "usd"
    return Ceiling(path=path, name=name, key="2026-11-21", measure=measure, most=most, limit=most)


def test_the_tightest_decides_and_what_is_used_up_goes_before_what_is_only_reserved() -> None:
    room = BudgetStanding(ceiling(), used=3, reserved=6)
    reserved = BudgetStanding(ceiling(most=5), used=3, reserved=2)
    used_up = BudgetStanding(ceiling("month.usd", most=3), used=3, reserved=0)
    assert tightest([room]) is None
    assert tightest([room, reserved]) is reserved
    assert tightest([reserved, used_up, room]) is used_up


def test_people_are_told_from_eighty_percent_on() -> None:
    below, at = BudgetStanding(ceiling(), used=7, reserved=9), BudgetStanding(ceiling(), used=8, reserved=0)
    assert near_end([below, at]) == [at]


@pytest.mark.parametrize(
    ("user", "path", "set_by", "operator", "parents", "may"),
    [
        ("ann", "/", "", True, {}, True),
        ("bob", "/", "", False, {}, False),
        ("bob", "/bob", "", False, {}, False),
        ("bob", "/bob/telegram", "", False, {}, True),
        ("bob", "/bob/telegram", "bob", False, {}, True),
        ("bob", "/bob/telegram", "ann", False, {}, False),
        ("bob", "/cid/telegram", "", False, {}, False),
        ("bob", "/kid", "", False, {"kid": "bob"}, True),
        ("kid", "/bob/subuser/kid", "", False, {}, False),
        ("bob", "/bob/subuser/kid", "", False, {}, True),
    ],
)
def test_who_gave_a_budget_decides_on_it(
    user: str, path: str, set_by: str, operator: bool, parents: dict[str, str], may: bool
) -> None:
    row = BudgetRow(path=path, set_by=set_by) if set_by else None
    assert may_change(user, path, row, operator=operator, parents=parents) == may


@pytest.mark.parametrize(
    ("text", "measure", "amount"),
    [
        ("5usd", "usd", 5_000_000),
        ("$0.25", "usd", 250_000),
        ("2.5 USD", "usd", 2_500_000),
        ("200k tokens", "tokens", 200_000),
        ("1.5m tokens", "tokens", 1_500_000),
        ("100 calls", "calls", 100),
        ("60min", "minutes", 3_600_000),
        ("60 minutes", "minutes", 3_600_000),
    ],
)
def test_amounts_are_read_as_people_write_them(text: str, measure: str, amount: int) -> None:
    assert read_amount(text) == (measure, amount)


@pytest.mark.parametrize("text", ["", "5", "usd", "-5usd", "5 eur", "1e9usd", "nan usd", "9999999999999usd", "5usd5"])
def test_what_is_no_amount_is_refused(text: str) -> None:
    with pytest.raises(InvalidError) as refused:
        read_amount(text)
    assert refused.value.code == "BUDGET_INVALID"


UNITS_MAX = 10**9


@given(st.sampled_from(MEASURES), st.integers(0, UNITS_MAX))
def test_what_is_written_is_read_again(measure: Measure, number: int) -> None:
    units = number * 60_000 if measure == "minutes" else number
    assert read_amount(as_written(measure, units)) == (measure, units)


def test_amounts_are_shown_so_that_small_ones_are_not_lost() -> None:
    assert shown_amount("usd", 2_000_000) == "$2.00"
    assert shown_amount("usd", 0) == "$0.00"
    assert shown_amount("usd", 23) == "under $0.0001"
    assert shown_amount("usd", 1_234) == "$0.0012"
    assert shown_amount("tokens", 1_500) == "1,500 tokens"
    assert shown_amount("calls", 1) == "1 call"
    assert shown_amount("minutes", 90_000) == "1.5 minutes"


def test_days_are_those_of_the_users_calendar() -> None:
    late = ms("2026-11-21T23:30")
    assert [day_of(late, zone) for zone in ("UTC", "Asia/Tokyo", "America/Lima")] == [
        "2026-11-21",
        "2026-11-22",
        "2026-11-21",
    ]
    assert key_of("month", "2026-11-21") == "2026-11"
    assert day_of(late, "No/Where") == "2026-11-21"


def test_a_day_with_a_change_of_the_clock_ends_when_the_next_begins() -> None:
    assert ends_ms("day", "2026-03-29", "Europe/Berlin") == ms("2026-03-29T22:00")  # it has 23 hours
    assert ends_ms("day", "2026-10-25", "Europe/Berlin") == ms("2026-10-25T23:00")  # and this one 25
    assert ends_ms("month", "2026-12-05", "UTC") == ms("2027-01-01T00:00")
    assert until_words("day", "2026-11-21", "UTC", ms("2026-11-21T10:00")) == "until 00:00"
    assert until_words("month", "2026-11-21", "UTC", ms("2026-11-21T10:00")) == "until 1 December, 00:00"
