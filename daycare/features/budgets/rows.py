"""Budgets in the store: what was set, reservations before calls, and what was spent by day and month of the calendar.

The calendar is that of whoever's call it is.
"""

from collections.abc import Sequence
from itertools import product
from typing import Any, ClassVar, Final

import msgspec
import trio

from daycare.base.budget import EVERYTHING
from daycare.base.events import BudgetChanged
from daycare.features.budgets import rows_charging as charging
from daycare.features.budgets.records import (
    BudgetNews,
    BudgetRow,
    BudgetStanding,
    Ceiling,
    NewReservation,
    Reserved,
    Spent,
)
from daycare.features.budgets.rows_followers import BudgetFollower
from daycare.features.budgets.rows_overview import By, Summed, summed
from daycare.features.budgets.rows_scopes import WITHIN, parts_of
from daycare.features.budgets.rows_spending import KEYS, RESERVATION, SPENT, drop, spent_of, strand
from daycare.features.budgets.rows_turns import turns_between
from daycare.features.tasks.rows import payer_of
from daycare.store.records import Spend
from daycare.store.sqlite.database import counted
from daycare.store.sqlite.rows import Rows, Table
from daycare.store.sqlite.sql import fetch
from daycare.store.sqlite.writer import Tx, user_of

_PAGE: Final = 500  # sums read at a time: some 5 ms
_NAMES: Final = "path, payer, provider, model"  # what tells the sums of a day or month apart, in order
_encode = msgspec.json.Encoder().encode
_decode_limits = msgspec.json.Decoder(dict[str, int]).decode
_decode_raises = msgspec.json.Decoder(dict[str, dict[str, int]]).decode


