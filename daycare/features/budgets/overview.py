"""What was spent, day by day, summed by what people ask for: models, agents, or who asked for it; and as a table."""

import csv
import io
from collections import defaultdict
from collections.abc import Iterable
from datetime import date, timedelta
from typing import Final

import msgspec
import trio

from daycare.base.budget import EVERYTHING, agent_of, ends_ms
from daycare.features.budgets.controls import BudgetControls
from daycare.features.budgets.records import Spent
from daycare.features.budgets.rows_overview import By

OVERVIEW_GROUPS_MAX: Final = 50  # models, agents or payers by name; all others are one
OTHERS: Final = ""  # the group of all that are not among the first

_SUMMED: Final = (
    *("calls", "unpriced", "input_tokens", "output_tokens", "cached_tokens", "wall_ms", "unsettled", "cost_micros"),
)
_FORMULAS: Final = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")  # what begins one in a spreadsheet, wide signs, too
_COLUMNS: Final = (
    *("day", "path", "user", "payer", "provider", "model", "calls", "unpriced", "input_tokens", "output_tokens"),
    *("cached_tokens", "cost_usd", "wall_ms", "unsettled", "unsettled_usd"),
)


class SpendSum(msgspec.Struct, kw_only=True):
    """What a group took in a day. Its cost includes calls that were cut off, as they were reserved (`unsettled`)."""

    day: str
    group: str
    calls: int = 0
    unpriced: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    wall_ms: int = 0
    unsettled: int = 0
    cost_micros: int = 0

    def add(self, numbers: Iterable[int]) -> None:
        """Add what one path has spent, or one model took, in the order of the fields."""
        for name, number in zip(_SUMMED, numbers, strict=True):
            setattr(self, name, getattr(self, name) + number)


class SpendOverview(msgspec.Struct, frozen=True, kw_only=True):
    """What was spent from the day `first` to `last`. Groups are in the order of what they cost, those of `others` last.

    `turns` is how many began in that time, None where the first of them are not kept any more. `unpriced` are models
    without a known price, whose calls cost 0 here.
    """

    today: str
    first: str
    last: str
    by: By
    groups: tuple[str, ...]
    sums: tuple[SpendSum, ...]
    turns: int | None
    unpriced: tuple[str, ...]


async def overview(
    controls: BudgetControls, by: By, days: int, *, path: str = EVERYTHING, until: str = "", groups: int
) -> SpendOverview:
    """Return what was spent at or below a path in so many days up to one, today without it."""
    today, zone = await controls.today(path), await controls.zone(path)
    last = until or today
    first = _back(last, days - 1)
    found: dict[tuple[str, str], SpendSum] = {}
    unpriced: set[str] = set()
    for back in range(days):
        day = _back(last, back)
        it = await controls.of_day(day, by, path)
        for name, *numbers in it.rows:
            group = name if by == "model" else agent_of(name)
            found.setdefault((day, group), SpendSum(day=day, group=group)).add(numbers)
        unpriced.update(it.unpriced)
        await trio.lowlevel.checkpoint()  # others have a turn: there may be very many
    names, sums = _first(found.values(), groups)
    turns = None
    if path == EVERYTHING:
        turns = await controls.turns(ends_ms("day", _back(first, 1), zone), ends_ms("day", last, zone))
    return SpendOverview(
        today=today,
        first=first,
        last=last,
        by=by,
        groups=names,
        sums=sums,
        turns=turns,
        unpriced=tuple(sorted(unpriced)),
    )


def csv_of(rows: Iterable[Spent]) -> str:
    """Return what was spent as a table by RFC 4180, with a head. No cell is a formula to a spreadsheet."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\r\n")
    table.writerow(_COLUMNS)
    for row in rows:
        values: dict[str, object] = msgspec.structs.asdict(row)
        values |= {"day": row.key, "cost_usd": _usd(row.cost_micros), "unsettled_usd": _usd(row.unsettled_micros)}
        table.writerow([_harmless(values[name]) for name in _COLUMNS])
    return text.getvalue()


def _first(sums: Iterable[SpendSum], most: int) -> tuple[tuple[str, ...], tuple[SpendSum, ...]]:
    """Return the names of the dearest groups, and all sums by day with those of all others as one."""
    sums = list(sums)
    weights: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for each in sums:
        cost, tokens = weights[each.group]
        weights[each.group] = cost + each.cost_micros, tokens + each.input_tokens + each.output_tokens
    names = sorted(weights, key=lambda name: (weights[name], name), reverse=True)
    kept = names if len(names) <= most else names[:most]
    rest: dict[str, SpendSum] = {}
    for each in sums:
        if each.group not in kept:
            into = rest.setdefault(each.day, SpendSum(day=each.day, group=OTHERS))
            into.add(getattr(each, name) for name in _SUMMED)
    shown = [each for each in sums if each.group in kept] + list(rest.values())
    order = {name: place for place, name in enumerate(kept)}
    shown.sort(key=lambda each: (each.day, order.get(each.group, most)))
    return (*kept, *([OTHERS] if rest else [])), tuple(shown)


def _harmless(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULAS) else value


def _usd(micros: int) -> str:
    return f"{micros / 1_000_000:.6f}"


def _back(day: str, days: int) -> str:
    return (date.fromisoformat(day) - timedelta(days=days)).isoformat()
