"""What budgets do in the transactions of the core: sums follow people, and what is old, or a purged person's, goes."""

from collections.abc import Mapping
from typing import Final

import apsw
import msgspec

from daycare.base.bounded import Bounded
from daycare.base.budget import LIFTED, agent_of, day_of, ends_ms
from daycare.base.limits import BUDGET_STRAND_S, LIVING_CACHE_MAX_PATHS
from daycare.base.path import Kind
from daycare.features.budgets import rows_sums as sums
from daycare.features.budgets.records import BudgetNews
from daycare.features.budgets.rows_scopes import WITHIN, parent_of
from daycare.features.budgets.rows_spending import (
    KEYS,
    RESERVATION,
    SPENT,
    drop,
    spend,
    strand,
    strand_before,
    take,
)
from daycare.store.records import Commit
from daycare.store.sqlite.database import count
from daycare.store.sqlite.facts import Heed, PersonPurged, RowsExpired, UserLeft, UserPlaced, UsersTaken
from daycare.store.sqlite.ports import BudgetPort
from daycare.store.sqlite.rows import PURGED_PATH
from daycare.store.sqlite.sql import fetch
from daycare.store.sqlite.writer import Tx

BUDGET_DAYS_KEPT: Final = 400  # of sums by day: a year and what it is compared with
BUDGET_HELPER_DAYS_KEPT: Final = 62  # before the sums of helpers become their agent's: this month and the last
BUDGET_MONTHS_KEPT: Final = 120

_DAY_MS: Final = 86_400_000
_DAY_KNOWN_MS: Final = 60_000
_FOLD_ROWS: Final = 500  # in one transaction
_THEIRS: Final = (
    f"user IN (SELECT id FROM purged_users) OR {PURGED_PATH.format('path')} OR {PURGED_PATH.format('payer')}"
)
_encode = msgspec.json.Encoder().encode
_decode_limits = msgspec.json.Decoder(dict[str, int]).decode


class BudgetFollower(BudgetPort):
    """Budgets, as the transactions of others need them."""

    def __init__(self) -> None:
        self._days: Bounded[str, tuple[str, int]] = Bounded(LIVING_CACHE_MAX_PATHS)  # by user, and until when it holds

    def recover(self, db: apsw.Connection) -> None:
        """Strand what an earlier owner of this file reserved: its calls died with it."""
        if count(db, "SELECT count(*) FROM reservations"):
            db.execute("BEGIN IMMEDIATE")
            strand_before(db, 2**62)
            db.execute("COMMIT")

    def distrust(self, heard: Commit | None) -> None:
        """Forget the days where zones may be others."""
        if heard is None or heard.people:
            self._days.clear()

    def heeds(self) -> Mapping[type, Heed]:
        """Follow people, and what expires."""
        return {UserPlaced: _placed, UserLeft: _left, UsersTaken: _taken, RowsExpired: _expire, PersonPurged: _purge}

    def day_of(self, tx: Tx, user: str) -> str:
        """Return the day it is for a user: from memory for a minute, as the clock may be set and a zone changed."""
        known = self._days.get(user)
        if known is not None and 0 <= known[1] - tx.now <= _DAY_KNOWN_MS:
            return known[0]
        row = tx.one("SELECT zone FROM users WHERE id = ?", (user,))
        zone = str(row[0]) if row else "UTC"
        day = day_of(tx.now, zone)
        self._days[user] = day, min(tx.now + _DAY_KNOWN_MS, ends_ms("day", day, zone) - 1)
        return day

    def limits(self, db: apsw.Connection, path: str) -> dict[str, int]:
        """Return what was set for a path, without limits that only lift a default."""
        row = db.execute("SELECT limits FROM budgets WHERE path = ?", (path,)).fetchone()
        known = {} if row is None else _decode_limits(str(row[0]))
        return {name: limit for name, limit in known.items() if limit != LIFTED}

    def narrow(self, tx: Tx, path: str, limits: Mapping[str, int]) -> None:
        """Let a path use no more than this, nor more than what was set for it before."""
        if not limits:
            return
        row = tx.one("SELECT limits FROM budgets WHERE path = ?", (path,))
        known = _decode_limits(str(row[0])) if row is not None else {}
        least = {name: min(limit, known[name]) if known.get(name, LIFTED) != LIFTED else limit
                 for name, limit in limits.items()}  # fmt: skip
        tx.run(
            "INSERT INTO budgets (path, limits, raises, set_by, updated_at) VALUES (?, ?, '{}', '', ?) ON CONFLICT"
            " (path) DO UPDATE SET limits = excluded.limits, raises = '{}', updated_at = excluded.updated_at",
            (path, _encode(known | least).decode(), tx.now),
        )
        tx.commit.add(BudgetNews).limits = True


