"""The server: the socket's rights, bounds, defects, the event stream, and how it ends."""

import errno
import os
import socket
import stat
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from structlog.testing import capture_logs

from daycare.api.app import API_BODY_MAX_BYTES, API_BODY_READ_MAX_BYTES
from daycare.api.events import EventStream
from daycare.api.server import API_CONNECTIONS_MAX, serve
from daycare.base.errors import ConflictError, UnavailableError
from daycare.base.events import Notice
from daycare.observe.bus import Bus
from daycare.observe.log import configure
from tests.api.conftest import ANN, Api, open_api, watch


def notice(text: str, path: str = ANN) -> Notice:
    return Notice(at_ms=1, path=path, text=text)


# -- the socket ------------------------------------------------------------------------------------------------------


async def test_socket_is_its_owners_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        async with open_api(tmp_path) as api:
            assert stat.S_IMODE(api.socket.stat().st_mode) == 0o600
    finally:
        os.umask(before)
    assert not (tmp_path / "daycare.sock").exists()


async def test_socket_of_a_dead_daemon_is_replaced(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(tmp_path / "daycare.sock"))
    async with open_api(tmp_path) as api:
        assert (await api.call("GET", "/v1/status"))["user"] == "ann"


async def test_other_file_in_the_sockets_place_is_kept(api: Api, tmp_path: Path) -> None:
    file = tmp_path / "notes"
    file.write_text("mine")
    app: Any = None
    with pytest.raises(ConflictError, match="no socket"):
        await serve(app, file, trio.Event())
    assert file.read_text() == "mine"
    with pytest.raises(UnavailableError, match="listening on"):
        await serve(app, tmp_path / "nowhere" / "daycare.sock", trio.Event())


async def _ask(stream: trio.SocketStream) -> None:
    """Make a request and read its answer to the end."""
    await stream.send_all(b"GET /v1/status HTTP/1.1\r\nHost: daycare\r\n\r\n")
    answer = b""
    while not answer.endswith(b"}}"):
        piece = await stream.receive_some()
        assert piece, answer
        answer += piece
    assert answer.startswith(b"HTTP/1.1 200")


async def test_the_connection_that_is_idle_for_the_longest_gives_way_to_a_new_one(api: Api) -> None:
    streams = [await trio.open_unix_socket(str(api.socket)) for _ in range(API_CONNECTIONS_MAX)]
    await trio.testing.wait_all_tasks_blocked(0.05)
    await _ask(streams[0])  # the second is idle for the longest now
    await trio.testing.wait_all_tasks_blocked(0.05)
    assert (await api.call("GET", "/v1/status"))["user"] == "ann"
    with trio.fail_after(5):
        assert await streams[1].receive_some() == b""
    await _ask(streams[0])
    for stream in streams:
        await stream.aclose()


async def test_a_connection_past_the_bound_is_told_so_when_all_others_are_busy(api: Api) -> None:
    asked = b"GET /v1/events HTTP/1.1\r\nHost: daycare\r\n\r\n"
    streams = []
    for _ in range(API_CONNECTIONS_MAX):
        stream = await trio.open_unix_socket(str(api.socket))
        await stream.send_all(asked)
        assert b"200" in await stream.receive_some()
        streams.append(stream)
    await api.refused(503, "API_FULL", "GET", "/v1/status")
    for stream in streams:
        await stream.aclose()


async def test_an_answer_comes_in_one_piece_and_its_head_alone_where_no_body_follows(api: Api) -> None:
    async with await trio.open_unix_socket(str(api.socket)) as stream:
        for method in (b"GET", b"HEAD", b"GET"):
            await stream.send_all(method + b" /v1/status HTTP/1.1\r\nHost: daycare\r\n\r\n")
            head, _, body = bytes(await stream.receive_some()).partition(b"\r\n\r\n")
            [length] = [line for line in head.split(b"\r\n") if line.startswith(b"content-length: ")]
            assert len(body) == (0 if method == b"HEAD" else int(length.split()[1]))
        await api.call("GET", "/v1/status")


