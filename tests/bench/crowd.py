"""A database of many people with agents of all kinds, and of what such an installation has lying about.

One transaction of plain SQL through the product's own schema: a million agents take about two minutes.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import apsw

from daycare.base.budget import day_of
from daycare.base.clock import SystemClock
from daycare.store.sqlite.database import open_writer
from tests.store import counting

OWNER: Final = "ann"  # operates it, and has agents like everybody else
AGENTS_EACH: Final = 10  # of a person
_GROUPS_EVERY: Final = 10  # each tenth is a group, whose topics the next ones are
_DAYS: Final = 3  # of spending
_DAY_MS: Final = 86_400_000
_LASTING: Final = ("scribe", "cook", "clerk")


def build(location: Path, agents: int, now_ms: int | None = None, busy: int | None = None) -> None:
    """Create a database with about so many agents; they are of people, groups and topics, `AGENTS_EACH` of each.

    For so many of these something waits and helpers work; by default for a hundredth.
    """
    now = SystemClock().now_ms() if now_ms is None else now_ms
    db: apsw.Connection = open_writer(str(location))
    try:
        db.execute("PRAGMA cache_size = -262144")
        db.execute("BEGIN IMMEDIATE")
        users = max(agents // AGENTS_EACH, 1)
        for table, columns, rows in _tables(users, users // 100 if busy is None else busy, now):
            db.executemany(
                f"INSERT INTO {table} ({columns}) VALUES ({', '.join('?' * len(columns.split(', ')))})",
                rows,
            )
        for table in ("budget_sums", "model_sums"):
            db.execute(counting.filling(table)).fetchall()
        db.execute("COMMIT")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    finally:
        db.close()


def user_of(number: int) -> str:
    """Return the id of a user."""
    return OWNER if number == 0 else f"u{number}"


def _tables(users: int, busy: int, now: int) -> Iterator[tuple[str, str, Iterable[tuple[Any, ...]]]]:
    """Yield tables with their columns and rows."""
    everybody = range(users)
    ids = "user, origin"
    yield (
        "users",
        "id, name, zone, kind, operator, parent, origin, created_at",
        (_user(number, now) for number in everybody),
    )
    yield (
        "user_connector_keys",
        f"connector_key, {ids}, created_at",
        (
            (f"{connector}:{user_of(n)}", user_of(n), "person", now)
            for n in everybody
            for connector in ("direct", "telegram")
        ),
    )
    yield (
        "agents",
        f"id, path, kind, role, {ids}, parent, state, config, incarnation, created_at, ended_at",
        (row for number in everybody for row in _agents(number, number < busy, now)),
    )
    yield (
        "sessions",
        f"agent_id, session, {ids}, started_at",
        ((row[0], 1, row[4], "person", now) for number in everybody for row in _agents(number, number < busy, now)),
    )
    yield (
        "inbox",
        f"agent_id, key, lane, state, kind, path, {ids}, sender, trace, created_at, done_at, text",
        (
            (f"a{n}-0", f"k{n}", 1, int(n >= busy), "text", f"/{user_of(n)}/direct", user_of(n), "person",
             f"direct:{user_of(n)}", f"{n:016x}", now, now, None)
            for n in everybody
        ),
    )  # fmt: skip
    yield (
        "outbox",
        f"agent_id, path, connector, target, {ids}, trace, state, created_at, text",
        (
            (f"a{n}-0", f"/{user_of(n)}/direct", "telegram", "1", user_of(n), "person", f"{n:016x}",
             2 if n >= busy else 0, now, "hello")
            for n in everybody
        ),
    )  # fmt: skip
    yield (
        "dead_letters",
        f"source, seq, agent_id, path, {ids}, trace, code, reason, attempts, body, created_at",
        (
            ("inbox", n, f"a{n}-0", f"/{user_of(n)}/direct", user_of(n), "person", f"{n:016x}", "X", "why", 5,
             "{}" * 100, now)
            for n in range(0, users, 50)
        ),
    )  # fmt: skip
    day = day_of(now, "UTC")
    for key in (day[:7], *(day_of(now - number * _DAY_MS, "UTC") for number in range(_DAYS))):
        yield (
            "spending",
            "key, path, payer, provider, model, user, calls, input_tokens, output_tokens, cost_micros, wall_ms",
            (
                (key, path, "", "p", f"m{key}", user_of(n), 1, 100, 10, 7, 50)
                for n in everybody
                for path in (f"/{user_of(n)}/direct", f"/{user_of(n)}/direct/sub/1")
            ),
        )
    yield (
        "memory_scopes",
        f"scope, {ids}, next, living, words",
        ((user_of(n), user_of(n), "person", 4, 3, 3) for n in everybody),
    )
    yield (
        "memory_marks",
        f"agent_id, {ids}, through, newest, oldest, oldest_at",
        ((f"a{n}-0", user_of(n), "person", 3 * n, 3 * n + (n < busy), 3 * n, now) for n in everybody),
    )
    yield (
        "cron_jobs",
        f"path, {ids}, source, source_ref, key, spec, next_at, created_at, updated_at",
        (
            (f"/{user_of(n)}/cron/daily", user_of(n), "person", "cli", "", "", '{"cron": "0 7 * * *", "prompt": "x"}',
             now + 3_600_000 + n, now, now)
            for n in range(0, users, 5)
        ),
    )  # fmt: skip
    yield (
        "approvals",
        f"key, kind, agent_id, path, root, {ids}, decider, state, revision, content_hash, salt, base_hash, reason,"
        " provenance, findings, trace, session, created_at, expires_at, action",
        (
            (f"k{n}", "document", f"a{n}-0", f"/{user_of(n)}/direct", f"/{user_of(n)}/direct", user_of(n), "agent",
             user_of(n), "pending" if n < busy else "approved", 1, "", "", "", "", "[]", "[]", "", 1, now,
             now + 86_400_000, "{}")
            for n in range(0, users, 10)
        ),
    )  # fmt: skip


def _user(number: int, now: int) -> tuple[Any, ...]:
    tenth = number % _GROUPS_EVERY
    group = number and not tenth
    parent = user_of(number - 1) if tenth == 1 and number > 1 else None  # the first after a group is its topic
    kind = "group" if group or parent else "person"
    return user_of(number), f"User {number}", "UTC", kind, int(number == 0), parent, "system", now


def _agents(number: int, busy: bool, now: int) -> Iterator[tuple[Any, ...]]:
    user = user_of(number)
    root = f"/{user}/direct"
    paths = [(root, "connector", "user", "living"), (f"/{user}/telegram", "connector", "user", "living")]
    paths += [(f"/{user}/agent/{name}", "agent", "user", "living") for name in _LASTING]
    # Helpers end when they are idle for a while.
    states = ("dead", "dead", "dead", "living" if busy else "dead", "parked" if busy else "dead")
    paths += [(f"{root}/sub/{index}", "sub", "subagent", state) for index, state in enumerate(states)]
    for index, (path, kind, role, state) in enumerate(paths):
        yield (
            *(f"a{number}-{index}", path, kind, role, user, "person", f"a{number}-0" if kind == "sub" else None),
            *(state, "{}", 1, now, now if state == "dead" else None),
        )
