"""Every form and button of every page, pressed at least once: none is answered by a defect, or ends in an error."""

import re
from html import unescape
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Browser, Locator, Page
from playwright.sync_api import TimeoutError as Late

from tests.network.conftest import Network
from tests.pages.house import house
from tests.pages.windows import addresses, watched

ACTIONS: Final = "[data-call], [data-press]"
_LAST: Final = re.compile(r"^DELETE|/logout|/shutdown|/stop|/prune|/forget")
_FILLED: Final = {  # by the name of a field; others are filled by what they are
    "path": "/ann/agent/made",
    "spec.cron": "0 8 * * *",
    "id": "made",
    "name": "made",
    "user": "ann",
    "zone": "Europe/Zurich",
    "called": "made",
}
_ANSWER_MS: Final = 15_000


def kinds(network: Network) -> dict[str, str]:
    """Return each kind of action with a page where it is."""
    found: dict[str, str] = {}
    for address in addresses(network, "operator"):
        text = network.call("operator", "GET", address).text
        for what in re.findall(r'data-(?:call|press)="([^"]+)"', text):
            found.setdefault(_kind(unescape(what)), address)
    return dict(sorted(found.items(), key=lambda item: bool(_LAST.search(item[0]))))


def _kind(what: str) -> str:
    return re.sub(r"=[^&]+", "=", re.sub(r"/(\d+|users/\w+|links/[^/]+)", "/N", what))


def run(browser: Browser, folder: Path) -> dict[str, Any]:
    """Press all of them; `harm` has to be empty."""
    with house(folder) as network:
        return press(browser, network)


def press(browser: Browser, network: Network, every: int = 1) -> dict[str, Any]:
    """Press one action of each kind, or of each `every`-th, in a window of its own; `answered` has their statuses."""
    answered, harm = dict[str, int](), list[str]()
    with watched(browser, network, "operator") as windows:
        for kind, address in [*kinds(network).items()][::every]:
            page = windows.open(address)
            page.evaluate("for (const it of document.querySelectorAll('details')) it.open = true")
            wanted = next((it for it in page.locator(ACTIONS).all() if _kind(_what(it)) == kind), None)
            if wanted is None:  # another has done away with it
                answered[kind] = 404
                continue
            answered[kind] = _pressed(page, wanted)
            page.close()  # wherever it is led
            if answered[kind] == 0 or answered[kind] >= 500:
                harm.append(f"{kind} on {address} has status {answered[kind]}")
        wrong = [each for each in windows.errors if "status of 4" not in each]
        return {"actions": len(answered), "answered": answered, "harm": [*harm, *wrong, *windows.harm]}


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
    if kind in ("checkbox", "radio", "file", "submit", "search") or not field.is_editable() or field.input_value():
        return
    if kind in ("number", "range"):
        field.fill(field.get_attribute("min") or "1")
    elif name in _FILLED or field.get_attribute("required") is not None:
        field.fill(_FILLED.get(name, "made by hand"))
