"""Requests of programs: raw HTTP over the Unix socket to every route, with bodies, queries and headers of any kind."""

import inspect
import json
import re
from collections.abc import Mapping
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec
import trio
from starlette.routing import Route

from daycare.api.app import build
from daycare.testing.daemon import TestDaemon, open_daemon
from tests.hostile import schemas, texts, values
from tests.hostile.messages import echo
from tests.hostile.stage import PEOPLE, Streaming, opened
from tests.hostile.trial import Prepared, Trial

_BODY: Final = re.compile(r"\bbody\(request, (\w+)\)")
_QUERY: Final = re.compile(r"\bquery\(request, (\w+)\)")
_HEADERS: Final = (
    ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    ("traceparent", "zz"),
    ("Accept", "*/*"),
    ("Last-Event-ID", "1"),
    ("Last-Event-ID", "-1"),
    ("Last-Event-ID", "9" * 40),
    ("Last-Event-ID", "\u0661"),
    ("Range", "bytes=0-1"),
    ("Expect", "100-continue"),
    ("Upgrade", "websocket"),
    ("Content-Type", "text/html"),
    ("Content-Disposition", "attachment; filename=\"a\"; filename*=utf-8''%ff"),
    ("X-Name", "x" * 5_000),
    ("Transfer-Encoding", "chunked"),
    ("Content-Encoding", "gzip"),
    ("Host", ""),
    ("Cookie", ";" * 1_000),
)
_OBEYED: Final = ("/v1/shutdown", "/v1/handover")  # they end the daemon, as they are meant to
_LIMIT_S: Final = 200_000.0  # of virtual time: a stream or a wait ends before


class Door:
    """A route as it is asked for: which bodies and queries it takes."""

    def __init__(self, route: Route) -> None:
        self.path = route.path
        self.methods = sorted(set(route.methods or ()) - {"HEAD"})
        source = inspect.getsource(route.endpoint)
        names = vars(inspect.getmodule(route.endpoint))
        self.body = _schema(_BODY.findall(source), names)
        self.query = _schema(_QUERY.findall(source), names)


def _schema(found: list[str], names: Mapping[str, Any]) -> dict[str, Any] | None:
    if not found:
        return None
    schema = msgspec.json.schema(names[found[0]])
    if "$ref" in schema:
        return {**schema["$defs"][schema["$ref"].rpartition("/")[2]], "$defs": schema.get("$defs", {})}
    return schema


async def _doors() -> list[Door]:
    """Return every route of a daemon, of its core and of each feature."""
    with TemporaryDirectory() as folder:
        async with open_daemon(Path(folder), work=False) as house:
            routes = build(house.daemon.services).routes
            return [Door(each) for each in routes if isinstance(each, Route) and each.path not in _OBEYED]


DOORS: Final = trio.run(_doors)


class Api(Prepared):
    """See the module. With `virtual` unset the store works in its threads, and time is the machine's."""

    chunk = 250

    def __init__(self, name: str = "api", *, virtual: bool = True) -> None:
        self.name = name
        self.virtual = virtual

    async def play(self, trial: Trial, folder: Path) -> None:
        """Send each over a connection of its own."""
        async with opened(trial, folder, Streaming(echo), prepare=_prepare) as house:

            async def one(number: int) -> None:
                data = self.drawn(trial.draw(number))
                status, answer = await _asked(house, data, _LIMIT_S if self.virtual else 2.0)
                if (
                    status >= 500 and status not in (501, 505) and (status != 503 or b'"code"' not in answer)
                ):  # 501, 505: of HTTP itself
                    trial.harm("5xx", f"{status} for {data[:200]!r}: {answer[:300]!r}", number)
                trial.end(number, "answered" if 200 <= status < 400 else "refused")

            await _ours(trial.numbers, one)

    def drawn(self, rng: Random) -> bytes:
        """Return the bytes of one request."""
        if rng.random() < 0.04:
            return _nonsense(rng)
        door = rng.choice(DOORS)
        method = (
            rng.choice(door.methods) if rng.random() < 0.95 else rng.choice(("HEAD", "OPTIONS", "TRACE", "X", "get"))
        )
        path = re.sub(r"\{[^}]*\}", lambda found: _segment(rng), door.path)
        query = _query(rng, door)
        body = _body(rng, door) if method not in ("GET", "HEAD") or rng.random() < 0.1 else b""
        headers = [("Host", "daycare"), ("Connection", "close")]
        for _ in range(rng.choice((0, 0, 0, 1, 3))):
            headers.append(rng.choice(_HEADERS) if rng.random() < 0.8 else ("X-A", _latin(texts.short(rng)[:300])))
        size = len(body) if rng.random() < 0.98 else rng.choice((0, len(body) + 1, -1, 10**12))
        headers.append(("Content-Length", str(size)))
        lines = [f"{method} {path}{query} HTTP/1.1", *(f"{name}: {value}" for name, value in headers)]
        return "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n" + body

    def shown(self, rng: Random) -> str:
        """Return its bytes."""
        return str(self.drawn(rng)[:400])


