"""One agent: what it is, and the tab that somebody looks at."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

from daycare.features.dashboard.pages import agents, budget, documents, inbox, skills, talk, tools, turns
from daycare.features.dashboard.visit import Visit


async def _offered(visit: Visit, path: str) -> dict[str, Any]:
    return await agents.offered(visit)


class Tab(NamedTuple):
    """A tab: its name, and what it shows beside the agent itself. It is drawn with `tabs/KEY.html`."""

    name: str
    load: Callable[[Visit, str], Awaitable[dict[str, Any]]]


TABS: Final[Mapping[str, Tab]] = {
    "talk": Tab("Conversation", talk.said),
    "turns": Tab("Turns", turns.listed),
    "documents": Tab("Documents", documents.shown),
    "skills": Tab("Skills", skills.listed),
    "inbox": Tab("Inbox", inbox.waiting),
    "tools": Tab("Tools", tools.rights),
    "budget": Tab("Budget", budget.limits),
    "settings": Tab("Settings", _offered),
}

_OF_ENDED: Final = ("talk", "turns")  # an agent that has ended has nothing before it


async def one(visit: Visit) -> dict[str, Any]:
    """Return an agent, and what its tab shows."""
    path, asked = f"/{visit.segment('path')}", visit.query.get("tab", "")
    found = await visit.get("/v1/agent", path=path, ended=True)
    tabs = {name: TABS[name] for name in (_OF_ENDED if found["agent"]["state"] == "dead" else TABS)}
    tab = asked if asked in tabs else "talk"
    today = (await visit.get("/v1/spend/today", paths=path))["spent"].get(path)
    values = {"title": path, "tab": tab, "tabs": tabs, "watch": path, "today": today}
    return {**values, **found, **await TABS[tab].load(visit, path)}
