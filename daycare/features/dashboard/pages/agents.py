"""Agents: all of them by their paths."""

from typing import Any, Final

from daycare.features.dashboard.visit import Visit

PAGE_AGENTS: Final = 200


async def listed(visit: Visit) -> dict[str, Any]:
    """Return agents in the order of their paths, those that end with `?all`, too."""
    after, dead = visit.query.get("after", ""), "all" in visit.query
    found = (await visit.get("/v1/agents", after=after, include_dead=dead, limit=PAGE_AGENTS))["agents"]
    people: dict[str, list[dict[str, Any]]] = {}
    for agent in found:
        people.setdefault(agent["path"].split("/")[1], []).append(agent)
    more = found[-1]["path"] if len(found) == PAGE_AGENTS else ""
    return {
        "title": "Agents",
        "people": people,
        "after": more,
        "all": dead,
        "may_create": visit.caller.may == "operator",
    }
