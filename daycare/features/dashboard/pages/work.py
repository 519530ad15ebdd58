"""Work: what is scheduled, what runs in the background, what waits for its time, and what could not be delivered."""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

from daycare.features.dashboard.visit import Visit

ROWS: Final = 50  # of one page
_TASK_STATES: Final = ("waiting", "running", "done", "failed", "cancelled", "expired")
_SOURCES: Final = ("inbox", "outbox", "post", "timer", "intake")


class WorkTab(NamedTuple):
    """A tab: its name, what it shows, a route that whoever sees it may call, and the kinds of events that change it.

    It is drawn with `work/KEY.html`.
    """

    name: str
    load: Callable[[Visit], Awaitable[dict[str, Any]]]
    needs: str
    live: str


async def listed(visit: Visit) -> dict[str, Any]:
    """Return what the tab shows that `?tab` names, the schedule without it."""
    asked = visit.query.get("tab", "")
    tabs = {key: tab for key, tab in TABS.items() if visit.may_see(tab.needs)}
    tab = asked if asked in tabs else "schedule"
    values = {"title": "Work", "tab": tab, "tabs": tabs, "live": TABS[tab].live, "whole": not visit.caller.own_only}
    return {**values, **await TABS[tab].load(visit)}


async def _schedule(visit: Visit) -> dict[str, Any]:
    user, after = _asked(visit, "user"), visit.query.get("after", "")
    found = await visit.get("/v1/cron", user=user, after=after, limit=ROWS)
    return {**found, "user": user, "next": _more(visit, found["jobs"], after="path")}


async def _tasks(visit: Visit) -> dict[str, Any]:
    user, state = _asked(visit, "user"), _asked(visit, "state", among=_TASK_STATES)
    found = await visit.get("/v1/tasks", user=user, state=state, before=_number(visit, "before"), limit=ROWS)
    one = await visit.get("/v1/tasks/task", path=path) if (path := visit.query.get("task")) else None
    more = _more(visit, found["tasks"], before="no")
    return {**found, "one": one, "user": user, "state": state, "states": _TASK_STATES, "next": more}


async def _timers(visit: Visit) -> dict[str, Any]:
    path, behind = _asked(visit, "path"), {name: _number(visit, name) for name in ("after_due", "after")}
    found = await visit.get("/v1/timers", path=path, limit=ROWS, **behind)
    return {**found, "path": path, "next": _more(visit, found["timers"], after_due="due_at", after="no")}


async def _signals(visit: Visit) -> dict[str, Any]:
    user, waiting = _asked(visit, "user"), "waiting" in visit.query
    before = _number(visit, "before")
    found = await visit.get("/v1/signals", user=user, waiting=waiting, before=before, limit=ROWS)
    who = await visit.get("/v1/signals/subscriptions", user=user, after=_number(visit, "listens"), limit=ROWS)
    more = {
        "next": _more(visit, found["signals"], before="no"),
        "next_listens": _more(visit, who["subscriptions"], listens="no"),
    }
    return {**found, **who, **more, "user": user, "waiting": waiting}


async def _dead(visit: Visit) -> dict[str, Any]:
    which = {name: _asked(visit, name) for name in ("path", "code")}
    which["source"] = _asked(visit, "source", among=_SOURCES)
    everything, before = "all" in visit.query, _number(visit, "before")
    found = await visit.get("/v1/dead", **which, waiting=not everything, before=before, limit=ROWS)
    one = await visit.get("/v1/dead/{no}", no=no) if (no := _number(visit, "no")) is not None else None
    for letter in [*found["dead"], *([one] if one else [])]:
        letter["text"] = _words(letter["body"])
    fits = {name: value for name, value in which.items() if value} | ({} if everything else {"waiting": True})
    values = {"which": which, "fits": json.dumps(fits), "sources": _SOURCES, "all": everything, "one": one}
    return {**found, **values, "next": _more(visit, found["dead"], before="no")}


async def _hooks(visit: Visit) -> dict[str, Any]:
    hooks = (await visit.get("/v1/hooks"))["hooks"]
    return {"hooks": sorted(hooks, key=lambda each: (-each["failing"], each["name"]))}


def _asked(visit: Visit, name: str, *, among: tuple[str, ...] = ()) -> str | None:
    found = visit.query.get(name, "")
    return None if not found or (among and found not in among) else found


def _number(visit: Visit, name: str) -> int | None:
    found = visit.query.get(name, "")
    return int(found) if found.isascii() and found.isdecimal() else None


def _more(visit: Visit, rows: list[dict[str, Any]], **cursor: str) -> str:
    """Return the query of the next page, empty if this is the last; `cursor` are fields of the last row by name."""
    if len(rows) < ROWS:
        return ""
    return visit.here(**{name: rows[-1][field] for name, field in cursor.items()})


def _words(body: str) -> str:
    """Return what a dead letter says: it is an envelope as JSON, or a reply's text."""
    try:
        found = json.loads(body)
    except ValueError:
        return body
    return str(found.get("text", body)) if isinstance(found, dict) else body


_CRON: Final = "cron.due,cron.ran,cron.missed,cron.failed,cron.broken,cron.changed"
TABS: Final[Mapping[str, WorkTab]] = {
    "schedule": WorkTab("Schedule", _schedule, "/v1/cron", _CRON),
    "tasks": WorkTab("Tasks", _tasks, "/v1/tasks", "task.started,task.progress,task.ended"),
    "timers": WorkTab(
        "Timers",
        _timers,
        "/v1/timers",
        "timer.set,timer.cancelled,message.accepted,turn.waiting,task.started,task.ended,turn.finished",
    ),
    "signals": WorkTab("Signals", _signals, "/v1/signals", "signal.fired,signal.subscribed,signal.unsubscribed"),
    "dead": WorkTab("Dead letters", _dead, "/v1/dead", "dead.lettered,dead.replayed,dead.pruned"),
    "hooks": WorkTab("Webhooks", _hooks, "/v1/hooks", "webhook.added,webhook.changed,webhook.rotated,webhook.removed"),
}
