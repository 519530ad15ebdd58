"""Memory: what is remembered, found by a question, with why; where it came from, and whether it still holds."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from daycare.features.dashboard.visit import PageRefusedError, Visit

PAGE_MEMORIES: Final = 50  # on a page, each with its sources


class View(NamedTuple):
    """What of a memory is shown: its name in the navigation, and how it is asked for."""

    name: str
    load: Callable[[Visit, str | None], Awaitable[dict[str, Any]]]


async def searched(visit: Visit) -> dict[str, Any]:
    """Return what fits `?query`, else what `?show` names."""
    agent, query = visit.query.get("agent") or None, visit.query.get("query", "")
    asked = visit.query.get("show", "")
    show = "search" if query else asked if asked in VIEWS else "facts"
    stats = await visit.get("/v1/memories/stats", agent=agent)
    values = {"title": "Memory", "agent": agent or "", "query": query, "show": show, "views": VIEWS, "stats": stats}
    return values | {"asked": dict(visit.query)} | await VIEWS[show].load(visit, agent)


async def _found(visit: Visit, agent: str | None) -> dict[str, Any]:
    asked = visit.query
    if not asked.get("query"):
        return {"found": None}
    found = await visit.get(
        "/v1/memories/search",
        agent=agent,
        query=asked["query"],
        tier=asked.get("tier") or None,
        since_ms=_day_ms(asked.get("since", "")),
        until_ms=_day_ms(asked.get("until", ""), after=True),
        entity=asked.get("entity") or None,
        path=asked.get("path") or None,
        all="all" in asked or None,
        limit=20,
    )
    return {"found": found["found"]}


def _listed(tier: str) -> Callable[[Visit, str | None], Awaitable[dict[str, Any]]]:
    async def load(visit: Visit, agent: str | None) -> dict[str, Any]:
        before, words = visit.query.get("before", ""), visit.query.get("words") or None
        page = await visit.get(
            f"/v1/memories/{tier}",
            agent=agent,
            words=words,
            all="all" in visit.query or None,
            before=before if before.isdecimal() else None,
            limit=PAGE_MEMORIES,
            sources=True,
        )
        found, sources = page[tier], {each["no"]: each for each in page["sources"]}
        found = [each | {"said": [sources[no] for no in each["sources"] if no in sources]} for each in found]
        return {"found": found, "next": found[-1]["no"] if len(found) == PAGE_MEMORIES else None}

    return load


async def _logs(visit: Visit, agent: str | None) -> dict[str, Any]:
    listed = await visit.get("/v1/memory", agent=agent, prefix="daily")
    values: dict[str, Any] = {"logs": listed["documents"][::-1]}
    if name := visit.query.get("document"):
        values["log"] = await visit.get("/v1/memory/document", agent=agent, path=name)
    return values


async def _recalled(visit: Visit, agent: str | None) -> dict[str, Any]:
    turn = visit.query.get("turn", "")
    try:
        return {"why": await visit.get("/v1/memories/why", agent=agent, turn=turn if turn.isdecimal() else None)}
    except PageRefusedError as error:
        if error.error["code"] != "NOTHING_RECALLED":
            raise
        return {"why": None}


async def _nothing_more(visit: Visit, agent: str | None) -> dict[str, Any]:
    return {}


VIEWS: Final[Mapping[str, View]] = {
    "search": View("Search", _found),
    "facts": View("Facts", _listed("facts")),
    "entities": View("People and things", _listed("entities")),
    "logs": View("Daily logs", _logs),
    "recalled": View("Recalled", _recalled),
    "figures": View("Figures", _nothing_more),
}


def _day_ms(day: str, *, after: bool = False) -> int | None:
    """Return when a day begins in UTC, or the one after it, in wall ms; None for what is none."""
    try:
        begin = datetime.fromisoformat(day).replace(tzinfo=UTC)
    except ValueError:
        return None
    return int((begin + timedelta(days=after)).timestamp() * 1000)
