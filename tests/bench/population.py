"""Databases full of agents, made fast: one transaction of plain SQL through the product's own schema."""

from collections.abc import Iterator
from pathlib import Path

import apsw

from daycare.base.clock import SystemClock
from daycare.store.sqlite.database import open_writer

USER = "bench"
_AGENT = (
    "INSERT INTO agents (id, path, kind, role, user, origin, state, config, incarnation, created_at)"
    " VALUES (?, ?, 'agent', 'user', ?, 'person', 'living', '{}', 1, ?)"
)
_SESSION = "INSERT INTO sessions (agent_id, session, user, origin, started_at) VALUES (?, 1, ?, 'person', ?)"
_MESSAGE = (
    "INSERT INTO inbox (agent_id, key, lane, kind, path, user, origin, sender, trace, created_at, text)"
    " VALUES (?, ?, 1, 'text', ?, 'bench', 'person', 'bench:1', ?, ?, ?)"
)


def agent_id(number: int) -> str:
    """Return the id of an agent: as long as a CUID2, without its price of 70 us each."""
    return f"b{number:023d}"


def number(agent: str) -> int:
    """Return the number of the agent with this id."""
    return int(agent[1:])


def path(number: int, user: str = USER) -> str:
    """Return the address of an agent."""
    return f"/{user}/agent/a{number}"


def user(number: int) -> str:
    """Return the user of an agent where each has its own."""
    return f"{USER}{number}"


def build(location: Path, agents: int, waiting: int = 0, text: str = "hello") -> None:
    """Create a database with `agents` agents and `waiting` unread messages, spread evenly over them."""
    now = SystemClock().now_ms()
    db: apsw.Connection = open_writer(str(location))
    try:
        db.execute("BEGIN IMMEDIATE")
        populate(db, agents, now)
        if waiting:
            assert agents, "messages need agents to wait for"
            db.executemany(_MESSAGE, _messages(agents, waiting, now, text))
        db.execute("COMMIT")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    finally:
        db.close()


def populate(db: apsw.Connection, agents: int, now: int, *, alone: bool = False) -> None:
    """Add agents, of one user or each `alone` with a user of its own."""
    of = [user(n) if alone else USER for n in range(agents)]
    db.executemany(
        "INSERT INTO users (id, name, zone, kind, operator, origin, created_at)"
        " VALUES (?, 'Bench', 'UTC', 'person', 1, 'system', ?)",
        ((each, now) for each in dict.fromkeys([USER, *of])),
    )
    db.executemany(_AGENT, ((agent_id(n), path(n, of[n]), of[n], now) for n in range(agents)))
    db.executemany(_SESSION, ((agent_id(n), of[n], now) for n in range(agents)))


def _messages(agents: int, waiting: int, now: int, text: str) -> Iterator[tuple[object, ...]]:
    for n in range(waiting):
        agent = n % agents
        yield agent_id(agent), f"waiting:{n}", path(agent), f"{n:016x}", now, text
