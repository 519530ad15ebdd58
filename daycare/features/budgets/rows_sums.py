"""What was spent and reserved, summed for each path that a call counts for: what limits ask before each call.

The sums change in the transaction that changes `reservations` or `spending`, or whom a user is below. They are exactly
what could be counted in those tables.
"""

from collections.abc import Sequence
from typing import Any, Final

import apsw

from daycare.base.budget import EVERYTHING, Use
from daycare.base.path import Kind
from daycare.features.budgets.rows_scopes import parent_of
from daycare.store.sqlite.sql import insert_into, marks

# The parts of what counts for a path: by calls at or below it; by others for which somebody at or below it has asked;
# and, of a user, by the users below.
_WITHIN: Final = 0
_ASKED: Final = 1
_BELOW: Final = 2

_NAMES: Final = (
    *("cost_micros", "tokens", "calls", "wall_ms"),
    *("reserved_micros", "reserved_tokens", "reserved_calls", "reserved_ms"),
)
_COLUMNS: Final = ", ".join(_NAMES)
_ADDED: Final = ("key", "path", "part", *_NAMES)
_ADDING: Final = f"ON CONFLICT DO UPDATE SET {', '.join(f'{name} = {name} + excluded.{name}' for name in _NAMES)}"
_OVER: Final = (  # the users above one
    "WITH RECURSIVE over (id) AS (SELECT parent FROM users WHERE id = ?"
    " UNION SELECT u.parent FROM users u JOIN over o ON u.id = o.id)"
)
_ROW_WITHIN: Final = f"(?, {_WITHIN})"
_ROW_ASKED: Final = f"(?, {_ASKED})"
_ABOVE: Final = f"SELECT '/' || id, {_BELOW} FROM over WHERE id IS NOT NULL"
_IS_ZERO: Final = " AND ".join(f"{name} = 0" for name in _NAMES)
_OF_USER: Final = (  # one look for each day and month there is
    "WITH RECURSIVE keys (key) AS (SELECT min(key) FROM budget_sums UNION ALL"
    " SELECT (SELECT min(s.key) FROM budget_sums s WHERE s.key > keys.key) FROM keys WHERE keys.key IS NOT NULL)"
    f" SELECT s.key, {_COLUMNS} FROM keys JOIN budget_sums s ON s.key = keys.key AND s.path = ? AND s.part IN (?, ?)"
)
NOTHING: Final = Use()


def add(
    db: apsw.Connection, keys: Sequence[str], path: str, payer: str, *, used: Use = NOTHING, reserved: Use = NOTHING
) -> None:
    """Count what a call at a path took, or has reserved, in days and months; what is below zero is taken away.

    `payer` is the other path that it counts for, "" where there is none.
    """
    own, asked = _counted_at(path, payer)
    rows = [_ROW_WITHIN] * len(own) + [_ROW_ASKED] * len(asked)
    counted = f"{_OVER}, counted (path, part) AS (VALUES {', '.join(rows)} UNION ALL {_ABOVE})"
    where, amounts = [path[1:].partition("/")[0], *own, *asked], _amounts(used, reserved)
    db.execute(
        f"INSERT INTO budget_sums ({', '.join(_ADDED)}) {counted}, keys (key) AS (VALUES {marks(keys, '(?)')})"
        f" SELECT key, path, part, {marks(_NAMES)} FROM keys, counted WHERE true {_ADDING}",
        [*where, *keys, *amounts],
    )
    if min(amounts) < 0:
        db.execute(
            f"DELETE FROM budget_sums WHERE key IN ({marks(keys)})"
            f" AND (path, part) IN ({counted} SELECT path, part FROM counted) AND {_IS_ZERO}",
            [*keys, *where],
        )


