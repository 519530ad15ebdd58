"""Everybody at every route, asking for their own, for what is another's, and for nothing in particular."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from starlette.routing import Route

from daycare.api.app import build
from daycare.api.callers import Caller, May, admits, is_anybodys
from daycare.api.described import description_of
from tests.attacks.stage import AttackStage

# They end the daemon, or who asks is logged out: left alone where they are obeyed.
ENDS: Final = ("POST /v1/shutdown", "POST /v1/handover", "POST /v1/logout", "DELETE /v1/browsers")
REFUSALS: Final = (401, 403, 404)
CALLERS: Final[dict[str, Caller | None]] = {
    "": None,
    "bob": Caller(name="bob", may=May.PERSON, user="bob"),
    "phone": Caller(name="phone", may=May.APPROVE, user="bob"),
    "bob's browser": Caller(name="b", may=May.PERSON, user="bob"),
    "eve": Caller(name="eve", may=May.PERSON, user="eve"),
    "read": Caller(name="read", may=May.READ, user="ann"),
    "ann's browser": Caller(name="a", may=May.OPERATOR, user="ann"),
    "operator": Caller(name="operator", may=May.OPERATOR, user="ann"),
}
OWN: Final = ("/v1/projects/", "/v1/workspaces/")  # by whatever name: a folder of the caller's own
_SEGMENT: Final = re.compile(r"\{(\w+)(?::\w+)?\}")


def routes(stage: AttackStage) -> list[tuple[str, str, Any]]:
    """Return method, path and endpoint of every route."""
    found = []
    for route in build(stage.network.daemon._daemon.services).routes:
        if isinstance(route, Route):
            found += [(each, route.path, route.endpoint) for each in sorted((route.methods or set()) - {"HEAD"})]
    return found


def attack(stage: AttackStage, tried: Sequence[tuple[str, str, Any]]) -> dict[str, Any]:
    """Ask at these routes, and return figures and what got through."""
    leaks: list[str] = []
    errors: list[str] = []
    requests = 0
    plain: dict[tuple[str, str, str], str] = {}  # what comes without asking for anything in particular
    for who, caller in CALLERS.items():  # operators last: what they ask for is done
        for method, path, endpoint in tried:
            if f"{method} {path}" in ENDS and caller is not None and admits(caller, method, endpoint):
                continue
            for of, route, query, body in _asked(stage, who, method, path):
                answer = stage.ask(method, route, stage.headers(who), body=body, makes=_makes(path), **query)
                requests += 1
                what = f"{who or 'nobody'}: {method} {route} {query or body or ''}: {answer.status}"
                if answer.status >= 500 or answer.status == 0:
                    errors.append(what)
                if not of:
                    plain[who, method, path] = answer.text
                ignored = not _heeds(path, endpoint) or answer.text == plain[who, method, path]  # it made no difference
                if _leak(caller, method, endpoint, of if not ignored else "", answer.status):
                    leaks.append(what)
                asked = f"{route} {query} {body}"  # what somebody knows already may be repeated
                leaks += [
                    f"{what}, with what is {it}'s"
                    for it in _others(stage, caller)
                    if stage.markers[it] in answer.text and stage.markers[it] not in asked
                ]
    return {"routes": len(tried), "callers": len(CALLERS), "requests": requests, "leaks": leaks, "errors": errors}


def _heeds(path: str, endpoint: Any) -> bool:
    """Whether whose things are asked for can make a difference: else only what stands in an answer says anything."""
    if path.startswith(OWN):
        return False
    said = description_of(endpoint)
    takes = _SEGMENT.search(path) is not None or hasattr(endpoint, "operation")
    return takes or (said is not None and (said.query is not None or said.body is not None))


def _makes(path: str) -> bool:
    """Whether a route answers with a secret that it makes."""
    return path in ("/v1/tokens", "/v1/browsers", "/v1/tickets", "/v1/login", "/v1/session")


def _asked(
    stage: AttackStage, who: str, method: str, path: str
) -> Iterator[tuple[str, str, dict[str, str], dict[str, Any] | None]]:
    """Yield whose things are asked for, "" for nobody's in particular, and the route, query and body that do."""
    yield "", _SEGMENT.sub("1", path), {}, None if method == "GET" else {}
    if who in ("operator", "ann's browser"):
        return
    for user in ("ann", "eve" if who != "eve" else "bob"):
        things = stage.things[user]
        route = _route(path, things)
        for wish in (
            {"path": things["path"]},
            {"path": f"/{user}/**"},
            {"user": user},
            {"path": things["path"], "user": user},
        ):
            if method in ("GET", "DELETE"):
                yield user, route, wish, None
            else:
                yield user, route, {}, {**wish, "text": "hello"} if path == "/v1/messages" else dict(wish)


def _route(path: str, things: Mapping[str, str]) -> str:
    """Return a route with somebody's things in its segments."""
    if path.startswith("/v1/trace/"):
        return f"/v1/trace/{things['seq']}"  # of a message, not of a file
    return _SEGMENT.sub(lambda found: things.get(found[1], things["id"]), path)


def _others(stage: AttackStage, caller: Caller | None) -> list[str]:
    """Return whose markers somebody must not see."""
    if caller is not None and not caller.own_only:
        return []
    return [user for user in stage.markers if caller is None or user != caller.user]


def _leak(caller: Caller | None, method: str, endpoint: Any, of: str, status: int) -> bool:
    """Whether a status says more than it should."""
    if is_anybodys(endpoint):
        return False
    if caller is None:
        return status != 401
    if not admits(caller, method, endpoint):
        return status != (404 if caller.own_only else 403)
    about_token = len(getattr(endpoint, "callers", ())) == len(May)
    return bool(of) and caller.own_only and not about_token and status < 300
