"""Clients that take their time: each has a deadline, and leaves room for others."""

import socket
import time

import pytest

from daycare.api import connection, rates, server
from tests.network.conftest import Network
from tests.network.test_callers import code


def test_a_head_that_comes_letter_by_letter_ends_in_time(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "API_HEAD_S", 0.5)
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", network.port), timeout=10) as slow:
        slow.settimeout(0.05)
        closed = False
        for letter in "GET /v1/status HTTP/1.1\r\n" + "X" * 1_000:
            try:
                slow.sendall(letter.encode())
                closed = slow.recv(100) == b""
            except TimeoutError:
                continue
            except ConnectionError:
                closed = True
            if closed:
                break
    assert closed and time.monotonic() - began < 5, "each letter gives no more time"


def test_requests_one_after_the_other_have_their_time_each(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "API_HEAD_S", 0.2)
    request = f"GET /v1/session HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {network.tokens['ann']}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", network.port), timeout=10) as patient:
        for _ in range(3):
            patient.sendall(request.encode())
            assert patient.recv(65_536).startswith(b"HTTP/1.1 200")
            patient.settimeout(0.3)
            with pytest.raises(TimeoutError):
                patient.recv(1)
            patient.settimeout(10)


def test_an_address_has_so_many_busy_connections_and_idle_ones_give_way(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "API_ADDRESS_CONNECTIONS_MAX", 2)
    address = ("127.0.0.1", network.port)
    idle = [socket.create_connection(address, timeout=10) for _ in range(2)]
    assert network.call("ann", "GET", "/v1/session").status_code == 200
    assert idle[0].recv(1) == b"", "the one that was idle for the longest"
    head = f"GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {network.tokens['ann']}\r\n\r\n"
    busy = []
    for _ in range(2):  # one after the other: until it has asked for something, it is idle itself
        busy.append(socket.create_connection(address, timeout=10))
        busy[-1].sendall(head.encode())
        assert busy[-1].recv(1_000).startswith(b"HTTP/1.1 200")
    refused = network.call("ann", "GET", "/v1/session")
    assert (refused.status_code, code(refused)) == (503, "API_FULL")
    for each in (*idle, *busy):
        each.close()
    give_up = time.monotonic() + 10
    while network.call("ann", "GET", "/v1/session").status_code != 200:
        assert time.monotonic() < give_up


def test_a_token_has_so_many_open_calls_and_no_more(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "API_CALLS_OPEN_MAX", 1)
    head = f"GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {network.tokens['ann']}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", network.port), timeout=10) as stream:
        stream.sendall(head.encode())
        assert stream.recv(1_000).startswith(b"HTTP/1.1 200")
        answer = network.call("ann", "GET", "/v1/agents")
        assert (answer.status_code, code(answer), answer.headers["retry-after"]) == (429, "API_CALLS", "1")
        assert network.call("bob", "GET", "/v1/agents").status_code == 200, "nobody else pays for it"
    give_up = time.monotonic() + 10
    while network.call("ann", "GET", "/v1/agents").status_code != 200:
        assert time.monotonic() < give_up, "what has ended counts no more"
