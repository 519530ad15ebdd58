"""What was spent, day by day, summed by what people ask for: models, agents, or who asked for it; and as a table."""

import csv
import io
from collections.abc import Callable, Iterable
from datetime import date, timedelta
from typing import Final

import msgspec
from msgspec.structs import replace

from daycare.base.budget import EVERYTHING, ends_ms
from daycare.features.budgets.controls import BudgetControls
from daycare.features.budgets.records import Spent
from daycare.features.budgets.rows_overview import OTHERS, By

OVERVIEW_GROUPS_MAX: Final = 50  # models, agents or payers by name; all others are one

_SUMMED: Final = (
    *("calls", "unpriced", "input_tokens", "output_tokens", "cached_tokens", "wall_ms", "unsettled", "cost_micros"),
)
_FORMULAS: Final = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")  # what begins one in a spreadsheet, wide signs, too
_COLUMNS: Final = (
    *("day", "path", "user", "payer", "provider", "model", "calls", "unpriced", "input_tokens", "output_tokens"),
    *("cached_tokens", "cost_usd", "wall_ms", "unsettled", "unsettled_usd"),
)


class SpendSum(msgspec.Struct, frozen=True, kw_only=True):
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
    found = await controls.summed(first, last, by, path, groups)
    sums = tuple(
        SpendSum(day=day, group=group, **dict(zip(_SUMMED, numbers, strict=True))) for day, group, numbers in found.sums
    )
    has_others = any(each.group == OTHERS for each in sums)
    turns = None
    if path == EVERYTHING:
        turns = await controls.turns(ends_ms("day", _back(first, 1), zone), ends_ms("day", last, zone))
    return SpendOverview(
        today=today,
        first=first,
        last=last,
        by=by,
        groups=(*found.groups, *([OTHERS] if has_others else [])),
        sums=sums,
        turns=turns,
        unpriced=tuple(sorted(found.unpriced)),
    )


def without_names(found: SpendOverview, seen: Callable[[str], bool]) -> SpendOverview:
    """Return it with groups that somebody may not see among all others."""
    names = {group: group if seen(group) else OTHERS for group in found.groups}
    sums: dict[tuple[str, str], SpendSum] = {}
    for each in found.sums:
        at = each.day, names[each.group]
        before = sums.get(at, SpendSum(day=each.day, group=at[1]))
        more = {name: getattr(before, name) + getattr(each, name) for name in _SUMMED}
        sums[at] = replace(before, **more)
    kept = tuple(group for group in found.groups if names[group])
    others = (OTHERS,) if OTHERS in names.values() else ()
    return replace(found, groups=(*kept, *others), sums=tuple(sums.values()))


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


def _harmless(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULAS) else value


def _usd(micros: int) -> str:
    return f"{micros / 1_000_000:.6f}"


def _back(day: str, days: int) -> str:
    return (date.fromisoformat(day) - timedelta(days=days)).isoformat()
