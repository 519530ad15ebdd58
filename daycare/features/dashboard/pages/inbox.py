"""What waits for an agent, and what was given up."""

from typing import Any, Final

from daycare.features.dashboard.visit import Visit

_ROWS: Final = 50


async def waiting(visit: Visit, path: str) -> dict[str, Any]:
    """Return messages that wait behind the number `?after`, and dead letters."""
    after = visit.query.get("after", "")
    found = await visit.get("/v1/inbox", path=path, after=after if after.isdecimal() else None, limit=_ROWS)
    dead = await visit.get_if_seen("/v1/dead", path=path, limit=_ROWS) or {"dead": ()}
    rows = found["rows"]
    return {"rows": rows, "rows_next": rows[-1]["seq"] if len(rows) == _ROWS else None, "dead": dead["dead"]}
