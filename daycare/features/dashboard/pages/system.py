"""System: how the daemon is, and what it is made of at the moment."""

from typing import Any

from daycare.features.dashboard.visit import Visit


async def shown(visit: Visit) -> dict[str, Any]:
    """Return health, connectors, providers, plugins and keys."""
    health, status = await visit.get("/v1/health"), await visit.get("/v1/status")
    models, plugins = await visit.get("/v1/models"), await visit.get("/v1/plugins")
    connectors = await visit.get("/v1/connectors")
    keys = await visit.get("/v1/keys")
    return {"title": "System", "health": health, "status": status, **models, **plugins, **connectors, **keys}
