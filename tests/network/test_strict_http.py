"""What a proxy and we could read differently is refused, and nothing after it is taken for a request."""

import json
import socket
from typing import Final

import pytest

from daycare.api.strict_http import HEAD_MAX_BYTES, HEADERS_MAX
from tests.network.conftest import Network

SMUGGLED: Final = "GET /v1/keys HTTP/1.1\r\nHost: localhost\r\n\r\n"
CHUNKED: Final = "Transfer-Encoding: chunked\r\n"
# What is sent behind the line and headers of a POST; each is refused with a status of these.
REFUSED: Final = {
    "length and chunks": f"Content-Length: 4\r\n{CHUNKED}\r\n0\r\n\r\n{SMUGGLED}",
    "chunks and length": f"{CHUNKED}Content-Length: 4\r\n\r\n0\r\n\r\n{SMUGGLED}",
    "two lengths": f"Content-Length: 2\r\nContent-Length: 30\r\n\r\n{{}}{SMUGGLED}",
    "two lengths in one": f"Content-Length: 2, 30\r\n\r\n{{}}{SMUGGLED}",
    "a length with a sign": f"Content-Length: +2\r\n\r\n{{}}{SMUGGLED}",
    "a length of letters": f"Content-Length: 0x2\r\n\r\n{{}}{SMUGGLED}",
    "a space before the colon": f"Content-Length : 2\r\n\r\n{{}}{SMUGGLED}",
    "a folded header": f"X: a\r\n Content-Length: 2\r\n\r\n{SMUGGLED}",
    "a header folded with a tab": f"Transfer-Encoding:\r\n\tchunked\r\n\r\n0\r\n\r\n{SMUGGLED}",
    "a line without CR": f"X: a\nContent-Length: 2\r\n\r\n{{}}{SMUGGLED}",
    "an end without CR": f"X: a\n\n{SMUGGLED}",
    "a CR alone": f"X: a\rContent-Length: 2\r\n\r\n{{}}{SMUGGLED}",
    "a NUL": f"X: a\x00b\r\n\r\n{SMUGGLED}",
    "another coding": f"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n{SMUGGLED}",
    "a coding twice": f"{CHUNKED}{CHUNKED}\r\n0\r\n\r\n{SMUGGLED}",
    "a coding that is nearly one": f"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n{SMUGGLED}",
    "a chunk of no size": f"{CHUNKED}\r\nx\r\n\r\n{SMUGGLED}",
    "a chunk that is longer than it says": f"{CHUNKED}\r\n1\r\n{{}}xx\r\n0\r\n\r\n{SMUGGLED}",
    "a line without CR in a chunk's": f"{CHUNKED}\r\n2;a\nb\r\n{{}}\r\n0\r\n\r\n{SMUGGLED}",
    "two hosts": f"Host: evil.example\r\n\r\n{SMUGGLED}",
    "too many headers": "".join(f"X-{n}: 1\r\n" for n in range(HEADERS_MAX)) + "\r\n",
    "a head that is too long": f"X: {'x' * HEAD_MAX_BYTES}\r\n\r\n",
}
LINES: Final = {
    "HTTP/0.9": "GET /v1/status\r\n\r\n",
    "HTTP/2": f"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n{SMUGGLED}",
    "another version": f"GET /v1/status HTTP/3.0\r\nHost: localhost\r\n\r\n{SMUGGLED}",
    "chunks before HTTP/1.1": f"POST /v1/stop HTTP/1.0\r\nHost: localhost\r\n{CHUNKED}\r\n0\r\n\r\n{SMUGGLED}",
    "a line with a tab": f"GET\t/v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n{SMUGGLED}",
    "no host": f"GET /v1/status HTTP/1.1\r\n\r\n{SMUGGLED}",
}


def sent(network: Network, text: str) -> bytes:
    """Return all that comes back until the other side closes, which it does at once."""
    with socket.create_connection(("127.0.0.1", network.port), timeout=10) as raw:
        raw.sendall(text.encode("latin-1"))
        answer = b""
        while part := raw.recv(65_536):
            answer += part
    return answer


def test_what_two_programs_may_read_differently_is_refused_and_the_connection_ends(network: Network) -> None:
    head = f"POST /v1/stop HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {network.tokens['operator']}\r\n"
    for name, text in {**{name: head + text for name, text in REFUSED.items()}, **LINES}.items():
        answer = sent(network, text)
        assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 431", b"HTTP/1.1 501", b"HTTP/1.1 505")), (name, answer)
        assert answer.count(b"HTTP/1.1 ") == 1, (name, answer)
        told = json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
        assert told["code"] in ("REQUEST_UNREADABLE", "HOST_UNKNOWN", "TOKEN_NEEDED"), (name, answer)
        assert "smuggled" not in told["message"].lower() and network.tokens["operator"] not in str(told)
    assert sent(network, head.replace("POST", "HEAD") + REFUSED["length and chunks"]).endswith(b"\r\n\r\n")


@pytest.mark.parametrize("more", ["", "Content-Length: 0\r\n"])
def test_the_wish_to_go_on_in_another_protocol_is_not_heeded(network: Network, more: str) -> None:
    head = f"GET /v1/session HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {network.tokens['operator']}\r\n"
    upgrade = (
        f"Connection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n{more}"
    )
    answer = sent(network, f"{head}{upgrade}\r\n")
    assert answer.startswith(b"HTTP/1.1 200") and b"101" not in answer and b'"operator"' in answer


def test_extensions_of_chunks_are_left_out_of_the_body(network: Network) -> None:
    head = f"POST /v1/tickets HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {network.tokens['operator']}\r\n"
    answer = sent(network, f'{head}Connection: close\r\n{CHUNKED}\r\n2;name="value"\r\n{{}}\r\n0\r\n\r\n')
    assert answer.startswith(b"HTTP/1.1 201")
