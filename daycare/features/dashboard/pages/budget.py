"""What an agent may spend, and has spent."""

from collections import Counter
from typing import Any, Final

from daycare.features.dashboard.visit import Visit

_DAYS: Final = 30
_SUMS: Final = ("calls", "input_tokens", "cached_tokens", "output_tokens", "cost_micros")


async def limits(visit: Visit, path: str) -> dict[str, Any]:
    """Return all limits that bind it, and what it has spent by model, the dearest first."""
    found = await visit.get_if_seen("/v1/budget", path=path)
    if found is None:
        return {}
    by_model: dict[str, Counter[str]] = {}
    for row in (await visit.get("/v1/spend", path=path, days=_DAYS))["spent"]:
        by_model.setdefault(f"{row['provider']}/{row['model']}", Counter()).update({each: row[each] for each in _SUMS})
    dearest = sorted(by_model.items(), key=lambda each: -each[1]["cost_micros"])
    return {"budgets": found["budgets"], "spent": dict(dearest)}
