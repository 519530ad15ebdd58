"""Handing spans to a collector: OTLP over HTTP as JSON, in batches, never in anybody's way.

The queue is bounded and what does not fit is counted; a collector that is away is told of once.
"""

import json
from collections import deque
from typing import Any, Final

import trio

from daycare import __version__
from daycare.observe import log
from daycare.observe.spans import Span

_QUEUE_MAX: Final = 4_096  # spans: some 400 messages
_BATCH_MAX: Final = 512
_GATHER_S: Final = 1.0  # how long the first of a batch waits for others
_POST_S: Final = 10.0
_LAST_S: Final = 1.5  # for what is left when the daemon ends
_PAUSE_S: Final = 5.0  # before a collector that is away is asked again ...
_PAUSE_MAX_S: Final = 60.0  # ... and again
_TAKEN: Final = range(200, 300)
_LATER: Final = frozenset((408, 429, 502, 503, 504))  # what the protocol says to try again


class Exporter:
    """Sends spans to `endpoint`, such as `http://127.0.0.1:4318`; `instance` names this installation's home.

    `pause_s` is how long it lets a collector be that was away; the pauses grow.
    """

    def __init__(self, endpoint: str, instance: str, pause_s: float = _PAUSE_S) -> None:
        self._pause_s = pause_s
        self._url = f"{endpoint.rstrip('/')}/v1/traces"
        self._resource = [
            _attribute("service.name", "daycare"),
            _attribute("service.version", __version__),
            _attribute("service.instance.id", instance),
        ]
        self._queue: deque[Span] = deque()
        self._news = trio.Event()
        self._away = False
        self.sent = 0
        self.dropped = 0

    def take(self, span: Span) -> None:
        """Queue a span; one for which there is no room is dropped."""
        if len(self._queue) >= _QUEUE_MAX:
            self.dropped += 1
            return
        self._queue.append(span)
        self._news.set()

    async def run(self) -> None:
        """Send until cancelled, and then what is left if the collector was there."""
        import httpx  # late: only where tracing is on

        async with httpx.AsyncClient(timeout=_POST_S, trust_env=False) as client:
            try:
                await self._sending(client)
            finally:
                if self._queue and not self._away:
                    with trio.move_on_after(_LAST_S, shield=True):
                        while self._queue and await self._send(client):
                            pass

    async def _sending(self, client: Any) -> None:
        pause_s = self._pause_s
        while True:
            if not self._queue:
                self._news = trio.Event()
                await self._news.wait()
            if len(self._queue) < _BATCH_MAX:
                await trio.sleep(_GATHER_S)
            if await self._send(client):
                pause_s = self._pause_s
            else:
                await trio.sleep(pause_s)
                pause_s = min(2 * pause_s, _PAUSE_MAX_S)

    async def _send(self, client: Any) -> bool:
        """Send one batch; False if nobody took it."""
        import httpx

        batch = [self._queue.popleft() for _ in range(min(_BATCH_MAX, len(self._queue)))]
        kept = False
        try:
            answer = await client.post(
                self._url, content=self._encoded(batch), headers={"Content-Type": "application/json"}
            )
            kept = answer.status_code in _LATER
            reason = "" if answer.status_code in _TAKEN else f"status {answer.status_code}"
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            kept, reason = True, f"{type(error).__name__}: {error}"
        except trio.Cancelled:
            self._back(batch)
            raise
        if reason and kept:
            self._back(batch)
        elif reason:
            self.dropped += len(batch)
        else:
            self.sent += len(batch)
        self._tell(reason)
        return not reason

    def _back(self, batch: list[Span]) -> None:
        room = _QUEUE_MAX - len(self._queue)
        self.dropped += max(0, len(batch) - room)
        self._queue.extendleft(reversed(batch[:room]))

    def _tell(self, reason: str) -> None:
        if bool(reason) != self._away:
            self._away = bool(reason)
            if reason:
                log.logger().warning("tracing.away", endpoint=self._url, reason=reason)
            else:
                log.logger().info("tracing.back", endpoint=self._url, dropped=self.dropped)

    def _encoded(self, batch: list[Span]) -> bytes:
        scope = {"name": "daycare", "version": __version__}
        spans = [_span(span) for span in batch]
        document = {
            "resourceSpans": [
                {"resource": {"attributes": self._resource}, "scopeSpans": [{"scope": scope, "spans": spans}]}
            ]
        }
        return json.dumps(document, separators=(",", ":")).encode()


def _span(span: Span) -> dict[str, Any]:
    """Return a span in the protocol's JSON, where ids are hex and large numbers are strings."""
    found: dict[str, Any] = {
        "traceId": span.trace,
        "spanId": span.id,
        "name": span.name,
        "kind": 5 if span.incoming else 3 if span.outgoing else 1,  # consumer, client, internal
        "startTimeUnixNano": str(span.start_ms * 1_000_000),
        "endTimeUnixNano": str(span.end_ms * 1_000_000),
        "attributes": [_attribute(key, value) for key, value in span.attributes.items()],
        "status": {"code": 2, "message": span.error} if span.error else {},
    }
    if span.parent:
        found["parentSpanId"] = span.parent
    if span.links:
        found["links"] = [{"traceId": trace, "spanId": own} for trace, own in span.links]
    return found


def _attribute(key: str, value: str | float) -> dict[str, Any]:
    if isinstance(value, str):
        return {"key": key, "value": {"stringValue": value}}
    if isinstance(value, int):
        return {"key": key, "value": {"intValue": str(value)}}
    return {"key": key, "value": {"doubleValue": value}}
