"""Budgets: how much may be used in a day and in a month, in which measures, and how people write and read that."""

import re
from collections.abc import Iterable, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Final, Literal, get_args
from zoneinfo import ZoneInfo

import msgspec

from daycare.base.errors import InvalidError
from daycare.base.path import Kind
from daycare.base.times import local_time

Period = Literal["day", "month"]
Measure = Literal["usd", "tokens", "calls", "minutes"]
PERIODS: Final[tuple[Period, ...]] = get_args(Period)
MEASURES: Final[tuple[Measure, ...]] = get_args(Measure)
# How many whole units of a stored number one of what people write is: millionths of a dollar, milliseconds.
UNITS: Final[Mapping[Measure, int]] = {"usd": 1_000_000, "tokens": 1, "calls": 1, "minutes": 60_000}
LIFTED: Final = -1  # a limit that was taken away, though a default has one
EVERYTHING: Final = "/"  # the scope of the whole installation

# What may stand between a user and a name: all agents of a kind together have a budget, too.
GROUPS: Final = (Kind.AGENT, Kind.CRON, Kind.TASK, Kind.SUBUSER, Kind.APP)

Limits = Mapping[str, int]  # by `limit_name`, in whole units or LIFTED

_WRITTEN: Final = re.compile(r"\$?\s*+(\d{1,12}(?:\.\d{1,6})?)\s*+([km]?)\s*+([a-z]*)", re.IGNORECASE)
_NAMES: Final[Mapping[str, Measure]] = {
    "usd": "usd",
    "dollar": "usd",
    "dollars": "usd",
    "token": "tokens",
    "tokens": "tokens",
    "call": "calls",
    "calls": "calls",
    "min": "minutes",
    "minute": "minutes",
    "minutes": "minutes",
}
_LIMIT: Final = re.compile(r"(.+?)(?<!\s)\s++(?:a|per)\s++(day|month)", re.IGNORECASE)
_SCALES: Final = {"": 1, "k": 1_000, "m": 1_000_000}
_SHOWN_MICROS: Final = 100  # less is not shown as a number
_MOST: Final = 10**15  # of whole units: a billion dollars


class Use(msgspec.Struct, frozen=True):
    """What calls of models took, or may take: in the whole units of `UNITS`."""

    usd: int = 0
    tokens: int = 0
    calls: int = 0
    minutes: int = 0

    def of(self, measure: Measure) -> int:
        """Return one measure of it."""
        amount: int = getattr(self, measure)
        return amount

    def __add__(self, other: "Use") -> "Use":
        return Use(
            self.usd + other.usd, self.tokens + other.tokens, self.calls + other.calls, self.minutes + other.minutes
        )

    def __neg__(self) -> "Use":
        return Use(-self.usd, -self.tokens, -self.calls, -self.minutes)


def agent_of(path: str) -> str:
    """Return the path of the agent that a helper, search or memory worker belongs to; of others their own."""
    segments = path.strip("/").split("/")
    own = 3 if len(segments) > 1 and segments[1] in GROUPS else 2
    return "/" + "/".join(segments[:own])


def limit_name(period: Period, measure: Measure) -> str:
    """Return the name of one limit, `day.usd`."""
    return f"{period}.{measure}"


def split_name(name: str) -> tuple[Period, Measure]:
    """Return the period and the measure of a limit's name. Raises `InvalidError` for one that there is not."""
    period, _, measure = name.partition(".")
    if period not in PERIODS or measure not in MEASURES:
        raise InvalidError("BUDGET_INVALID", f"use {name!r} as the name of a limit: expected such as day.usd")
    return period, measure


def read_amount(text: str) -> tuple[Measure, int]:
    """Read `5usd`, `$5`, `2.5 usd`, `200k tokens`, `100 calls` or `60min`. Raises `InvalidError` BUDGET_INVALID."""
    found = _WRITTEN.fullmatch(text.strip())
    scale, name = (found[2].lower(), found[3].lower()) if found else ("", "")
    if scale and scale + name in _NAMES:  # the m of `60min` is no million
        scale, name = "", scale + name
    measure = _NAMES.get(name) if name else "usd" if text.strip().startswith("$") else None
    if found is None or measure is None:
        raise InvalidError(
            "BUDGET_INVALID", f"read the amount {text[:40]!r}", hint="write it as 5usd, 200k tokens, 100calls or 60min"
        )
    amount = int(Decimal(found[1]) * _SCALES[scale] * UNITS[measure])
    if amount > _MOST:
        raise InvalidError("BUDGET_INVALID", f"read the amount {text[:40]!r}: it is beyond every bill")
    return measure, amount


def read_limits(texts: Iterable[str]) -> dict[str, int]:
    """Read limits such as `2usd a day` or `100k tokens a month`, by their names. Raises `InvalidError`."""
    found = {}
    for text in texts:
        words = _LIMIT.fullmatch(text.strip())
        if words is None:
            raise InvalidError("BUDGET_INVALID", f"read the limit {text[:40]!r}", hint="write it as 2usd a day")
        measure, amount = read_amount(words[1])
        found[f"{words[2].lower()}.{measure}"] = amount
    return found


def shown_amount(measure: Measure, amount: int) -> str:
    """Return an amount in whole units as people read it: `$2.00`, `1,500 tokens`."""
    if measure == "usd":
        if 0 < amount < _SHOWN_MICROS:
            return "under $0.0001"
        micros = amount % 10_000
        return f"${amount / 1_000_000:,.{4 if micros and amount < 1_000_000 else 2}f}"
    number = amount / UNITS[measure]
    return f"{number:,.{0 if number == int(number) else 1}f} {measure[:-1] if number == 1 else measure}"


def as_written(measure: Measure, amount: int) -> str:
    """Return an amount as `read_amount` reads it, `2usd`."""
    number = (Decimal(amount) / UNITS[measure]).normalize()
    return f"{number:f}{'min' if measure == 'minutes' else measure}"


# -- days and months ---------------------------------------------------------------------------------------------------


def zone_of(name: str) -> ZoneInfo:
    """Return a time zone, UTC for one that this machine does not know: nothing stored may fail for it."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return ZoneInfo("UTC")


def day_of(now_ms: int, zone: str) -> str:
    """Return the day of the calendar in a zone, `2026-11-21`."""
    return local_time(now_ms, zone_of(zone)).date().isoformat()


def key_of(period: Period, day: str) -> str:
    """Return what a day counts for: itself, or its month `2026-11`."""
    return day if period == "day" else day[:7]


def ends_ms(period: Period, day: str, zone: str) -> int:
    """Return the wall time in ms at which the period of a day ends in a zone."""
    today = date.fromisoformat(day)
    following = (
        today + timedelta(days=1) if period == "day" else (today.replace(day=1) + timedelta(days=32)).replace(day=1)
    )
    return int(datetime(following.year, following.month, following.day, tzinfo=zone_of(zone)).timestamp() * 1000)
