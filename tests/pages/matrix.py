"""Everybody at every page: what is offered is permitted, what is not is refused, what is others' is not seen."""

import re
from html import unescape
from pathlib import Path
from typing import Any, Final

from starlette.routing import Match, Route

from daycare.api.app import build
from daycare.api.callers import Caller, May, admits
from tests.network.conftest import Network
from tests.pages.house import MARKS, house
from tests.pages.windows import pages

CALLERS: Final = {
    "operator": Caller(name="operator", may=May.OPERATOR, user="ann"),
    "read": Caller(name="read", may=May.READ, user="ann"),
    "ann": Caller(name="ann", may=May.PERSON, user="ann"),
    "bob": Caller(name="bob", may=May.PERSON, user="bob"),
    "approve": Caller(name="approve", may=May.APPROVE, user="ann"),
    "": None,
}
_REFUSED: Final = (401, 403, 404)
_ACTION: Final = re.compile(r'data-(?:call|press)="([A-Z]+) ([^"]+)"')


def offered(text: str) -> set[tuple[str, str]]:
    """Return methods and addresses of what a page offers to do."""
    return {(method, unescape(address)) for method, address in _ACTION.findall(text)}


def run(folder: Path) -> dict[str, Any]:
    """Ask as everybody; `harm` has to be empty."""
    with house(folder) as network:
        return judge(network)


def judge(network: Network) -> dict[str, Any]:
    """Ask as everybody at every page that the operator can reach, and for every action that anybody is offered."""
    routes = [each for each in build(network.daemon._daemon.services).routes if isinstance(each, Route)]
    shown = {who: pages(network, who) if who else {} for who in CALLERS}
    harm, actions, looked = list[str](), dict[str, set[tuple[str, str]]](), 0
    for who, caller in CALLERS.items():
        actions[who] = set()
        for address in sorted({*shown["operator"], *shown[who]}):
            answer = shown[who].get(address) or network.call(who, "GET", address)
            looked += 1
            if answer.status_code not in (200, *_REFUSED):
                harm.append(f"{who or 'nobody'}: {address} has status {answer.status_code}")
            if caller is not None and caller.own_only:
                harm += [
                    f"{who}: {address} shows what is {user}'s"
                    for user, mark in MARKS.items()
                    if user != caller.user
                    and (mark in answer.text or (answer.status_code == 200 and f"/{user}/" in answer.text))
                ]
            if answer.status_code == 200:
                actions[who] |= offered(answer.text)
        if caller is None and actions[who]:
            harm.append("nobody is offered something")
        harm += [
            f"{who}: {method} {address} is offered, and not permitted"
            for method, address in sorted(actions[who])
            if caller is not None and not _admitted(routes, caller, method, address)
        ]
    everything = set().union(*actions.values())
    for who, caller in CALLERS.items():
        for method, address in sorted(everything - actions[who]):
            permitted = caller is not None and _admitted(routes, caller, method, address)
            if not permitted or (caller is not None and caller.own_only and _others(address, caller.user)):
                answer = network.call(who, method, address, {} if method != "DELETE" else None)
                # what is asked for may be told to be no request at all before anybody looks at whose it is
                if answer.status_code not in (*_REFUSED, *((400, 409, 422) if permitted else ())):
                    harm.append(f"{who or 'nobody'}: {method} {address} has status {answer.status_code}")
    counts = {who or "nobody": len(each) for who, each in actions.items()}
    return {"looked": looked, "offered": counts, "harm": sorted(set(harm))}


def _admitted(routes: list[Route], caller: Caller, method: str, address: str) -> bool:
    scope = {"type": "http", "path": address.partition("?")[0], "method": method}
    return any(route.matches(scope)[0] is Match.FULL and admits(caller, method, route.endpoint) for route in routes)


def _others(address: str, user: str) -> bool:
    return any(f"%2F{each}%2F" in address or f"/{each}/" in address for each in MARKS if each != user)
