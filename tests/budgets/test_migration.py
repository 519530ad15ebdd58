"""A database from before there were budgets: what was spent then is in the sums."""

from pathlib import Path

import apsw

from daycare.store.sqlite.database import migrations
from daycare.store.sqlite.store import open_store


async def test_what_was_spent_before_is_in_the_sums(tmp_path: Path) -> None:
    file = tmp_path / "daycare.db"
    db = apsw.Connection(str(file))
    for number, _, sql in migrations():
        if number < 3:
            db.execute(f"BEGIN; {sql}; PRAGMA user_version = {number}; COMMIT").fetchall()
    old = "INSERT INTO spend (at, user, origin, agent_id, turn, step, provider, model, input_tokens, output_tokens,"
    for turn, at, provider in ((1, 0, "p"), (2, 86_400_000, "p"), (3, 0, "offline")):
        db.execute(
            f"{old} cached_tokens, cost_micros) VALUES (?, 'ann', 'agent', 'gone', ?, 1, ?, 'm', 10, 5, 0, 7)",
            (at, turn, provider),
        )
    db.close()
    async with open_store(str(file)) as store:
        days = await store.budgets.spent("1970-01-01", "1970-12-31")
        assert [(row.key, row.path, row.calls, row.cost_micros) for row in days] == [
            ("1970-01-02", "/ann", 1, 7),
            ("1970-01-01", "/ann", 1, 7),
        ]
        assert await store.ledger.spent("ann") == {"input_tokens": 20, "output_tokens": 10, "cost_micros": 14}
