"""What strangers, pages and impatient programs get."""

import socket
import time
from typing import Any

import httpx
import pytest

from daycare.api import rates
from tests.network.conftest import Network, free_port
from tests.network.test_callers import code


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8686", "127.0.0.1.evil.example", "", "[::2]:80"])
def test_a_name_that_is_not_ours_is_refused_before_the_token_is_looked_at(network: Network, host: str) -> None:
    answer = network.call("operator", "GET", "/v1/status", headers={"Host": host})
    assert (answer.status_code, code(answer)) == (403, "HOST_UNKNOWN")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1", "[::1]", "[::1]:8686"])
def test_every_name_of_loopback_is_ours(network: Network, host: str) -> None:
    assert network.call("operator", "GET", "/v1/status", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://chat.example", "https://chat.example:8443"])
def test_a_page_of_an_origin_that_is_not_listed_is_refused(network: Network, origin: str) -> None:
    answer = network.call("operator", "POST", "/v1/messages", {"text": "hi"}, headers={"Origin": origin})
    assert (answer.status_code, code(answer)) == (403, "ORIGIN_REFUSED")
    assert "access-control-allow-origin" not in answer.headers


def test_a_page_of_a_listed_origin_may_ask_first_and_read_the_answer(network: Network) -> None:
    page = {"Origin": "https://chat.example"}
    asked = network.call("", "OPTIONS", "/v1/messages", headers=page | {"Access-Control-Request-Method": "POST"})
    assert asked.status_code == 204 and not asked.content
    assert asked.headers["access-control-allow-origin"] == "https://chat.example"
    assert "authorization" in asked.headers["access-control-allow-headers"]
    answer = network.call("operator", "GET", "/v1/status", headers=page)
    assert answer.status_code == 200 and answer.headers["access-control-allow-origin"] == "https://chat.example"
    assert "etag, retry-after" in answer.headers["access-control-expose-headers"]
    assert "if-match" in asked.headers["access-control-allow-headers"]
    assert network.call("", "GET", "/v1/status", headers=page).status_code == 401


def test_after_ten_wrong_tokens_an_address_is_told_to_wait_and_a_right_one_still_opens(network: Network) -> None:
    network.tokens["wrong"] = "daycare_wrong"
    codes = [code(network.call("wrong", "GET", "/v1/status")) for _ in range(12)]
    assert codes == ["TOKEN_WRONG"] * 10 + ["TOKENS_WRONG"] * 2
    answer = network.call("wrong", "POST", "/v1/messages", {"text": "x" * 100_000})
    assert answer.status_code == 429 and 0 < int(answer.headers["retry-after"]) <= 60
    assert network.call("operator", "GET", "/v1/status").status_code == 200, "behind a proxy all have one address"


@pytest.mark.parametrize("header", ["Basic dXNlcjpwYXNz", "Bearer", "bearer daycare_x", f"Bearer {'x' * 9_000}"])
def test_what_is_no_token_of_ours_opens_nothing(network: Network, header: str) -> None:
    answer = network.call("", "GET", "/v1/status", headers={"Authorization": header})
    assert (answer.status_code, code(answer)) == (401, "TOKEN_WRONG")


def test_a_token_in_a_url_is_none(network: Network) -> None:
    answer = network.call("", "GET", "/v1/status", token=network.tokens["operator"])
    assert code(answer) == "TOKEN_NEEDED"


def test_calls_come_back_with_time_when_a_token_has_used_all(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "API_CALLS_BURST", 5)
    monkeypatch.setattr(rates, "API_CALLS_PER_S", 1e-6)
    assert [network.call("read", "GET", "/v1/agents").status_code for _ in range(6)] == [200] * 5 + [429]
    assert network.call("operator", "GET", "/v1/agents").status_code == 200, "nobody else pays for it"
    monkeypatch.setattr(rates, "API_CALLS_PER_S", 1e6)
    assert network.call("read", "GET", "/v1/agents").status_code == 200


def test_a_revoked_token_opens_nothing_and_what_is_open_with_it_ends(network: Network) -> None:
    url, headers = f"http://127.0.0.1:{network.port}/v1/events", {"Authorization": f"Bearer {network.tokens['ann']}"}
    with httpx.stream("GET", url, headers=headers, timeout=10.0) as stream:
        lines = stream.iter_lines()
        assert next(lines) == ": daycare"
        network.locally("DELETE", "/v1/tokens", name="ann")
        with pytest.raises(httpx.HTTPError):
            for _ in lines:
                pass
    assert code(network.call("ann", "GET", "/v1/agents")) == "TOKEN_WRONG"
    assert network.call("bob", "GET", "/v1/agents").status_code == 200


def test_what_is_open_ends_with_the_person_whose_it_is_and_with_nobody_else(network: Network) -> None:
    network.locally("POST", "/v1/users", {"id": "eve"})
    network.add("eve", user="eve")
    url = f"http://127.0.0.1:{network.port}/v1/events"
    streams = [{"Authorization": f"Bearer {network.tokens[who]}"} for who in ("bob", "eve")]
    with (
        httpx.stream("GET", url, headers=streams[0], timeout=10.0) as bobs,
        httpx.stream("GET", url, headers=streams[1], timeout=10.0) as eves,
    ):
        bobs_lines, eves_lines = bobs.iter_lines(), eves.iter_lines()
        assert next(bobs_lines) == next(eves_lines) == ": daycare"
        network.locally("DELETE", "/v1/users/eve")
        with pytest.raises(httpx.HTTPError):
            for _ in eves_lines:
                pass
        network.call("bob", "POST", "/v1/messages", {"text": "hello", "wait_s": 10})
        assert any("turn.finished" in line for line in bobs_lines)


def test_two_lengths_of_one_body_are_refused(network: Network) -> None:
    """Else a proxy and we could take different parts of it for the next request."""
    head = f"Host: localhost\r\nAuthorization: Bearer {network.tokens['operator']}\r\n"
    for smuggled in (
        "Content-Length: 2\r\nContent-Length: 30\r\n\r\n{}GET /v1/keys HTTP/1.1\r\n",
        "Content-Length : 2\r\n\r\n{}",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    ):
        with socket.create_connection(("127.0.0.1", network.port), timeout=10) as raw:
            raw.sendall(f"POST /v1/messages HTTP/1.1\r\n{head}{smuggled}".encode())
            answer = b""
            while part := raw.recv(4096):
                answer += part
        assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 501")), smuggled
        assert answer.count(b"HTTP/1.1") == 1


def test_another_address_counts_at_once(network: Network) -> None:
    config, other = network.home / "config.toml", free_port()
    config.write_text(config.read_text().replace(f":{network.port}", f":{other}"))
    network.locally("POST", "/v1/config/reload")
    before, network.port = network.port, other
    give_up = time.monotonic() + 10
    answer: Any = None
    while answer is None:
        try:
            answer = network.call("operator", "GET", "/v1/status")
        except httpx.ConnectError:
            assert time.monotonic() < give_up
    assert answer.status_code == 200
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", before), timeout=5)
