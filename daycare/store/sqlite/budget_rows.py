"""Rows of budgets as the open transaction changes them: reservations, and what was spent, each with its sums."""

from collections.abc import Sequence
from typing import Any, Final

import apsw
import msgspec

from daycare.base.budget import Use, key_of
from daycare.store.records_budgets import Spent
from daycare.store.sqlite import budget_sums
from daycare.store.sqlite.sql import insert_into

SUMS: Final = (
    "calls, unpriced, input_tokens, output_tokens, cached_tokens, cost_micros, wall_ms,"
    " unsettled, unsettled_tokens, unsettled_micros, unsettled_ms"
)
SPENT: Final = f"key, path, payer, user, provider, model, {SUMS}"
_SPENT: Final = SPENT.split(", ")
RESERVATION: Final = "no, day, path, payer, user, provider, model, tokens, cost_micros, wall_ms"


def strand_before(db: apsw.Connection, before_ms: int) -> int:
    """Let reservations made before a wall time count in full; return how many."""
    rows = db.execute(f"SELECT {RESERVATION} FROM reservations WHERE at < ?", (before_ms,)).fetchall()
    strand(db, rows)
    return len(rows)


def strand(db: apsw.Connection, rows: Sequence[tuple[Any, ...]]) -> None:
    """Let reservations, rows of `RESERVATION`, count in full: whether their calls were answered nobody knows."""
    for row in rows:
        _, day, path, payer, user, provider, model, tokens, micros, wall_ms = row
        for key in (key_of("day", day), key_of("month", day)):
            merge(db, (key, path, payer, user, provider, model, 0, 0, 0, 0, 0, 0, 0, 1, tokens, micros, wall_ms))
        drop(db, row)


def drop(db: apsw.Connection, row: tuple[Any, ...]) -> None:
    """Delete a reservation, a row of `RESERVATION`."""
    no, day, path, payer, *_ = row
    keys = key_of("day", day), key_of("month", day)
    budget_sums.add(db, keys, path, payer, reserved=-most_of(row))
    db.execute("DELETE FROM reservations WHERE no = ?", (no,))


def most_of(row: tuple[Any, ...]) -> Use:
    """Return what a row of `RESERVATION` holds."""
    *_, tokens, micros, wall_ms = row
    return Use(micros, tokens, 1, wall_ms)


def merge(db: apsw.Connection, row: Sequence[Any]) -> None:
    """Add a row of `SPENT` to what was spent."""
    adding = ", ".join(f"{name} = {name} + excluded.{name}" for name in SUMS.split(", "))
    db.execute(f"{insert_into('spending', _SPENT)} ON CONFLICT DO UPDATE SET {adding}", tuple(row))
    spent = spent_of(tuple(row))
    budget_sums.add(db, (spent.key,), spent.path, spent.payer, used=spent.use)


def take(db: apsw.Connection, row: tuple[Any, ...]) -> None:
    """Delete a row of `SPENT` from what was spent."""
    db.execute(
        "DELETE FROM spending WHERE key = ? AND path = ? AND payer = ? AND provider = ? AND model = ?",
        (*row[:3], *row[4:6]),
    )
    spent = spent_of(row)
    budget_sums.add(db, (spent.key,), spent.path, spent.payer, used=-spent.use)


def spent_of(row: tuple[Any, ...]) -> Spent:
    """Return the struct of a row of `SPENT`."""
    return msgspec.convert(dict(zip(_SPENT, row, strict=True)), Spent)
