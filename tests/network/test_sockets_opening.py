"""Every other way to open a socket: over TLS, by a ticket, by a browser's cookie, and with a token for some agents."""

import ssl
from pathlib import Path

import httpx
import pytest
import trio
from trio_websocket import ConnectionRejected

from tests.network.certificates import made
from tests.network.conftest import Network
from tests.network.talking import talk, talk_over
from tests.network.test_browsers import Browser, linked
from tests.network.test_tickets import ticket
from tests.network.test_tls import set_up


async def refused(network: Network, **headers: str) -> str:
    """Return why a socket is not opened."""
    with pytest.RaisesGroup(pytest.RaisesExc(ConnectionRejected), flatten_subgroups=True) as caught:
        async with talk(network, "", **headers):
            raise AssertionError("it was opened")
    [error] = caught.value.exceptions
    assert isinstance(error, ConnectionRejected)
    found: str = httpx.Response(error.status_code, content=error.body).json()["error"]["code"]
    return found


async def test_a_socket_is_encrypted_like_all_else(network: Network, tmp_path: Path) -> None:
    cert, key = made(tmp_path)
    await trio.to_thread.run_sync(lambda: set_up(network, cert=str(cert), key=str(key)))
    headers = {"Authorization": f"Bearer {network.tokens['bob']}", "Host": "127.0.0.1"}
    trusting = ssl.create_default_context(cafile=str(cert))
    with trio.fail_after(30):
        while True:  # until it listens with the pair
            try:
                stream = await trio.open_ssl_over_tcp_stream("127.0.0.1", network.port, ssl_context=trusting)
            except OSError:
                continue
            try:
                await stream.do_handshake()
                break
            except trio.BrokenResourceError:
                await trio.aclose_forcefully(stream)
    page = {"Origin": "https://127.0.0.1"}
    async with stream, talk_over(stream, headers | page) as bob:
        assert (bob.hello["user"], (await bob.asked("chat.send", text="hello"))["path"]) == ("bob", "/bob/direct")
        assert (await bob.hears("chat.reply"))["state"] == "done"


async def test_a_ticket_opens_one_socket_with_the_rights_of_its_token(network: Network) -> None:
    mine = ticket(network, "bob")
    async with talk(network, "", resource=f"/v1/ws?ticket={mine}") as bob:
        assert bob.hello["user"] == "bob"
        assert (await bob.asked("chat.send", text="hello", path="/ann/direct"))["code"] == "AGENT_UNKNOWN"
        assert await refused(network, resource=f"/v1/ws?ticket={mine}") == "TOKEN_WRONG"
        network.locally("DELETE", "/v1/tokens", name="bob")
        assert (await bob.closed())[0] != 1000, "it ends with the token"


async def test_a_browser_that_is_logged_in_opens_one_from_a_page_of_ours_only(network: Network) -> None:
    browser = Browser(network)
    await trio.to_thread.run_sync(lambda: browser.log_in(linked(network)))
    cookie = {"Cookie": f"daycare_session={browser.cookie}", "Host": f"127.0.0.1:{network.port}"}
    async with talk(network, "", Origin=browser.base, **cookie) as ann:
        assert ann.hello["user"] == "ann"
        for other in ({}, {"Origin": "https://evil.example"}, {"Origin": "https://chat.example"}):
            assert await refused(network, **cookie, **other) == "ORIGIN_REFUSED"
        csrf = await trio.to_thread.run_sync(lambda: browser.csrf)
        await trio.to_thread.run_sync(lambda: browser.call("POST", "/v1/logout", origin=browser.base, csrf=csrf))
        await ann.closed()


async def test_a_token_for_some_agents_hears_of_them_and_talks_to_them_alone(network: Network) -> None:
    for path in ("/bob/agent/scribe", "/bob/agent/other"):
        network.locally("POST", "/v1/agents", {"path": path})
    network.add("narrow", user="bob", paths="/bob/agent/scribe/**")
    async with talk(network, "narrow") as narrow, talk(network, "bob") as bob:
        assert (await narrow.asked("subscribe", types=["turn.finished"]))["type"] == "ok"
        others: tuple[str | None, ...] = ("/bob/agent/other", None, "/ann/direct")
        for where in others:
            assert (await narrow.asked("chat.send", text="hi", path=where))["code"] == "AGENT_UNKNOWN"
            assert (await narrow.asked("chat.stop", path=where))["code"] == "AGENT_UNKNOWN"
        assert (await narrow.asked("subscribe", id="x", paths=["/bob/**"]))["code"] == "AGENT_UNKNOWN"
        await bob.say("chat.send", id="c", text="hi", path="/bob/agent/other")
        await bob.hears("chat.reply")
        await narrow.say("chat.send", id="c", text="hi", path="/bob/agent/scribe")
        assert [each["event"]["path"] for each in await narrow.events(1, "q")] == ["/bob/agent/scribe"]
