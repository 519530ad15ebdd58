"""Approvals: what waits for a decision, with what it would change."""

from typing import Any

from daycare.features.dashboard.visit import Visit


async def listed(visit: Visit) -> dict[str, Any]:
    """Return requests with their texts, decided ones with `?all`."""
    everything = "all" in visit.query
    found = await visit.get("/v1/approvals", all=everything, limit=30)
    shown = [await visit.get("/v1/approvals/{no}", no=each["no"]) for each in found["approvals"]]
    return {"title": "Approvals", "approvals": shown, "granted": found["granted"], "all": everything}
