"""The conversation of an agent, a page of turns at a time."""

from typing import Any, Final

from daycare.features.dashboard.visit import Visit

PAGE_TURNS: Final = 20


async def said(visit: Visit, path: str) -> dict[str, Any]:
    """Return what was said before the turn `?before`, else at the end."""
    return {"history": await page_of_turns(visit, path)}


async def page_of_turns(visit: Visit, path: str) -> dict[str, Any] | None:
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