async def test_connections_are_accepted_again_when_descriptors_are_free_again_and_their_lack_is_logged_once(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    accept, calls = trio.SocketListener.accept, 0

    async def exhausted(listener: trio.SocketListener) -> trio.SocketStream:
        nonlocal calls
        calls += 1
        if calls % 2:
            raise OSError(errno.EMFILE, "Too many open files")
        return await accept(listener)

    monkeypatch.setattr(trio.SocketListener, "accept", exhausted)
    with capture_logs() as logged:
        for _ in range(4):  # the first was waited for before
            async with await trio.open_unix_socket(str(api.socket)) as stream:
                await _ask(stream)
    assert calls >= 6
    assert [each["event"] for each in logged] == ["api.exhausted"]


# -- requests --------------------------------------------------------------------------------------------------------


async def test_unknown_route_and_method_are_refused_as_documents(api: Api) -> None:
    await api.refused(404, "ROUTE_UNKNOWN", "GET", "/v2/status")
    await api.refused(404, "ROUTE_UNKNOWN", "GET", "/v1/status/")
    error = await api.refused(405, "METHOD_UNKNOWN", "DELETE", "/v1/messages")
    assert "POST" in error["message"]


async def test_a_refused_method_names_all_that_its_path_takes(api: Api) -> None:
    answer = await api.client.request("PUT", "/v1/agent")
    assert (answer.status_code, answer.headers["allow"]) == (405, "DELETE, GET, HEAD, PATCH")
    assert (await api.client.request("PUT", "/v1/dead/prune")).headers["allow"] == "POST"


@pytest.mark.parametrize(
    ("route", "name"), [("/v1/dead", "before"), ("/v1/agents", "kind"), ("/v1/cron/runs", "before")]
)
async def test_null_in_a_query_is_no_value(api: Api, route: str, name: str) -> None:
    error = await api.refused(400, "QUERY_INVALID", "GET", route, **{name: "null"})
    assert f"$.{name}" in error["message"]
    await api.call("GET", "/v1/agents", user="null")  # somebody may be called so


@pytest.mark.parametrize("route", ["/v1/messages", "/v1/handover", "/v1/nowhere"])
@pytest.mark.parametrize("size", [API_BODY_MAX_BYTES + 1, 3_000_000])
async def test_body_over_the_bound_is_refused_and_the_sender_learns_it(api: Api, route: str, size: int) -> None:
    answer = await api.client.post(route, content=b"x" * size)
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "BODY_TOO_LARGE")


@pytest.mark.parametrize("route", ["/v1/messages", "/v1/files?name=a"])
async def test_body_that_is_said_to_be_far_too_large_is_refused_unread(api: Api, route: str) -> None:
    async with await trio.open_unix_socket(str(api.socket)) as stream:
        await stream.send_all(f"POST {route} HTTP/1.1\r\nHost: x\r\nContent-Length: 99000000\r\n\r\n".encode())
        with trio.fail_after(5):  # the body would be waited for longer
            assert b" 413 " in await stream.receive_some()


