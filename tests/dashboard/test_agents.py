"""Agents in a browser: found among many, made with their documents, set up, ended, fetched as a file."""

from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from threading import Event

import pytest
import trio
from playwright.sync_api import Browser, Page, expect

from daycare.base.limits import NAME_MAX_CHARS
from daycare.plugin import InferRequest, StreamEvent
from daycare_plugins.offline.plugin import OfflineProvider
from tests.dashboard.test_in_a_browser import Window
from tests.network.conftest import Network, opened

SCRIBE = "/ann/agent/scribe"
MANY = 120


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    with opened(tmp_path_factory.mktemp("agents")) as network:
        yield network


@pytest.fixture
def window(browser: Browser, house: Network) -> Iterator[Window]:
    found = Window(browser, house, "operator")
    yield found
    found.close()
    assert found.troubles == []


def made(house: Network, path: str, **config: object) -> str:
    house.locally("POST", "/v1/agents", {"path": path, "config": config})
    return f"/agents{path}"


def save(page: Page, label: str, value: str) -> None:
    page.get_by_label(label, exact=True).fill(value)
    page.get_by_role("button", name="Save").click()


def test_an_agent_is_made_by_keyboard_with_its_first_documents(house: Network, window: Window) -> None:
    page = window.open("/")
    page.get_by_role("link", name="New agent").press("Enter")
    page.get_by_label("Its name in its path").press_sequentially("Not a name")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("Not a name")
    window.troubles.clear()  # the browser reports the status 400
    page.get_by_label("Its name in its path").fill("scribe")
    expect(page.get_by_text(SCRIBE)).to_be_visible()
    page.get_by_label("What it is for").fill("writes <b>things</b> down")
    page.get_by_label("Personality").select_option("creative")
    page.get_by_text("Its first documents").press("Enter")
    page.get_by_label("Who it is SOUL.md").fill("Brief, and kind.")
    page.get_by_role("button", name="Create").press("Enter")
    page.wait_for_url(f"**/agents{SCRIBE}")
    expect(page.get_by_text("writes <b>things</b> down")).to_be_visible()
    config = house.locally("GET", "/v1/agent", path=SCRIBE)["agent"]["config"]
    assert config == {"description": "writes <b>things</b> down", "personality": "creative"}
    assert house.locally("GET", "/v1/memory/document", agent=SCRIBE, path="SOUL.md")["text"] == "Brief, and kind."


def test_settings_are_changed_set_back_and_narrowed_by_rules(house: Network, window: Window) -> None:
    path = "/ann/agent/clerk"
    page = window.open(f"{made(house, path, name='Clerk', personality='creative')}?tab=settings")
    house.locally("PUT", "/v1/budget", {"path": path, "amounts": ["1usd a day"]})  # no heart beats without

    def config() -> object:
        return house.locally("GET", "/v1/agent", path=path)["agent"]["config"]

    page.get_by_label("Personality").select_option("")
    page.get_by_label("Heartbeat, in seconds").fill("3600")
    save(page, "Name", "Keeper")
    expect(page.get_by_text("every 3600 s")).to_be_visible()
    assert config() == {"name": "Keeper", "heartbeat_s": 3600}
    page.get_by_label("to", exact=True).fill("/ann/direct")
    page.get_by_role("button", name="Add the rule").click()
    expect(page.get_by_text("deny message to /ann/direct")).to_be_visible()
    page.get_by_role("button", name="Take away").click()
    expect(page.get_by_text("deny message to /ann/direct")).to_have_count(0)
    assert config() == {"name": "Keeper", "heartbeat_s": 3600, "permissions": {}}


def test_a_tool_is_taken_away_and_the_page_says_why_it_is_gone(house: Network, window: Window) -> None:
    page = window.open(f"{made(house, '/ann/agent/cook')}?tab=tools")
    row = page.locator("#tool-remind")
    expect(row).to_contain_text("no rule against it")
    row.get_by_role("checkbox").uncheck()
    page.get_by_role("button", name="Give it these").click()
    expect(row).to_contain_text("remind is not among them")
    page.get_by_role("button", name="Give it all").click()
    expect(row).to_contain_text("no rule against it")


