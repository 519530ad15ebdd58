"""A daemon that is killed, ended or asks for a login again while all pages are open."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Browser, Page, expect

from daycare.base.errors import DaycareError
from tests import program
from tests.network.conftest import Network
from tests.pages.house import house
from tests.pages.windows import DESKTOP, Watched, addresses

AWAY: Final = "No connection to daycare"
LOGGED_OUT: Final = "not logged in any more"
TOGETHER: Final = 5  # windows of a browser that are looked at: it has six connections
_ENDS_S: Final = 60.0


@contextmanager
def running(network: Network) -> Iterator[program.Started]:
    """Run the daemon of a home in a process of its own, until it answers."""
    env = {"DAYCARE_HOME": str(network.home), "PATH": os.environ["PATH"]}
    with program.start(["run"], env=env) as started:
        for _ in range(600):
            try:
                network.locally("GET", "/v1/status")
                break
            except DaycareError:
                assert started.poll() is None, started.said()
                signal.sigtimedwait([], 0.1)
        yield started


def run(browser: Browser, folder: Path) -> dict[str, Any]:
    """Do all three; `harm` are pages that did not say so or did not show what happened meanwhile."""
    harm = list[str]()
    with house(folder) as network:
        where = [each for each in addresses(network, "operator") if "turn=" not in each and "document=" not in each]
    with ExitStack() as stack:
        daemon = stack.enter_context(running(network))
        pages: dict[str, Page] = {}
        for begin in range(0, len(where), TOGETHER):
            pages |= _opened(stack, browser, network, where[begin : begin + TOGETHER])
        many = len(pages)
        for number, how in enumerate((signal.SIGKILL, signal.SIGTERM)):
            daemon.send_signal(how)
            daemon.wait(_ENDS_S)
            harm += [f"{how.name}: {each} does not say so" for each in _silent(pages, AWAY)]
            daemon = stack.enter_context(running(network))
            made = f"/ann/agent/meanwhile-{number}"
            network.locally("POST", "/v1/agents", {"path": made})
            for address, page in pages.items():
                if not _holds(expect(page.locator("#state")).to_be_hidden):
                    harm.append(f"{how.name}: {address} does not come back")
            if not _holds(expect(pages["/"].get_by_text(made)).to_be_visible):
                harm.append(f"{how.name}: what happened meanwhile is not shown")
        for page in [*pages.values()][TOGETHER:]:  # with one address, many that are logged out would look like guessing
            page.close()
        pages = dict([*pages.items()][:TOGETHER])
        network.locally("DELETE", "/v1/browsers")
        harm += [f"logged out: {each} does not say so" for each in _silent(pages, LOGGED_OUT)]
    return {"pages": many, "harm": harm}


def _opened(stack: ExitStack, browser: Browser, network: Network, where: list[str]) -> dict[str, Page]:
    """Open the live ones of some pages in a browser that was logged in."""
    windows = Watched(browser, network, "", size=DESKTOP)
    stack.callback(windows.close)
    login = windows.open(network.locally("POST", "/v1/browsers", {})["url"])
    login.get_by_role("button").first.click()
    login.wait_for_url(f"{windows.root}/")
    login.close()
    pages = {address: windows.open(address) for address in where}
    return {address: page for address, page in pages.items() if page.evaluate("document.body.dataset.live")}


def _silent(pages: dict[str, Page], text: str) -> list[str]:
    """Return the pages that do not say something."""
    return [
        address
        for address, page in pages.items()
        if not _holds(partial(expect(page.locator("#state")).to_contain_text, text))
    ]


def _holds(claim: Callable[[], object]) -> bool:
    try:
        claim()
    except AssertionError:
        return False
    return True
