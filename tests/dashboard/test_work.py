"""Work and costs in a browser: what is scheduled, what was given up on, what may be spent."""

from collections.abc import Iterator

import pytest
import trio
from playwright.sync_api import Browser, Page, expect

from daycare.store.sqlite import letters
from daycare.store.sqlite.writer import Tx
from tests.dashboard.test_in_a_browser import Window
from tests.network.conftest import Network
from tests.store.samples import letter

pytest.importorskip("playwright")


@pytest.fixture
def window(browser: Browser, network: Network) -> Iterator[Window]:
    found = Window(browser, network, "operator")
    yield found
    found.close()
    assert found.troubles == []


def open_confirming(window: Window, path: str) -> Page:
    page = window.open(path)
    page.on("dialog", lambda dialog: dialog.accept())
    return page


def bury(network: Network, codes: list[str]) -> None:
    """Add dead letters, as the daemon does when a model fails for minutes."""
    network.locally("POST", "/v1/messages", {"text": "hello", "wait_s": 20})
    embedded = network.daemon
    store = embedded._daemon.services.store

    def run(tx: Tx) -> None:
        for number, code in enumerate(codes):
            it = letter(f"<b>{number}</b>", "/ann/direct", user="ann", sender="ann")
            letters.bury(tx, "inbox", 1, "", it, code, "why", 3)

    trio.from_thread.run(store.dead._write, run, trio_token=embedded._token)


def test_a_job_is_typed_made_changed_and_removed_and_another_window_sees_it(network: Network, window: Window) -> None:
    page, other = open_confirming(window, "/work"), window.open("/work")
    page.get_by_text("New job").click()
    page.fill("[name=id]", "morning")
    page.fill("[name='spec.cron']", "30 7 * *")
    expect(page.locator("#about-cron")).to_contain_text("it has 4 fields, not five")
    page.fill("[name='spec.cron']", "30 7 * * MON-FRI")
    page.fill("[name='spec.zone']", "Europe/Berlin")
    expect(page.locator(".preview")).to_contain_text("At 07:30 on Monday through Friday, Europe/Berlin")
    expect(page.locator(".preview li")).to_have_count(5)
    expect(page.locator("#about-cron")).to_be_empty()
    page.fill("[name='spec.prompt']", "<img src=x onerror=alert(1)>")
    page.get_by_role("button", name="Add").click()
    page.wait_for_url("**/work/cron/ann/cron/morning")
    expect(other.get_by_role("link", name="morning")).to_be_visible()
    page.get_by_text("Edit", exact=True).click()
    page.fill("[name=cron]", "0 9 * * *")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("At 09:00 every day").first).to_be_visible()
    expect(other.get_by_text("At 09:00 every day")).to_be_visible()
    page.get_by_role("button", name="Run now").click()
    expect(page.get_by_text("turn 1")).to_be_visible()
    page.get_by_role("button", name="Delete").click()
    page.wait_for_url("**/work")
    expect(other.get_by_role("link", name="morning")).to_have_count(0)
    assert network.locally("GET", "/v1/cron")["jobs"] == []


def test_chosen_dead_letters_go_and_all_that_fit_are_sent_again(network: Network, window: Window) -> None:
    bury(network, ["CRASHED"] * 130 + ["POISON", "POISON"])
    page = open_confirming(window, "/work?tab=dead&code=POISON")
    other = window.open("/work?tab=dead")
    expect(page.locator(".rows > li")).to_have_count(2)
    page.get_by_label("Choose 132").check()
    page.get_by_role("button", name="Delete chosen").click()
    expect(page.locator(".rows > li")).to_have_count(1)
    expect(other.get_by_label("Choose 132")).to_have_count(0)
    expect(other.locator(".rows > li")).to_have_count(50)  # one page
    page.goto(page.url.replace("POISON", "CRASHED"))
    page.get_by_role("button", name="Send all that fit again").click()
    expect(page.get_by_text("130 letters sent again.")).to_be_visible()
    expect(other.locator(".rows > li")).to_have_count(1)
    assert [each["code"] for each in network.locally("GET", "/v1/dead", waiting="true")["dead"]] == ["POISON"]


def test_a_budget_is_lowered_where_it_is_seen_and_another_window_sees_it(network: Network, window: Window) -> None:
    page, other = open_confirming(window, "/costs"), window.open("/costs")
    own = page.locator("[id='budget-/bob']")
    own.get_by_text("Change").click()
    own.get_by_label("Limits").fill("0.50usd a day, 7 calls a month")
    own.get_by_role("button", name="Set").click()
    for each in (page, other):
        expect(each.locator("[id='budget-/bob']")).to_contain_text("$0.50 a day")
        expect(each.locator("[id='budget-/bob']")).to_contain_text("7 calls a month")
    limits = {each["path"]: each for each in network.locally("GET", "/v1/budgets")["budgets"]}["/bob"]["limits"]
    assert {"day.usd": 500_000, "month.calls": 7}.items() <= {each["name"]: each["limit"] for each in limits}.items()


def test_every_kind_of_work_is_shown_to_readers_and_offers_them_nothing(network: Network) -> None:
    bury(network, ["CRASHED"])
    network.locally("POST", "/v1/cron", {"id": "morning", "spec": {"cron": "30 7 * * *", "prompt": "x"}})
    network.locally("POST", "/v1/tasks", {"spec": {"prompt": "<script>x</script>"}})
    network.locally("POST", "/v1/signals/subscriptions", {"path": "/ann/direct", "pattern": "a:*"})
    network.locally("POST", "/v1/signals", {"type": "a:b", "data": "<script>x</script>", "after_s": 3600})
    network.locally("POST", "/v1/hooks", {"name": "git", "to": "/ann/direct"})
    shown = {
        "schedule": "morning",
        "tasks": "&lt;script&gt;",
        "timers": "waits for its time",
        "signals": "&lt;script&gt;",
    }
    shown |= {"dead": "&lt;b&gt;0", "hooks": "git"}
    pages = {f"/work?tab={tab}": text for tab, text in shown.items()}
    pages |= {"/work/cron/ann/cron/morning": "30 7", "/work?tab=dead&no=1": "why", "/costs?by=payer": "/bob"}
    pages |= {"/work?tab=tasks&task=/ann/task/1": "Task 1"}
    for path, text in pages.items():
        answer = network.call("read", "GET", path)
        assert answer.status_code == 200 and text in answer.text, path
        for offer in ("data-call", "data-press", "data-batch", 'type="checkbox" form'):
            assert offer not in answer.text, (path, offer)
        assert "data-call" in network.call("operator", "GET", path).text or "timers" in path, path
        others = network.call("bob", "GET", path)
        seen = [mine for mine in ("morning", "&lt;", "/ann/") if mine in others.text]
        assert others.status_code == 404 or (others.status_code == 200 and not seen), (path, seen)
