"""Work: what is scheduled, what runs in the background, and what could not be delivered."""

from typing import Any

from daycare.features.dashboard.visit import Visit


async def listed(visit: Visit) -> dict[str, Any]:
    """Return jobs, tasks and dead letters, the newest of each."""
    cron = await visit.get("/v1/cron")
    tasks = await visit.get("/v1/tasks", limit=50)
    dead = await visit.get("/v1/dead", limit=50)
    return {"title": "Work", **cron, **tasks, **dead}
