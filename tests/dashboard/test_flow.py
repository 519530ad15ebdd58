"""Flow and traces in a real browser: messages that move, replayed, and followed to what happened to them."""

import pytest
from playwright.sync_api import Browser, expect

from daycare.features.dashboard.pages.flow import EDGES_MAX, NODES_MAX, OUTSIDE_MAX, drawing
from tests.dashboard.test_in_a_browser import Window, window
from tests.network.conftest import Network

__all__ = ["window"]
pytest.importorskip("playwright")
DOTS = "#dots circle"
MOVING = "#moving li"


def test_a_message_moves_is_replayed_with_the_keyboard_and_leads_to_its_trace(network: Network, window: Window) -> None:
    for number in range(3):
        network.locally("POST", "/v1/messages", {"text": f"hello {number}", "wait_s": 20})
    page = window.open("/flow")
    expect(page.locator("#flow .node")).to_have_count(2)
    expect(page.locator(MOVING)).to_have_count(0)
    network.locally("POST", "/v1/agents", {"path": "/ann/agent/scribe"})
    sent = network.locally("POST", "/v1/messages", {"text": "one more", "path": "/ann/agent/scribe", "wait_s": 20})
    expect(page.locator(MOVING).first).to_contain_text("direct → /ann/agent/scribe")
    expect(page.locator("#flow [data-name='/ann/agent/scribe']")).to_have_count(1)
    page.keyboard.press("p")
    expect(page.locator("#play")).to_have_text("Pause")
    expect(page.locator(DOTS).first).to_be_attached()
    page.locator("#at").focus()
    page.keyboard.press("Home")
    expect(page.locator("#play")).to_have_text("Play")
    page.locator("#live").click()
    expect(page.locator("#clock")).to_have_text("live")
    page.keyboard.press("/")
    page.keyboard.type(str(sent["seq"]))
    page.keyboard.press("Enter")
    expect(page.locator("[data-trace]")).to_contain_text(sent["trace"])
    expect(page.locator(".trace tbody tr").first).to_contain_text("message from direct")
    page.get_by_role("link", name="prompt").click()
    expect(page.locator("h1")).to_have_text("/ann/agent/scribe")
    expect(page.get_by_text("What the model was shown in turn")).to_be_visible()


def test_who_wants_no_motion_sees_what_moves_without_it(network: Network, window: Window) -> None:
    network.locally("POST", "/v1/messages", {"text": "hello", "wait_s": 20})
    page = window.open("/flow")
    page.emulate_media(reduced_motion="reduce")
    network.locally("POST", "/v1/messages", {"text": "hello", "wait_s": 20})
    expect(page.locator(MOVING).first).to_contain_text("direct → /ann/direct")
    expect(page.locator(DOTS)).to_have_count(0)


def test_flow_and_a_trace_are_read_without_a_script(browser: Browser, network: Network) -> None:
    sent = network.call("bob", "POST", "/v1/messages", {"text": "hello", "wait_s": 20}).json()
    headers = {"Authorization": f"Bearer {network.tokens['bob']}"}
    context = browser.new_context(java_script_enabled=False, extra_http_headers=headers)
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{network.port}/flow")
    expect(page.get_by_role("row", name="direct /bob/direct 1")).to_be_visible()
    expect(page.locator("#player")).to_be_hidden()
    page.get_by_role("link", name=f"message {sent['seq']}").click()
    expect(page.get_by_role("row", name="message from direct answered")).to_be_visible()
    context.close()


def test_a_drawing_is_bounded_and_all_it_shows_has_its_place() -> None:
    movements = [
        {"source": f"bridge-{no % 30}", "target": f"/u{no % 7}/agent/x{no}{'/sub/1' * (no % 2)}", "state": "done"}
        for no in range(900)
    ]
    movements += [{"source": "/u1/agent/x1", "target": "/u1/agent/x1/sub/1", "state": "dead"}] * 50
    found = drawing(movements)
    assert len(found["nodes"]) == NODES_MAX + 1 + OUTSIDE_MAX + 1 and len(found["edges"]) <= EDGES_MAX
    places = {(node["x"], node["y"]) for node in found["nodes"].values()}
    assert len(places) == len(found["nodes"]), "none stands on another"
    assert all(0 < y < found["height"] for _, y in places)
    assert {"number": 50, "dead": 50}.items() <= next(
        each for each in found["edges"] if each["source"] == "/u1/agent/x1"
    ).items()
    child = found["nodes"]["/u1/agent/x1/sub/1"]
    assert child["above"] is found["nodes"]["/u1/agent/x1"] and child["label"] == "sub/1"
    assert drawing([])["nodes"] == {}
