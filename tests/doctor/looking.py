"""Looking at a home, and changing its database behind everybody's back."""

import time
from contextlib import closing
from typing import Any

import apsw

from daycare.ops.doctor.checks import CHECKS, Mended, examine, mend
from daycare.ops.doctor.context import DoctorContext
from daycare.ops.doctor.finding import DoctorFinding
from daycare.store.home import Home
from daycare.store.vault import open_vault


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def look(home: Home, *names: str, offline: bool = False) -> list[DoctorFinding]:
    """Return what looks find, all of them if none is named."""
    return list(examine(DoctorContext.of(home, now_ms(), offline=offline), names or tuple(CHECKS)))


def bad(home: Home, *names: str, offline: bool = False) -> list[tuple[str, str, str]]:
    """Return level, what it is about, and the message of what is not fine."""
    return [
        (each.level, each.about, each.message) for each in look(home, *names, offline=offline) if each.level != "ok"
    ]


def one(home: Home, name: str) -> DoctorFinding:
    """Return the worst finding of a look."""
    rank = ("ok", "warn", "fail")
    return max(look(home, name), key=lambda each: rank.index(each.level))


def fix(home: Home, *names: str, dry_run: bool = False) -> list[Mended]:
    context = DoctorContext.of(home, now_ms())
    return list(mend(context, list(examine(context, names or tuple(CHECKS))), now_ms(), dry_run=dry_run))


def sql(home: Home, statement: str, *values: Any) -> None:
    with closing(apsw.Connection(str(home.path / "daycare.db"))) as db:
        db.execute(statement, values).fetchall()


def store_secret(home: Home, name: str, value: str) -> None:
    token = open_vault(home.key_file).seal(value)
    sql(home, "INSERT OR REPLACE INTO secrets VALUES (?, 'ann', 'person', ?, 0)", name, token)


def add_job(home: Home, path: str, spec: str, *, next_at: int | None = None, paused: bool = False) -> None:
    sql(
        home,
        "INSERT INTO cron_jobs (path, user, origin, source, source_ref, key, spec, paused, next_at, created_at,"
        " updated_at) VALUES (?, 'ann', 'person', 'cli', '', '', ?, ?, ?, 0, 0)",
        path, spec, paused, next_at,
    )  # fmt: skip
