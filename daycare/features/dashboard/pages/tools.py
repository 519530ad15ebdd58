"""The tools that an agent may use, and those that it may not."""

from typing import Any

from daycare.features.dashboard.visit import Visit


async def rights(visit: Visit, path: str) -> dict[str, Any]:
    """Return all tools with whether it may use them, and why."""
    return await visit.get_if_seen("/v1/agent/tools", path=path) or {}
