"""Pages fetched from real servers on loopback, which the tests name as addresses of the house."""

import gzip
import ipaddress
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio
import trio.testing

from daycare.base.errors import DaycareError, InvalidError
from daycare.public_network import PublicNetwork
from daycare_plugins.web import fetching
from daycare_plugins.web.fetching import WEB_MAX_BYTES, WebFetcher
from daycare_plugins.web.reading import text_of

Answer = Callable[[trio.SocketStream, str], Awaitable[None]]
HOUSE = PublicNetwork([ipaddress.ip_network("127.0.0.1/32")])


@asynccontextmanager
async def served(answer: Answer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[str, list[str]]]:
    """Serve at an address that pages may have; its paths are noted."""
    asked: list[str] = []

    async def handle(stream: trio.SocketStream) -> None:
        head = b""
        async with stream:
            try:
                while b"\r\n\r\n" not in head:
                    if not (piece := await stream.receive_some()):
                        return
                    head += piece
                if not head.startswith(b"GET "):
                    return  # https is tried first
                asked.append(head.split(b" ", 2)[1].decode())
                await answer(stream, asked[-1])
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                pass

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, handle, 0, host="127.0.0.1"))
        port = listeners[0].socket.getsockname()[1]
        monkeypatch.setattr(fetching, "_OTHER_PORTS", frozenset({port}))
        yield f"http://127.0.0.1:{port}", asked
        nursery.cancel_scope.cancel()


def http(body: bytes, kind: str = "text/html; charset=utf-8", status: str = "200 OK", more: str = "") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{more}\r\n"
    return head.encode() + body


def says(text: bytes) -> Answer:
    async def answer(stream: trio.SocketStream, path: str) -> None:
        await stream.send_all(text)

    return answer


async def refusal(url: str) -> DaycareError:
    with pytest.raises(DaycareError) as refused:
        await WebFetcher(HOUSE).fetch(url)
    return refused.value


async def test_a_page_is_read_as_markdown_with_its_links(monkeypatch: pytest.MonkeyPatch) -> None:
    html = """<html><head><title>Tea</title><script>evil()</script><style>x{}</style></head><body><nav>Menu</nav>
    <main><h1>Green tea</h1><p>Steep at <b>80</b> degrees, see <a href="/how?x=1">how</a> and
    <a href="javascript:evil()">this</a>.</p><ul><li>one</li><li>two</li></ul><pre>a  b</pre></main></body></html>"""
    async with served(says(http(html.encode())), monkeypatch) as (root, _):
        text = await text_of(await WebFetcher(HOUSE).fetch(f"{root}/tea"))
    assert text.startswith("# Tea\n\n# Green tea\n\nSteep at **80** degrees")
    assert f"[how]({root}/how?x=1)" in text and "- one\n- two" in text and "a  b" in text
    assert "evil" not in text and "Menu" not in text


async def test_text_is_read_as_it_is_in_its_character_set(monkeypatch: pytest.MonkeyPatch) -> None:
    body = "Grüße <b>".encode("latin-1")
    async with served(says(http(body, 'text/plain; charset="latin-1"')), monkeypatch) as (root, _):
        assert await text_of(await WebFetcher(HOUSE).fetch(root)) == "Grüße <b>"
    async with served(says(http(b"x", "text/plain; charset=nonsense")), monkeypatch) as (root, _):
        assert await text_of(await WebFetcher(HOUSE).fetch(root)) == "x"


async def test_each_step_of_a_way_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    targets = [
        "http://127.0.0.2/",
        "http://10.0.0.1/",
        "http://[::1]/",
        "file:///etc/passwd",
        "//localhost:22/",
        "/loop",
    ]

    async def answer(stream: trio.SocketStream, path: str) -> None:
        target = targets[int(path[1:])] if path[1:].isdecimal() else "/loop" if path == "/loop" else ""
        more = f"Location: {target or '/end'}\r\n"
        await stream.send_all(
            http(b"there", "text/plain") if path == "/end" else http(b"", status="302 Found", more=more)
        )

    async with served(answer, monkeypatch) as (root, asked):
        assert (await WebFetcher(HOUSE).fetch(f"{root}/begin")).body == b"there"
        for at in range(len(targets)):
            await refusal(f"{root}/{at}")
        assert asked.count("/loop") == fetching.WEB_REDIRECTS_MAX
        assert {path for path in asked if not path[1:].isdecimal()} == {"/begin", "/end", "/loop"}


async def test_a_bomb_an_endless_page_and_a_wrong_type_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = gzip.compress(b"\0" * (64 * 1024 * 1024))
    async with served(says(http(bomb, more="Content-Encoding: gzip\r\n")), monkeypatch) as (root, _):
        assert (await refusal(root)).code == "WEB_TOO_LARGE"

    async def endless(stream: trio.SocketStream, path: str) -> None:
        await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n")
        for _ in range(WEB_MAX_BYTES // 65_536 * 4):
            await stream.send_all(b"x" * 65_536)

    async with served(endless, monkeypatch) as (root, _):
        assert (await refusal(root)).code == "WEB_TOO_LARGE"
    for answer, code in (
        (http(b"\x89PNG", "image/png"), "WEB_TYPE"),
        (http(b"x", more="Content-Encoding: br\r\n"), "WEB_TYPE"),
        (http(b"not gzip", more="Content-Encoding: gzip\r\n"), "WEB_UNREACHABLE"),
        (b"nonsense\r\n\r\n", "WEB_UNREACHABLE"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * 200_000 + b"\r\n\r\n", "WEB_UNREACHABLE"),
    ):
        async with served(says(answer), monkeypatch) as (root, _):
            assert (await refusal(root)).code == code


async def test_a_page_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "WEB_DEADLINE_S", 0.3)

    async def slow(stream: trio.SocketStream, path: str) -> None:
        await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\nx")
        await trio.sleep_forever()

    async with served(slow, monkeypatch) as (root, _):
        assert (await refusal(root)).code == "WEB_LATE"


async def test_a_page_that_cannot_be_read_harms_nobody() -> None:
    page = fetching.WebPage("https://example.org/", 200, "text/html", "", b"<div>" * 5_000 + b"deep")
    with pytest.raises(InvalidError, match="cannot be read"):
        await text_of(page)


async def test_nothing_of_the_house_is_read_unless_it_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)), pytest.raises(DaycareError):
        await WebFetcher().fetch("http://127.0.0.1:8080/")
