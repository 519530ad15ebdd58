"""Spans: one trace for a message from a messenger in to the messenger out, over a restart, at no cost to anybody."""

import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from daycare.base.clock import SystemClock
from daycare.base.events import MessageAccepted, TurnFinished, TurnStarted
from daycare.config import Config, ModelsSection, PluginsSection, ProviderSection
from daycare.observe import log
from daycare.observe.bus import Bus
from daycare.observe.otlp import Exporter
from daycare.observe.spans import JoinedTrace, Span, Spans, joined, ours, trace_id
from daycare.settings import TracingSection
from daycare.testing.collector import FakeCollector
from daycare.testing.daemon import OWNER, TestDaemon, open_daemon
from daycare.testing.scripted import Scripted, call, say
from daycare_plugins.telegram import serving as _serving  # noqa: F401 -- it would block the house's loop
from daycare_plugins.telegram.testing.server import FakeTelegram
from tests.telegram.bots import until

OURS = "0123456789abcdef"
THEIRS = "0af7651916cd43dd8448eb211c80319c"


@asynccontextmanager
async def daemon(
    tmp: Path, telegram: FakeTelegram, collector: FakeCollector, model: Scripted, *, work: bool = True
) -> AsyncGenerator[TestDaemon, None]:
    config = Config(
        models=ModelsSection(default="scripted/model"),
        providers={"scripted": ProviderSection(kind="scripted")},
        plugins=PluginsSection(settings={"telegram": {"base_url": telegram.base_url}}),
        tracing=TracingSection(endpoint=collector.endpoint),
    )
    place = str(tmp / "house.db")
    async with open_daemon(tmp, model, location=place, config=config, work=False, clock=SystemClock()) as house:
        await house.store.secrets.put("telegram", OWNER, house.daemon.vault.seal(telegram.token))
        await house.store.people.link("telegram:5", OWNER)
        closed = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(log.follow, house.daemon.bus)
            nursery.start_soon(house.daemon.observation.run, closed)
            if work:
                nursery.start_soon(house.daemon.work)
            yield house
            closed.set()
            house.daemon.bus.close()
            await trio.sleep(0.05)
            nursery.cancel_scope.cancel()


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    log.configure("debug", tmp_path / "daycare.log")
    yield tmp_path / "daycare.log"
    log.configure("info")


async def test_a_trace_leads_from_telegram_in_to_telegram_out(tmp_path: Path, file: Path) -> None:
    model = Scripted()
    async with (
        FakeTelegram.serve() as telegram,
        FakeCollector.serve() as collector,
        daemon(tmp_path, telegram, collector, model) as house,
    ):
        model.enqueue(call(("now", {})), say("It is late."))
        telegram.say(5, 5, "what time is it?")
        await until(lambda: telegram.sent(5))
        trace = str(house.events("message.accepted")[0]["trace"])
        # The log, `daycare trace`, the record of the messenger and the tracing system tell of the same.
        shown = [entry.what for entry in await trio.to_thread.run_sync(house.store.ledger.trace, trace)]
        await collector.until(lambda: any(span["name"] == "deliver telegram" for span in collector.of(trace)))
    assert telegram.sent(5)[0].text == "It is late."
    assert {"accepted", "turn 1 started", "model done", "tool done", "answered"} <= set(shown)
    told = [json.loads(line) for line in file.read_text().splitlines()]
    named = {line["event"] for line in told if line.get("trace") == trace}
    assert {"message.accepted", "turn.started", "model.called", "tool.finished", "turn.finished", "reply.sent"} <= named
    spans = collector.of(trace)
    by_name = {span["name"]: span for span in spans}
    assert [span["name"] for span in spans if span["name"].startswith("model")] == ["model scripted/model"] * 2
    assert {"message accepted", "inbox wait", "turn", "tool now", "deliver telegram"} <= by_name.keys()
    root, turn = by_name["message accepted"], by_name["turn"]
    assert "parentSpanId" not in root
    assert by_name["inbox wait"]["parentSpanId"] == turn["parentSpanId"] == root["spanId"]
    inside = [span for name, span in by_name.items() if name.startswith(("model", "tool"))]
    assert {span["parentSpanId"] for span in (*inside, by_name["deliver telegram"])} == {turn["spanId"]}
    assert turn["attributes"]["daycare.outcome"] == "done"
    assert root["attributes"]["daycare.source"] == "telegram"
    assert collector.resource["service.name"] == "daycare"
    assert not collector.wrong
    assert not any("late" in json.dumps(span) or "what time" in json.dumps(span) for span in spans)


async def test_a_trace_goes_on_over_a_restart_between_accept_and_turn(tmp_path: Path, file: Path) -> None:
    model = Scripted()
    async with FakeTelegram.serve() as telegram, FakeCollector.serve() as collector:
        async with daemon(tmp_path, telegram, collector, model, work=False) as house:
            receipt = await house.say("hello", path="")  # nobody takes turns here
        async with daemon(tmp_path, telegram, collector, Scripted(lambda _: say("Hi."))) as house:
            await house.hear(receipt)
            trace = (await house.store.inbox.receipt(receipt.seq)).trace  # type: ignore[union-attr]
            await collector.until(lambda: {"turn", "message accepted"} <= {it["name"] for it in collector.of(trace)})
        by_name = {span["name"]: span for span in collector.of(trace)}
        assert by_name["turn"]["parentSpanId"] == by_name["message accepted"]["spanId"]
        assert by_name["inbox wait"]["parentSpanId"] == by_name["message accepted"]["spanId"]
        assert not collector.wrong


