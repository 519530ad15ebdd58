"""A collector of spans over a real socket: OTLP over HTTP as JSON, as strict about it as the specification.

    async with FakeCollector.serve() as collector:
        ...  # [tracing] endpoint = collector.endpoint
        await collector.until(lambda: len(collector.of(trace)) == 5)

With `status` it refuses what comes.
"""

import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import h11
import msgspec
import trio

_TRACE: Final = re.compile(r"[0-9a-f]{32}")
_SPAN: Final = re.compile(r"[0-9a-f]{16}")
_TIME: Final = re.compile(r"[0-9]{16,20}")
_KINDS: Final = range(6)
_BODY_MAX_BYTES: Final = 16 * 1024 * 1024


class FakeCollector:
    """The server. `spans` are those it took, in order, each with `attributes` as a dict; `wrong` what it refused."""

    def __init__(self, port: int) -> None:
        self.endpoint = f"http://127.0.0.1:{port}"
        self.status = 200
        self.requests = 0
        self.spans: list[dict[str, Any]] = []
        self.resource: dict[str, Any] = {}
        self.wrong: list[str] = []
        self.raw: list[bytes] = []
        self._news = trio.Event()

    @classmethod
    @asynccontextmanager
    async def serve(cls, port: int = 0) -> "AsyncGenerator[FakeCollector, None]":
        """Serve on loopback until the block ends; port 0 is a free one."""
        listeners = await trio.open_tcp_listeners(port, host="127.0.0.1")
        server = cls(listeners[0].socket.getsockname()[1])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, server._serve, listeners)
            yield server
            nursery.cancel_scope.cancel()

    def of(self, trace: str) -> list[dict[str, Any]]:
        """Return the spans of a trace, by when they began."""
        found = [span for span in self.spans if span["traceId"] == trace.rjust(32, "0")]
        return sorted(found, key=lambda span: int(span["startTimeUnixNano"]))

    async def until(self, true: Callable[[], Any], deadline_s: float = 10.0) -> None:
        """Wait until something is so of what came. Raises `trio.TooSlowError`."""
        with trio.fail_after(deadline_s):
            while not true():
                self._news = trio.Event()
                await self._news.wait()

    async def _serve(self, stream: trio.SocketStream) -> None:
        connection = h11.Connection(h11.SERVER)
        async with stream:
            try:
                while True:
                    body = await self._request(connection, stream)
                    if body is None:
                        return
                    response = h11.Response(
                        status_code=self.status, headers=[("Content-Type", "application/json"), ("Content-Length", "2")]
                    )
                    sent = [response, h11.Data(data=b"{}"), h11.EndOfMessage()]
                    await stream.send_all(b"".join(connection.send(event) or b"" for event in sent))
                    connection.start_next_cycle()
                    self._news.set()
            except (h11.ProtocolError, trio.BrokenResourceError):
                return

    async def _request(self, connection: h11.Connection, stream: trio.SocketStream) -> bytes | None:
        body, request = b"", None
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                connection.receive_data(await stream.receive_some())
            elif isinstance(event, h11.Request):
                request = event
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > _BODY_MAX_BYTES:
                    return None
            elif isinstance(event, h11.EndOfMessage) and request is not None:
                self._take(request, body)
                return body
            else:
                return None

    def _take(self, request: h11.Request, body: bytes) -> None:
        self.requests += 1
        self.raw.append(bytes(body))
        headers = {name.decode().lower(): value.decode() for name, value in request.headers}
        if (request.method, request.target) != (b"POST", b"/v1/traces"):
            self.wrong.append(f"{request.method!r} {request.target!r}")
        if headers.get("content-type") != "application/json":
            self.wrong.append(f"content type {headers.get('content-type')}")
        if self.status != 200:
            return
        for resource in msgspec.json.decode(body)["resourceSpans"]:
            self.resource = _plain(resource["resource"]["attributes"])
            for scope in resource["scopeSpans"]:
                for span in scope["spans"]:
                    self.wrong += _flaws(span)
                    self.spans.append(span | {"attributes": _plain(span.get("attributes", []))})


def _plain(attributes: list[dict[str, Any]]) -> dict[str, Any]:
    found = {}
    for each in attributes:
        ((kind, value),) = each["value"].items()
        found[each["key"]] = int(value) if kind == "intValue" else value
    return found


def _flaws(span: dict[str, Any]) -> list[str]:
    """Return what the protocol does not allow."""
    wrong = []
    if not _TRACE.fullmatch(span["traceId"]) or not int(span["traceId"], 16):
        wrong.append(f"trace {span['traceId']}")
    wrong += [
        f"span {each}" for each in (span["spanId"], span.get("parentSpanId", "0" * 16)) if not _SPAN.fullmatch(each)
    ]
    times = (span["startTimeUnixNano"], span["endTimeUnixNano"])
    if not all(isinstance(each, str) and _TIME.fullmatch(each) for each in times) or int(times[0]) > int(times[1]):
        wrong.append(f"times {times}")
    if span["kind"] not in _KINDS or not span["name"]:
        wrong.append(f"kind {span['kind']} of {span['name']}")
    wrong += [f"link {each}" for each in span.get("links", []) if not _TRACE.fullmatch(each["traceId"])]
    return wrong