def _placed(tx: Tx, it: UserPlaced) -> None:
    sums.put_below(tx.db, it.user, it.parent)


def _taken(tx: Tx, it: UsersTaken) -> None:
    """Strand what was reserved on a node that has gone: its calls ended with it."""
    rows = fetch(tx.db, f"SELECT {RESERVATION} FROM reservations")
    strand(tx.db, [row for row in rows if it.owns(str(row[4]))])


def _left(tx: Tx, it: UserLeft) -> None:
    """Let what a user's running calls reserved count in full, and forget what was set for them.

    What was spent stays: who is let in again on the same day has not more than a day's budget.
    """
    strand(tx.db, fetch(tx.db, f"SELECT {RESERVATION} FROM reservations WHERE user = ?", (it.user,)))
    parent = parent_of(tx.db, it.user)
    for root in (f"/{it.user}", *([f"/{parent}/{Kind.SUBUSER}/{it.user}"] if parent else [])):
        tx.run(f"DELETE FROM budgets WHERE {WITHIN}", (root,))
    tx.commit.add(BudgetNews).limits = True


def _expire(tx: Tx, it: RowsExpired) -> None:
    """Delete or fold a bounded number of old sums.

    What helpers spent becomes their agent's after a while, as their paths are without end. Reservations are stranded
    that are older than any turn: who made them has forgotten them.
    """
    now_ms = it.now_ms
    tx.run("UPDATE reservations SET at = ?1 WHERE at > ?1", (now_ms,))  # made by a clock that was ahead
    strand_before(tx.db, now_ms - int(1000 * BUDGET_STRAND_S))
    today, folding, day, month = (
        day_of(now_ms - days * _DAY_MS, "UTC")
        for days in (0, BUDGET_HELPER_DAYS_KEPT, BUDGET_DAYS_KEPT, BUDGET_MONTHS_KEPT * 31)
    )
    old = fetch(
        tx.db,
        f"{KEYS} SELECT {SPENT} FROM (SELECT key FROM keys WHERE length(key) = 10 AND key < ?"
        " OR length(key) = 7 AND key < ?) CROSS JOIN spending USING (key) LIMIT ?",
        (day, month[:7], _FOLD_ROWS),
    )
    for row in old:
        take(tx.db, row)
    tx.run("DELETE FROM budget_marks WHERE key < ?", (today[:7],))
    rows = fetch(
        tx.db,
        f"SELECT {SPENT} FROM spending WHERE key < ?"
        " AND (instr(path, '/sub/') OR instr(path, '/search/') OR substr(path, -7) = '/memory'"
        " OR instr(payer, '/sub/')) LIMIT ?",
        (folding[:7], _FOLD_ROWS),
    )
    it.deleted.append(len(old))
    for row in rows:
        root, payer = agent_of(str(row[1])), agent_of(str(row[2])) if row[2] else ""
        if (root, payer) != row[1:3]:
            take(tx.db, row)
            spend(tx.db, row[:1], (root, payer, *row[3:]))
            it.deleted.append(1)


def _purge(tx: Tx, it: PersonPurged) -> None:
    """Remove what a person has spent, and what is reserved for them, from the sums of those above, too."""
    rows = fetch(tx.db, f"SELECT {SPENT} FROM spending WHERE {_THEIRS}")
    for row in rows:
        take(tx.db, row)
    for row in fetch(tx.db, f"SELECT {RESERVATION} FROM reservations WHERE {_THEIRS}"):
        drop(tx.db, row)
    it.gone["spending"] = len(rows)
