"""Reservations, and what was spent, as the open transaction changes them: each change with its sums."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import apsw
import msgspec
from msgspec.structs import replace

from daycare.base.budget import Use, key_of
from daycare.features.budgets import rows_sums as sums
from daycare.features.budgets.records import Spent
from daycare.store.sqlite.sql import insert_into

_SUMS: Final = (
    *("calls", "unpriced", "input_tokens", "output_tokens", "cached_tokens", "cost_micros", "wall_ms"),
    *("unsettled", "unsettled_tokens", "unsettled_micros", "unsettled_ms"),
)
_MODEL_SUMS: Final = (
    *("calls", "unpriced", "input_tokens", "output_tokens", "cached_tokens", "cost_micros", "wall_ms"),
    *("unsettled", "unsettled_micros"),
)
_SPENT: Final = ("key", "path", "payer", "user", "provider", "model", *_SUMS)
_ADDING: Final = f"ON CONFLICT DO UPDATE SET {', '.join(f'{name} = {name} + excluded.{name}' for name in _SUMS)}"
_TO_MODEL: Final = (
    f"{insert_into('model_sums', ('key', 'provider', 'model', *_MODEL_SUMS))} ON CONFLICT DO UPDATE SET"
    f" {', '.join(f'{name} = {name} + excluded.{name}' for name in _MODEL_SUMS)}"
)
_DAY_CHARS: Final = 10  # of a key; that of a month has less
SPENT: Final = ", ".join(_SPENT)
RESERVATION: Final = "no, day, path, payer, user, provider, model, tokens, cost_micros, wall_ms"
KEYS: Final = (  # the days and months there are: one look for each
    "WITH RECURSIVE keys (key) AS (SELECT min(key) FROM spending UNION ALL"
    " SELECT (SELECT min(s.key) FROM spending s WHERE s.key > keys.key) FROM keys WHERE keys.key IS NOT NULL)"
)


def keys_of(day: str) -> tuple[str, str]:
    """Return what a call of a day counts for: the day and its month."""
    return key_of("day", day), key_of("month", day)


def strand(db: apsw.Connection, rows: Iterable[tuple[Any, ...]]) -> None:
    """Let reservations, rows of `RESERVATION`, count in full: whether their calls were answered nobody knows."""
    for row in rows:
        no, day, *of, tokens, micros, wall_ms = row
        spend(db, keys_of(day), (*of, 0, 0, 0, 0, 0, 0, 0, 1, tokens, micros, wall_ms), reserved=-most_of(row))
        db.execute("DELETE FROM reservations WHERE no = ?", (no,))


def strand_before(db: apsw.Connection, before_ms: int) -> None:
    """Let reservations made before a wall time count in full."""
    strand(db, db.execute(f"SELECT {RESERVATION} FROM reservations WHERE at < ?", (before_ms,)).fetchall())


def drop(db: apsw.Connection, row: tuple[Any, ...]) -> None:
    """Delete a reservation, a row of `RESERVATION`."""
    no, day, path, payer, *_ = row
    sums.add(db, keys_of(day), path, payer, reserved=-most_of(row))
    db.execute("DELETE FROM reservations WHERE no = ?", (no,))


def most_of(row: tuple[Any, ...]) -> Use:
    """Return what a row of `RESERVATION` holds."""
    *_, tokens, micros, wall_ms = row
    return Use(micros, tokens, 1, wall_ms)


def spend(db: apsw.Connection, keys: Sequence[str], values: tuple[Any, ...], *, reserved: Use = sums.NOTHING) -> None:
    """Add to what was spent in days and months: `values` are a row of `SPENT` behind its key.

    `reserved` changes with it what calls that run have reserved.
    """
    rows = [(key, *values) for key in keys]
    db.execute(f"{insert_into('spending', _SPENT, len(rows))} {_ADDING}", [value for row in rows for value in row])
    it = spent_of(rows[0])
    for key in keys:
        _count(db, replace(it, key=key), 1)
    sums.add(db, keys, it.path, it.payer, used=it.use, reserved=reserved)


def take(db: apsw.Connection, row: tuple[Any, ...]) -> None:
    """Delete a row of `SPENT` from what was spent."""
    db.execute(
        "DELETE FROM spending WHERE key = ? AND path = ? AND payer = ? AND provider = ? AND model = ?",
        (*row[:3], *row[4:6]),
    )
    it = spent_of(row)
    _count(db, it, -1)
    sums.add(db, (it.key,), it.path, it.payer, used=-it.use)


def _count(db: apsw.Connection, it: Spent, sign: int) -> None:
    """Add what was spent on a day to that of its model, or take it away."""
    if len(it.key) != _DAY_CHARS:
        return
    where = it.key, it.provider, it.model
    db.execute(_TO_MODEL, (*where, *(sign * getattr(it, name) for name in _MODEL_SUMS)))
    if sign < 0:
        db.execute(
            "DELETE FROM model_sums WHERE key = ? AND provider = ? AND model = ? AND calls = 0 AND unsettled = 0",
            where,
        )


def spent_of(row: tuple[Any, ...]) -> Spent:
    """Return the struct of a row of `SPENT`."""
    return msgspec.convert(dict(zip(_SPENT, row, strict=True)), Spent)
