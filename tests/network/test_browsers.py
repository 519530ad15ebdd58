"""Browsers: a link logs one in, a cookie says so, and pages of others can do nothing with it."""

import re
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from daycare.api.callers import May
from daycare.base.errors import DaycareError
from daycare.features import open_store
from daycare.features.tokens import service
from daycare.features.tokens.service import ApiTokens
from daycare.store.records import User
from tests.network.conftest import Network
from tests.network.test_callers import code
from tests.store.samples import HandClock


class Browser:
    """A browser with its cookies, on pages of our own."""

    def __init__(self, network: Network) -> None:
        self.base = f"http://127.0.0.1:{network.port}"
        self._cookies: dict[str, str] = {}

    def call(self, method: str, route: str, *, origin: str = "", csrf: str = "", **more: Any) -> httpx.Response:
        headers = ({"Origin": origin} if origin else {}) | ({"X-Daycare-CSRF": csrf} if csrf else {})
        if self._cookies:
            headers["Cookie"] = "; ".join(f"{name}={value}" for name, value in self._cookies.items())
        answer = httpx.request(method, httpx.URL(self.base).join(route), headers=headers, timeout=30.0, **more)
        self._cookies |= dict(answer.cookies)
        return answer

    def log_in(self, link: str) -> httpx.Response:
        page = self.call("GET", link)
        [value] = re.findall(r'name="code" value="([^"]*)"', page.text)
        return self.call("POST", "/v1/login", origin=self.base, data={"code": value})

    @property
    def cookie(self) -> str:
        return self._cookies["daycare_session"]

    @property
    def csrf(self) -> str:
        found: str = self.call("GET", "/v1/session").json()["csrf"]
        return found


def linked(network: Network, **wish: Any) -> str:
    found: str = network.locally("POST", "/v1/browsers", wish)["url"]
    return found


@pytest.fixture
def browser(network: Network) -> Browser:
    found = Browser(network)
    found.log_in(linked(network))
    return found


def test_a_link_logs_one_browser_in_and_a_preview_does_not_use_it_up(network: Network) -> None:
    link, mine, other = linked(network), Browser(network), Browser(network)
    for method in ("GET", "HEAD", "GET"):
        preview = other.call(method, link)
        assert preview.status_code == 200 and "set-cookie" not in preview.headers
        assert "form-action 'self'" in preview.headers["content-security-policy"]
        assert (preview.headers["cache-control"], preview.headers["referrer-policy"]) == ("no-store", "same-origin")
    done = mine.log_in(link)
    assert (done.status_code, done.headers["location"]) == (303, "/")
    assert re.fullmatch(
        r"daycare_session=[\w-]{40,}; Path=/; Max-Age=2592000; HttpOnly; SameSite=Strict", done.headers["set-cookie"]
    )
    page = mine.call("GET", "/")
    assert page.status_code == 200 and "Log out" in page.text
    assert mine.call("GET", "/v1/status").status_code == 200
    late = other.log_in(link)
    assert (late.status_code, code(late)) == (401, "LOGIN_CODE")
    assert other.call("GET", "/").status_code == 401


def test_a_page_shows_nothing_that_a_link_brings(network: Network) -> None:
    page = Browser(network).call("GET", "/v1/login", params={"code": '"><script>alert(1)</script>'})
    assert "<script>" not in page.text


def test_a_browser_is_listed_and_revoked_with_tokens(network: Network, browser: Browser) -> None:
    [listed] = [each for each in network.locally("GET", "/v1/tokens")["tokens"] if each["kind"] == "browser"]
    assert (listed["user"], listed["may"]) == ("ann", "operator")
    assert round((listed["expires_at"] - listed["created_at"]) / 86_400_000, 2) == 30
    network.locally("DELETE", "/v1/tokens", name=listed["name"])
    assert browser.call("GET", "/").status_code == 401
    others = [Browser(network), Browser(network)]
    for each in others:
        each.log_in(linked(network))
        assert each.call("GET", "/").status_code == 200
    waiting = linked(network)
    assert len(network.locally("DELETE", "/v1/browsers")["revoked"]) == 2
    assert {each.call("GET", "/").status_code for each in others} == {401}
    assert Browser(network).log_in(waiting).status_code == 401, "a link that was not used yet is gone, too"


