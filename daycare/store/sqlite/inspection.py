"""A store looked at from outside, whatever state it is in: by `daycare doctor`, beside a daemon or without one."""

import json
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import apsw
import msgspec

from daycare.base.cron import CronSpec
from daycare.base.errors import BrokenError, DaycareError
from daycare.store.looking import looking
from daycare.store.records_metrics import Vectors
from daycare.store.sqlite.database import (
    BUSY_TIMEOUT_MS,
    MEMORY,
    count,
    describing,
    migrations,
    snapshots,
)
from daycare.store.sqlite.people import operators
from daycare.store.sqlite.rows import Rows, tables_of
from daycare.store.sqlite.sql import bound, fetch

_DAY_MS: Final = 86_400_000
_SHOWN: Final = 20  # of a list
_STEPS: Final = 100_000  # of SQLite's machine, between two looks at the clock: some ms
_DATED: Final = (  # tables of the core whose rows only grow in number, with the column that says when
    ("inbox", "seq", "created_at"),
    ("outbox", "seq", "created_at"),
    ("history", "turn", "ended_at"),
)
_OWN_TABLES: Final = ("users", "inbox", "outbox")  # a database without them is some other program's
_TABLES: Final = "SELECT name FROM sqlite_master WHERE type = 'table'"
_MADE_BY: Final = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name"
_HEARD: Final = (
    "SELECT substr(sender, 1, instr(sender, ':') - 1) AS connector, max(created_at) FROM (SELECT sender, created_at"
    " FROM inbox ORDER BY seq DESC LIMIT 5000) WHERE instr(sender, ':') > 1 GROUP BY connector ORDER BY connector"
)


class InspectedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A scheduled job; `zone` is its user's. `spec` is None for one that this version does not read."""

    path: str
    zone: str
    source: str
    spec: CronSpec | None
    paused: bool
    next_at: int | None


class Inspection(msgspec.Struct, frozen=True, kw_only=True):
    """What is in a database. `newest_at` is the time of its newest row, in `newest_in`; `heard` is when the
    last message came over each connector, of the newest; `astray` counts documents whose entry in the index of words is
    missing or left over. Times are wall ms.
    """

    schema: int
    known: int
    bytes: int
    free_bytes: int
    log_bytes: int
    newest_at: int = 0
    newest_in: str = ""
    owner: str = ""
    zones: tuple[tuple[str, str], ...] = ()
    jobs: tuple[InspectedJob, ...] = ()
    failed: tuple[tuple[str, str], ...] = ()
    missed: tuple[tuple[str, int], ...] = ()
    letters: int = 0
    new_letters: int = 0
    dropped: tuple[tuple[str, int], ...] = ()  # dead letters that made room for others, by user
    unread: int = 0
    heard: tuple[tuple[str, int], ...] = ()
    memories: int = 0
    vectors: tuple[Vectors, ...] = ()
    astray: int = 0


class Words(msgspec.Struct, frozen=True, kw_only=True):
    """What is said of people and agents in a database, which a report about it should not say."""

    users: tuple[str, ...]
    names: tuple[str, ...]
    accounts: tuple[str, ...]
    paths: tuple[str, ...]


def inspect(location: str, now_ms: int, rows: Sequence[type[Rows]]) -> Inspection | None:
    """Return what is in a store, None where there is none; `rows` are those of capabilities.

    Raises `BrokenError` for what is none of daycare's.
    """
    with looking(location) as db:
        if db is None:
            return None
        page, pages, free = (count(db, f"PRAGMA {name}") for name in ("page_size", "page_count", "freelist_count"))
        tables = _tables(db)
        schema, known = count(db, "PRAGMA user_version"), migrations()[-1][0]
        facts: dict[str, Any] = {
            "schema": schema,
            "known": known,
            "bytes": page * pages,
            "free_bytes": page * free,
            "log_bytes": _size(f"{location}-wal"),
        }
        if not tables and not schema:
            raise BrokenError("STORE_EMPTY", f"looking into {location}: it is empty", hint="daycare restore BACKUP")
        if not tables.issuperset(_OWN_TABLES):
            raise BrokenError("NOT_DAYCARES", f"looking into {location}: it is a database, but none of daycare's")
        if schema == known:  # of older ones the next start makes this one; newer ones are not understood
            facts |= _contents(db, now_ms, rows)
        return Inspection(**facts)


def tables_in(location: str, deadline_s: float) -> tuple[str, dict[str, int | None]]:
    """Return the schema as SQL, and how many rows each table has; None where counting took too long.

    Of a store that is not there nothing.
    """
    ends_at = time.monotonic() + deadline_s
    with looking(location) as db:
        if db is None:
            return "", {}
        schema = [str(sql) for (sql,) in fetch(db, _MADE_BY)]
        names = sorted(_tables(db))
        db.set_progress_handler(lambda: time.monotonic() > ends_at, _STEPS)
        counts: dict[str, int | None] = {}
        for name in names:
            try:
                counts[name] = count(db, f'SELECT count(*) FROM "{name}"')
            except DaycareError:  # it took too long, or is damaged: the report goes on
                counts[name] = None
        return ";\n".join(schema), counts


