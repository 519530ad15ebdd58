"""What goes wrong at the fake Telegram server when a test says so."""

import httpx
import pytest
import telegram
import trio
import trio.testing

from daycare_plugins.telegram.testing.server import (
    FakeTelegram,
    FloodLimits,
    TelegramFault,
    bad_gateway,
    flood,
    garbage,
    lost,
    refused,
)
from tests.telegram.fake_client import bot_of, call, done, refusal


@pytest.mark.filterwarnings("ignore::telegram.warnings.PTBDeprecationWarning")  # of RetryAfter, whenever it is raised
async def test_each_fault_reaches_the_real_client_as_it_should() -> None:
    async with FakeTelegram.serve() as server, bot_of(server) as bot:
        server.person(5)
        cases: list[tuple[TelegramFault, type[Exception], int]] = [
            (flood(1), telegram.error.RetryAfter, 0),
            (refused(500, "Internal Server Error"), telegram.error.NetworkError, 0),
            (refused(401, "Unauthorized"), telegram.error.InvalidToken, 0),
            (refused(409, "Conflict: x"), telegram.error.Conflict, 0),
            (bad_gateway(), telegram.error.NetworkError, 0),
            (TelegramFault(drop="before"), telegram.error.NetworkError, 0),
            (lost(), telegram.error.NetworkError, 1),
            (garbage(), telegram.error.TelegramError, 1),
            (TelegramFault(cut_after_bytes=20), telegram.error.NetworkError, 1),
            (TelegramFault(stall="before"), telegram.error.TimedOut, 0),
            (TelegramFault(stall="after"), telegram.error.TimedOut, 1),
            (TelegramFault(delay_s=5), telegram.error.TimedOut, 0),
        ]
        for fault, error, effects in cases:
            before = len(server.sent(5))
            server.fault("sendMessage", fault)
            with pytest.raises(error):
                await bot.send_message(5, "x", read_timeout=0.5)
            assert len(server.sent(5)) - before == effects, fault
            server.flood.forgive()
        assert (await bot.send_message(5, "fine")).text == "fine"


async def test_a_fault_is_for_a_method_a_chat_and_some_times() -> None:
    async with FakeTelegram.serve() as server:
        server.person(5), server.person(6)
        server.fault("sendMessage", refused(500, "a"), times=2, chat=5)
        server.fault("*", refused(500, "b"))
        assert await refusal(server, "getMe") == "b"
        assert await done(server, "sendMessage", chat_id=6, text="x")
        assert [await refusal(server, "sendMessage", chat_id=5, text="x") for _ in range(2)] == ["a", "a"]
        assert await done(server, "sendMessage", chat_id=5, text="x")
        server.fault("getUpdates", refused(500, "c"), times=100)
        server.no_more_faults()
        assert await done(server, "getUpdates") == []
        with pytest.raises(ValueError, match="no method"):
            server.fault("flyAway", lost())


async def test_an_update_is_given_out_again_when_the_answer_was_lost() -> None:
    async with FakeTelegram.serve() as server:
        server.say(5, 5, "hi")
        server.fault("getUpdates", lost())
        with pytest.raises(httpx.HTTPError):
            await call(server, "getUpdates", offset=1)
        assert len(await done(server, "getUpdates", offset=1)) == 1


async def test_a_download_can_fail() -> None:
    async with FakeTelegram.serve() as server, httpx.AsyncClient(trust_env=False, verify=False) as client:
        file_id = server.document(5, 5, b"x" * 1000).wire["document"]["file_id"]
        path = (await done(server, "getFile", file_id=file_id))["file_path"]
        url = f"{server.base_file_url}{server.token}/{path}"
        server.fault("download", refused(404, "Not Found"))
        server.fault("download", TelegramFault(cut_after_bytes=100))
        assert (await client.get(url)).status_code == 404
        with pytest.raises(httpx.RemoteProtocolError):
            await client.get(url)
        assert (await client.get(url)).content == b"x" * 1000


async def test_who_comes_before_the_announced_time_is_refused_again_and_listed() -> None:
    async with FakeTelegram.serve() as server:
        server.person(5), server.person(6)
        server.fault("sendMessage", flood(1), chat=5)
        answer = await call(server, "sendMessage", chat_id=5, text="x")
        assert (answer["error_code"], answer["parameters"]) == (429, {"retry_after": 1})
        assert answer["description"] == "Too Many Requests: retry after 1"
        assert await done(server, "sendMessage", chat_id=6, text="other chats go on")
        assert "retry after 1" in await refusal(server, "sendChatAction", chat_id=5, action="typing")
        (early,) = server.impatient
        assert (early.method, early.scope) == ("sendChatAction", 5) and 0 < early.early_s <= 1
        await trio.sleep(1.01)
        assert await done(server, "sendMessage", chat_id=5, text="x")
        server.fault("sendMessage", flood(1, everywhere=True))
        assert await refusal(server, "sendMessage", chat_id=5, text="x")
        assert await refusal(server, "sendMessage", chat_id=6, text="x")
        assert await done(server, "getMe")
        assert [call.scope for call in server.impatient] == [5, "*"]


