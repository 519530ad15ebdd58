"""People: who is known, which strangers wrote, and which programs may use the API."""

from typing import Any

from daycare.features.dashboard.visit import Visit


async def listed(visit: Visit) -> dict[str, Any]:
    """Return people, strangers and tokens."""
    users = (await visit.get("/v1/users", limit=1000))["users"]
    strangers = (await visit.get("/v1/pairings"))["pairings"]
    tokens = (await visit.get("/v1/tokens"))["tokens"]
    return {"title": "People", "users": users, "strangers": strangers, "tokens": tokens}