def words_in(location: str, max_rows: int) -> Words:
    """Return ids, names, accounts and paths that are in a database, the newest `max_rows` of each."""
    with looking(location) as db:

        def column(sql: str) -> tuple[str, ...]:
            found = [] if db is None else fetch(db, f"{sql} LIMIT ?", (max_rows,))
            return tuple(str(value) for (value,) in found if value)

        return Words(
            users=column("SELECT id FROM users ORDER BY created_at DESC"),
            names=column("SELECT name FROM users ORDER BY created_at DESC")
            + column("SELECT name FROM strangers ORDER BY last_at DESC"),
            accounts=column("SELECT connector_key FROM user_connector_keys ORDER BY created_at DESC")
            + column("SELECT connector_key FROM strangers ORDER BY last_at DESC"),
            paths=column("SELECT path FROM agents ORDER BY created_at DESC")
            + column("SELECT path FROM cron_jobs ORDER BY no DESC"),
        )


def versions() -> dict[str, str]:
    """Return the versions of SQLite and of what speaks to it."""
    return {"sqlite": apsw.sqlite_lib_version(), "apsw": apsw.apsw_version()}


def upgraded_from(location: str) -> list[Path]:
    """Return the snapshots of before upgrades, the oldest first."""
    return [] if location == MEMORY else snapshots(location)


# -- mending; nobody else may have the home ----------------------------------------------------------------------------


def tidy(location: str) -> None:
    """Bring the log of commits into the file."""
    with describing(location), closing(open_alone(location)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def open_alone(location: str) -> apsw.Connection:
    """Open a database to mend it."""
    db = apsw.Connection(location, flags=apsw.SQLITE_OPEN_READWRITE)
    db.set_busy_timeout(BUSY_TIMEOUT_MS)
    db.convert_binding = bound
    db.execute("PRAGMA synchronous = FULL; PRAGMA secure_delete = ON").fetchall()
    return db


# -- looking -----------------------------------------------------------------------------------------------------------


def _tables(db: apsw.Connection) -> set[str]:
    return {str(name) for (name,) in fetch(db, _TABLES)}


def _contents(db: apsw.Connection, now_ms: int, rows: Sequence[type[Rows]]) -> dict[str, Any]:
    newest = _newest(db, rows)
    owners = operators(db)
    runs = "FROM (SELECT * FROM cron_runs ORDER BY no DESC LIMIT 10000) WHERE"  # the newest: some ms
    since = (now_ms - _DAY_MS, _SHOWN)
    return {
        "newest_at": newest[0],
        "newest_in": newest[1],
        "owner": owners[0].id if owners else "",
        "zones": tuple(
            fetch(db, "SELECT id, zone FROM users WHERE removed_at IS NULL AND kind = 'person' ORDER BY id")
        ),
        "jobs": tuple(_jobs(db)),
        "failed": tuple(fetch(db, f"SELECT path, reason {runs} state = 'failed' AND ended_at >= ? LIMIT ?", since)),
        "missed": tuple(
            fetch(
                db,
                f"SELECT path, sum(count) {runs} state = 'missed' AND created_at >= ? GROUP BY path LIMIT ?",
                since,
            )
        ),
        "letters": count(db, "SELECT count(*) FROM dead_letters WHERE replayed_at IS NULL"),
        "new_letters": count(
            db, "SELECT count(*) FROM dead_letters WHERE replayed_at IS NULL AND created_at >= ?", (now_ms - _DAY_MS,)
        ),
        "dropped": tuple(
            fetch(db, "SELECT user, letters FROM dropped_letters ORDER BY letters DESC, user LIMIT ?", (_SHOWN,))
        ),
        "unread": count(db, "SELECT count(*) FROM inbox WHERE state = 0"),
        "heard": tuple(fetch(db, _HEARD)),
    } | {name: value for each in rows for name, value in each.inspected(db).items()}


def _newest(db: apsw.Connection, rows: Sequence[type[Rows]]) -> tuple[int, str]:
    """Return when the newest row was written, and in which table."""
    dated = [(table.name, table.number, "created_at") for table in tables_of(rows) if table.number]
    found = []
    for table, key, at in (*_DATED, *dated):
        found.append((count(db, f"SELECT coalesce((SELECT {at} FROM {table} ORDER BY {key} DESC LIMIT 1), 0)"), table))
    return max(found)


def _jobs(db: apsw.Connection) -> list[InspectedJob]:
    rows: Sequence[Any] = fetch(
        db,
        "SELECT j.path, coalesce(u.zone, 'UTC'), j.source, j.spec, j.paused, j.next_at FROM cron_jobs j"
        " LEFT JOIN users u ON u.id = j.user WHERE j.removed_at IS NULL ORDER BY j.path",
    )
    return [
        InspectedJob(path=path, zone=zone, source=source, spec=_spec(spec), paused=bool(paused), next_at=next_at)
        for path, zone, source, spec, paused, next_at in rows
    ]


def _spec(text: str) -> CronSpec | None:
    try:
        return msgspec.convert(json.loads(text), CronSpec)
    except (ValueError, msgspec.ValidationError):
        return None


def _size(file: str) -> int:
    try:
        return Path(file).stat().st_size
    except OSError:
        return 0
