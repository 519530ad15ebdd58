"""Costs: what was spent, by day, and on what."""

from collections import Counter
from typing import Any, Final

from daycare.features.dashboard.visit import Visit

SPANS: Final = (7, 30, 90)


async def shown(visit: Visit) -> dict[str, Any]:
    """Return what was spent in so many `?days`."""
    asked = visit.query.get("days", "")
    days = int(asked) if asked in map(str, SPANS) else SPANS[0]
    found = await visit.get("/v1/spend", days=days)
    by_day: Counter[str] = Counter()
    by_path: Counter[str] = Counter()
    by_model: Counter[str] = Counter()
    for row in found["spent"]:
        by_day[row["key"]] += row["cost_micros"]
        by_path[row["path"]] += row["cost_micros"]
        by_model[f"{row['provider']}/{row['model']}"] += row["cost_micros"]
    budgets = await visit.get("/v1/budgets")
    tokens = sum(row["input_tokens"] + row["output_tokens"] for row in found["spent"])
    cached = sum(row["cached_tokens"] for row in found["spent"])
    return {
        "title": "Costs",
        "days": days,
        "spans": SPANS,
        "by_day": sorted(by_day.items()),
        "by_path": by_path.most_common(20),
        "by_model": by_model.most_common(20),
        "most": max(by_day.values(), default=0),
        "total": sum(by_day.values()),
        "tokens": tokens,
        "cached": cached,
        "calls": sum(row["calls"] for row in found["spent"]),
        "budgets": budgets["budgets"],
    }