async def _ours(numbers: Any, one: Any) -> None:
    """Run clients, which are not the daemon: their steps are not measured."""
    free = trio.CapacityLimiter(24)

    async def limited(number: int) -> None:
        async with free:
            await one(number)

    async with trio.open_nursery() as nursery:
        for number in numbers:
            nursery.start_soon(limited, number, name=f"ours:client {number}")


async def _prepare(house: TestDaemon) -> None:
    """Let there be something behind each route, and let nobody stop the daemon."""
    object.__setattr__(house.daemon.services, "stop", lambda restart, reason: None)
    await house.agent("/p2/agent/x")
    await house.agent("/ann/agent/x")


async def _asked(house: TestDaemon, data: bytes, limit_s: float) -> tuple[int, bytes]:
    """Send bytes; return the status, 0 where the daemon closed the connection without one, and what came."""
    answer = bytearray()
    with trio.move_on_after(limit_s):
        try:
            async with await trio.open_unix_socket(str(house.daemon.home.socket)) as stream:
                try:
                    await stream.send_all(data)
                    if data[-2:] == b"~~":
                        await stream.send_eof()
                except trio.BrokenResourceError:
                    pass  # refused before it was whole
                while more := await stream.receive_some(65_536):
                    answer += more
                    whole = answer.endswith(b"\r\n0\r\n\r\n") or b"text/event-stream" in answer[:500]
                    if whole or len(answer) > 3_000_000:
                        break
        except (trio.BrokenResourceError, OSError):
            pass
    found = re.match(rb"HTTP/1\.1 (\d{3})", answer)
    return (int(found[1]) if found else 0), bytes(answer)


def _segment(rng: Random) -> str:
    some = rng.choice(
        ("1", "0", "2", "-1", "99999999999999999999", "x", "ann", "p1", "openai", "%00", "..", "%2e%2e", "٣")
    )
    return quote(texts.short(rng)[:300], errors="surrogatepass") or "x" if rng.random() < 0.3 else some


def _query(rng: Random, door: Door) -> str:
    if door.query is None and rng.random() < 0.9:
        return ""
    found = schemas.hostile(rng, door.query or {"type": "object"})
    if not isinstance(found, dict):
        return "?" + rng.choice(("%", "&&&", "=", "a=%ff", "path=%ed%a0%80", "limit=1&limit=2", "path=%00"))
    pairs = [(str(name), each if isinstance(each, str) else json.dumps(each)) for name, each in found.items()]
    return "?" + urlencode(pairs, errors="surrogatepass")[:20_000]


def _body(rng: Random, door: Door) -> bytes:
    if door.body is None and rng.random() < 0.8:
        return rng.choice((b"", b"{}", rng.randbytes(rng.choice((1, 100, 10_000)))))
    found = schemas.hostile(rng, door.body or {"type": "object"})
    if isinstance(found, dict) and "user" in found and rng.random() < 0.5:
        found["user"] = rng.choice(PEOPLE)
    return values.body(rng, found)


def _latin(text: str) -> str:
    return text.encode("utf-8", "replace").decode("latin-1").replace("\r", "").replace("\n", "")


def _nonsense(rng: Random) -> bytes:
    return rng.choice(
        (
            b"\r\n\r\n",
            b"GET\r\n\r\n",
            b"GET / HTTP/9.9\r\n\r\n",
            b"\x00" * 100 + b"\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00~~",
            b"GET /v1/status HTTP/1.1\r\nA: " + b"x" * 100_000 + b"\r\n\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9),
            b"POST /v1/messages HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFF\r\nx~~",
            b"POST /v1/messages HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\nx\r\n0\r\n\r\n",
            b"POST /v1/messages HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
            b"GET /v1/status HTTP/1.0\r\n\r\n",
            b"GET //v1//status HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            b"GET " + b"/a" * 30_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET /v1/status?" + b"a&" * 9_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET /v1/messages HTTP/1.1\r\nHost: a\r\nUpgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\n"
            b"HTTP2-Settings: AAMAAABk\r\n\r\n~~",
            b"GET /v1/events HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Version: 13\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n~~",
            rng.randbytes(rng.choice((10, 1_000, 70_000))) + b"~~",
            b"CONNECT example.org:443 HTTP/1.1\r\nHost: a\r\n\r\n~~",
            b"GET http://[::1 HTTP/1.1\r\nHost: a\r\n\r\n~~",
        )
    )