class Wire:
    """A client over a stream in memory: for virtual time."""

    def __init__(self, server: FakeTelegram, nursery: trio.Nursery) -> None:
        self.stream, theirs = trio.testing.memory_stream_pair()
        self._token = server.token
        nursery.start_soon(server.serve_stream, theirs)

    async def status(self, method: str, query: str) -> int:
        """Call a method; return the HTTP status, 0 if the connection ended."""
        await self.stream.send_all(f"GET /bot{self._token}/{method}?{query} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        answer = await self.stream.receive_some()
        return int(answer[9:12]) if answer else 0


async def test_limits_are_per_chat_per_group_and_global(autojump_clock: trio.testing.MockClock) -> None:
    server = FakeTelegram()
    server.limits = FloodLimits(chat_per_s=1, group_per_min=20, global_per_s=30)
    async with trio.open_nursery() as nursery:
        wire = Wire(server, nursery)
        for number in range(1, 41):
            server.person(number)
        group = server.group(-100200)
        assert [await wire.status("sendMessage", "chat_id=1&text=x") for _ in range(2)] == [200, 429]
        await trio.sleep(1)
        statuses = [await wire.status("sendMessage", f"chat_id={number}&text=x") for number in range(1, 41)]
        assert statuses == [200] * 30 + [429] * 10
        assert not server.impatient
        assert await wire.status("sendMessage", "chat_id=31&text=x") == 429
        assert [(early.scope, early.since_s) for early in server.impatient] == [(31, 0)]
        await trio.sleep(1)
        server.impatient.clear()
        start = trio.current_time()
        for _ in range(45):
            while await wire.status("sendMessage", f"chat_id={group.id}&text=x") == 429:
                await trio.sleep(int(server.calls[-1].description.split()[-1]))
        assert trio.current_time() - start >= 120  # 45 at 20 a minute
        assert not server.impatient and len(server.sent(group.id)) == 45
        await wire.stream.aclose()


async def test_a_server_that_is_away_breaks_connections_and_comes_back(autojump_clock: trio.testing.MockClock) -> None:
    server = FakeTelegram()
    async with trio.open_nursery() as nursery:
        wire = Wire(server, nursery)
        ended: list[int] = []

        async def poll() -> None:
            ended.append(await wire.status("getUpdates", "timeout=50"))

        nursery.start_soon(poll)
        await trio.sleep(10)
        server.away = True
        await trio.sleep(1)
        assert ended == [0]
        with pytest.raises((trio.BrokenResourceError, AssertionError)):
            assert await Wire(server, nursery).status("getMe", "")
        server.away = False
        assert await Wire(server, nursery).status("getMe", "") == 200
        nursery.cancel_scope.cancel()


async def test_a_stalled_server_never_answers_what_it_took(autojump_clock: trio.testing.MockClock) -> None:
    server = FakeTelegram()
    async with trio.open_nursery() as nursery:
        waiting, late = Wire(server, nursery), Wire(server, nursery)
        answered: list[int] = []

        async def ask(wire: Wire, method: str, query: str) -> None:
            answered.append(await wire.status(method, query))

        nursery.start_soon(ask, waiting, "getUpdates", "timeout=50")
        await trio.sleep(1)
        server.stalled = True
        nursery.start_soon(ask, late, "getMe", "")
        server.say(5, 5, "hi")
        await trio.sleep(3)
        server.stalled = False
        await trio.sleep(3600 * 10)
        assert answered == []
        assert await Wire(server, nursery).status("getUpdates", "offset=1") == 200
        nursery.cancel_scope.cancel()


async def test_a_real_outage_of_the_socket_server() -> None:
    async with FakeTelegram.serve() as server, bot_of(server) as bot:
        server.away = True
        with pytest.raises(telegram.error.NetworkError):
            await bot.get_me()
        server.away = False
        assert (await bot.get_me()).is_bot
        assert server.connections >= 2


async def test_a_client_that_speaks_no_http_does_no_harm() -> None:
    async with FakeTelegram.serve() as server:
        port = int(server.base_url.split(":")[2].split("/")[0])
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await stream.send_all(b"\x16\x03\x01 hello\r\n\r\n")
            assert await stream.receive_some() == b""
        assert await done(server, "getMe")