def test_our_trace_ids_are_the_last_half_of_w3c_ones() -> None:
    assert trace_id(OURS) == "0" * 16 + OURS
    assert trace_id(THEIRS) == THEIRS
    assert len(trace_id("anything else")) == 32
    assert [ours(trace_id(OURS)), ours(trace_id(OURS).upper()), ours(THEIRS), ours("12")] == [OURS, OURS, THEIRS, "12"]


@pytest.mark.parametrize(
    ("header", "found"),
    [
        (f"00-{THEIRS}-b7ad6b7169203331-01", JoinedTrace(THEIRS, "b7ad6b7169203331", True)),
        (f"00-{THEIRS}-b7ad6b7169203331-00", JoinedTrace(THEIRS, "b7ad6b7169203331", False)),
        (f"00-{'0' * 32}-b7ad6b7169203331-01", None),
        (f"00-{THEIRS.upper()}-b7ad6b7169203331-01", None),
        ("", None),
        ("nonsense", None),
    ],
)
def test_a_traceparent_is_read_as_the_standard_says(header: str, found: JoinedTrace | None) -> None:
    assert joined(header) == found


def test_a_message_from_outside_hangs_on_the_span_that_sent_it() -> None:
    bus, spans = Bus(), list[Span]()
    made = Spans(bus, spans.append, 0.0)
    made.join(JoinedTrace(THEIRS, "b7ad6b7169203331", True))
    bus.publish(MessageAccepted(at_ms=5, trace=THEIRS, seq=1, sender="direct:ann"))
    assert [(span.trace, span.parent) for span in spans] == [(THEIRS, "b7ad6b7169203331")]
    made.join(JoinedTrace(THEIRS, "b7ad6b7169203331", False))
    bus.publish(MessageAccepted(at_ms=5, trace=THEIRS, seq=2, sender="direct:ann"))
    assert len(spans) == 1


def test_messages_that_are_answered_together_are_linked() -> None:
    bus, spans = Bus(), list[Span]()
    Spans(bus, spans.append, 1.0)
    about: dict[str, Any] = {"path": "/ann/direct", "user": "ann", "agent_id": "a"}
    for seq, trace in ((1, OURS), (2, OURS[::-1])):
        bus.publish(MessageAccepted(at_ms=10, trace=trace, seq=seq, sender="direct:ann", **about))
    started = TurnStarted(
        at_ms=30,
        trace=OURS,
        turn=1,
        attempt=1,
        messages=2,
        seqs=(1, 2),
        traces=(OURS, OURS[::-1]),
        waits_ms=(20, 20),
        **about,
    )
    bus.publish(started)
    bus.publish(TurnFinished(at_ms=40, trace=OURS, turn=1, reply="secret words", seqs=(1, 2), **about))
    turn = spans[-1]
    assert turn.links == ((trace_id(OURS[::-1]), spans[1].id),)
    assert (turn.start_ms, turn.end_ms) == (30, 40)
    assert [span.trace for span in spans if span.name == "inbox wait"] == [trace_id(OURS), trace_id(OURS[::-1])]


def test_a_share_of_traces_is_recorded_whole_or_not_at_all() -> None:
    made = Spans(Bus(), lambda _: None, 0.25)
    traces = [f"{n * 0x9E3779B97F4A7C15 % 2**64:016x}" for n in range(4_000)]
    assert 800 < sum(made.recorded(trace) for trace in traces) < 1_200
    assert [made.recorded(trace) for trace in traces] == [made.recorded(trace) for trace in traces]
    assert not Spans(Bus(), lambda _: None, 0.0).recorded(OURS)


def span(n: int) -> Span:
    return Span(trace=trace_id(OURS), id=f"{n + 1:016x}", name="x", start_ms=10**12, end_ms=10**12 + n)


async def test_a_collector_that_is_away_is_told_of_once_and_costs_nobody_anything(
    file: Path, autojump_clock: trio.testing.MockClock
) -> None:
    exporter = Exporter("http://127.0.0.1:1", "home")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(exporter.run)
        for n in range(10_000):
            exporter.take(span(n))
        await trio.sleep(600)
        nursery.cancel_scope.cancel()
    told = [line for line in file.read_text().splitlines() if "tracing." in line]
    assert len(told) == 1
    assert exporter.dropped >= 10_000 - 4_096
    assert exporter.sent == 0


async def test_what_waited_for_a_collector_is_sent_when_it_is_back(file: Path) -> None:
    async with FakeCollector.serve() as collector:
        collector.status = 503
        exporter = Exporter(collector.endpoint, "home", pause_s=0.1)
        for n in range(600):
            exporter.take(span(n))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(exporter.run)
            await collector.until(lambda: collector.requests)
            collector.status = 200
            await collector.until(lambda: len(collector.spans) == 600, 20)
            nursery.cancel_scope.cancel()
        assert (exporter.sent, exporter.dropped) == (600, 0)
        assert [span["spanId"] for span in collector.spans] == [f"{n + 1:016x}" for n in range(600)]


async def test_what_is_left_at_the_end_is_sent(file: Path) -> None:
    async with FakeCollector.serve() as collector:
        exporter = Exporter(collector.endpoint, "home")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(exporter.run)
            await trio.testing.wait_all_tasks_blocked()
            exporter.take(span(1))
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        assert len(collector.spans) == 1
