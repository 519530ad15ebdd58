"""People and the system steered in a browser, and a home set up from nothing. Each file of tests has one daemon."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from daycare.cli.main import main
from daycare.process import EmbeddedDaemon
from tests.dashboard.test_in_a_browser import Window
from tests.init.conftest import BOT_TOKEN, KEY, Town
from tests.init.conftest import town as town
from tests.network.conftest import Network, free_port, opened

BRIDGE = f"""
[plugins.bridge.to.fake]
command = ["{sys.executable}", "-m", "daycare_plugins.bridge.testing.fake", "--codes", "50"]
sandbox = "off"
"""


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    with opened(tmp_path_factory.mktemp("steered")) as found:
        yield found


class LoggedIn(Window):
    """A window of who has used a link of `daycare web`: it sends a cookie, and what shows that it is a page of ours."""

    def __init__(self, browser: Browser, network: Network) -> None:
        super().__init__(browser, network, "operator")
        self._context.close()
        self._context = browser.new_context(viewport={"width": 360, "height": 740})
        page = self._context.new_page()
        page.goto(network.locally("POST", "/v1/browsers", {})["url"])
        page.get_by_role("button").click()
        page.wait_for_url("**/start")  # nobody has said a word yet
        page.close()


@pytest.fixture
def window(browser: Browser, network: Network) -> Iterator[Window]:
    found = LoggedIn(browser, network)
    yield found
    found.close()
    assert [each for each in found.troubles if "status of 4" not in each] == []  # refusals that are asked for


def press(page: Page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()


def test_a_token_is_shown_once_works_and_is_revoked(network: Network, window: Window) -> None:
    page = window.open("/people")
    page.get_by_text("Make a token").click()
    page.get_by_label("Name", exact=True).last.fill("laptop")
    page.locator("[name=may]").select_option("read")
    page.get_by_label("Days").fill("30")
    press(page, "Make it")
    expect(page.locator("#made-token")).not_to_be_empty()
    network.tokens["laptop"] = page.locator("#made-token").inner_text()
    assert network.call("laptop", "GET", "/v1/status").status_code == 200
    page.reload()
    expect(page.locator("#made-token")).to_be_empty()
    page.on("dialog", lambda dialog: dialog.accept())
    press(page, "Revoke laptop")
    expect(page.get_by_role("button", name="Revoke laptop")).to_have_count(0)
    assert network.call("laptop", "GET", "/v1/status").status_code == 401


def test_a_person_is_added_renamed_and_removed(network: Network, window: Window) -> None:
    page = window.open("/people")
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_text("Add a person").click()
    page.get_by_role("textbox", name="Id", exact=True).fill("carl")
    press(page, "Add")
    card = page.locator("#user-carl")
    card.get_by_text("Change").click()
    card.get_by_label("Name", exact=True).fill("Carl <b>")
    card.get_by_role("button", name="Save").click()
    expect(card.locator("b").first).to_have_text("Carl <b>")
    card.get_by_role("button", name="Remove carl").click()
    expect(card).to_have_count(0)
    assert "carl" not in {each["id"] for each in network.locally("GET", "/v1/users")["users"]}


def test_a_setting_is_saved_alone_and_what_is_wrong_is_refused_in_words(network: Network, window: Window) -> None:
    file = network.home / "config.toml"
    before = file.read_text()
    page = window.open("/system?tab=settings")
    page.get_by_text("[daemon]").first.click()
    page.get_by_label("log_level").select_option("debug")
    press(page, "Save [daemon]")
    expect(page.get_by_text("Saved. daemon.log_level")).to_be_visible()
    expect(page.locator("#section-daemon")).to_contain_text("1 of 7 set")
    assert file.read_text() == f'{before}\n[daemon]\nlog_level = "debug"\n'
    page.get_by_label("log_level").select_option("")
    press(page, "Save [daemon]")
    expect(page.locator("#section-daemon")).to_contain_text("0 of 7 set")
    page.goto(page.url.replace("settings", "text"))
    text = page.get_by_label("Text")
    text.fill("[daemon]\nidel_s = 3\n")
    press(page, "Check and save")
    expect(page.get_by_role("alert")).to_contain_text("line 2: daemon.idel_s: unknown key; did you mean `idle_s`?")
    text.fill(before)
    press(page, "Check and save")
    expect(page.get_by_text("Saved. Changed: nothing")).to_be_visible()
    assert file.read_text() == before
    network.locally("PATCH", "/v1/config", {"changes": {"daemon": {"idle_s": 31}}})
    text.fill(f"{before}\n")
    press(page, "Check and save")
    expect(page.get_by_role("alert")).to_contain_text("somebody has changed it since it was read")
    assert "idle_s = 31" in file.read_text()


def test_rules_and_providers_are_added_in_the_form_and_a_plugin_starts_again(network: Network, window: Window) -> None:
    page = window.open("/system?tab=settings")
    page.get_by_label("do", exact=True).fill("message")
    page.get_by_label("to", exact=True).fill("/ann/agent/bank/**")
    press(page, "Add the rule")
    expect(page.get_by_text("deny message from all to /ann/agent/bank/**")).to_be_visible()
    press(page, "Take away rule 1")
    expect(page.get_by_text("deny message")).to_have_count(0)
    page.get_by_text("[providers.NAME]").click()
    page.get_by_label("Name", exact=True).fill("lab")
    page.get_by_label("Address", exact=True).fill("http://127.0.0.1:9/v1")
    press(page, "Add the provider")
    expect(page.locator("#section-providers-lab")).to_contain_text("2 of 3 set")
    page.goto(page.url.replace("settings", "plugins"))
    press(page, "Start offline again")
    expect(page.get_by_text("It has restarted.")).to_be_visible()


def test_the_log_goes_on_as_it_is_written(network: Network, window: Window) -> None:
    page = window.open("/system?tab=log&text=token.made")
    lines = page.locator("#log li")
    count = lines.count()
    network.add("seen-in-the-log", may="read")
    expect(page.locator("#log")).to_contain_text("seen-in-the-log")
    expect(lines).to_have_count(count + 1)
    assert network.tokens["seen-in-the-log"] not in page.content()


def test_a_backup_is_made_and_downloaded_and_one_that_only_reads_gets_none(network: Network, window: Window) -> None:
    page = window.open("/system?tab=backups")
    press(page, "Make a backup now")
    with page.expect_download() as waiting:
        page.get_by_role("link", name="Download it").click()
    assert Path(waiting.value.path()).read_bytes()[:2] == b"\x1f\x8b"
    folder = network.home / "backups"
    folder.mkdir(mode=0o700)
    (folder / "daycare-20260101T000000Z.daycare-backup").write_bytes(Path(waiting.value.path()).read_bytes())
    (folder / "scheduled-20260102T000000Z.daycare-backup").write_bytes(b"\x1f\x8bcut off")
    page.reload()
    press(page, "Verify daycare-20260101T000000Z.daycare-backup")
    expect(page.get_by_text("Read to its end: it is whole.")).to_be_visible()
    press(page, "Verify scheduled-20260102T000000Z.daycare-backup")
    expect(page.get_by_role("alert")).to_contain_text("reading the backup: it is cut off, or no backup")
    route = "/v1/backups/files/daycare-20260101T000000Z.daycare-backup"
    assert network.call("operator", "GET", route).status_code == 200
    assert network.call("read", "GET", route).status_code == 403
    assert network.call("operator", "GET", "/v1/backups/files/..%2fdaycare.key").status_code == 404
    assert network.call("operator", "GET", "/v1/backups/files/daycare.key").status_code == 404


def test_a_key_is_stored_masked_and_removed(network: Network, window: Window) -> None:
    page = window.open("/system?tab=keys")
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_label("Name", exact=True).fill("openai")
    page.get_by_label("Value").fill(KEY)
    page.get_by_label("try it").uncheck()
    press(page, "Store")
    expect(page.get_by_role("button", name="Remove openai")).to_be_visible()
    expect(page.get_by_label("Value")).to_have_value("")
    assert KEY not in page.content()
    press(page, "Remove openai")
    expect(page.get_by_role("button", name="Remove openai")).to_have_count(0)


def test_a_token_of_slack_is_checked_stored_masked_and_removed(network: Network, window: Window, town: Town) -> None:
    file = network.home / "config.toml"
    file.write_text(file.read_text() + f'\n[credentials]\nslack_url = "{town.slack_url}"\n')
    network.locally("POST", "/v1/config/reload")
    page = window.open("/system?tab=keys")
    page.on("dialog", lambda dialog: dialog.accept())
    slack = page.locator("#service-slack")
    expect(slack).to_contain_text("Not configured")
    expect(slack).to_contain_text("channels:read, groups:read, chat:write")
    page.get_by_label("Token of Slack").fill("xoxp-nonsense")
    press(page, "Save")
    expect(page.get_by_role("alert")).to_contain_text("it does not look like one")
    page.get_by_label("Token of Slack").fill(BOT_TOKEN)
    press(page, "Save")
    expect(slack).to_contain_text("Connected")
    expect(slack).to_contain_text("takes it as @bot in Acme. Missing scopes: channels:read,groups:read.")
    assert BOT_TOKEN not in page.content()
    press(page, "Check slack")
    expect(slack.get_by_role("status").last).to_contain_text("Missing scopes: channels:read,groups:read.")
    press(page, "Remove the token of slack")
    expect(slack).to_contain_text("Not configured")
    reader = Window(page.context.browser, network, "read")  # type: ignore[arg-type]
    expect(reader.open("/system?tab=keys").locator("#service-slack form")).to_have_count(0)
    reader.close()


def test_a_code_to_scan_is_drawn_and_the_next_one_comes_by_itself(network: Network, window: Window) -> None:
    file = network.home / "config.toml"
    file.write_text(file.read_text() + BRIDGE)
    network.locally("POST", "/v1/config/reload")
    page = window.open("/system?tab=connectors")
    press(page, "Pair fake")
    code = page.locator("#connector-fake svg path").last
    expect(code).to_be_visible()
    first = code.get_attribute("d")
    assert first is not None
    expect(code).not_to_have_attribute("d", first)
    reader = Window(page.context.browser, network, "read")  # type: ignore[arg-type]
    expect(reader.open("/system?tab=connectors").locator("#connector-fake")).to_be_visible()
    assert "svg" not in network.call("read", "GET", "/system?tab=connectors").text
    reader.close()


def test_an_empty_home_is_set_up_from_a_link_to_the_first_answer(
    browser: Browser, town: Town, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("daycare.features.tokens.cli.USUAL_PORT", free_port())
    home = tmp_path / "h"
    with EmbeddedDaemon(home, work=True):
        with pytest.raises(SystemExit):
            main(["web", "--home", str(home)])
        link = capsys.readouterr().out.split()[0]
        context = browser.new_context()
        page = context.new_page()
        page.goto(link)
        page.get_by_role("button", name="Log this browser in").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("First steps")
        page.get_by_label("What should it call you?").fill("Ann")
        page.get_by_label("What is your agent called?").fill("Miso")
        press(page, "Save")
        expect(page.locator("#names-step")).to_contain_text("done")
        page.get_by_label("Model").fill("kitchen/fake-large")
        page.get_by_text("A server of your own").click()
        page.get_by_label("Its address").fill(town.model_url)
        page.get_by_label("Key").fill("sk-wrong-0123456789")
        press(page, "Try it, and use it")
        expect(page.get_by_role("alert")).to_contain_text("kitchen")
        assert "kitchen" not in (home / "config.toml").read_text(), "nothing is written for a key that does not work"
        page.get_by_label("Key").fill(KEY)
        press(page, "Try it, and use it")
        expect(page.locator("#model-step")).to_contain_text("done")
        page.get_by_label("To Miso").fill("hello there")
        press(page, "Send")
        expect(page.locator(".said.assistant:not(#typing)").first).to_contain_text("hello there")
        context.close()
    config = (home / "config.toml").read_text()
    assert 'name = "Miso"' in config and 'default = "kitchen/fake-large"' in config
    assert KEY not in config + (home / "daycare.log").read_text()