def of(db: apsw.Connection, key: str, path: str) -> tuple[Use, Use]:
    """Return what was used of a day or a month at a path and all that counts for it, and what is reserved."""
    used = reserved = NOTHING
    for scope, part in _asked_at(db, path):
        row = db.execute(
            f"SELECT {_COLUMNS} FROM budget_sums WHERE key = ? AND path = ? AND part = ?",
            (key, scope, part),
        ).fetchone()
        if row is not None:
            more, held = _uses(row)
            used, reserved = used + more, reserved + held
    return used, reserved


def put_below(db: apsw.Connection, user: str, parent: str | None) -> None:
    """Let what a user and all below them have spent count for who is to be above them; call it before that changes."""
    was, will = _over(db, user), []
    if parent is not None:
        will = [parent, *_over(db, parent)]
    assert user not in will, "removing a user removes everything below it"
    if was == will:
        return
    for row in db.execute(_OF_USER, (f"/{user}", _WITHIN, _BELOW)).fetchall():
        key, (used, reserved) = str(row[0]), _uses(row[1:])
        _add(db, [(key, f"/{above}", _BELOW) for above in was], -used, -reserved)
        _add(db, [(key, f"/{above}", _BELOW) for above in will], used, reserved)


def _uses(row: tuple[Any, ...]) -> tuple[Use, Use]:
    """Return what the columns `_NAMES` say was used and is reserved."""
    return Use(*row[:4]), Use(*row[4:])


def _add(db: apsw.Connection, where: Sequence[tuple[str, str, int]], used: Use, reserved: Use) -> None:
    if not where:
        return
    amounts = _amounts(used, reserved)
    rows = [(*each, *amounts) for each in where]
    db.execute(f"{insert_into('budget_sums', _ADDED, len(rows))} {_ADDING}", [value for row in rows for value in row])
    if min(amounts) < 0:
        db.execute(
            f"DELETE FROM budget_sums WHERE (key, path, part) IN (VALUES {marks(where, '(?, ?, ?)')}) AND {_IS_ZERO}",
            [value for each in where for value in each],
        )


def _amounts(used: Use, reserved: Use) -> list[int]:
    """Return the values of the columns `_NAMES`."""
    return [amount for use in (used, reserved) for amount in (use.usd, use.tokens, use.calls, use.minutes)]


def _counted_at(path: str, payer: str) -> tuple[list[str], list[str]]:
    """Return where a call counts as one within, and where as one that was asked for; not the users above its own."""
    own = _above(path)
    # Who asks is of the same user as a rule, and of others nobody looks at it: not for `/` and `/ann`.
    return own, [scope for scope in _above(payer)[2:] if scope not in own] if payer else []


def _asked_at(db: apsw.Connection, path: str) -> list[tuple[str, int]]:
    """Return what has to be added up for a path.

    Of a user also what users below it spend, who are one with their address `/ann/subuser/bob`. Who asks for a task is
    of the same user, so what others spend for somebody is looked for only below a user.
    """
    if path == EVERYTHING:
        return [(path, _WITHIN)]
    user, *below = path[1:].split("/")
    found = [(path, _WITHIN)]
    if not below:
        parent = parent_of(db, user)
        address = [(f"/{parent}/{Kind.SUBUSER}/{user}", _WITHIN)] if parent else []
        return [*found, (path, _BELOW), *address]
    if below == [Kind.SUBUSER]:
        return [*found, (f"/{user}", _BELOW)]
    if below[0] == Kind.SUBUSER and len(below) == 2:
        child = f"/{below[1]}"
        return [*found, (child, _WITHIN), (child, _BELOW)] if parent_of(db, below[1]) == user else found
    return [*found, (path, _ASKED)]


def _above(path: str) -> list[str]:
    """Return everything, the user, and so on down to a path itself."""
    names = path[1:].split("/")
    return [EVERYTHING, *("/" + "/".join(names[:count]) for count in range(1, len(names) + 1))]


def _over(db: apsw.Connection, user: str) -> list[str]:
    """Return the users above one, the nearest first."""
    found: list[str] = []
    above = parent_of(db, user)
    while above and above not in (user, *found):
        found.append(above)
        above = parent_of(db, above)
    return found
