"""The turns of an agent, and what the model was shown in one."""

from typing import Any

from daycare.features.dashboard.pages.talk import page_of_turns
from daycare.features.dashboard.visit import Visit


async def listed(visit: Visit, path: str) -> dict[str, Any]:
    """Return a page of turns, and the prompt of the turn `?turn`."""
    values: dict[str, Any] = {"history": await page_of_turns(visit, path)}
    if (turn := visit.query.get("turn", "")).isdecimal():
        values["prompt"] = await visit.get_if_seen("/v1/turns/{turn}/prompt", turn=turn)
    return values
