"""The page of a conversation: what is written while it is written, what goes with a message, and what is taken back."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, FilePayload, expect

from tests.dashboard.staged_model import StagedModel
from tests.dashboard.test_in_a_browser import Window
from tests.network.conftest import Network, opened

pytest.importorskip("playwright")
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360f8cf50"
    "0f0003860180a5bb8d2b0000000049454e44ae426082"
)


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    """One daemon for the file: each check has an agent of its own in it."""
    with opened(tmp_path_factory.mktemp("talk")) as found:
        yield found


@pytest.fixture(scope="module")
def model(network: Network) -> Iterator[StagedModel]:
    with StagedModel() as found:
        config = network.home / "config.toml"
        config.write_text(config.read_text() + f'\n[providers.stage]\nbase_url = "{found.base_url}"\n')
        network.locally("POST", "/v1/config/reload")
        yield found


@pytest.fixture
def window(browser: Browser, network: Network) -> Iterator[Window]:
    found = Window(browser, network, "operator")
    yield found
    found.close()
    assert found.troubles == []


def agent(network: Network, name: str, /, **config: Any) -> str:
    """Create an agent and return its page."""
    network.locally("POST", "/v1/agents", {"path": f"/ann/agent/{name}", "config": config})
    return f"/agents/ann/agent/{name}"


def turns(network: Network, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = network.locally("GET", "/v1/history", path=f"/ann/agent/{name}")["turns"]
    return found


def test_who_comes_in_the_middle_of_an_answer_reads_it_from_its_start(
    network: Network, window: Window, model: StagedModel
) -> None:
    place = agent(network, "cats", model="stage/m")
    early = window.open(place)
    early.fill("#text", "tell me of cats")
    early.press("#text", "Enter")
    model.says("Cats are ")
    expect(early.locator("#typing")).to_contain_text("Cats")
    late = window.open(place)
    model.says("**small**.")
    for page in (early, late):
        expect(page.locator("#typing")).to_contain_text("Cats are **small*")
    model.calls("remember_nothing")
    expect(late.locator("#typing .tool")).to_have_text("failed at remember_nothing")
    model.says("Done.")
    model.ends()
    for page in (early, late):
        expect(page.locator("#typing")).to_be_hidden()
        expect(page.locator(".words strong")).to_have_text("small")
        expect(page.locator("details.tool summary")).to_have_text("failed at remember_nothing")


def test_an_answer_is_followed_unless_one_reads_above_and_can_be_stopped(
    network: Network, window: Window, model: StagedModel
) -> None:
    page = window.open(agent(network, "counter", model="stage/m"))
    page.fill("#text", "count to a million")
    page.press("#text", "Enter")
    model.says("one two " * 400)
    expect(page.locator("#typing")).to_contain_text("one t")
    assert page.evaluate("scrollY") > 0, "the end is followed"
    page.evaluate("scrollTo(0, 0)")
    model.says("three " * 50)
    expect(page.locator("#typing")).to_contain_text("three")
    assert page.evaluate("scrollY") == 0, "who reads above stays there"
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("#typing")).to_be_hidden()
    model.ends()  # nobody hears it
    expect(page.get_by_text("count to a million")).to_be_visible()
    assert [turn["state"] for turn in turns(network, "counter")] == ["stopped"]


def test_files_go_both_ways_and_too_large_ones_are_refused_before_they_are_sent(
    network: Network, window: Window
) -> None:
    page = window.open(agent(network, "painter"))
    page.evaluate("document.getElementById('say').dataset.bytes = 1000")
    picture = FilePayload(name="dot <b>.png", mimeType="image/png", buffer=PNG)
    large = FilePayload(name="big.bin", mimeType="", buffer=b"x" * 1001)
    page.set_input_files("#say [type=file]", [picture, large])
    expect(page.get_by_role("alert")).to_contain_text("big.bin is too large")
    expect(page.locator(".chips li")).to_have_count(1)
    with page.expect_response("**/v1/messages") as sent:  # a picture without a word
        page.get_by_role("button", name="Send").click()
    assert sent.value.ok
    expect(page.locator(".chips li")).to_have_count(0)
    shown = page.locator(".turn .file")
    expect(shown).to_contain_text("dot <b>.png")
    expect(shown.locator("img")).to_have_js_property("naturalWidth", 1)


def test_the_last_message_is_said_again_in_other_words_and_the_first_ones_stay_to_be_read(
    network: Network, window: Window
) -> None:
    place = agent(network, "clock")
    network.locally("POST", "/v1/messages", {"text": "what tme is it", "path": "/ann/agent/clock", "wait_s": 20})
    page = window.open(place)
    page.get_by_role("button", name="Edit").click()
    expect(page.locator("#text")).to_have_value("what tme is it")
    page.fill("#text", "what time is it")
    page.press("#text", "Enter")
    expect(page.get_by_text("Taken back: what tme is it")).to_be_visible()
    expect(page.locator(".said.user:visible .plain")).to_have_text("what time is it")
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_text("Taken back:")).to_have_count(2)
    expect(page.get_by_role("button", name="Try again")).to_be_visible()  # of the third, which has ended
    assert [turn.get("replaced_by") is None for turn in turns(network, "clock")] == [True, False, False]


def test_a_turn_that_was_given_up_says_why_and_what_helps(network: Network, window: Window, model: StagedModel) -> None:
    page = window.open(agent(network, "unlucky", model="stage/m"))
    page.fill("#text", "paint a cat")
    page.press("#text", "Enter")
    model.refuses("cats are not painted here")
    failed = page.locator(".turn .note.bad")
    expect(failed).to_contain_text("cats are not painted here")
    expect(failed.locator("code")).to_have_text(turns(network, "unlucky")[0]["hint"])


def test_another_agent_is_some_letters_away(network: Network, window: Window) -> None:
    agent(network, "scribe", name="Scribble")
    page = window.open("/work")
    page.keyboard.press("Control+k")
    page.keyboard.type("scribb")
    expect(page.locator("dialog a")).to_have_text("/ann/agent/scribe")
    page.keyboard.press("Enter")
    page.wait_for_url("**/agents/ann/agent/scribe")


def test_an_agent_is_built_by_talking_and_made_by_one_yes(network: Network, window: Window, model: StagedModel) -> None:
    page = window.open("/new-agent")
    expect(page.get_by_text("needs a language model, and there is none yet")).to_be_visible()
    path = network.locally("POST", "/v1/builder", {})["agent"]["path"]
    network.locally("PATCH", "/v1/agent", {"model": "stage/m"}, path=path)
    page.reload()
    page.get_by_role("link", name="Go on with the builder").click()
    page.fill("#text", "I need a scribe")
    page.press("#text", "Enter")
    wish = {"name": "scribe", "reason": "minutes", "soul": "You write minutes.", "tools": ["remind"]}
    model.calls("agent_propose", **wish)
    model.says("See what I propose.")
    model.ends()
    page.get_by_role("link", name="See all of it, and decide").click()
    expect(page.get_by_label("What would change")).to_contain_text("+You write minutes.")
    model.says("It is there.")
    model.ends()
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_text("Nothing waits for a decision.").or_(page.get_by_text("Approved")).first).to_be_visible()
    page.goto(page.url.partition("/approvals")[0] + f"/agents{path}")
    expect(page.get_by_text("It is there.")).to_be_visible()
    page.goto(page.url.partition("/agents/")[0] + "/agents/ann/agent/scribe?tab=tools")
    expect(page.get_by_role("heading", name="/ann/agent/scribe")).to_be_visible()
