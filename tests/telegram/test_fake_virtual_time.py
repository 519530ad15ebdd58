"""The real client against the fake server on virtual time, over streams in memory."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import httpcore
import httpx
import pytest
import telegram
import trio
import trio.testing
from telegram.request import HTTPXRequest

from daycare.testing.memory_network import MemoryNetwork
from daycare_plugins.telegram.testing.server import FakeTelegram, TelegramFault, lost
from tests.telegram.fake_client import TrioBot


def bot_over(network: MemoryNetwork) -> TrioBot:
    pools = [HTTPXRequest(httpx_kwargs={"transport": network.transport()}) for _ in range(2)]
    return TrioBot(FakeTelegram().token, request=pools[0], get_updates_request=pools[1])


async def test_long_polls_outages_and_stalls_pass_at_once(autojump_clock: trio.testing.MockClock) -> None:
    server = FakeTelegram()
    async with trio.open_nursery() as nursery:
        network = MemoryNetwork(server.serve_stream, nursery)
        bot = bot_over(network)
        await bot.initialize()
        start = trio.current_time()
        assert await bot.get_updates(timeout=50) == ()
        assert trio.current_time() - start == 50
        server.away = True
        with pytest.raises(telegram.error.NetworkError):
            await bot.get_updates(timeout=50)
        await trio.sleep(600)
        server.away = False
        server.stalled = True
        with pytest.raises(telegram.error.TimedOut):
            await bot.get_updates(timeout=20, read_timeout=5)
        server.stalled = False
        server.say(5, 5, "hi")
        (update,) = await bot.get_updates(timeout=50)
        assert update.message is not None and update.message.text == "hi"
        server.fault("sendMessage", lost())
        server.fault("sendMessage", TelegramFault(delay_s=3))
        with pytest.raises(telegram.error.NetworkError):
            await bot.send_message(5, "a")
        before = trio.current_time()
        await bot.send_message(5, "b")
        assert trio.current_time() - before == 3
        assert [message.text for message in server.sent(5)] == ["a", "b"]
        await bot.shutdown()


async def test_names_that_are_not_found_and_slow_connects(autojump_clock: trio.testing.MockClock) -> None:
    server = FakeTelegram()
    async with trio.open_nursery() as nursery:
        network = MemoryNetwork(server.serve_stream, nursery)
        bot = bot_over(network)
        await bot.initialize()
        network.broken = httpcore.ConnectError("[Errno -2] Name or service not known")
        with pytest.raises(telegram.error.NetworkError, match="Name or service not known"):
            await bot.get_me()
        network.broken = None
        network.connect_delay_s = 60
        with pytest.raises(telegram.error.TimedOut):
            await bot.get_me(connect_timeout=5)
        network.connect_delay_s = 1
        assert (await bot.get_me()).is_bot and network.connections == 1
        await bot.shutdown()


async def test_a_poll_that_is_cancelled_leaves_nothing_behind(autojump_clock: trio.testing.MockClock) -> None:
    server = FakeTelegram()
    async with trio.open_nursery() as nursery:
        network = MemoryNetwork(server.serve_stream, nursery)
        bot = bot_over(network)
        await bot.initialize()
        for _ in range(20):
            with trio.move_on_after(1):
                await bot.get_updates(timeout=50)
        server.say(5, 5, "hi")
        assert len(await bot.get_updates(timeout=50)) == 1
        assert [call.status for call in server.called("getUpdates")] == [0] * 20 + [200]
        await bot.shutdown()


# -- pace, after the published source of the server (the folder telegram-bot-api/ there) -------------------------------
# - A getUpdates with the same offset within 3 s is held for 3 s; within 0.5 s it is given one update: Client.cpp,
#   process_get_updates_query.
# - Only a poll that has to wait ends the one that waits, with 409: Client.cpp, do_get_updates, abort_long_poll.
# - A 409 within 3 s of another is answered 3 s late; also the one for a webhook that is set: Client.cpp,
#   fail_query_conflict.
# - An answer has at most 4 MB of updates, each counted with 50 bytes more: Client.cpp, JsonUpdates.
# - setWebhook with a URL twice in a second is 429; without one it is free: Client.cpp, process_set_webhook_query.
# - A secret token is at most 256 characters of base64url: Client.cpp, do_set_webhook.
# - A 429 has retry_after in its body and Retry-After in its head: Query.cpp, set_retry_after_error;
#   HttpConnection.cpp, send_response.
# - 404 Not Found for a path without /bot; 404 Not Found: method not found for an unknown method: HttpConnection.cpp,
#   handle; Client.cpp, on_cmd.
# - 401 Unauthorized: invalid token specified for a token that begins with 0, has over 80 characters or no colon:
#   ClientManager.cpp, send.
# - Methods are found whatever the case of their names: Query.cpp, the constructor.


@asynccontextmanager
async def calls_of(server: FakeTelegram) -> AsyncGenerator[Callable[..., Awaitable[httpx.Response]], None]:
    """Call the server by plain HTTP on virtual time."""
    async with trio.open_nursery() as nursery:
        network = MemoryNetwork(server.serve_stream, nursery)
        async with httpx.AsyncClient(transport=network.transport(), timeout=100) as client:

            async def call(method: str, **params: object) -> httpx.Response:
                return await client.post(f"{server.base_url}{server.token}/{method}", json=params)

            yield call
        nursery.cancel_scope.cancel()


def ids(answer: httpx.Response) -> list[int]:
    return [update["update_id"] for update in answer.json()["result"]]


async def test_same_offset_again_is_held_for_three_seconds_and_given_one_update(
    autojump_clock: trio.testing.MockClock,
) -> None:
    server = FakeTelegram()
    async with calls_of(server) as call:
        start = trio.current_time()
        assert ids(await call("getUpdates")) == []
        assert trio.current_time() == start, "the first is not held"
        assert ids(await call("getUpdates")) == []
        assert trio.current_time() - start == 3
        first = server.next_update_id
        for _ in range(3):
            server.say(5, 5, "hi")
        assert ids(await call("getUpdates")) == [first, first + 1, first + 2], "it asked 3 s after the last began"
        assert ids(await call("getUpdates")) == [first]
        await trio.sleep(0.6)
        assert len(ids(await call("getUpdates"))) == 3
        assert ids(await call("getUpdates", offset=first + 1)) == [first + 1, first + 2], "another offset is news"


async def test_conflict_that_follows_another_is_told_late(autojump_clock: trio.testing.MockClock) -> None:
    server = FakeTelegram()
    ended: list[tuple[float, int]] = []
    async with calls_of(server) as call, trio.open_nursery() as nursery:

        async def poll() -> None:
            answer = await call("getUpdates", timeout=50)
            ended.append((trio.current_time() - start, answer.status_code))

        start = trio.current_time()
        for at in (0, 1, 2):
            await trio.sleep(start + at - trio.current_time())
            nursery.start_soon(poll)
        await trio.sleep(20)
        assert ended == [(1, 409), (5, 409)]
        server.webhook = {"url": "https://x.example", "secret_token": ""}
        before = trio.current_time()
        assert [(await call("getUpdates")).status_code for _ in range(2)] == [409, 409]
        assert trio.current_time() - before == 3
        nursery.cancel_scope.cancel()


async def test_poll_that_need_not_wait_ends_nobody_elses(autojump_clock: trio.testing.MockClock) -> None:
    server = FakeTelegram()
    async with calls_of(server) as call, trio.open_nursery() as nursery:
        nursery.start_soon(partial(call, "getUpdates", timeout=50))
        await trio.sleep(10)
        assert (await call("getUpdates", offset=7)).status_code == 200
        await trio.sleep(1)
        assert [poll.status for poll in server.called("getUpdates")] == [0, 200]
        nursery.cancel_scope.cancel()


async def test_webhook_set_twice_in_a_second_is_too_many_requests(autojump_clock: trio.testing.MockClock) -> None:
    server = FakeTelegram()
    async with calls_of(server) as call:
        assert (await call("setWebhook", url="https://x.example/a")).status_code == 200
        late = await call("setWebhook", url="https://x.example/b")
        assert (late.status_code, late.headers["Retry-After"]) == (429, "1")
        assert late.json()["parameters"] == {"retry_after": 1}
        assert (await call("setWebhook", url="")).status_code == 200, "removing it is free"
        await trio.sleep(1)
        assert (await call("setWebhook", url="https://x.example/b")).status_code == 200


async def test_answer_has_four_megabytes_of_updates(autojump_clock: trio.testing.MockClock) -> None:
    server = FakeTelegram()
    async with calls_of(server) as call:
        for _ in range(5):
            server.raw_update({"message": {"text": "x" * 1_000_000}})
        assert len(ids(await call("getUpdates"))) == 4
