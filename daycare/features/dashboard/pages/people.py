"""People: who is known, which strangers wrote, and which programs may use the API."""

from typing import Any, Final

from daycare.api.callers import May
from daycare.features.dashboard.visit import Visit

MEANS: Final = {
    May.PERSON: "what its person may, with their own agents",
    May.READ: "see everything, change nothing",
    May.APPROVE: "decide what that person's agents ask for",
    May.SPEAK: "speak OpenAI's protocol for those whom it names",
    May.OPERATOR: "everything",
}


PEOPLE: Final = 50  # of one page


async def listed(visit: Visit) -> dict[str, Any]:
    """Return people behind the id `?after` whom `?find` fits, strangers and tokens."""
    find, after = visit.query.get("find", "").strip(), visit.query.get("after", "")
    users = (await visit.get("/v1/users", find=find, after=after, limit=PEOPLE))["users"]
    strangers = (await visit.get("/v1/pairings"))["pairings"]
    tokens = (await visit.get("/v1/tokens"))["tokens"]
    return {
        "title": "People",
        "users": users,
        "find": find,
        "more": visit.here(after=users[-1]["id"]) if len(users) == PEOPLE else "",
        "strangers": [each for each in strangers if not each.get("denied")],
        "refused": [each for each in strangers if each.get("denied")],
        "tokens": [each for each in tokens if not each.get("revoked_at")],
        "ended": [each for each in tokens if each.get("revoked_at")],
        "means": MEANS,
        "acts": visit.caller.may is May.OPERATOR,
    }
