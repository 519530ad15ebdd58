"""The conversation of an agent: its newest turns, or those before one."""

from collections.abc import Iterable
from typing import Any, Final

from daycare.base.limits import FILE_MAX_BYTES, FILES_MAX
from daycare.features.dashboard.visit import PageRefusedError, Visit

PAGE_TURNS: Final = 20
_TURNS_MAX: Final = 100  # in one page; what is older is on pages of its own
_DIGITS_MAX: Final = 5
_BADGES: Final = {"IDENTITY.md": "Identity", "MEMORY.md": "Chat memory"}


async def said(visit: Visit, path: str) -> dict[str, Any]:
    """Return what was said before the turn `?before`, else the newest `?turns`, and which documents go with it."""
    history = await page_of_turns(visit, path)
    try:
        listed = await visit.get_if_seen("/v1/memory", agent=path)
    except PageRefusedError:  # the memory of somebody who was let in
        listed = None
    asked = await visit.get_if_seen("/v1/approvals") or {"approvals": ()}
    sizes = {it["path"]: it["size"] for it in listed["documents"]} if listed else {}
    badges = [(name, document, bool(sizes.get(document))) for document, name in _BADGES.items()] if listed else []
    return {
        "history": history,
        "taken": {seq for turn in (history or {"turns": ()})["turns"] for seq in turn.get("seqs", ())},  # waits no more
        "badges": badges,
        "asks": [it for it in asked["approvals"] if it["path"] == path],
        "bounds": {"files": FILES_MAX, "bytes": FILE_MAX_BYTES},
        "turns_more": min(_shown(visit) + PAGE_TURNS, _TURNS_MAX) if _shown(visit) < _TURNS_MAX else None,
    }


async def page_of_turns(visit: Visit, path: str) -> dict[str, Any] | None:
    """Return a page of turns, the oldest first, each message as it is shown; None for whoever may not read it."""
    before = visit.query.get("before", "")
    asked = int(before) if before.isdecimal() else None
    found = await visit.get_if_seen("/v1/history", path=path, before=asked, limit=_shown(visit), ended=True)
    if found is None:
        return None
    turns = [_turn(turn) for turn in reversed(found["turns"])]
    return {"turns": turns, "older": found["next"], "back": asked is not None}


def _shown(visit: Visit) -> int:
    wanted = visit.query.get("turns", "")
    return min(max(int(wanted), 1), _TURNS_MAX) if wanted.isdecimal() and len(wanted) < _DIGITS_MAX else PAGE_TURNS


def _turn(turn: dict[str, Any]) -> dict[str, Any]:
    """Return a turn as it is shown: calls of tools with their results, and what a person could say again."""
    messages = turn["messages"]
    results = {part["call_id"]: part for part in _parts(messages, "tool_result")}
    of_people = [message for message in messages if message["role"] == "user" and _origin(message) == "person"]
    return {
        **turn,
        "messages": [_told(message, results) for message in messages if message["role"] != "tool"],
        "text": "\n\n".join(part["text"] for part in _parts(of_people, "text") if not part.get("quoted")),
        "files": list(_parts(of_people, "file")),
        "by_person": len(of_people) > 0,
    }


def _told(message: dict[str, Any], results: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return a message as it is shown: its words, what was attached, and the tools that it called."""
    return {
        "role": message["role"],
        "sender": message.get("sender", "").removeprefix("direct:"),
        "origin": _origin(message),
        "at_ms": message.get("at_ms"),
        "text": "\n\n".join(part["text"] for part in _parts([message], "text")),
        "files": list(_parts([message], "file")),
        "calls": [{**call, "result": results.get(call["id"])} for call in _parts([message], "tool_call")],
    }


def _parts(messages: Iterable[dict[str, Any]], kind: str) -> Iterable[dict[str, Any]]:
    return (part for message in messages for part in message["parts"] if part["type"] == kind)


def _origin(message: dict[str, Any]) -> str:
    return str(message.get("origin", "person"))
