"""The real client against the fake server on virtual time, over streams in memory."""

import httpcore
import pytest
import telegram
import trio
import trio.testing
from telegram.request import HTTPXRequest

from daycare.testing.memory_network import MemoryNetwork
from daycare.testing.telegram_server import FakeTelegram, Fault, lost
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
        server.fault("sendMessage", Fault(delay_s=3))
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
