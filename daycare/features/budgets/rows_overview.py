"""What was spent in a day, summed by the store: there may be very many agents, and people look at a hundred days."""

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

import apsw

from daycare.features.budgets.rows_scopes import parts_of
from daycare.store.sqlite.sql import fetch

By = Literal["model", "agent", "payer"]
_KEYS: Final[Mapping[By, str]] = {
    "model": "provider || '/' || model",
    "agent": "path",
    "payer": "CASE payer WHEN '' THEN path ELSE payer END",
}
_SUMS: Final = (
    "sum(calls), sum(unpriced), sum(input_tokens), sum(output_tokens), sum(cached_tokens), sum(wall_ms),"
    " sum(unsettled), sum(cost_micros + unsettled_micros)"
)


class DaySums(NamedTuple):
    """Rows of a name and its sums in the order of `SpendSum`, and models without a known price."""

    rows: list[tuple[str, *tuple[int, ...]]]
    unpriced: list[str]


def sums_of_day(db: apsw.Connection, day: str, by: By, path: str) -> DaySums:
    """Return what was spent in a day at or below a path, by model, or by whole paths."""
    found = DaySums([], [])
    key = _KEYS[by]
    for root, which in parts_of(db, path):
        bound = root, day
        found.rows.extend(
            fetch(db, f"SELECT {key}, {_SUMS} FROM spending WHERE key = ?2 AND {which} GROUP BY 1", bound)
        )
        models = fetch(
            db,
            f"SELECT DISTINCT provider || '/' || model FROM spending WHERE key = ?2 AND {which} AND unpriced > 0",
            bound,
        )
        found.unpriced.extend(str(name) for (name,) in models)
    return found
