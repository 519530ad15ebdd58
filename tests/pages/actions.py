"""Every form and button of every page, pressed at least once: none is answered by a defect, or ends in an error."""

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Browser, Locator, Page
from playwright.sync_api import TimeoutError as Late

from tests.network.conftest import Network
from tests.pages.house import CODE, house
from tests.pages.windows import Watched, addresses, watched

ACTIONS: Final = "[data-call], [data-press]"
_LAST: Final = (re.compile(r"^DELETE|/logout|/stop|/prune|/forget|/deny"), re.compile(r"/agent\?|/unpark|/users/"))
_NEVER: Final = "/v1/shutdown"  # nothing could be pressed after it
_FILLED: Final = {  # by the name of a field; others are filled by what they are
    "path": "/ann/agent/made",
    "spec.cron": "0 8 * * *",
    "id": "made",
    "name": "made",
    "user": "ann",
    "zone": "Europe/Zurich",
    "called": "made",
    "amount": "2usd",
    "amounts": "3usd a day",
    "code": CODE,
    "key": "telegram:77",
    "type": "door:bell",
    "pattern": "door:*",
    "to": "knowledge/renamed.md",
    "action": "message",
}
_ROUNDS: Final = 2  # what is pressed in the first lets others appear
_ANSWER_MS: Final = 15_000


def kinds(network: Network) -> dict[str, list[str]]:
    """Return each kind of action with the pages where it is."""
    found: dict[str, list[str]] = {}
    for address in addresses(network, "operator"):
        text = network.call("operator", "GET", address).text
        for what in dict.fromkeys(re.findall(r'data-(?:call|press)="([^"]+)"', text)):
            if _NEVER not in what and address not in (pages := found.setdefault(_kind(unescape(what)), [])):
                pages.append(address)
    return dict(sorted(found.items(), key=lambda item: _when(item[0])))


def _when(kind: str) -> int:
    """Return when a kind is pressed: those last of which others would not be there any more."""
    return max((place for place, each in enumerate(_LAST, 1) if each.search(kind)), default=0)


def _kind(what: str) -> str:
    one = re.sub(r"/(plugins|users|links|keys)/[^/{?]+", r"/\1/N", re.sub(r"/\d+", "/N", what))
    return re.sub(r"=[^&]+", "=", one)


def run(browser: Browser, folder: Path) -> dict[str, Any]:
    """Press all of them; `harm` has to be empty."""
    with house(folder) as network:
        return press(browser, network)


def press(browser: Browser, network: Network, every: int = 1) -> dict[str, Any]:
    """Press one action of each kind, or of each `every`-th, until one is done; `answered` has their statuses."""
    answered, harm = dict[str, int](), list[str]()
    with watched(browser, network, "operator") as windows:
        for last in range(_ROUNDS):
            found = kinds(network).items()
            new = [(kind, pages) for kind, pages in found if kind not in answered and (last or not _when(kind))]
            for kind, pages in new[::every]:
                for address in pages:
                    for status in _tried(windows, kind, address):
                        answered[kind] = status
                        if status == 0 or status >= 500:
                            harm.append(f"{kind} on {address} has status {status}")
                    if 0 < answered.setdefault(kind, 404) < 400:
                        break
        harm += [f"{kind} is only refused, with status {status}" for kind, status in answered.items() if status >= 400]
        wrong = [each for each in windows.errors if "status of 4" not in each]
        return {"actions": len(answered), "answered": answered, "harm": [*harm, *wrong, *windows.harm]}


def _tried(windows: Watched, kind: str, address: str) -> Iterator[int]:
    """Press those of a kind on a page, each in a window of its own, until one is done; yield the statuses."""
    status, place = 400, 0
    while status >= 400:
        page = windows.open(address)
        page.evaluate("for (const it of document.querySelectorAll('details')) it.open = true")
        found = [it for it in page.locator(ACTIONS).all() if _kind(_what(it)) == kind]
        if place < len(found):
            status = _pressed(page, found[place])
            yield status
        page.close()  # wherever it is led
        place += 1
        if place >= len(found):
            return


def _what(action: Locator) -> str:
    return action.get_attribute("data-call") or action.get_attribute("data-press") or ""


def _pressed(page: Page, action: Locator) -> int:
    method, path = _what(action).split(" ", 1)
    is_form = action.get_attribute("data-call") is not None
    if is_form:
        for field in action.locator("input:not([type=hidden]), textarea").all():
            _fill(field)
    button = action.locator("button:not([type=button])").first if is_form else action
    wanted = re.sub(r"\\{\w+\\}", "[^/]+", re.escape(path.partition("?")[0]))  # a field may stand in the path

    def fits(response: Any) -> bool:
        return response.request.method == method and re.search(wanted, response.url) is not None

    try:
        with page.expect_response(fits, timeout=_ANSWER_MS) as answer:
            button.click(timeout=_ANSWER_MS)
    except Late:
        return 0
    return answer.value.status


def _fill(field: Locator) -> None:
    kind = field.get_attribute("type") or "text"
    name = next(filter(None, map(field.get_attribute, ("name", "data-name", "id"))), "")
    if name == "user" and kind == "checkbox":
        field.check()  # in the name of whoever has to decide
    if kind in ("checkbox", "radio", "file", "submit", "search") or not field.is_editable():
        return
    if field.input_value() and name != "to":
        return
    if kind in ("number", "range"):
        field.fill(field.get_attribute("min") or "1")
    elif name in _FILLED or field.get_attribute("required") is not None:
        field.fill(_FILLED.get(name, "made by hand"))
