"""Agents: the tree of their paths, a branch at a time, with what each does and costs; and making one."""

from collections.abc import Iterable
from typing import Any, Final

from daycare.features.dashboard.visit import Visit

PAGE_AGENTS: Final = 100
_SPENT_PATHS: Final = 40  # asked for at a time: the longest ones fit into one question
_MODELS_MAX: Final = 200  # offered while somebody types
_DEPTH_MAX: Final = 4  # of what is drawn further to the right
DOCUMENTS: Final = {"SOUL.md": "Who it is", "STYLE.md": "How it writes", "USER.md": "About its person"}


async def listed(visit: Visit) -> dict[str, Any]:
    """Return the branch `?under` with who works there, or what `?find` fits; with `?all` those that ended, too."""
    under, find, after = (visit.query.get(name, "") for name in ("under", "find", "after"))
    values: dict[str, Any] = {
        "title": "Agents",
        "under": under,
        "find": find,
        "may_create": visit.caller.may == "operator",
        "may_build": visit.caller.may in ("operator", "person"),
    }
    if "all" in visit.query:
        found = (await visit.get("/v1/agents", after=after, include_dead=True, limit=PAGE_AGENTS))["agents"]
        more = found[-1]["path"] if len(found) == PAGE_AGENTS else ""
        people = _by_user([{"path": each["path"], "agent": each} for each in found])
        return values | {"all": True, "people": people, "next": more}
    tree = await visit.get("/v1/agents/tree", under=under, find=find, after=after, limit=PAGE_AGENTS)
    people = _by_user(tree["nodes"])
    shown = sorted({each["path"] for each in (*tree["nodes"], *tree["busy"])} | {f"/{user}" for user in people})
    spent: dict[str, Any] = {}
    for begin in range(0, len(shown), _SPENT_PATHS):
        paths = ",".join(shown[begin : begin + _SPENT_PATHS])
        spent |= (await visit.get("/v1/spend/today", paths=paths))["spent"]
    return {**values, **tree, "spent": spent, "people": people}


def _by_user(nodes: Iterable[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    people: dict[str, list[dict[str, Any]]] = {}
    for node in nodes:
        user, *names = node["path"].split("/")[1:]
        depth = names.count("sub") + names.count("search") + (names[-1:] == ["memory"])
        people.setdefault(user, []).append({**node, "depth": min(depth, _DEPTH_MAX)})
    return people


async def new(visit: Visit) -> dict[str, Any]:
    """Return what an agent can be made of."""
    users = (await visit.get_if_seen("/v1/users") or {"users": ()})["users"]
    mine = visit.caller.user or next((each["id"] for each in users if each.get("operator")), "")
    first = {"title": "New agent", "users": users, "mine": mine, "documents": DOCUMENTS}
    first |= await visit.get("/v1/templates")
    first["builder"] = await visit.get("/v1/builder", user=mine)
    return {**first, **await offered(visit)}


async def offered(visit: Visit) -> dict[str, Any]:
    """Return models, personalities and behaviours to choose from; nothing for whoever may not see them."""
    choices = await visit.get_if_seen("/v1/agents/choices") or {}
    survey = await visit.get_if_seen("/v1/models") or {"providers": ()}
    usable = [each for each in survey["providers"] if each["state"] != "unconfigured"]
    names = [model["name"] for provider in usable for model in provider["models"]]
    return {**choices, "models": names[:_MODELS_MAX]}
