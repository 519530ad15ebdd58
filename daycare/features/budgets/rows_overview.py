"""What was spent day by day, summed by the store: there may be very many agents, and people look at a hundred days."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal, NamedTuple

import apsw
import msgspec

from daycare.base.budget import agent_of
from daycare.features.budgets.rows_scopes import parts_of
from daycare.store.sqlite.sql import fetch

By = Literal["model", "agent", "payer"]
OTHERS: Final = ""  # the group of all that are not among the first
_KEYS: Final[Mapping[By, str]] = {
    "model": "provider || '/' || model",
    "agent": "path",
    "payer": "CASE payer WHEN '' THEN path ELSE payer END",
}
_DAYS: Final = "key BETWEEN ?2 AND ?3 AND length(key) = length(?2)"
_SUMS: Final = (
    "sum(calls), sum(unpriced), sum(input_tokens), sum(output_tokens), sum(cached_tokens), sum(wall_ms),"
    " sum(unsettled), sum(cost_micros + unsettled_micros)"
)


class DaySum(NamedTuple):
    """What a group took in a day: `numbers` in the order of `SpendSum`."""

    day: str
    group: str
    numbers: tuple[int, ...]


class Summed(NamedTuple):
    """The dearest groups, the dearest first, their sums by day, those of all others as one; and unpriced models."""

    groups: list[str]
    sums: list[DaySum]
    unpriced: set[str]


def summed(db: apsw.Connection, first: str, last: str, by: By, path: str, groups: int) -> Summed:
    """Return what was spent at or below a path from one day to another. It looks at every row of that time.

    Which groups are shown is asked first, so that the rows of all others are added up where they are.
    """
    key, parts = _KEYS[by], parts_of(db, path)
    names: dict[str, list[str]] = defaultdict(list)
    weights: Counter[tuple[str, str]] = Counter()
    for name, cost, tokens in _each(
        db, parts, f"{key}, sum(cost_micros + unsettled_micros), sum(input_tokens + output_tokens)", first, last
    ):
        group = str(name) if by == "model" else agent_of(str(name))
        names[group].append(str(name))
        weights[group, "cost"] += int(str(cost))
        weights[group, "tokens"] += int(str(tokens))
    order = sorted(names, key=lambda it: (weights[it, "cost"], weights[it, "tokens"], it), reverse=True)
    kept = order[:groups]
    shown = {name: group for group in kept for name in names[group]}
    sums: dict[tuple[str, str], tuple[int, ...]] = {}
    few = f"{key} IN (SELECT value FROM json_each(?4))"
    rows = _each(
        db, parts, f"{key}, key, {_SUMS}", first, last, msgspec.json.encode([*shown]).decode(), where=few, by="1, 2"
    )
    for name, day, *numbers in rows:
        _add(sums, (str(day), shown[str(name)]), numbers)
    rest: dict[tuple[str, str], tuple[int, ...]] = {}
    for day, *numbers in _each(db, parts, f"key, {_SUMS}", first, last):
        _add(rest, (str(day), OTHERS), numbers)
    for (day, _), taken in sums.items():
        _add(rest, (day, OTHERS), [-number for number in taken])
    if len(order) > groups:
        sums |= {at: numbers for at, numbers in rest.items() if any(numbers)}
    places = {name: place for place, name in enumerate(kept)}
    days = sorted(sums, key=lambda at: (at[0], places.get(at[1], len(kept))))
    models = _each(db, parts, _KEYS["model"], first, last, where="unpriced > 0")
    return Summed(kept, [DaySum(*at, sums[at]) for at in days], {str(model) for (model,) in models})


def _add(sums: dict[tuple[str, str], tuple[int, ...]], at: tuple[str, str], numbers: Iterable[object]) -> None:
    more = tuple(int(str(number)) for number in numbers)
    sums[at] = tuple(map(sum, zip(sums[at], more, strict=True))) if at in sums else more


def _each(
    db: apsw.Connection,
    parts: tuple[tuple[str, str], ...],
    what: str,
    first: str,
    last: str,
    *more: str,
    where: str = "1",
    by: str = "1",
) -> Iterator[tuple[object, ...]]:
    for root, which in parts:
        yield from fetch(
            db,
            f"SELECT {what} FROM spending WHERE {_DAYS} AND {which} AND {where} GROUP BY {by}",
            (root, first, last, *more),
        )
