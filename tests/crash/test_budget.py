"""Proofs that the judge of the workload `budget` would notice what is wrong with the books."""

from collections import Counter
from pathlib import Path

import apsw
import pytest

from daycare.base.budget import Use
from daycare.base.messages import Usage
from daycare.features import open_store
from daycare.features.budgets.records import NewReservation
from daycare.features.budgets.rows import BudgetRows
from daycare.store.records import Spend
from tests.crash.budget import Call, charged
from tests.store.samples import HandClock, letter, new_agent

BOOK = {1: Call(30, 4), 2: Call(40, 4), 3: Call(50, 4)}  # the third was cut off by a crash
MOST = Use(usd=500, tokens=100, calls=1, minutes=60_000)


@pytest.fixture
async def books(tmp_path: Path) -> Path:
    """Two calls that were settled, and one that was reserved when the daemon died."""
    file = tmp_path / "daycare.db"
    async with open_store(str(file), HandClock()) as store:
        agent = await store.agents.create(new_agent())
        await store.inbox.post(letter("a"))
        turn = await store.turns.begin(agent, await store.inbox.waiting(agent.id))
        for number, call in BOOK.items():
            wish = NewReservation(path=agent.path, user="u1", day="2027-01-01", provider="p", model="m", most=MOST)
            no = (await store.of(BudgetRows).reserve(wish, [])).no
            spend = Spend(
                agent_id=agent.id,
                user="u1",
                turn=turn.turn,
                provider="p",
                model="m",
                usage=Usage(input_tokens=call.read, output_tokens=call.wrote, cached_tokens=number),
                cost_micros=call.read + 2 * call.wrote,
                reservation=no,
            )
            if number < 3:
                await store.of(BudgetRows).settle(spend)
    async with open_store(str(file), HandClock()):
        pass  # the next one strands what it finds
    return file


def found(file: Path, book: dict[int, Call]) -> set[str]:
    db = apsw.Connection(str(file))
    try:
        return {kind for kind, _ in charged(db, book, Counter())}
    finally:
        db.close()


async def test_books_that_agree_are_found_faultless(books: Path) -> None:
    assert found(books, BOOK) == set()


@pytest.mark.parametrize(
    ("kind", "damage"),
    [
        ("undercounted", "UPDATE spending SET unsettled = 0"),
        ("undercounted", "UPDATE spending SET unsettled_tokens = 53"),
        ("undercounted", "UPDATE spending SET unsettled_micros = 57"),
        ("miscounted", "UPDATE spend SET input_tokens = input_tokens - 1"),
        ("miscounted", "UPDATE spend SET cached_tokens = 1"),
        ("miscounted", "UPDATE spending SET calls = calls + 1"),
        ("miscounted", "UPDATE spending SET cost_micros = cost_micros - 1 WHERE length(key) = 7"),
        ("miscounted", "DELETE FROM spend WHERE cached_tokens = 2"),
        (
            "unfinished",
            "INSERT INTO reservations (at, day, path, user, provider, model, tokens, cost_micros, wall_ms)"
            " VALUES (0, '2027-01-01', '/u1/telegram', 'u1', 'p', 'm', 0, 0, 0)",
        ),
    ],
)
async def test_the_judge_sees_damage(books: Path, kind: str, damage: str) -> None:
    db = apsw.Connection(str(books))
    db.execute(damage).fetchall()
    db.close()
    assert kind in found(books, BOOK)


async def test_the_judge_sees_a_call_nobody_kept(books: Path) -> None:
    assert found(books, BOOK | {4: Call(1, 1)}) == {"undercounted"}
