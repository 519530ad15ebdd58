"""How much an agent and its helpers may ask people for: requests that wait, and requests within an hour."""

import re
from typing import Final

import apsw

from daycare.base.errors import BusyError
from daycare.base.limits import APPROVALS_OPEN_MAX, APPROVALS_PER_HOUR
from daycare.store.sqlite.database import count

_HOUR_MS: Final = 3_600_000


def check(db: apsw.Connection, root: str, now: int) -> None:
    """Raise `BusyError` if the agent at `root` or a helper of it may ask for nothing more now."""
    hint = "go on without it, and tell the user what you would have proposed; they can decide with /approvals"
    waiting = count(
        db, "SELECT count(*) FROM approvals WHERE root = ? AND state = 'pending' AND expires_at > ?", (root, now)
    )
    if waiting >= APPROVALS_OPEN_MAX:
        raise BusyError(
            "APPROVALS_OPEN",
            f"asking for approval: {waiting} requests wait for a decision, which is the most",
            hint=hint,
        )
    lately = db.execute(
        "SELECT created_at FROM approvals WHERE root = ? AND created_at > ? AND created_at <= ?"
        " ORDER BY created_at DESC LIMIT ?",
        (root, now - _HOUR_MS, now, APPROVALS_PER_HOUR),
    ).fetchall()
    if len(lately) >= APPROVALS_PER_HOUR:
        wait_s = (int(str(lately[-1][0])) + _HOUR_MS - now) / 1000
        raise BusyError(
            "APPROVALS_HOURLY",
            f"asking for approval: {len(lately)} requests within an hour, which is the most",
            hint=hint,
            retry_after_s=max(wait_s, 1.0),
        )


def root_of(path: str) -> str:
    """Return the permanent agent above a helper or a search."""
    return re.split(r"/(?:sub|search)/(?=[0-9]+(?:/|$))", path, maxsplit=1)[0]