class BudgetRows(Rows):
    """Limits, reservations, and sums by day and by month.

    A reservation counts in full until `settle` charges the call. One that no call stands behind any more is *stranded*:
    it goes on counting in full, as unsettled. Opening a store strands all that it finds, as their calls died with
    whoever made them; expiry strands what is older than any turn. A path counts what it spends itself, what all below
    it spend, and what tasks do that these asked for; a user's path also what users below that user do. A user below
    another one and their address `/ann/subuser/bob` are one.
    """

    news: ClassVar = (BudgetNews(limits=True, room=True),)
    tables: ClassVar = (
        Table("spending", "sums of money", why="what was spent was spent here", apart=True),
        Table("budgets", "budgets", exported="agent"),
        Table("reservations", why="of calls that run", apart=True),
        Table("budget_marks", why="of what was spent here"),
        Table("budget_sums", why="of what was spent here"),
        Table("model_sums", why="of what was spent here"),
    )
    followers: ClassVar = (BudgetFollower, charging.PaidCalls)

    # -- what was set ------------------------------------------------------------------------------------------------

    async def find(self) -> list[BudgetRow]:
        """Return what was set, by path."""
        rows = self._reader.execute("SELECT path, limits, raises, set_by, updated_at FROM budgets ORDER BY path")
        return [
            BudgetRow(
                path=str(path),
                limits=_decode_limits(str(limits)),
                raises=_decode_raises(str(raises)),
                set_by=str(set_by),
                updated_at=int(str(at)),
            )
            for path, limits, raises, set_by, at in rows
        ]

    async def put(self, row: BudgetRow) -> None:
        """Set what a path may use; the last one wins."""
        await self._write(lambda tx: put(tx, row))

    async def remove(self, path: str) -> bool:
        """Forget what was set for a path; idempotent, returns whether there was anything."""

        def run(tx: Tx) -> bool:
            tx.run("DELETE FROM budgets WHERE path = ?", (path,))
            removed = tx.db.changes() == 1
            if removed:
                _tell(tx, path)
            return removed

        return await self._write(run)

    # -- reservations ------------------------------------------------------------------------------------------------

    async def reserve(self, new: NewReservation, ceilings: Sequence[Ceiling]) -> Reserved:
        """Reserve unless one of the ceilings is reached. The look and the reservation are one transaction.

        So calls side by side use at most one reservation more than a ceiling. Not idempotent.
        """
        user = user_of(new.path, *(it.path for it in ceilings))
        return await self._write(lambda tx: charging.reserve(tx, new, ceilings), user=user)

    async def release(self, no: int) -> None:
        """Give back the reservation of a call that surely cost nothing; idempotent."""

        def run(tx: Tx) -> None:
            for row in fetch(tx.db, f"SELECT {RESERVATION} FROM reservations WHERE no = ?", (no,)):
                drop(tx.db, row)
            tx.commit.add(BudgetNews).room = True

        await self._write(run)

    async def strand(self, no: int) -> None:
        """Let the reservation of a call whose end nobody knows count in full; idempotent."""

        def run(tx: Tx) -> None:
            strand(tx.db, fetch(tx.db, f"SELECT {RESERVATION} FROM reservations WHERE no = ?", (no,)))
            tx.commit.add(BudgetNews).room = True

        await self._write(run)

    async def payer_of(self, path: str) -> str:
        """Return for which other path a call at `path` counts, too: that of whoever asked for a task; "" for none."""
        return payer_of(self._reader, path)

    async def settle(self, spend: Spend) -> None:
        """Charge a call, once for its reservation; without one it is charged each time."""
        user = user_of(spend.path) if spend.path else ""
        await self._write(lambda tx: charging.charge(tx, spend), user=user)

    # -- sums --------------------------------------------------------------------------------------------------------

    async def standings(self, ceilings: Sequence[Ceiling]) -> list[BudgetStanding]:
        """Return how ceilings stand."""
        return list(charging.standings_of(self._reader, ceilings))

    async def mark(self, ceiling: Ceiling, share: int) -> bool:
        """Remember that `share` percent of a ceiling were reached; False if that was known."""

        def run(tx: Tx) -> bool:
            tx.run(
                "INSERT INTO budget_marks (path, key, name, most, share) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                (ceiling.path, ceiling.key, ceiling.name, ceiling.limit, share),
            )
            return tx.db.changes() == 1

        return await self._write(run)

    async def total(self, user: str | None = None) -> dict[str, int]:
        """Return `input_tokens`, `output_tokens`, `cost_micros` spent by all; or by one user, which looks far."""
        names = ("input_tokens", "output_tokens", "cost_micros")
        if user is None:
            return {name: counted(self._reader, f"spent.{name}") for name in names}
        [found] = fetch(
            self._reader,
            "SELECT coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0),"
            " coalesce(sum(cost_micros + unsettled_micros), 0) FROM spending WHERE length(key) = 7 AND user = ?",
            (user,),
        )
        return dict(zip(names, found, strict=True))

    async def turns(self, since_ms: int, until_ms: int) -> int | None:
        """Return how many turns began in a time; None if it begins before the first that is still kept."""
        return turns_between(self._reader, since_ms, until_ms)

    async def summed(self, first: str, last: str, by: By, path: str, groups: int) -> Summed:
        """Return what was spent at or below a path from one day to another, of the dearest groups and all others."""

        def look() -> Summed:
            with self._readers.lent() as db:
                return summed(db, first, last, by, path, groups)

        return await trio.to_thread.run_sync(look)  # it looks at every row of that time

    async def spent(self, first: str, last: str, *, path: str = EVERYTHING, limit: int = 10_000) -> list[Spent]:
        """Return what was spent at or below a path from one day or month to another, newest first.

        Of days `2026-11-21`, of months `2026-11`: both ends have the same form.
        """
        found: list[Spent] = []
        keys = fetch(
            self._reader,
            f"{KEYS} SELECT key FROM keys WHERE key BETWEEN ?1 AND ?2 AND length(key) = length(?1) ORDER BY key DESC",
            (first, last),
        )
        parts = parts_of(self._reader, path)
        for (key,), (root, which) in product(keys, parts):
            after: tuple[Any, ...] = (root if which is WITHIN else "", "", "", "")
            begin = "path >= ?3 AND" if which is WITHIN else ""  # a page is found without those before
            while len(found) < limit:
                rows = self._reader.execute(
                    f"SELECT {SPENT} FROM spending WHERE key = ?2 AND {begin} {which}"
                    f" AND (+{_NAMES}) > (?3, ?4, ?5, ?6) ORDER BY {_NAMES} LIMIT ?7",
                    (root, key, *after, min(limit - len(found), _PAGE)),
                ).fetchall()
                found += map(spent_of, rows)
                if len(rows) < _PAGE:
                    break
                end = found[-1]
                after = end.path, end.payer, end.provider, end.model
                await trio.lowlevel.checkpoint()  # others have a turn: there may be very many
        return found


def put(tx: Tx, row: BudgetRow) -> None:
    """Do what `BudgetRows.put` does, inside of an open transaction."""
    tx.run(
        "INSERT INTO budgets (path, limits, raises, set_by, updated_at) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (path) DO UPDATE SET limits = excluded.limits, raises = excluded.raises,"
        " set_by = excluded.set_by, updated_at = excluded.updated_at",
        (row.path, _encode(row.limits).decode(), _encode(row.raises).decode(), row.set_by, tx.now),
    )
    _tell(tx, row.path)


def _tell(tx: Tx, path: str) -> None:
    """Let limits be read again, and observers know whose have changed."""
    tx.commit.add(BudgetNews).limits = True
    tx.commit.events.append(BudgetChanged(at_ms=tx.now, budget=path))
