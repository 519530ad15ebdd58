"""A collector of spans over a real socket: OTLP over HTTP as JSON, as strict about it as the specification.

    async with FakeCollector.serve() as collector:
        ...  # [tracing] endpoint = collector.endpoint
        await collector.until(lambda: len(collector.of(trace)) == 5)

With `status` it refuses what comes.
"""

import re
from collections.abc import Callable
from typing import Any, Final

import msgspec
import trio

from daycare.testing.http_server import HttpRequest, HttpServer, ServerConnection

_TRACE: Final = re.compile(r"[0-9a-f]{32}")
_SPAN: Final = re.compile(r"[0-9a-f]{16}")
_TIME: Final = re.compile(r"[0-9]{16,20}")
_KINDS: Final = range(6)


class FakeCollector(HttpServer):
    """The server. `spans` are those it took, in order, each with `attributes` as a dict; `wrong` what it refused."""

    def __init__(self, port: int = 0) -> None:
        super().__init__(port)
        self.endpoint = self.origin
        self.status = 200
        self.requests = 0
        self.spans: list[dict[str, Any]] = []
        self.resource: dict[str, Any] = {}
        self.wrong: list[str] = []
        self.raw: list[bytes] = []
        self._news = trio.Event()

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

    async def _answer(self, connection: ServerConnection, request: HttpRequest) -> bool:
        self._take(request)
        goes_on = await connection.answer(self.status, b"{}", {"Content-Type": "application/json"})
        self._news.set()
        return goes_on

    def _take(self, request: HttpRequest) -> None:
        self.requests += 1
        self.raw.append(request.body)
        if (request.method, request.target) != ("POST", "/v1/traces"):
            self.wrong.append(f"{request.method} {request.target}")
        kind = request.headers.get("content-type")
        if kind != "application/json":
            self.wrong.append(f"content type {kind}")
        if self.status != 200:
            return
        for resource in msgspec.json.decode(request.body)["resourceSpans"]:
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
