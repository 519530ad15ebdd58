"""Databases of earlier versions: what was spent then is in the sums, and settings that are no more are gone."""

from pathlib import Path

import apsw

from daycare.base.permission import OwnRule, Permissions
from daycare.features import open_store
from daycare.features.budgets.rows import BudgetRows
from daycare.store.records import AgentConfig
from daycare.store.sqlite.database import migrations


def of_version(file: Path, version: int) -> apsw.Connection:
    """Return a database as an earlier version has left it."""
    db = apsw.Connection(str(file))
    for number, _, sql in migrations():
        if number <= version:
            db.execute(f"BEGIN; {sql}; PRAGMA user_version = {number}; COMMIT").fetchall()
    return db


async def test_settings_that_nobody_reads_any_more_are_gone_and_all_others_stay(tmp_path: Path) -> None:
    file = tmp_path / "daycare.db"
    db = of_version(file, 6)
    rule = '{"rules": [{"action": "tool:spawn", "decision": "deny"}]}'
    configs = {
        "a": '{"name": "A", "budget": {"tokens": 5}}',
        "b": f'{{"model": "p/m", "permissions": {rule}}}',
        "c": '{"permissions": {"spawn": "never"}, "description": "c"}',
        "d": "{}",
        "e": '{"username": "mimi", "workspace": "/srv/mimi", "name": "E"}',
    }
    for name, config in configs.items():
        db.execute(
            "INSERT INTO agents (id, path, kind, role, user, origin, state, config, incarnation, created_at)"
            " VALUES (?, ?, 'agent', 'user', 'ann', 'person', 'living', ?, 1, 0)",
            (name, f"/ann/agent/{name}", config),
        )
    db.close()
    async with open_store(str(file)) as store:
        found = {agent.id: agent.config for agent in await store.agents.find()}
        assert found["a"] == AgentConfig(name="A") and found["d"] == AgentConfig()
        assert found["b"] == AgentConfig(
            model="p/m", permissions=Permissions(rules=(OwnRule(action="tool:spawn", decision="deny"),))
        )
        assert found["c"] == AgentConfig(description="c")
        assert found["e"] == AgentConfig(name="E")


async def test_sums_and_reservations_from_before_tasks_were_charged_to_who_asked_stay(tmp_path: Path) -> None:
    file = tmp_path / "daycare.db"
    db = of_version(file, 6)
    for key in ("2027-01-01", "2027-01"):
        db.execute(
            "INSERT INTO spending (key, path, provider, model, user, calls, cost_micros, unsettled, unsettled_micros)"
            " VALUES (?, '/ann/task/1', 'p', 'm', 'ann', 2, 7, 1, 3)",
            (key,),
        )
    db.execute(
        "INSERT INTO reservations (at, day, path, user, provider, model, tokens, cost_micros, wall_ms)"
        " VALUES (0, '2027-01-01', '/ann/task/1', 'ann', 'p', 'm', 5, 11, 13)"
    )
    db.close()
    async with open_store(str(file)) as store:
        [row] = await store.of(BudgetRows).spent("2027-01-01", "2027-01-01")
        assert (row.path, row.payer, row.calls, row.unsettled) == ("/ann/task/1", "", 2, 2)
        assert (row.cost_micros, row.unsettled_micros) == (7, 14), "with what an earlier process had reserved"


async def test_what_was_spent_before_is_in_the_sums(tmp_path: Path) -> None:
    file = tmp_path / "daycare.db"
    db = of_version(file, 2)
    old = "INSERT INTO spend (at, user, origin, agent_id, turn, step, provider, model, input_tokens, output_tokens,"
    for turn, at, provider in ((1, 0, "p"), (2, 86_400_000, "p"), (3, 0, "offline")):
        db.execute(
            f"{old} cached_tokens, cost_micros) VALUES (?, 'ann', 'agent', 'gone', ?, 1, ?, 'm', 10, 5, 0, 7)",
            (at, turn, provider),
        )
    db.close()
    async with open_store(str(file)) as store:
        days = await store.of(BudgetRows).spent("1970-01-01", "1970-12-31")
        assert [(row.key, row.path, row.calls, row.cost_micros) for row in days] == [
            ("1970-01-02", "/ann", 1, 7),
            ("1970-01-01", "/ann", 1, 7),
        ]
        assert await store.of(BudgetRows).total("ann") == {"input_tokens": 20, "output_tokens": 10, "cost_micros": 14}
