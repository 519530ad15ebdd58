"""Memory: what is remembered, found by a question, with why."""

from typing import Any

from daycare.features.dashboard.visit import Visit


async def searched(visit: Visit) -> dict[str, Any]:
    """Return what fits `?query`, else the newest facts."""
    agent, query = visit.query.get("agent") or None, visit.query.get("query", "")
    found = (await visit.get("/v1/memories/search", agent=agent, query=query, limit=20))["found"] if query else None
    facts = (await visit.get("/v1/memories/facts", agent=agent))["facts"] if found is None else []
    stats = await visit.get("/v1/memories/stats", agent=agent)
    return {"title": "Memory", "agent": agent or "", "query": query, "found": found, "facts": facts, "stats": stats}
