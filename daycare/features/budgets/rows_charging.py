"""A call of a model in the books: reserved before it is made, and charged once when it was answered."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import apsw
from msgspec.structs import replace

from daycare.base.budget import Measure, Use
from daycare.features.budgets import rows_sums as sums
from daycare.features.budgets.records import BudgetNews, BudgetStanding, Ceiling, NewReservation, Reserved
from daycare.features.budgets.rows_followers import BudgetFollower
from daycare.features.budgets.rows_spending import RESERVATION, keys_of, most_of, spend
from daycare.features.tasks.rows import payer_of
from daycare.store.records import Spend
from daycare.store.sqlite import ledger
from daycare.store.sqlite.facts import CallPaid, Follower, Heed
from daycare.store.sqlite.writer import Tx


class PaidCalls(Follower):
    """Calls that are charged together with what came of them."""

    def heeds(self) -> Mapping[type, Heed]:
        """Charge them."""
        return {CallPaid: lambda tx, it: charge(tx, it.spend)}


def reserve(tx: Tx, new: NewReservation, ceilings: Sequence[Ceiling]) -> Reserved:
    """Reserve unless one of the ceilings is reached."""
    standings = tuple(replace(it, asked=_asked(new.most, it.ceiling.measure)) for it in standings_of(tx.db, ceilings))
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
    sums.add(tx.db, keys_of(new.day), new.path, payer, reserved=replace(most, calls=1))
    return Reserved(no, standings)


def standings_of(db: apsw.Connection, ceilings: Iterable[Ceiling]) -> Iterator[BudgetStanding]:
    """Yield how ceilings stand."""
    known: dict[tuple[str, str], tuple[Use, Use]] = {}
    for it in ceilings:
        which = it.key, it.path
        if which not in known:
            known[which] = sums.of(db, it.key, it.path)
        used, reserved = known[which]
        yield BudgetStanding(it, used.of(it.measure), reserved.of(it.measure))


def charge(tx: Tx, it: Spend) -> None:
    """Write what a call cost, and add it to the sums: once for its reservation."""
    path, payer, day, given_back = "", None, "", sums.NOTHING
    if it.reservation:
        row = tx.one(f"SELECT {RESERVATION} FROM reservations WHERE no = ?", (it.reservation,))
        if row is None:
            return  # it was added before; or it was taken for dead, and counts in full
        _, day, path, payer, *_ = row
        given_back = -most_of(row)
        tx.run("DELETE FROM reservations WHERE no = ?", (it.reservation,))
        tx.commit.add(BudgetNews).room = True
    path = path or it.path or _path_of(tx, it)
    payer = payer_of(tx.db, path) if payer is None else payer
    day = day or tx.of(BudgetFollower).day_of(tx, it.user)
    if it.turn:
        ledger.note_call(tx, it)
    usage = it.usage
    values = (
        *(path, payer, it.user, it.provider, it.model, 1, int(not it.priced)),
        *(usage.input_tokens, usage.output_tokens, usage.cached_tokens, it.cost_micros, it.wall_ms, 0, 0, 0, 0),
    )
    spend(tx.db, keys_of(day), values, reserved=given_back)


def _asked(most: Use, measure: Measure) -> int:
    """Return the most that a call may take of a measure; how long it takes is an estimate, and binds no call."""
    return 0 if measure == "minutes" else most.of(measure)


def _path_of(tx: Tx, it: Spend) -> str:
    row = tx.one("SELECT path FROM agents WHERE id = ?", (it.agent_id,))
    return str(row[0]) if row else f"/{it.user}"