def test_what_changes_something_comes_from_a_page_of_ours_with_what_it_alone_can_read(
    network: Network, browser: Browser
) -> None:
    def tried(**given: str) -> tuple[int, str]:
        answer = browser.call("POST", "/v1/users", json={"id": "eve"}, **given)
        return answer.status_code, code(answer) if answer.status_code >= 400 else ""

    assert tried(csrf=browser.csrf) == (403, "ORIGIN_REFUSED")
    assert tried(csrf=browser.csrf, origin="null") == (403, "ORIGIN_REFUSED")
    assert tried(csrf=browser.csrf, origin="https://evil.example") == (403, "ORIGIN_REFUSED")
    assert tried(csrf=browser.csrf, origin="https://chat.example") == (403, "ORIGIN_REFUSED"), "it may use a token"
    assert tried(csrf=browser.csrf, origin=browser.base.replace("http:", "https:")) == (403, "ORIGIN_REFUSED")
    assert tried(csrf=browser.csrf, origin=f"http://127.0.0.1:{network.port + 1}") == (403, "ORIGIN_REFUSED")
    assert tried(origin=browser.base) == (403, "CSRF_NEEDED")
    other = Browser(network)
    other.log_in(linked(network))
    assert tried(origin=browser.base, csrf=other.csrf) == (403, "CSRF_NEEDED"), "it belongs to one session"
    assert "eve" not in {each["id"] for each in network.locally("GET", "/v1/users")["users"]}
    assert tried(origin=browser.base, csrf=browser.csrf) == (201, "")
    assert browser.call("GET", "/v1/status", origin="https://evil.example").status_code == 403


def test_a_cookie_is_no_token_and_a_token_no_cookie(network: Network, browser: Browser) -> None:
    network.tokens["cookie"] = browser.cookie
    assert code(network.call("cookie", "GET", "/v1/status")) == "TOKEN_WRONG"
    cookie = {"Cookie": f"daycare_session={network.tokens['operator']}"}
    assert code(network.call("", "GET", "/v1/status", headers=cookie)) == "TOKEN_WRONG"
    assert code(network.call("", "GET", "/v1/status", headers={"Cookie": 'daycare_session="\\'})) == "TOKEN_NEEDED"


def test_a_person_logs_in_as_a_person_and_out_again(network: Network) -> None:
    browser = Browser(network)
    browser.log_in(linked(network, user="bob"))
    told = browser.call("GET", "/v1/session").json()
    assert (told["user"], told["may"]) == ("bob", "person")
    assert browser.call("GET", "/v1/status").status_code == 404
    done = browser.call("POST", "/v1/logout", origin=browser.base, csrf=browser.csrf)
    assert done.status_code == 204 and "Max-Age=0" in done.headers["set-cookie"]
    assert browser.call("GET", "/v1/session").status_code == 401


def test_a_link_says_where_the_api_listens_and_what_to_write_where_it_does_not(network: Network) -> None:
    assert urlsplit(linked(network)).netloc == f"127.0.0.1:{network.port}"
    config = network.home / "config.toml"
    config.write_text(config.read_text().replace(f'listen = "127.0.0.1:{network.port}"', ""))
    network.locally("POST", "/v1/config/reload")
    with pytest.raises(DaycareError) as refused:
        linked(network)
    assert refused.value.code == "API_CLOSED" and "api.listen" in refused.value.hint


async def test_codes_and_browsers_are_few_and_last_for_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "BROWSERS_MAX", 2)
    clock = HandClock()
    async with open_store("memory:", clock, inline=True) as store:
        await store.people.add(User(id="ann", name="Ann", operator=True, keys=("direct:ann",)), "person")  # type: ignore[arg-type]
        tokens = ApiTokens(store, clock, "ann")
        (newcomer, code_) = await tokens.link(None, None)
        assert newcomer == ("ann", May.OPERATOR)
        clock.ms += 300_000
        assert await tokens.log_in(code_) is None, "five minutes are over"
        found = []
        for _ in range(3):
            _, code_ = await tokens.link(None, May.READ)
            found.append(await tokens.log_in(code_))
            assert await tokens.log_in(code_) is None
        sessions = [each[1] for each in found if each is not None]
        callers = [await tokens.browser(each, "127.0.0.1") for each in sessions]
        assert [each is not None for each in callers] == [False, True, True], "the oldest makes room"
        assert callers[2] is not None and (callers[2].may, callers[2].session) == (May.READ, sessions[2])
        assert await tokens.caller(sessions[2], "") is None
        clock.ms += 30 * 86_400_000
        assert await tokens.browser(sessions[2], "") is None
