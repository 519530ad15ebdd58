"""First steps: what `daycare init` asks in a terminal, and what comes next."""

from typing import Any, Final

from daycare.api.browsers import LOGIN
from daycare.api.callers import May
from daycare.features.dashboard.visit import PageRefusedError, Visit

_NAMELESS: Final = "me"  # what somebody is called who was not asked


async def shown(visit: Visit) -> dict[str, Any]:
    """Return what the home is set up for, and which steps are done."""
    setup = await visit.get("/v1/setup")
    done = {
        "names": setup["user_name"] != _NAMELESS,
        "model": setup["answers"],
        "messenger": any(each["connected"] for each in setup["messengers"]),
        "message": await _spoken(visit, setup["path"]),
    }
    acts = visit.caller.may is May.OPERATOR
    return {"title": "First steps", "setup": setup, "done": done, "acts": acts}


async def is_wanted(visit: Visit) -> bool:
    """Return whether a browser is led here: it was just logged in, nobody has said a word, and no model is set up."""
    caller = visit.caller
    if visit.came_from != LOGIN or caller.may is not May.OPERATOR or await _spoken(visit, f"/{caller.user}/direct"):
        return False
    return not (await visit.get("/v1/setup"))["answers"]


async def _spoken(visit: Visit, path: str) -> bool:
    try:
        return bool((await visit.get("/v1/history", path=path, limit=1))["turns"])
    except PageRefusedError:  # there is no conversation at all
        return False
