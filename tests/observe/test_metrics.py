"""Metrics: what Prometheus's own parser reads is what happened, and nobody's name or word is among it."""

from pathlib import Path

import httpx
import pytest
import trio
from prometheus_client.parser import text_string_to_metric_families

from daycare.base.errors import InvalidError, UnavailableError
from daycare.base.loopback import loopback
from daycare.base.secrecy import forget_hidden, hide
from daycare.config import check
from daycare.observe.metrics import OTHER, SERIES_MAX, Counter, Gauge, Histogram, exposition
from daycare.observe.scraping import serve
from daycare.testing.daemon import open_daemon
from daycare.testing.scripted import Scripted, call, say

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def parsed(text: str) -> Samples:
    """Read Prometheus's text as Prometheus does."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples[name, frozenset(labels.items())]


async def test_what_happened_is_counted(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    model = Scripted()
    async with open_daemon(tmp_path, model) as house:
        model.enqueue(call(("now", {})), say("It is late, darling."))
        await house.talk("what time is it, my dear?")
        model.enqueue(UnavailableError("PROVIDER_FAILED", "no"), say("again"))
        await house.talk("and now?")
        await trio.sleep(1.0)  # an answer is heard before everybody has heard that its turn is done
        text = await house.daemon.observation.metrics()
    samples = parsed(text)
    assert value(samples, "daycare_messages_accepted_total", repeated="no") == 2
    assert value(samples, "daycare_turn_seconds_count", outcome="done") == 2
    assert value(samples, "daycare_inbox_wait_seconds_count") == 2
    assert value(samples, "daycare_tool_calls_total", tool="now", outcome="ok") == 1
    assert value(samples, "daycare_model_call_seconds_count", provider="scripted", model="model") == 4
    assert value(samples, "daycare_model_errors_total", provider="scripted", model="model", code="PROVIDER_FAILED") == 1
    assert value(samples, "daycare_model_tokens_total", provider="scripted", model="model", kind="input") > 0
    assert value(samples, "daycare_agents", state="living") == 1
    assert value(samples, "daycare_inbox_depth", kind="text") == 0
    assert value(samples, "daycare_connector_state", connector="direct", state="up") == 1
    assert value(samples, "daycare_outbox_depth", connector="direct") >= 1, "no terminal has shown the answers"
    assert value(samples, "daycare_scrape_complete") == 1
    assert value(samples, "process_resident_memory_bytes") > 10_000_000
    names = {name for name, _ in samples}
    assert {
        "daycare_dead_letters_waiting",
        "daycare_memory_curation_lag_seconds",
        "daycare_cron_late_seconds",
        "daycare_store_bytes",
        "daycare_build_info",
        "process_cpu_seconds_total",
        "process_open_fds",
    } <= names
    for word in ("ann", "Ann", "darling", "dear", "late,"):
        assert f'"{word}' not in text and f'{word}"' not in text and "/ann" not in text


async def test_a_queue_tells_how_old_its_oldest_message_is(tmp_path: Path) -> None:
    async with open_daemon(tmp_path, work=False) as house:
        await house.say("one")
        await house.say("two")
        samples = parsed(await house.daemon.observation.metrics())
    assert value(samples, "daycare_inbox_depth", kind="text") == 2
    assert value(samples, "daycare_inbox_oldest_seconds", kind="text") >= 0


def test_labels_are_bounded_and_hold_no_secret() -> None:
    counter = Counter("x_total", "x", ("by",))
    for number in range(1_000):
        counter.add(f"n{number}")
    samples = parsed(exposition([counter]))
    assert len(samples) == SERIES_MAX + 1
    assert value(samples, "x_total", by=OTHER) == 1_000 - SERIES_MAX
    hide("s3cret-s3cret-s3cret")
    odd = Gauge("y", 'a "help"\nof \\ two lines', ("by",)).set('s3cret-s3cret-s3cret "q" \\ \n', value=0.5)
    samples = parsed(exposition([odd]))
    forget_hidden()
    assert value(samples, "y", by='[secret] "q" \\ \n') == 0.5


def test_a_histogram_is_one_to_prometheus() -> None:
    histogram = Histogram("t_seconds", "t", (0.1, 1.0), ("by",))
    for seconds in (0.05, 0.1, 0.5, 3.0):
        histogram.observe(seconds, "a")
    samples = parsed(exposition([histogram]))
    assert [value(samples, "t_seconds_bucket", by="a", le=le) for le in ("0.1", "1", "+Inf")] == [2, 3, 4]
    assert value(samples, "t_seconds_count", by="a") == 4
    assert value(samples, "t_seconds_sum", by="a") == pytest.approx(3.65)


@pytest.mark.parametrize("listen", ["127.0.0.1:9464", "[::1]:9464", "localhost:9464", "127.9.9.9:1"])
def test_metrics_listen_on_this_machine(listen: str) -> None:
    assert loopback(listen)[1] > 0


@pytest.mark.parametrize(
    "listen", ["0.0.0.0:9464", "[::]:9464", "192.168.1.2:9464", "9464", "host:9464", "127.0.0.1:x", ":1"]
)
def test_metrics_listen_nowhere_else(listen: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidError):
        loopback(listen)
    (tmp_path / "config.toml").write_text(f'[metrics]\nlisten = "{listen}"\n')
    [problem] = check(tmp_path)
    assert problem.key == "metrics.listen" and problem.line == 2


async def test_connections_that_say_nothing_are_bounded_and_more_are_closed() -> None:
    async def text() -> str:
        return "x 1\n"

    async with trio.open_nursery() as nursery:
        port = await nursery.start(serve, "127.0.0.1:0", text)
        streams = [await trio.open_tcp_stream("127.0.0.1", port) for _ in range(60)]
        closed = 0
        for stream in reversed(streams):
            with trio.move_on_after(0.5) as waited:
                try:
                    closed += not await stream.receive_some()
                except trio.BrokenResourceError:
                    closed += 1
            if waited.cancelled_caught:
                break
        assert 20 <= closed < 60
        for stream in streams:
            await stream.aclose()
        nursery.cancel_scope.cancel()


async def test_there_is_one_request_and_nothing_else() -> None:
    async def text() -> str:
        return "x 1\n"

    async with trio.open_nursery() as nursery:
        port = await nursery.start(serve, "127.0.0.1:0", text)
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False, verify=False) as client:
            answer = await client.get("/metrics")
            assert (answer.text, answer.status_code) == ("x 1\n", 200)
            assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
            assert (await client.head("/metrics")).text == ""
            assert (await client.post("/metrics")).status_code == 405
            assert (await client.get("/")).status_code == 404
            for host in (
                "evil.example",
                "127.0.0.1.evil.example",
                "localhost.evil.example:80",
                "127.evil.example",
                "[::1].x",
            ):
                assert (await client.get("/metrics", headers={"Host": host})).status_code == 403, host
            for host in ("localhost", "localhost:9464", "127.0.0.1", "[::1]", "[::1]:9464"):
                assert (await client.get("/metrics", headers={"Host": host})).status_code == 200, host
        for rubbish in (b"\r\n\r\n", b"\xff" * 9_000 + b"\r\n\r\n", b"GET"):
            async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
                await stream.send_all(rubbish)
                await stream.send_eof()
                with trio.fail_after(5):
                    try:
                        while await stream.receive_some():
                            pass
                    except trio.BrokenResourceError:
                        pass
        with pytest.raises(ExceptionGroup, match="nursery"):
            async with trio.open_nursery() as second:
                await second.start(serve, f"127.0.0.1:{port}", text)
        nursery.cancel_scope.cancel()
