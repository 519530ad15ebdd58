"""The documents that an agent is shown: who it is, whom it talks to, what it keeps in mind."""

from typing import Any

from daycare.features.dashboard.visit import Visit


async def shown(visit: Visit, path: str) -> dict[str, Any]:
    """Return documents, and the one that `?document` names."""
    values: dict[str, Any] = {"documents": await visit.get_if_seen("/v1/memory", agent=path)}
    if name := visit.query.get("document"):
        values["document"] = await visit.get_if_seen("/v1/memory/document", agent=path, path=name)
    return values
