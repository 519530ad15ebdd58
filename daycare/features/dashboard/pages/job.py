"""A scheduled job: when it is due, how it is written, and what came of each of its runs."""

from typing import Any, Final

from daycare.features.dashboard.visit import Visit

RUNS: Final = 30  # of one page
_STATES: Final = ("waiting", "due", "ran", "late", "missed", "skipped", "failed")


async def shown(visit: Visit) -> dict[str, Any]:
    """Return a job, and a page of its runs, those of a `?state` only."""
    path, state, before = f"/{visit.segment('path')}", visit.query.get("state"), visit.query.get("before", "")
    job = await visit.get("/v1/cron/job", path=path)
    state = state if state in _STATES else None
    asked = int(before) if before.isascii() and before.isdecimal() else None
    runs = (await visit.get("/v1/cron/runs", path=path, state=state, before=asked, limit=RUNS))["runs"]
    more = visit.here(before=runs[-1]["no"]) if len(runs) == RUNS else ""
    return {"title": path, "job": job, "runs": runs, "state": state, "states": _STATES, "next": more}
