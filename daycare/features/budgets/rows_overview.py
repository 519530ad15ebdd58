"""What was spent day by day, summed by the store: there may be very many agents, and people look at a hundred days."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

import apsw
import msgspec

from daycare.base.budget import EVERYTHING, agent_of
from daycare.features.budgets.rows_scopes import parts_of
from daycare.store.sqlite.sql import fetch

By = Literal["model", "agent", "payer"]
OTHERS: Final = ""  # the group of all that are not among the first
_KEYS: Final[Mapping[By, str]] = {
    "model": "provider || '/' || model",
    "agent": "path",
    "payer": "CASE payer WHEN '' THEN path ELSE payer END",
}
_DAYS: Final = (  # those that something was spent on, one look for each: rows of a path are found day by day
    "WITH RECURSIVE days (key) AS (SELECT min(key) FROM spending WHERE key >= ?2 UNION ALL SELECT (SELECT min(s.key)"
    " FROM spending s WHERE s.key > days.key) FROM days WHERE days.key < ?3)"
)
_OF_PATHS: Final = "days CROSS JOIN spending USING (key)"
_OF_ALL: Final = "model_sums"
_ANY: Final = "TRUE"
_NAMES: Final = 2  # slashes of the shortest path of an agent, which is its own group
_WITHIN_DAYS: Final = "key BETWEEN ?2 AND ?3 AND length(key) = length(?2)"
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
    """Return what was spent at or below a path from one day to another.

    Of all paths, what models took is summed already; else it looks at every row of that time and path. Which groups are
    shown is asked first, so that the rows of all others are added up where they are.
    """
    key = _KEYS[by]
    parts = [(_OF_PATHS, *part) for part in parts_of(db, path)]
    whole = [(_OF_ALL, "", _ANY)] if path == EVERYTHING else parts
    each = whole if by == "model" else [(_OF_PATHS, "", _ANY)] if path == EVERYTHING else parts
    names: dict[str, list[str]] = defaultdict(list)
    weights: dict[str, tuple[int, int]] = {}
    for name, cost, tokens in _each(
        db, each, f"{key}, sum(cost_micros + unsettled_micros), sum(input_tokens + output_tokens)", first, last
    ):
        group = name if by == "model" or name.count("/") == _NAMES else agent_of(name)
        names[group].append(name)
        before = weights.get(group, (0, 0))
        weights[group] = before[0] + cost, before[1] + tokens
    order = sorted(names, key=lambda it: (weights[it], it), reverse=True)
    kept = order[:groups]
    shown = {name: group for group in kept for name in names[group]}
    sums: dict[tuple[str, str], tuple[int, ...]] = {}
    few = f"{key} IN (SELECT value FROM json_each(?4))"
    rows = _each(
        db, each, f"{key}, key, {_SUMS}", first, last, msgspec.json.encode([*shown]).decode(), where=few, by="1, 2"
    )
    for name, day, *numbers in rows:
        _add(sums, (day, shown[name]), numbers)
    rest: dict[tuple[str, str], tuple[int, ...]] = {}
    for day, *numbers in _each(db, whole, f"key, {_SUMS}", first, last):
        _add(rest, (day, OTHERS), numbers)
    for (day, _), taken in sums.items():
        _add(rest, (day, OTHERS), [-number for number in taken])
    if len(order) > groups:
        sums |= {at: numbers for at, numbers in rest.items() if any(numbers)}
    places = {name: place for place, name in enumerate(kept)}
    days = sorted(sums, key=lambda at: (at[0], places.get(at[1], len(kept))))
    models = _each(db, whole, _KEYS["model"], first, last, where="unpriced > 0")
    return Summed(kept, [DaySum(*at, sums[at]) for at in days], {model for (model,) in models})


def _add(sums: dict[tuple[str, str], tuple[int, ...]], at: tuple[str, str], numbers: Iterable[int]) -> None:
    more = tuple(numbers)
    sums[at] = tuple(map(sum, zip(sums[at], more, strict=True))) if at in sums else more


def _each(
    db: apsw.Connection,
    parts: Sequence[tuple[str, str, str]],
    what: str,
    first: str,
    last: str,
    *more: str,
    where: str = "TRUE",
    by: str = "1",
) -> Iterator[tuple[Any, ...]]:
    """Yield what is asked of parts: each is where it is summed, a path, and which rows count for that."""
    for table, root, which in parts:
        yield from fetch(
            db,
            f"{_DAYS} SELECT {what} FROM {table} WHERE {_WITHIN_DAYS} AND {which} AND {where} GROUP BY {by}",
            (root, first, last, *more),
        )
