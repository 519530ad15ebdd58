"""Budgets: reservations before calls, and what was spent, by day and by month of the user's calendar."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any, Final

import apsw
import msgspec
import trio
from msgspec.structs import replace

from daycare.base.budget import EVERYTHING, LIFTED, Measure, Use, agent_of, day_of, ends_ms, key_of
from daycare.base.limits import BUDGET_STRAND_S, LIVING_CACHE_MAX_PATHS
from daycare.base.path import Kind
from daycare.store.records import Spend
from daycare.store.records_budgets import BudgetRow, BudgetStanding, Ceiling, NewReservation, Reserved, Spent
from daycare.store.sqlite import budget_sums
from daycare.store.sqlite.budget_rows import (
    RESERVATION,
    SPENT,
    drop,
    merge,
    most_of,
    spent_of,
    strand,
    strand_before,
    take,
)
from daycare.store.sqlite.database import count, counted
from daycare.store.sqlite.writer import Tx, Writer

BUDGET_DAYS_KEPT: Final = 400  # of sums by day: a year and what it is compared with
BUDGET_HELPER_DAYS_KEPT: Final = 62  # before the sums of helpers become their agent's: this month and the last
BUDGET_MONTHS_KEPT: Final = 120

_DAY_MS: Final = 86_400_000
_DAY_KNOWN_MS: Final = 60_000
_FOLD_ROWS: Final = 500  # in one transaction
_PAGE: Final = 500  # sums read at a time: some 5 ms
_NAMES: Final = "path, payer, provider, model"  # what tells the sums of a day or month apart, in order
# At or below a path: what lies below begins with the path and a slash, which '0' follows in the order of characters.
_WITHIN: Final = "(path = ?1 OR path > ?1 || '/' AND path < ?1 || '0') AND path >= ?1 AND path < ?1 || '0'"
# What others spend for it: below another path, but asked for at or below this one.
_CHARGED: Final = (
    "(payer = ?1 OR payer > ?1 || '/' AND payer < ?1 || '0') AND payer >= ?1 AND payer < ?1 || '0' AND payer <> ''"
    f" AND NOT ({_WITHIN})"
)
_BELOW: Final = (
    "WITH RECURSIVE below (id) AS (VALUES (?) UNION SELECT u.id FROM users u JOIN below b ON u.parent = b.id)"
    " SELECT id FROM below"
)
_KEYS: Final = (  # the days and months there are: one look for each
    "WITH RECURSIVE keys (key) AS (SELECT min(key) FROM spending UNION ALL"
    " SELECT (SELECT min(s.key) FROM spending s WHERE s.key > keys.key) FROM keys WHERE keys.key IS NOT NULL)"
)
_encode = msgspec.json.Encoder().encode
_decode_limits = msgspec.json.Decoder(dict[str, int]).decode
_decode_raises = msgspec.json.Decoder(dict[str, dict[str, int]]).decode


class BudgetStore:
    """Limits, reservations, and sums by day and by month.

    A reservation counts in full until `settle` charges the call. One that no call stands behind any more is *stranded*:
    it goes on counting in full, as unsettled.
    Opening a store strands all that it finds, as their calls died with whoever made them;
    `Ledger.expire` strands what is older than any turn. A path counts what it spends
    itself, what all below it spend, and what tasks do that these asked for; a user's path also what users below that
    user do. A user below another one and their address `/ann/subuser/bob` are one.
    """

    def __init__(self, writer: Writer, reader: apsw.Connection) -> None:
        self._write = writer.write
        self._reader = reader

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
        values = (row.path, _encode(row.limits).decode(), _encode(row.raises).decode(), row.set_by)
        await self._write(
            lambda tx: tx.run(
                "INSERT INTO budgets (path, limits, raises, set_by, updated_at) VALUES (?, ?, ?, ?, ?)"
                " ON CONFLICT (path) DO UPDATE SET limits = excluded.limits, raises = excluded.raises,"
                " set_by = excluded.set_by, updated_at = excluded.updated_at",
                (*values, tx.now),
            )
        )

    async def remove(self, path: str) -> bool:
        """Forget what was set for a path; idempotent, returns whether there was anything."""

        def run(tx: Tx) -> bool:
            tx.run("DELETE FROM budgets WHERE path = ?", (path,))
            return tx.db.changes() == 1

        return await self._write(run)

    # -- reservations ------------------------------------------------------------------------------------------------

    async def reserve(self, new: NewReservation, ceilings: Sequence[Ceiling]) -> Reserved:
        """Reserve unless one of the ceilings is reached. The look and the reservation are one transaction.

        So calls side by side use at most one reservation more than a ceiling. Not idempotent.
        """

        def run(tx: Tx) -> Reserved:
            standings = tuple(
                replace(it, asked=_asked(new.most, it.ceiling.measure)) for it in _standings(tx.db, ceilings)
            )
            if any(standing.reached for standing in standings):
                return Reserved(0, standings)
            most, payer = new.most, payer_of(tx.db, new.path)
            tx.run(
                "INSERT INTO reservations (at, day, path, payer, user, provider, model, tokens, cost_micros, wall_ms)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    *(tx.now, new.day, new.path, payer, new.user, new.provider, new.model),
                    *(most.tokens, most.usd, most.minutes),
                ),
            )
            no = tx.db.last_insert_rowid()
            keys = key_of("day", new.day), key_of("month", new.day)
            budget_sums.add(tx.db, keys, new.path, payer, reserved=replace(most, calls=1))
            return Reserved(no, standings)

        return await self._write(run)

    async def release(self, no: int) -> None:
        """Give back the reservation of a call that surely cost nothing; idempotent."""

        def run(tx: Tx) -> None:
            for row in tx.db.execute(f"SELECT {RESERVATION} FROM reservations WHERE no = ?", (no,)).fetchall():
                drop(tx.db, row)
            tx.commit.budgets = True

        await self._write(run)

    async def strand(self, no: int) -> None:
        """Let the reservation of a call whose end nobody knows count in full; idempotent."""

        def run(tx: Tx) -> None:
            strand(tx.db, tx.db.execute(f"SELECT {RESERVATION} FROM reservations WHERE no = ?", (no,)).fetchall())
            tx.commit.budgets = True

        await self._write(run)

    async def payer_of(self, path: str) -> str:
        """Return for which other path a call at `path` counts, too: that of whoever asked for a task; "" for none."""
        return payer_of(self._reader, path)

    async def settle(self, spend: Spend) -> None:
        """Charge a call, once for its reservation; without one it is charged each time."""
        await self._write(lambda tx: _charge(tx, spend))

    # -- sums --------------------------------------------------------------------------------------------------------

    async def standings(self, ceilings: Sequence[Ceiling]) -> list[BudgetStanding]:
        """Return how ceilings stand."""
        return list(_standings(self._reader, ceilings))

    async def mark(self, ceiling: Ceiling, share: int) -> bool:
        """Remember that `share` percent of a ceiling were reached; False if that was known."""

        def run(tx: Tx) -> bool:
            tx.run(
                "INSERT INTO budget_marks (path, key, name, most, share) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                (ceiling.path, ceiling.key, ceiling.name, ceiling.limit, share),
            )
            return tx.db.changes() == 1

        return await self._write(run)

    async def spent(self, first: str, last: str, *, path: str = EVERYTHING, limit: int = 10_000) -> list[Spent]:
        """Return what was spent at or below a path from one day or month to another, newest first.

        Of days `2026-11-21`, of months `2026-11`: both ends have the same form.
        """
        found: list[Spent] = []
        keys = self._reader.execute(
            f"{_KEYS} SELECT key FROM keys WHERE key BETWEEN ?1 AND ?2 AND length(key) = length(?1) ORDER BY key DESC",
            (first, last),
        ).fetchall()
        parts = _parts(self._reader, path)
        for (key,), (root, which) in product(keys, parts):
            after: tuple[Any, ...] = (root if which is _WITHIN else "", "", "", "")
            begin = "path >= ?3 AND" if which is _WITHIN else ""  # a page is found without those before
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


def _charge(tx: Tx, spend: Spend) -> None:
    """Write what a call cost, and add it to the sums: once for its reservation."""
    path, payer, day, given_back = "", None, "", Use()
    if spend.reservation:
        row = tx.one(f"SELECT {RESERVATION} FROM reservations WHERE no = ?", (spend.reservation,))
        if row is None:
            return  # it was added before; or it was taken for dead, and counts in full
        _, day, path, payer, *_ = row
        given_back = -most_of(row)
        tx.run("DELETE FROM reservations WHERE no = ?", (spend.reservation,))
        tx.commit.budgets = True
    path = path or spend.path or _path_of(tx, spend)
    payer = payer_of(tx.db, path) if payer is None else payer
    day = day or _day_of(tx, spend.user)
    usage = spend.usage
    if spend.turn:
        tx.run(
            "INSERT INTO spend (at, user, origin, agent_id, turn, step, provider, model, input_tokens, output_tokens,"
            " cached_tokens, cost_micros) SELECT ?1, ?2, 'agent', ?3, ?4, coalesce(max(step), -1) + 1, ?5, ?6, ?7, ?8,"
            " ?9, ?10 FROM spend WHERE turn = ?4",
            (
                tx.now,
                spend.user,
                spend.agent_id,
                spend.turn,
                spend.provider,
                spend.model,
                usage.input_tokens,
                usage.output_tokens,
                usage.cached_tokens,
                spend.cost_micros,
            ),
        )
    keys = key_of("day", day), key_of("month", day)
    used = Use(spend.cost_micros, usage.input_tokens + usage.output_tokens, 1, spend.wall_ms)
    budget_sums.add(tx.db, keys, path, payer, used=used, reserved=given_back)
    for key in keys:
        tx.run(
            "INSERT INTO spending (key, path, payer, provider, model, user, calls, unpriced, input_tokens,"
            " output_tokens, cached_tokens, cost_micros, wall_ms) VALUES (?, ?, ?, ?, ?, ?, 1, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT DO UPDATE SET calls = calls + 1, unpriced = unpriced + excluded.unpriced,"
            " input_tokens = input_tokens + excluded.input_tokens,"
            " output_tokens = output_tokens + excluded.output_tokens,"
            " cached_tokens = cached_tokens + excluded.cached_tokens,"
            " cost_micros = cost_micros + excluded.cost_micros, wall_ms = wall_ms + excluded.wall_ms",
            (
                key,
                path,
                payer,
                spend.provider,
                spend.model,
                spend.user,
                int(not spend.priced),
                usage.input_tokens,
                usage.output_tokens,
                usage.cached_tokens,
                spend.cost_micros,
                spend.wall_ms,
            ),
        )


def end_of(tx: Tx, user: str, roots: Sequence[str]) -> None:
    """Let what a user's running calls reserved count in full, and forget what was set at or below paths.

    What was spent stays: who is let in again on the same day has not more than a day's budget.
    """
    strand(tx.db, tx.db.execute(f"SELECT {RESERVATION} FROM reservations WHERE user = ?", (user,)).fetchall())
    for root in roots:
        tx.run(f"DELETE FROM budgets WHERE {_WITHIN}", (root,))


def recover(db: apsw.Connection) -> None:
    """Strand what an earlier owner of this file reserved: its calls died with it."""
    if count(db, "SELECT count(*) FROM reservations"):
        db.execute("BEGIN IMMEDIATE")
        strand_before(db, 2**62)
        db.execute("COMMIT")


def expire(tx: Tx, now_ms: int) -> int:
    """Delete or fold a bounded number of old sums; return how many.

    What helpers spent becomes their agent's after a while, as their paths are without end. Reservations are stranded
    that are older than any turn: who made them has forgotten them.
    """
    tx.run("UPDATE reservations SET at = ?1 WHERE at > ?1", (now_ms,))  # made by a clock that was ahead
    strand_before(tx.db, now_ms - int(1000 * BUDGET_STRAND_S))
    today = day_of(now_ms, "UTC")
    oldest = {
        "folded": day_of(now_ms - BUDGET_HELPER_DAYS_KEPT * _DAY_MS, "UTC"),
        "days": day_of(now_ms - BUDGET_DAYS_KEPT * _DAY_MS, "UTC"),
        "months": day_of(now_ms - BUDGET_MONTHS_KEPT * 31 * _DAY_MS, "UTC")[:7],
    }
    old = tx.db.execute(
        f"{_KEYS} SELECT {SPENT} FROM (SELECT key FROM keys WHERE length(key) = 10 AND key < ?"
        " OR length(key) = 7 AND key < ?) CROSS JOIN spending USING (key) LIMIT ?",
        (oldest["days"], oldest["months"], _FOLD_ROWS),
    ).fetchall()
    for row in old:
        take(tx.db, row)
    tx.run("DELETE FROM budget_marks WHERE key < ?", (today[:7],))
    rows = tx.db.execute(
        f"SELECT {SPENT} FROM spending WHERE key < ?"
        " AND (instr(path, '/sub/') OR instr(path, '/search/') OR substr(path, -7) = '/memory'"
        " OR instr(payer, '/sub/')) LIMIT ?",
        (oldest["folded"][:7], _FOLD_ROWS),
    ).fetchall()
    folded = 0
    for row in rows:
        root, payer = agent_of(str(row[1])), agent_of(str(row[2])) if row[2] else ""
        if (root, payer) != row[1:3]:
            take(tx.db, row)
            merge(tx.db, (row[0], root, payer, *row[3:]))
            folded += 1
    return len(old) + folded


def forget(db: apsw.Connection, spent: str, reserved: str) -> int:
    """Delete the rows of `spending` and of `reservations` that two conditions name; return how many of the first."""
    rows = db.execute(f"SELECT {SPENT} FROM spending WHERE {spent}").fetchall()
    for row in rows:
        take(db, row)
    for row in db.execute(f"SELECT {RESERVATION} FROM reservations WHERE {reserved}").fetchall():
        drop(db, row)
    return len(rows)


def total(db: apsw.Connection, user: str | None) -> tuple[int, int, int]:
    """Return the tokens read and written and the millionths of a dollar of all; or of one user, which looks far."""
    if user is None:
        return counted(db, "spent.input_tokens"), counted(db, "spent.output_tokens"), counted(db, "spent.cost_micros")
    row = db.execute(
        "SELECT coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0),"
        " coalesce(sum(cost_micros + unsettled_micros), 0) FROM spending"
        " WHERE length(key) = 7 AND user = ?",
        (user,),
    ).fetchone()
    assert row is not None
    return int(str(row[0])), int(str(row[1])), int(str(row[2]))


def _asked(most: Use, measure: Measure) -> int:
    """Return the most that a call may take of a measure; how long it takes is an estimate, and binds no call."""
    return 0 if measure == "minutes" else most.of(measure)


def _standings(db: apsw.Connection, ceilings: Iterable[Ceiling]) -> Iterable[BudgetStanding]:
    sums: dict[tuple[str, str], tuple[Use, Use]] = {}
    for it in ceilings:
        which = it.key, it.path
        if which not in sums:
            sums[which] = budget_sums.of(db, it.key, it.path)
        used, reserved = sums[which]
        yield BudgetStanding(it, used.of(it.measure), reserved.of(it.measure))


def narrow(tx: Tx, path: str, limits: Mapping[str, int]) -> None:
    """Let a path use no more than this, nor more than what was set for it before."""
    if not limits:
        return
    row = tx.one("SELECT limits FROM budgets WHERE path = ?", (path,))
    known = _decode_limits(str(row[0])) if row is not None else {}
    least = {name: min(limit, known[name]) if known.get(name, LIFTED) != LIFTED else limit
             for name, limit in limits.items()}  # fmt: skip
    tx.run(
        "INSERT INTO budgets (path, limits, raises, set_by, updated_at) VALUES (?, ?, '{}', '', ?)"
        " ON CONFLICT (path) DO UPDATE SET limits = excluded.limits, raises = '{}', updated_at = excluded.updated_at",
        (path, _encode(known | least).decode(), tx.now),
    )


def payer_of(db: apsw.Connection, path: str) -> str:
    """Return who asked for the task at or above a path, or the job that did; empty where there is none."""
    user, *below = path[1:].split("/")
    if len(below) < 2 or below[0] != Kind.TASK:
        return ""
    task = f"/{user}/{Kind.TASK}/{below[1]}"
    row = db.execute("SELECT payer FROM tasks WHERE path = ? ORDER BY no DESC LIMIT 1", (task,)).fetchone()
    return "" if row is None else str(row[0])


def _parts(db: apsw.Connection, path: str) -> tuple[tuple[str, str], ...]:
    """Return (path, SQL) of the parts of all that counts for a path; nothing is in two of them.

    Of a user also what users below it spend, who are one with their address `/ann/subuser/bob`. Who asks for a task is
    of the same user, so what others spend for somebody is looked for only below a user.
    """
    if path == EVERYTHING:
        return (("", _WITHIN),)  # every path begins with '' and a slash
    user, *below = path[1:].split("/")
    if below and below[0] == Kind.SUBUSER and len(below) <= 2:
        roots = [each for each in _children_of(db, user) if each in below[1:] or len(below) == 1]
        if not roots:
            return ((path, _WITHIN),)
        own = path
    elif not below:
        roots = [user]
        parent = _parent_of(db, user)
        own = f"/{parent}/{Kind.SUBUSER}/{user}" if parent else ""
    else:
        return (path, _WITHIN), (path, _CHARGED)
    users = dict.fromkeys(str(row[0]) for root in roots for row in db.execute(_BELOW, (root,)).fetchall())
    return tuple((each, _WITHIN) for each in (*filter(None, (own,)), *(f"/{each}" for each in users)))


def _children_of(db: apsw.Connection, user: str) -> list[str]:
    return [str(row[0]) for row in db.execute("SELECT id FROM users WHERE parent = ?", (user,)).fetchall()]


def _parent_of(db: apsw.Connection, user: str) -> str:
    row = db.execute("SELECT parent FROM users WHERE id = ?", (user,)).fetchone()
    return "" if row is None or row[0] is None else str(row[0])


def _path_of(tx: Tx, spend: Spend) -> str:
    row = tx.one("SELECT path FROM agents WHERE id = ?", (spend.agent_id,))
    return str(row[0]) if row else f"/{spend.user}"


def _day_of(tx: Tx, user: str) -> str:
    """Return the day it is for a user: from memory for a minute, as the clock may be set and a zone changed."""
    known = tx.memory.days.get(user)
    if known is not None and 0 <= known[1] - tx.now <= _DAY_KNOWN_MS:
        return known[0]
    row = tx.one("SELECT zone FROM users WHERE id = ?", (user,))
    zone = str(row[0]) if row else "UTC"
    day = day_of(tx.now, zone)
    if len(tx.memory.days) >= LIVING_CACHE_MAX_PATHS:
        tx.memory.days.clear()
    tx.memory.days[user] = day, min(tx.now + _DAY_KNOWN_MS, ends_ms("day", day, zone) - 1)
    return day
