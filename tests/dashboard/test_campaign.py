"""A slice of the campaign over the pages (`python -m tests.pages`), and that it sees what it is there to see."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from playwright.sync_api import Browser

from daycare.features.dashboard import rendering
from tests.chance import WHOLE, sliced
from tests.network.conftest import Network
from tests.pages import accessible, actions, keyboard, matrix, scripting
from tests.pages.corpus import CORPUS
from tests.pages.house import house
from tests.pages.windows import addresses, watched


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    with house(tmp_path_factory.mktemp("house")) as network:
        yield network


def test_what_is_offered_is_permitted_and_nothing_of_others_is_seen(home: Network) -> None:
    assert matrix.judge(home)["harm"] == []


def test_no_text_that_the_api_may_answer_runs_loads_or_becomes_markup(browser: Browser, home: Network) -> None:
    found = scripting.answered(browser, home, Random(1), 1)
    assert len(set(CORPUS)) >= 150 and found["places"] >= 100
    assert found["harm"] == []


def test_a_template_that_forgets_to_escape_is_found(
    browser: Browser, home: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    rendering._environment.cache_clear()
    monkeypatch.setattr(rendering._environment(), "autoescape", False)
    try:
        assert scripting.answered(browser, home, Random(1), 1, till_harm=True)["harm"]
    finally:
        rendering._environment.cache_clear()


def test_no_page_breaks_a_rule_of_axe(browser: Browser, home: Network) -> None:
    where = sliced(addresses(home, "operator"), 8)
    assert accessible.violations(browser, home, where, scheme="dark", size="phone") == []


def test_people_talk_decide_and_make_an_agent_with_keys_alone(browser: Browser, home: Network) -> None:
    with watched(browser, home, "operator") as windows:
        assert keyboard.walked(windows.open("/approvals"), "/approvals") == []
        for what in (keyboard.talks, keyboard.decides, keyboard.makes):
            what(windows, home)
        assert windows.errors == []


def test_no_action_of_any_page_is_answered_by_a_defect(browser: Browser, tmp_path: Path) -> None:
    with house(tmp_path) as network:  # it will not be the same afterwards
        assert actions.press(browser, network, 1 if WHOLE else 8)["harm"] == []
