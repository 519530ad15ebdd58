"""The dashboard as a person has it, in a real browser."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.network.conftest import Network

pytest.importorskip("playwright")
ANSWERS = ".said.assistant:not(#typing)"


class Window:
    """A window of somebody who is logged in; `troubles` are errors of scripts and what the page's policy stopped."""

    def __init__(self, browser: Browser, network: Network, who: str) -> None:
        self._root = f"http://127.0.0.1:{network.port}"
        headers = {"Authorization": f"Bearer {network.tokens[who]}"}
        self._context = browser.new_context(extra_http_headers=headers, viewport={"width": 360, "height": 740})
        self.troubles: list[str] = []

    def open(self, path: str) -> Page:
        page = self._context.new_page()
        page.on("pageerror", lambda error: self.troubles.append(str(error)))
        page.on("console", lambda said: self.troubles.append(said.text) if said.type == "error" else None)
        page.goto(self._root + path)
        return page

    def close(self) -> None:
        self._context.close()


@pytest.fixture
def window(browser: Browser, network: Network) -> Iterator[Window]:
    found = Window(browser, network, "operator")
    yield found
    found.close()
    assert found.troubles == []


def test_what_one_window_says_is_answered_in_both(network: Network, window: Window) -> None:
    network.locally("POST", "/v1/messages", {"text": "hello", "wait_s": 20})
    mine, other = window.open("/agents/ann/direct"), window.open("/agents/ann/direct")
    expect(mine.locator(ANSWERS)).to_have_count(1)
    mine.fill("#text", "help <img src=x onerror=alert(1)>")
    mine.press("#text", "Enter")
    for page in (mine, other):
        expect(page.locator(ANSWERS)).to_have_count(2)
        expect(page.get_by_text("<img src=x")).to_be_visible()
    expect(mine.locator("#text")).to_have_value("")


def test_a_refusal_is_said_where_it_was_asked_and_what_was_typed_stays(network: Network, window: Window) -> None:
    page = window.open("/new-agent")
    name = page.get_by_label("Its name in its path")
    name.fill("no name")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("alert")).to_contain_text("no name")
    expect(name).to_have_value("no name")
    window.troubles.clear()  # the browser reports the status 400
    name.fill("scribe")
    page.get_by_role("button", name="Create").click()
    page.wait_for_url("**/agents/ann/agent/scribe")
    expect(page.get_by_role("heading", level=1)).to_have_text("/ann/agent/scribe")


def test_a_click_pauses_a_job_and_the_page_says_so(network: Network, window: Window) -> None:
    network.locally("POST", "/v1/cron", {"id": "morning", "spec": {"cron": "30 7 * * *", "prompt": "x"}})
    page = window.open("/work")
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("button", name="Resume")).to_be_visible()
    assert network.locally("GET", "/v1/cron")["jobs"][0]["paused"]


def test_an_agent_that_is_made_and_ended_elsewhere_comes_and_goes(network: Network, window: Window) -> None:
    page = window.open("/")
    expect(page.get_by_text("/system/gc")).to_be_visible()
    for _ in range(2):
        network.locally("POST", "/v1/agents", {"path": "/ann/agent/scribe"})
        expect(page.get_by_text("/ann/agent/scribe")).to_be_visible()
        network.locally("DELETE", "/v1/agent", path="/ann/agent/scribe")
        expect(page.get_by_text("/ann/agent/scribe")).to_have_count(0)
    expect(page.locator("#state")).to_be_hidden()


def test_no_page_is_wider_than_a_phone(network: Network, window: Window) -> None:
    network.locally("POST", "/v1/messages", {"text": "w" * 300, "wait_s": 20})
    for path in ("/", "/agents/ann/direct", "/approvals", "/memory", "/work", "/costs", "/people", "/system"):
        page = window.open(path)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
        page.close()
