"""Windows of a browser that see whatever a page does that it should not."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

from httpx import Response
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, Route

from daycare.features.dashboard.pages.agent import TABS
from daycare.features.dashboard.routes import PAGES
from tests.network.conftest import Network

PHONE: Final = (360, 740)
DESKTOP: Final = (1280, 800)
_NOT_PAGES: Final = ("/v1/", "/static/", "/openai/")
_SHAPE_MAX: Final = 2  # addresses that differ in numbers and names only
_WATCH: Final = (
    "document.addEventListener('securitypolicyviolation', (e) => "
    "window.violated(`${e.violatedDirective} ${e.blockedURI} ${e.sample}`))"
)


class Watched:
    """A browser's windows, all of one person: `harm` is what ran, left or was stopped, `errors` what went wrong."""

    def __init__(self, browser: Browser, network: Network, who: str, **options: Any) -> None:
        self.root = f"http://127.0.0.1:{network.port}"
        self.harm: list[str] = []
        self.errors: list[str] = []
        self.answers: list[tuple[str, str, int]] = []
        self._at = ""
        if token := network.tokens.get(who, ""):
            options["extra_http_headers"] = {"Authorization": f"Bearer {token}"}
        width, height = options.pop("size", PHONE)
        self.context: BrowserContext = browser.new_context(viewport={"width": width, "height": height}, **options)
        self.context.expose_binding("harm", lambda *_: self._harmed("a script ran"))
        self.context.expose_binding("violated", lambda _, what: self._harmed(f"the policy stopped {what}"))
        self.context.add_init_script(_WATCH)
        self.context.route(re.compile(rf"^(?!{re.escape(self.root)}/|data:)"), self._stop)

    def open(self, path: str) -> Page:
        """Open a page in a window of its own."""
        page = self.context.new_page()
        page.on("pageerror", lambda error: self.errors.append(f"{self._at}: {error}"))
        page.on("console", self._said)
        page.on("dialog", lambda dialog: dialog.accept())
        page.on("response", lambda it: self.answers.append((it.request.method, it.url, it.status)))
        self.go(page, path)
        return page

    def go(self, page: Page, path: str) -> int:
        """Lead a window somewhere; return the status."""
        self._at = path
        answer = page.goto(urljoin(self.root, path))
        return answer.status if answer else 0

    def close(self) -> None:
        self.context.close()

    def _said(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.errors.append(f"{self._at}: {message.text}")

    def _harmed(self, what: str) -> None:
        self.harm.append(f"{self._at}: {what}")

    def _stop(self, route: Route, request: Request) -> None:
        self._harmed(f"something was asked of {urlsplit(request.url).netloc}")
        route.abort()


@contextmanager
def watched(browser: Browser, network: Network, who: str, **options: Any) -> Iterator[Watched]:
    """Open windows of somebody."""
    found = Watched(browser, network, who, **options)
    try:
        yield found
    finally:
        found.close()


def addresses(network: Network, who: str) -> list[str]:
    """Return where somebody can look: each page, each tab of an agent, and where their links lead."""
    return list(pages(network, who))


def pages(network: Network, who: str) -> dict[str, Response]:
    """Return what is answered there."""
    waiting = [page.path for page in PAGES if "{" not in page.path]
    waiting += [f"/agents/{user}/direct?tab={tab}" for user in ("ann", "bob") for tab in TABS]
    waiting.append("/agents/ann/agent/parked?tab=inbox")  # where something waits
    found, known, shapes = dict[str, Response](), set(waiting), dict[str, int]()
    for address in waiting:
        shapes[_shape(address)] = shapes.get(_shape(address), 0) + 1
    while waiting:
        here = waiting.pop(0)
        answer = network.call(who, "GET", here)
        if answer.status_code >= 400:
            continue
        found[here] = answer
        for link in re.findall(r'<a [^>]*?href="([^"#]*)"', answer.text):
            there = urljoin(here, link.replace("&amp;", "&"))
            shape = _shape(there)
            if there in known or not there.startswith("/") or there.startswith(("//", *_NOT_PAGES)):
                continue
            if shapes.get(shape, 0) < _SHAPE_MAX:
                shapes[shape] = shapes.get(shape, 0) + 1
                known.add(there)
                waiting.append(there)
    return found


def _shape(address: str) -> str:
    """Return what addresses of the same kind have in common."""
    place, _, query = address.partition("?")
    names = sorted(part if part.startswith("tab=") else part.partition("=")[0] for part in query.split("&"))
    root = "/agents" if place.startswith("/agents/") else re.sub(r"[^/]*[0-9%][^/]*", "*", place)
    return f"{root}?{'&'.join(names)}"
