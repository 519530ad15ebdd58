"""Receiving: nothing is lost, nothing is handled twice, and what the state says is true."""

import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import httpcore
import pytest
import trio
import trio.testing
from daycare_plugins.telegram import serving as _serving  # noqa: F401 -- imported before virtual time runs
from daycare_plugins.telegram.health import CONFLICT_S

from daycare.base.connector import Health, Inbound, Unreadable
from daycare.base.errors import BusyError, InvalidError, UnavailableError
from daycare.testing.memory_network import MemoryNetwork
from daycare.testing.telegram_faults import Fault, bad_gateway, flood, garbage, lost, refused
from daycare.testing.telegram_server import FakeTelegram
from daycare.testing.telegram_world import TOKEN
from tests.telegram.bots import Host, bot_over, host, until

__all__ = ["host"]


class Stage:
    """A server and its network, in memory."""

    def __init__(self, server: FakeTelegram, network: MemoryNetwork) -> None:
        self.server = server
        self.network = network


@asynccontextmanager
async def staged() -> AsyncGenerator[Stage, None]:
    """A server over streams in memory."""
    server = FakeTelegram()
    async with trio.open_nursery() as nursery:
        yield Stage(server, MemoryNetwork(server.serve_stream, nursery))
        nursery.cancel_scope.cancel()


@pytest.fixture
async def stage(autojump_clock: trio.testing.MockClock) -> AsyncGenerator[Stage, None]:
    async with staged() as found:
        yield found


async def reached(host: Host, state: str, within_s: float = 45.0) -> Health:
    """Wait for a state; it must come in time."""
    await until(lambda: host.health.state == state, within_s)
    return host.health


# -- what is received --------------------------------------------------------------------------------------------------


async def test_the_offset_goes_out_only_after_the_commit(host: Host, stage: Stage) -> None:
    server = stage.server
    seen: list[tuple[int, int]] = []
    host.before_commit = lambda: seen.append((server.confirmed, len(server.queue)))
    async with bot_over(host, server, stage.network):
        for number in range(250):
            server.say(5, 5, f"m{number}")
        await until(lambda: len(host.texts) == 250 and not len(server.queue), 60)
    assert host.texts == [f"m{number}" for number in range(250)]
    first = 700_000_001
    assert seen[:3] == [(0, 250), (first + 100, 150), (first + 200, 50)]
    offsets = [call.params["offset"] for call in server.called("getUpdates") if "offset" in call.params]
    assert offsets == [str(first + 100), str(first + 200), str(first + 250)]


async def test_a_lost_answer_and_a_repeated_batch_change_nothing(host: Host, stage: Stage) -> None:
    server = stage.server
    async with bot_over(host, server, stage.network):
        await reached(host, "up")
        server.fault("getUpdates", lost(), times=3)
        for number in range(20):
            server.say(5, 5, f"m{number}")
        await until(lambda: len(host.texts) == 20 and not len(server.queue), 60)
        server.redeliver(7)
        server.say(5, 5, "last")
        await until(lambda: host.texts[-1] == "last" and not len(server.queue), 60)
    assert host.texts == [*(f"m{number}" for number in range(20)), "last"]


@pytest.mark.parametrize("seed", range(12))
def test_whatever_happens_each_update_is_handled_once_and_in_order(host: Host, seed: int) -> None:
    """Faults of the network, the server and the store, restarts of ids and of the daemon, all at random."""
    print(f"seed {seed}")
    chance = random.Random(seed)
    clock = trio.testing.MockClock(autojump_threshold=0)
    said: dict[int, list[str]] = {chat: [] for chat in range(1, 9)}

    async def play() -> None:
        async with staged() as stage:
            server, count = stage.server, 0
            host.cost_s = 0.01
            while count < 800:
                async with bot_over(host, server, stage.network):
                    for _ in range(chance.randrange(1, 12)):
                        for _ in range(chance.randrange(40)):
                            chat = chance.randrange(1, 9)
                            said[chat].append(f"m{count}")
                            server.say(chat, chat, f"m{count}")
                            count += 1
                        match chance.randrange(9):
                            case 0:
                                server.fault("getUpdates", lost(), times=chance.randrange(1, 4))
                            case 1:
                                server.fault("getUpdates", chance.choice([bad_gateway(), garbage(), flood(3)]))
                            case 2:
                                host.fails += [UnavailableError("DISK_FULL", "the disk is full")]
                            case 3:
                                server.next_update_id = chance.choice([5, server.next_update_id - chance.randrange(200)])
                            case 4:
                                server.redeliver(chance.randrange(1, 30))
                            case 5:
                                stage.network.broken = httpcore.ConnectError("refused")
                            case 6:
                                server.fault("getUpdates", Fault(stall="after"))
                            case _:
                                stage.network.broken = None
                        await trio.sleep(chance.choice([0.0, 0.001, 0.5, 3.0, 40.0]))
            stage.network.broken = None
            async with bot_over(host, server, stage.network):
                await until(lambda: not len(server.queue), 600)
                await trio.sleep(60)

    trio.run(play, clock=clock)
    for chat, texts in said.items():
        sender = f"telegram:{chat}"
        taken = [item.text for item in host.taken.values() if isinstance(item, Inbound) and item.sender == sender]
        assert taken == texts
