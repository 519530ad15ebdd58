"""Costs: what was spent each day, on what and for whom, compared with the time before; and budgets."""

from collections import Counter, defaultdict
from datetime import date, timedelta
from typing import Any, Final

from daycare.features.dashboard import charts
from daycare.features.dashboard.visit import Visit

SPANS: Final = (7, 30, 90)
BY: Final = {"model": "Model", "agent": "Agent", "payer": "Payer"}
BUDGETS: Final = 25  # of one page
_NUMBERS: Final = ("calls", "unpriced", "input_tokens", "output_tokens", "cached_tokens", "unsettled", "cost_micros")


async def shown(visit: Visit) -> dict[str, Any]:
    """Return what was spent in so many `?days`, summed `?by` something, and what the `?day` was made of."""
    asked = visit.query.get("days", "")
    days = int(asked) if asked in map(str, SPANS) else SPANS[0]
    by = found if (found := visit.query.get("by", "")) in BY else "model"
    now = await visit.get("/v1/spend/sums", days=days, by=by, groups=charts.COLOURS - 1)
    before = await visit.get("/v1/spend/sums", days=days, by=by, groups=50, until=_back(now["first"], 1))
    keys = [_back(now["last"], back) for back in range(days)][::-1]
    by_day: Counter[str] = Counter()
    amounts: dict[tuple[str, str], int] = {}
    for each in now["sums"]:
        by_day[each["day"]] += each["cost_micros"]
        amounts[each["day"], each["group"]] = each["cost_micros"]
    groups, earlier = _by_group(now), _by_group(before)
    total, was = _total(groups), _total(earlier)
    after = visit.query.get("after", "")
    listed = await visit.get_if_seen("/v1/budgets", after=after, limit=BUDGETS)
    if listed is None:  # a person's own
        listed = await visit.get("/v1/budget", path=visit.caller.paths.removesuffix("/**") or f"/{visit.caller.user}")
    budgets = listed["budgets"]
    return {
        "title": "Costs",
        "days": days,
        "spans": SPANS,
        "by": by,
        "kinds": BY,
        "period": now,
        "chart": charts.stacked(keys, now["groups"], amounts) if any(by_day.values()) else None,
        "groups": [
            {
                "name": name or "all others",
                "colour": charts.colour(place),
                **groups[name],
                "before": earlier[name]["cost_micros"] if name in earlier else None,
            }
            for place, name in enumerate(now["groups"])
        ],
        "by_day": [(key, by_day[key]) for key in reversed(keys) if by_day[key]],
        "total": total,
        "before": {**was, "first": before["first"], "last": before["last"], "turns": before["turns"]},
        "peak": await _day(visit, keys, by_day),
        "budgets": budgets,
        "more_budgets": visit.here(after=budgets[-1]["path"]) if len(budgets) == BUDGETS else "",
    }


async def _day(visit: Visit, keys: list[str], by_day: Counter[str]) -> dict[str, Any] | None:
    """Return what the day was made of that is asked for, or that cost most; None if nothing was spent."""
    asked = visit.query.get("day", "")
    day = asked if asked in keys else by_day.most_common(1)[0][0] if by_day else None
    if day is None or not by_day[day]:
        return None
    parts = []
    for by, title in BY.items():
        found = await visit.get("/v1/spend/sums", days=1, by=by, until=day, groups=5)
        rows = [(each["group"] or "all others", each["cost_micros"], each["calls"]) for each in found["sums"]]
        parts.append((title, rows))
    return {"day": day, "total": by_day[day], "parts": parts, "asked": day == asked}


def _by_group(found: dict[str, Any]) -> dict[str, dict[str, int]]:
    sums: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(_NUMBERS, 0))
    for each in found["sums"]:
        into = sums[each["group"]]
        for name in _NUMBERS:
            into[name] += each[name]
    return dict(sums)


def _total(groups: dict[str, dict[str, int]]) -> dict[str, int]:
    return {name: sum(each[name] for each in groups.values()) for name in _NUMBERS}


def _back(day: str, days: int) -> str:
    return (date.fromisoformat(day) - timedelta(days=days)).isoformat()
