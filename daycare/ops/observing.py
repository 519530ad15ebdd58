"""Observation of a daemon: what is counted and measured, for Prometheus, and spans, for OpenTelemetry."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import trio

from daycare.base.errors import DaycareError
from daycare.feature import Feature
from daycare.observe import log
from daycare.observe.bus import Bus
from daycare.observe.counting import Counting
from daycare.observe.metrics import Family, Total, exposition
from daycare.ops.metrics import DaemonMetrics
from daycare.settings import Live

if TYPE_CHECKING:  # what is off costs no memory: imported where it is on
    from starlette.routing import Route

    from daycare.observe.otlp import Exporter
    from daycare.observe.spans import JoinedTrace, Spans

_AGAIN_S: Final = 30.0  # after which a port that somebody else has is tried again


class Observation(Feature):
    """Counts from the start on; `run` serves and sends what the configuration asks for.

    `commits` are the store's, `service` is what traces are told under.
    """

    name = "metrics"

    def __init__(self, live: Live, bus: Bus, metrics: DaemonMetrics, commits: Family, service: str) -> None:
        self._settings = live.now
        self.measured = metrics
        self._commits = commits
        self._counting = Counting(bus)
        self._exporter: Exporter | None = None
        self._spans: Spans | None = None
        self.port = 0  # on which metrics are served
        if self._settings.tracing.endpoint:
            self._trace(bus, service)

    def _trace(self, bus: Bus, service: str) -> None:
        from daycare.observe.otlp import Exporter
        from daycare.observe.spans import Spans

        tracing = self._settings.tracing
        self._exporter = Exporter(tracing.endpoint, service)
        self._spans = Spans(bus, self._exporter.take, tracing.ratio)

    def routes(self, closing: trio.Event) -> "Sequence[Route]":
        """Return `/v1/metrics`."""
        from daycare.api.routes_metrics import Metrics

        return Metrics(self.metrics).routes()

    async def metrics(self) -> str:
        """Return everything in Prometheus's text format."""
        families: list[Family] = [*await self.measured.families(), *self._counting.families(), self._commits]
        if self._exporter is not None:
            families.append(Total("daycare_spans_sent_total", "Spans a collector took").set(value=self._exporter.sent))
            families.append(
                Total("daycare_spans_dropped_total", "Spans for which there was no room or no taker").set(
                    value=self._exporter.dropped
                )
            )
        return exposition(families)

    def join(self, it: "JoinedTrace") -> None:
        """Let a message that is about to be accepted belong to a trace from outside."""
        if self._spans is not None:
            self._spans.join(it)

    async def run(self, closed: trio.Event) -> None:
        """Serve metrics and send spans until `closed`."""
        async with trio.open_nursery() as nursery:
            if self._settings.metrics.listen:
                nursery.start_soon(self._serve, self._settings.metrics.listen)
            if self._exporter is not None:
                nursery.start_soon(self._exporter.run)
            await closed.wait()
            nursery.cancel_scope.cancel()

    async def _serve(self, listen: str) -> None:
        from daycare.observe.scraping import serve

        told = ""
        while True:
            try:
                async with trio.open_nursery() as nursery:
                    self.port = await nursery.start(serve, listen, self.metrics)
                    log.logger().info("metrics.served", listen=listen, port=self.port)
                    await trio.sleep_forever()
            except* DaycareError as errors:
                reason = str(errors.exceptions[0])
                if reason != told:
                    told = reason
                    log.logger().error("metrics.unserved", listen=listen, reason=reason)
            await trio.sleep(_AGAIN_S)