def test_a_limit_is_set_raised_and_stands_beside_what_was_spent(house: Network, window: Window) -> None:
    page = window.open(f"{made(house, '/ann/agent/bank')}?tab=budget")
    page.get_by_label("A limit of its own").fill("2 usd a day")
    page.get_by_role("button", name="Set").click()
    expect(page.get_by_text("$0.00 of $2.00 today")).to_be_visible()
    page.get_by_label("How much more").fill("1usd")
    page.get_by_role("button", name="Raise").click()
    expect(page.get_by_text("$1.00 more for now")).to_be_visible()
    expect(window.open("/").locator("li", has_text="/ann/agent/bank")).to_contain_text("$0.00 of $3.00 today")


def test_an_agent_is_ended_and_lives_again(house: Network, window: Window) -> None:
    page = window.open(f"{made(house, '/ann/agent/gone')}?tab=settings")
    page.on("dialog", lambda asked: asked.accept())
    page.get_by_role("button", name="End this agent").click()
    row = page.locator("li", has_text="/ann/agent/gone")
    expect(row).to_contain_text("dead")
    window.troubles.clear()  # its own page was gone before one left it
    row.get_by_role("button", name="Let it live again").click()
    expect(row).to_contain_text("asleep")


def test_an_agent_is_fetched_as_a_file(house: Network, window: Window, tmp_path: Path) -> None:
    page = window.open(made(house, "/ann/agent/files"))
    with page.expect_download() as fetched:
        page.get_by_role("button", name="Export").click()
    fetched.value.save_as(tmp_path / "export")
    assert (tmp_path / "export").read_bytes()[:2] == b"\x1f\x8b", "gzip"


def test_of_many_agents_a_page_shows_branches_and_finds_any_while_one_types(house: Network, window: Window) -> None:
    person = "b" * NAME_MAX_CHARS
    house.locally("POST", "/v1/users", {"id": person})
    for number in range(MANY):
        made(house, f"/{person}/agent/a{number:x<{NAME_MAX_CHARS - 1}}")
    page = window.open("/")
    page.get_by_role("link", name=person, exact=True).click()
    expect(page.locator("li")).to_have_count(100)
    page.get_by_role("link", name="More agents").click()
    expect(page.locator("li")).to_have_count(MANY - 100)
    page.goto(page.url.partition("?")[0])
    page.keyboard.press("/")
    page.keyboard.type("A11")
    expect(page.locator("li")).to_have_count(11)
    house.locally("PATCH", "/v1/agent", {"description": "the eleventh"}, path=f"/{person}/agent/a{11:x<{NAME_MAX_CHARS - 1}}")
    expect(page.get_by_text("the eleventh")).to_be_visible()
    expect(page.locator("#find")).to_have_value("A11")


def test_who_works_is_shown_with_what_it_answers(
    house: Network, window: Window, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_answer = Event()
    answered = OfflineProvider.infer

    async def infer(self: OfflineProvider, request: InferRequest) -> AsyncGenerator[StreamEvent, None]:
        await trio.to_thread.run_sync(may_answer.wait, 30.0)
        async for each in answered(self, request):
            yield each

    monkeypatch.setattr(OfflineProvider, "infer", infer)
    page = window.open("/")
    house.locally("POST", "/v1/messages", {"text": "water the plants", "user": "ann"})
    try:
        expect(page.locator("#busy")).to_contain_text("water the plants")
    finally:
        may_answer.set()
    expect(page.locator("#busy")).to_have_count(0)


def test_a_reader_is_shown_all_of_it_and_offered_no_change(house: Network) -> None:
    house.locally("POST", "/v1/messages", {"text": "hello", "wait_s": 20})
    house.locally("POST", "/v1/agents", {"path": "/bob/agent/other"})
    for path in (
        "/",
        "/new-agent",
        *(f"/agents/ann/direct?tab={tab}" for tab in ("tools", "budget", "settings")),
    ):
        page = house.call("read", "GET", path).text
        assert "data-call" not in page and "data-press" not in page and "data-export" not in page, path
        assert "data-call" in house.call("operator", "GET", path).text or path == "/", path
        if path != "/new-agent":
            assert house.call("ann", "GET", path).status_code == 200
            assert "/bob/" not in house.call("ann", "GET", path).text
