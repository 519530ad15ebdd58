"""How many turns there were in a time, for what one costs."""

import apsw

from daycare.store.sqlite.database import count


def turns_between(db: apsw.Connection, since_ms: int, until_ms: int) -> int | None:
    """Return how many turns began from one time up to another; None if older ones than the first are gone by now."""
    first = _first_since(db, since_ms)
    oldest = count(db, "SELECT coalesce(min(turn), 1) FROM turns")
    if first <= oldest > 1:
        return None
    return count(db, "SELECT count(*) FROM turns WHERE turn >= ? AND turn < ?", (first, _first_since(db, until_ms)))


def _first_since(db: apsw.Connection, since_ms: int) -> int:
    """Return the least number of turns that began at a time or later. Numbers grow with time: few are looked at."""
    low, high = 0, count(db, "SELECT coalesce(max(turn), 0) + 1 FROM turns")
    while low < high:
        middle = (low + high) // 2
        row = db.execute(
            "SELECT turn, started_at FROM turns WHERE turn >= ? ORDER BY turn LIMIT 1", (middle,)
        ).fetchone()
        if row is not None and int(str(row[1])) < since_ms:
            low = int(str(row[0])) + 1
        else:
            high = middle
    return low
