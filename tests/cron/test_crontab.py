"""Expressions are due when doc/use/cron.md says so, through every change of the clocks."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daycare.base import crontab
from daycare.base.errors import InvalidError
from daycare.base.zones import zone_of
from tests.cron import oracle
from tests.cron.oracle import ZONES

CHANGES_2027 = {
    "Europe/Berlin": ("2027-03-28", "2027-10-31"),
    "America/New_York": ("2027-03-14", "2027-11-07"),
    "America/Santiago": ("2027-04-04", "2027-09-05"),
    "Australia/Lord_Howe": ("2027-04-04", "2027-10-03"),
    "Africa/Cairo": ("2027-04-30", "2027-10-29"),
    "Asia/Kathmandu": ("2027-03-28", "2027-10-31"),  # nothing changes there
}
EXPRESSIONS = (
    "30 2 * * *",
    "0 0 * * *",
    "15 0,1,2,3 * * *",
    "*/15 * * * *",
    "*/20 0-3 * * *",
    "0 */2 * * *",
    "45 1 * * SUN",
    "5 2 1,15 * FRI",
    "59 23 * * MON-FRI",
)


def due(expression: str, zone: str, begin: datetime, end: datetime) -> list[datetime]:
    after_ms = int(begin.timestamp() * 1000) - 1
    found = crontab.occurrences(crontab.expression(expression), zone_of(zone), after_ms)
    last_ms = int(end.timestamp() * 1000)
    return [datetime.fromtimestamp(at / 1000, UTC) for at in takewhile(lambda at: at <= last_ms, found)]


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_around_both_changes_of_2027_the_clock_on_the_wall_decides(expression: str, zone: str) -> None:
    for day in CHANGES_2027[zone]:
        begin = datetime.fromisoformat(day).replace(tzinfo=UTC) - timedelta(days=2)
        end = begin + timedelta(days=4)
        assert due(expression, zone, begin, end) == oracle.due(expression, zone, begin, end)


_numbers = {"minute": (0, 59), "hour": (0, 23), "day": (1, 31), "month": (1, 12), "weekday": (0, 7)}


@st.composite
def fields(draw: st.DrawFn, name: str) -> str:
    low, high = _numbers[name]
    number = st.integers(low, high)
    kind = draw(st.sampled_from(("star", "star", "one", "list", "range", "step")))
    if kind == "star":
        return "*"
    if kind == "step":
        return f"*/{draw(st.integers(1, high))}"
    if kind == "range":
        begin, end = sorted((draw(number), draw(number)))
        return f"{begin}-{end}" + (f"/{draw(st.integers(1, 7))}" if draw(st.booleans()) else "")
    if kind == "list":
        return ",".join(str(draw(number)) for _ in range(3))
    return str(draw(number))


@settings(max_examples=30, deadline=None)
@given(
    st.tuples(fields("minute"), fields("hour"), fields("day"), fields("month"), fields("weekday")),
    st.sampled_from(ZONES),
    st.integers(0, 360),
)
def test_any_expression_is_due_as_a_slow_reader_finds_it(
    parts: tuple[str, str, str, str, str], zone: str, day: int
) -> None:
    expression = " ".join(parts)
    begin = datetime(2027, 1, 1, 12, tzinfo=UTC) + timedelta(days=day)
    end = begin + timedelta(days=4)
    try:
        crontab.expression(expression)
    except InvalidError:
        assert parts[2] != "*"  # such as the 31st of months that have none
        return
    assert due(expression, zone, begin, end) == oracle.due(expression, zone, begin, end)


@pytest.mark.parametrize(("range_", "one"), [("3-3/2", "3"), ("0-0/1", "0"), ("sun-SUN/1", "sun"), ("13-13/5", None)])
def test_a_range_of_one_with_a_step_is_that_one(range_: str, one: str | None) -> None:
    if one is None:
        assert crontab.expression(f"{range_} * * * *") == "13 * * * *"
    else:
        assert crontab.expression(f"0 0 * * {range_}") == f"0 0 * * {one}"


def test_a_time_in_the_gap_runs_once_right_after_it() -> None:
    found = crontab.occurrences("10,30,50 2 * * *", zone_of("Europe/Berlin"), _ms("2027-03-27T12:00"))
    assert _shown(found, 4) == [
        "2027-03-28T03:00:00+02:00",
        "2027-03-29T02:10:00+02:00",
        "2027-03-29T02:30:00+02:00",
        "2027-03-29T02:50:00+02:00",
    ]


def test_a_time_that_comes_twice_runs_the_first_time() -> None:
    found = crontab.occurrences("30 2 * * *", zone_of("Europe/Berlin"), _ms("2027-10-30T12:00"))
    assert _shown(found, 2) == ["2027-10-31T02:30:00+02:00", "2027-11-01T02:30:00+01:00"]


def test_an_interval_goes_on_through_both_passes_of_the_hour_that_comes_twice() -> None:
    found = crontab.occurrences("*/30 * * * *", zone_of("Europe/Berlin"), _ms("2027-10-31T01:30"))
    assert _shown(found, 5) == [
        "2027-10-31T02:00:00+02:00",
        "2027-10-31T02:30:00+02:00",
        "2027-10-31T02:00:00+01:00",
        "2027-10-31T02:30:00+01:00",
        "2027-10-31T03:00:00+01:00",
    ]


def test_either_day_is_enough_when_both_are_given_and_both_are_needed_with_a_star() -> None:
    berlin = zone_of("Europe/Berlin")
    either = _shown(crontab.occurrences("0 12 13 * FRI", berlin, _ms("2027-01-01T13:00")), 3)
    assert [day[:10] for day in either] == ["2027-01-08", "2027-01-13", "2027-01-15"]
    both = _shown(crontab.occurrences("0 12 */13 * FRI", berlin, _ms("2027-01-01T13:00")), 1)
    assert both[0][:10] == "2027-05-14"


@pytest.mark.parametrize(("nickname", "fields_"), crontab.NICKNAMES.items())
def test_nicknames_stand_for_their_fields(nickname: str, fields_: str) -> None:
    assert crontab.expression(f" {nickname.upper()} ") == fields_


@pytest.mark.parametrize(
    "wrong",
    (
        "",
        "* * * *",
        "* * * * * *",
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "* * * 13 *",
        "* * * * 8",
        "5-1 * * * *",
        "*/0 * * * *",
        "a * * * *",
        "* * * FOO *",
        "@reboot",
        "@every 5m",
        "0 0 30 2 *",
        "* * */20 * 1L",
        "1,,2 * * * *",
        "٣ * * * *",
        "* * * * " + "1," * 100 + "1",
    ),
)
def test_what_is_no_expression_is_refused_with_what_was_expected(wrong: str) -> None:
    with pytest.raises(InvalidError) as refused:
        crontab.expression(wrong)
    assert refused.value.code == "CRON_EXPRESSION" and "minute hour" in refused.value.hint


@pytest.mark.parametrize("wrong", ("", "Mars/Olympus", "../../etc/passwd", "/etc/passwd", "Europe", "a\0b"))
def test_what_is_no_zone_is_refused(wrong: str) -> None:
    with pytest.raises(InvalidError) as refused:
        zone_of(wrong)
    assert refused.value.code == "ZONE_UNKNOWN"


def test_without_a_database_of_zones_the_way_to_one_is_told_and_not_the_same_name_again() -> None:
    program = (
        "import sys; sys.modules['tzdata'] = None\n"
        "from daycare.base.zones import zone_of\n"
        "try: zone_of('Europe/Berlin')\n"
        "except Exception as error: print(error.code, error.message, error.hint, sep='; ')"
    )
    found = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONTZPATH": ""},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert found.startswith("ZONE_UNKNOWN; ")
    assert "no database of time zones" in found and found.rstrip().endswith("tzdata")


@pytest.mark.parametrize("wrong", ("", "tomorrow", "2027-13-01T00:00", "1969-01-01T00:00", "9999-01-01T00:00", "25:00"))
def test_what_is_no_time_is_refused(wrong: str) -> None:
    with pytest.raises(InvalidError) as refused:
        crontab.instant(wrong, zone_of("Europe/Berlin"))
    assert refused.value.code == "TIME_INVALID"


def test_a_single_time_is_the_zones_unless_it_names_an_offset() -> None:
    berlin = zone_of("Europe/Berlin")
    shown = [
        crontab.local(crontab.instant(text, berlin), berlin)
        for text in ("2027-07-01T09:00", "2027-07-01T09:00+00:00", "2027-03-28T02:30", "2027-10-31T02:30", "2027-07-01")
    ]
    assert shown == [
        "2027-07-01T09:00:00+02:00",
        "2027-07-01T11:00:00+02:00",
        "2027-03-28T03:00:00+02:00",
        "2027-10-31T02:30:00+02:00",
        "2027-07-01T00:00:00+02:00",
    ]


def test_nothing_is_due_after_the_last_year() -> None:
    assert list(crontab.occurrences("0 0 1 1 *", zone_of("UTC"), _ms("2199-06-01T00:00"))) == [
        _ms("2200-01-01T00:00", "UTC")
    ]


def _ms(text: str, zone: str = "Europe/Berlin") -> int:
    return crontab.instant(text, zone_of(zone))


def _shown(found: object, count: int) -> list[str]:
    return [crontab.local(at, zone_of("Europe/Berlin")) for at in islice(found, count)]  # type: ignore[call-overload]