async def test_endless_body_is_cut_off(api: Api) -> None:
    stream = await trio.open_unix_socket(str(api.socket))
    await stream.send_all(b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
    big, small = b"10000\r\n" + b"x" * 65536 + b"\r\n", b"1\r\nx\r\n" * 5_000
    for _ in range(API_BODY_READ_MAX_BYTES // 65536):
        await stream.send_all(big)
    with pytest.raises(trio.BrokenResourceError), trio.fail_after(5):
        while True:
            await stream.send_all(small)
    await stream.aclose()
    assert (await api.call("GET", "/v1/status"))["user"] == "ann"


async def test_body_at_the_bound_is_read(api: Api) -> None:
    padding = b" " * (API_BODY_MAX_BYTES - len(b'{"path":"/ann/direct"}'))
    answer = await api.client.post("/v1/stop", content=b'{"path":"/ann/direct"}' + padding)
    assert answer.json()["error"]["code"] == "AGENT_UNKNOWN"


@pytest.mark.parametrize(
    "body",
    [
        b'{"text": "\xff"}',
        b'{"text": "\xed\xa0\x80"}',  # half a surrogate pair
        b'{"te\xc3xt": "a"}',
        b'{"text": "a", "x": ' + b"[" * 100_000,
        b'{"text": "\\ud800"}',
    ],
)
async def test_body_that_is_no_json_is_refused(api: Api, body: bytes) -> None:
    answer = await api.client.post("/v1/messages", content=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "BODY_INVALID")


async def test_busy_refusal_carries_its_delay(api: Api) -> None:
    from daycare.base.limits import INBOX_MAX_MESSAGES
    from tests.store.samples import letter, new_agent

    agent = new_agent("/ann/direct", user="ann")
    batch = [(letter(str(n), ANN, user="ann"), agent) for n in range(INBOX_MAX_MESSAGES + 10)]
    api.echo.hold = trio.Event()
    await api.store.inbox.post_all(batch[:INBOX_MAX_MESSAGES])
    answer = await api.client.post("/v1/messages", json={"text": "one more"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (429, "INBOX_FULL")
    assert answer.headers["Retry-After"] == "30"
    assert answer.json()["error"]["retry_after_s"] == 30


async def test_defect_is_logged_with_its_place_and_tells_nothing(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def explode(*_: object, **__: object) -> None:
        detail = "very-private"
        raise KeyError(detail)

    monkeypatch.setattr(api.store.people, "find", explode)
    file = tmp_path / "defect.log"
    configure("info", file)  # whatever the test before has left
    error = await api.refused(500, "DEFECT", "GET", "/v1/users")
    configure("info")
    logged = file.read_text("utf-8")
    assert "api.defect" in logged and "KeyError" in logged and "in explode" in logged
    assert "private" not in f"{error}{logged}"


async def test_status_is_the_daemons_own(api: Api) -> None:
    assert await api.call("GET", "/v1/status") == {"version": "test", "user": "ann", "memory": {"embedder": "none"}}


# -- control ---------------------------------------------------------------------------------------------------------


async def test_shutdown_asks_the_daemon(api: Api) -> None:
    await api.call("POST", "/v1/shutdown", status=202)
    await api.call("POST", "/v1/shutdown", {"restart": True, "reason": "news"}, status=202)
    assert api.stops == [(False, "asked by the API"), (True, "news")]
    await api.refused(400, "BODY_INVALID", "POST", "/v1/shutdown", {"restart": "please"})


@pytest.mark.parametrize(("mode", "grants"), [("chat", True), ("run", False), ("tool", False)])
async def test_only_a_chat_gives_way(tmp_path: Path, mode: str, grants: bool) -> None:
    async with open_api(tmp_path, mode=mode) as api:
        if grants:
            assert await api.call("POST", "/v1/handover", status=202) == {"granted": True}
        else:
            await api.refused(409, "HANDOVER_REFUSED", "POST", "/v1/handover")
        assert len(api.stops) == grants


# -- events ----------------------------------------------------------------------------------------------------------


async def read(api: Api, count: int, headers: dict[str, str] | None = None, **query: Any) -> list[Any]:
    """Read so many events of a stream, then leave."""
    async with watch(api, headers, **query) as reader:
        return [await reader.next() for _ in range(count)]


async def test_events_come_from_now_on_and_live(api: Api) -> None:
    api.bus.publish(notice("before"))
    async with watch(api) as reader:
        api.bus.publish(notice("after"))
        cursor, name, data = await reader.next()
    assert (cursor, name, data["text"]) == (str(api.bus.cursor), "notice", "after")
    assert data["event"] == "notice"


async def test_stream_is_resumed_behind_a_cursor(api: Api) -> None:
    for n in range(4):
        api.bus.publish(notice(str(n)))
    first = await read(api, 4, after=api.bus.start)
    assert [data["text"] for _, _, data in first] == ["0", "1", "2", "3"]
    assert await read(api, 2, after=first[1][0]) == first[2:]
    assert await read(api, 1, headers={"Last-Event-ID": first[2][0]}) == first[3:]
    assert await read(api, 2, headers={"Last-Event-ID": first[2][0]}, after=first[1][0]) == first[2:]


async def test_slow_or_late_reader_is_told_of_the_gap_and_goes_on(tmp_path: Path) -> None:
    async with open_api(tmp_path, bus=Bus(1_000, size=4)) as api:
        for n in range(10):
            api.bus.publish(notice(str(n)))
        found = await read(api, 5, after=1_001)
        assert found[0] == ("1006", "gap", {"missed": 5})
        assert [data["text"] for _, _, data in found[1:]] == ["6", "7", "8", "9"]


async def test_cursor_of_another_daemon_is_a_gap_not_an_error(api: Api) -> None:
    async with watch(api, after=10**15) as reader:
        assert await reader.next() == (str(api.bus.cursor), "gap", {"missed": 0})
        api.bus.publish(notice("on"))
        assert (await reader.next())[2]["text"] == "on"


async def test_stream_is_filtered_by_path_and_name(api: Api) -> None:
    api.bus.publish(notice("a", "/ann/direct"))
    api.bus.publish(notice("b", "/ann/direct/sub/0"))
    api.bus.publish(notice("c", "/ben/direct"))
    await api.ask("hello")
    start = api.bus.start
    assert [event[2]["text"] for event in await read(api, 2, after=start, path="/ann/**", types="notice")] == ["a", "b"]
    assert (await read(api, 1, after=start, path="/ben/direct"))[0][2]["text"] == "c"
    (only,) = await read(api, 1, after=start, types="turn.finished,reply.sent")
    assert only[2]["reply"] == "echo: hello"


async def test_stream_that_could_never_say_anything_is_refused(api: Api) -> None:
    await api.refused(400, "EVENT_UNKNOWN", "GET", "/v1/events", types="notice,nonsense")
    await api.refused(400, "PATH_INVALID", "GET", "/v1/events", path="ann")
    await api.refused(400, "PATH_INVALID", "GET", "/v1/events", path="/ann/*")
    await api.refused(400, "QUERY_INVALID", "GET", "/v1/events", after="yesterday")


async def test_client_that_goes_away_leaves_no_reader_behind(api: Api) -> None:
    before = api.bus.subscribers
    for _ in range(3):
        await read(api, 0)
    with trio.fail_after(20):
        while api.bus.subscribers > before:
            await trio.sleep(0.01)


async def test_silence_is_broken_by_a_comment(autojump_clock: trio.testing.MockClock) -> None:
    sent: list[tuple[float, bytes]] = []

    async def receive() -> dict[str, Any]:
        await trio.sleep(40)
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append((trio.current_time(), message.get("body", b"")))

    bus = Bus()
    began = trio.current_time()
    await EventStream(bus, bus.subscribe(), trio.Event())({"type": "http", "method": "GET"}, receive, send)
    comments = [at - began for at, body in sent if body.startswith(b": still here")]
    assert comments == [15, 30]
    assert sent[-1] == (began + 40, b"")


# -- the end ---------------------------------------------------------------------------------------------------------


async def test_open_stream_ends_whole_with_the_daemon(api: Api) -> None:
    async with watch(api) as reader:
        api.shutdown.set()
        with trio.fail_after(20):
            with pytest.raises(EOFError):  # a stream cut in a chunk would be a protocol error
                await reader.next()
            await api.ended.wait()


async def test_stream_ends_when_the_bus_is_closed(api: Api) -> None:
    async with watch(api, types="notice") as reader:
        api.bus.publish(notice("last"))
        api.bus.close()
        assert (await reader.next())[2]["text"] == "last"
        with pytest.raises(EOFError):
            await reader.next()


async def test_reader_that_hangs_does_not_hold_up_the_end(api: Api) -> None:
    stuck = await trio.open_unix_socket(str(api.socket))
    await stuck.send_all(b"GET /v1/events?types=notice HTTP/1.1\r\nHost: x\r\n\r\n")
    await stuck.receive_some(10)
    for _ in range(200):
        api.bus.publish(notice("x" * 10_000))
    await trio.testing.wait_all_tasks_blocked(0.05)
    api.shutdown.set()
    with trio.fail_after(20):
        await api.ended.wait()
    await stuck.aclose()


async def test_idle_and_half_said_connections_do_not_hold_up_the_end(api: Api) -> None:
    idle = await trio.open_unix_socket(str(api.socket))
    half = await trio.open_unix_socket(str(api.socket))
    await half.send_all(b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
    await trio.testing.wait_all_tasks_blocked(0.05)
    api.shutdown.set()
    with trio.fail_after(20):
        await api.ended.wait()
    await idle.aclose()
    await half.aclose()
