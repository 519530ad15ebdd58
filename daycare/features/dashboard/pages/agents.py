"""Agents: all of them by their paths, and one with its conversation, documents, inbox and settings."""

from typing import Any, Final

from daycare.features.dashboard.visit import Visit

PAGE_AGENTS: Final = 200
TABS: Final = {
    "talk": "Conversation",
    "turns": "Turns",
    "documents": "Documents",
    "inbox": "Inbox",
    "settings": "Settings",
}
PAGE_TURNS: Final = 20


async def listed(visit: Visit) -> dict[str, Any]:
    """Return agents in the order of their paths, those that end with `?all`, too."""
    after, dead = visit.query.get("after", ""), "all" in visit.query
    found = (await visit.get("/v1/agents", after=after, include_dead=dead, limit=PAGE_AGENTS))["agents"]
    people: dict[str, list[dict[str, Any]]] = {}
    for agent in found:
        people.setdefault(agent["path"].split("/")[1], []).append(agent)
    more = found[-1]["path"] if len(found) == PAGE_AGENTS else ""
    return {
        "title": "Agents",
        "people": people,
        "after": more,
        "all": dead,
        "may_create": visit.caller.may == "operator",
    }


async def one(visit: Visit) -> dict[str, Any]:
    """Return an agent, and what its tab shows."""
    path = f"/{visit.segment('path')}"
    tab = visit.query.get("tab", "talk")
    found = await visit.get("/v1/agent", path=path)
    values = {"title": path, "tab": tab if tab in TABS else "talk", "tabs": TABS, "watch": path, **found}
    if tab in ("talk", "turns"):
        values["history"] = await _history(visit, path)
    if tab == "turns" and (turn := visit.query.get("turn", "")).isdecimal():
        values["prompt"] = await visit.get_if_seen("/v1/turns/{turn}/prompt", turn=turn)
    values["documents"] = values["document"] = None
    if tab == "documents":
        values["documents"] = await visit.get_if_seen("/v1/memory", agent=path)
        if name := visit.query.get("document"):
            values["document"] = await visit.get_if_seen("/v1/memory/document", agent=path, path=name)
    return values


async def _history(visit: Visit, path: str) -> dict[str, Any] | None:
    """Return a page of turns, the oldest first, each message as it is shown; None for whoever may not read it."""
    before = visit.query.get("before", "")
    asked = int(before) if before.isdecimal() else None
    found = await visit.get_if_seen("/v1/history", path=path, before=asked, limit=PAGE_TURNS)
    if found is None:
        return None
    turns = [
        {**turn, "messages": [_told(message) for message in turn["messages"]]} for turn in reversed(found["turns"])
    ]
    return {"turns": turns, "older": found["next"], "back": asked is not None}


def _told(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message as it is shown: its words, what was attached, and the tools that it called or that answered."""
    by_type: dict[str, list[dict[str, Any]]] = {}
    for part in message["parts"]:
        by_type.setdefault(part["type"], []).append(part)
    return {
        "role": message["role"],
        "sender": message.get("sender", ""),
        "origin": message.get("origin", "person"),
        "at_ms": message.get("at_ms"),
        "text": "\n\n".join(part["text"] for part in by_type.get("text", ())),
        "files": by_type.get("file", ()),
        "calls": by_type.get("tool_call", ()),
        "results": by_type.get("tool_result", ()),
    }
