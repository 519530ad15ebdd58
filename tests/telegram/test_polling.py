"""Receiving: nothing is lost, nothing is handled twice, and what the state says is true."""

import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import pairwise

import httpcore
import pytest
import trio
from trio.testing import MockClock

from daycare.base.connector import Health, Inbound, Unreadable
from daycare.base.errors import BusyError, UnavailableError
from daycare.base.messages import Choice
from daycare.testing.clock import patient_clock
from daycare.testing.http_server import RefusedError
from daycare.testing.memory_network import MemoryNetwork
from daycare_plugins.telegram import serving as _serving  # noqa: F401 -- imported before virtual time runs
from daycare_plugins.telegram.health import CONFLICT_S
from daycare_plugins.telegram.intake import BUTTON_S, BUTTONS_AT_ONCE
from daycare_plugins.telegram.testing.faults import TelegramFault, bad_gateway, flood, garbage, lost, refused
from daycare_plugins.telegram.testing.server import FakeTelegram
from daycare_plugins.telegram.testing.world import TOKEN
from tests.telegram.bots import Host, bot_over, host, reply, send, until

__all__ = ["host"]


_CHAT = b'{"id":5,"type":"private","first_name":"Ann"}'
_HALF = (
    b'{"update_id":700000004,"message":{"message_id":9,"date":1,"chat":%b,"from":{"id":5,"first_name":"Ann",' % _CHAT
)
_HALF += b'"is_bot":false},"text":"after \\ud83d"}}'  # half of an emoji


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
async def stage() -> AsyncGenerator[Stage, None]:
    async with staged() as found:
        yield found


async def reached(host: Host, state: str, within_s: float = 45.0) -> Health:
    """Wait for a state; it must come in time."""
    await until(lambda: host.health.state == state, within_s, 0.1)
    return host.health


# -- what is received --------------------------------------------------------------------------------------------------


async def test_the_offset_goes_out_only_after_the_commit(host: Host, stage: Stage, autojump_clock: MockClock) -> None:
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


async def test_a_lost_answer_and_a_repeated_batch_change_nothing(
    host: Host, stage: Stage, autojump_clock: MockClock
) -> None:
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
    clock = patient_clock()
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
                                lower = max(1, server.next_update_id - chance.randrange(200))
                                server.next_update_id = chance.choice([5, lower])
                            case 4:
                                server.redeliver(chance.randrange(1, 30))
                            case 5:
                                stage.network.broken = httpcore.ConnectError("refused")
                            case 6:
                                server.fault("getUpdates", TelegramFault(stall="after"))
                            case _:
                                stage.network.broken = None
                        await trio.sleep(chance.choice([0.0, 0.001, 0.5, 3.0, 40.0]))
            stage.network.broken = None
            async with bot_over(host, server, stage.network):
                await until(lambda: not len(server.queue), 600, 1.0)
                await trio.sleep(60)

    trio.run(play, clock=clock)
    for chat, texts in said.items():
        sender = f"telegram:{chat}"
        taken = [item.text for item in host.taken.values() if isinstance(item, Inbound) and item.sender == sender]
        assert taken == texts


async def test_an_update_that_cannot_be_read_parks_alone(host: Host, stage: Stage, autojump_clock: MockClock) -> None:
    server = stage.server
    server.say(5, 5, "before")
    server.raw_update({"message": {"message_id": "seven"}})
    server.raw_update(b'{"update_id":"?","message":5}')
    server.raw_update(_HALF)
    server.raw_update(b'{"message":{}}')
    async with bot_over(host, server, stage.network):
        await until(lambda: len(host.taken) == 5 and not len(server.queue), 60)
        server.raw_update(b'{"update_id":null}')
        await until(lambda: len(host.taken) == 6 and not len(server.queue), 60)
        server.raw_update(b'"no object at all"')
        await until(lambda: len(host.taken) == 7 and not len(server.queue), 60)
        assert host.health.state == "up"
    assert host.texts == ["before", "after \ufffd"]
    assert [type(item) for item in host.taken.values()].count(Unreadable) == 5


async def test_a_defect_of_the_host_over_one_message_parks_it_alone(
    host: Host, stage: Stage, autojump_clock: MockClock
) -> None:
    def trip() -> None:
        if any(isinstance(item, Inbound) and item.text == "bad" for item in host.current):
            raise ValueError("no place for it")

    host.before_commit = trip
    for text in ("good", "bad", "also good"):
        stage.server.say(5, 5, text)
    async with bot_over(host, stage.server, stage.network):
        await until(lambda: len(host.taken) == 3 and not len(stage.server.queue), 60)
    assert host.texts == ["good", "also good"]


@pytest.mark.parametrize("split", [(3,), (1, 2), (1, 1, 1)])
async def test_the_parts_of_an_album_are_committed_together(
    host: Host, stage: Stage, split: tuple[int, ...], autojump_clock: MockClock
) -> None:
    server = stage.server
    async with bot_over(host, server, stage.network):
        await reached(host, "up")
        pictures = server.album(5, 5, [b"1", b"2", b"3"], caption="look")
        waiting = [server.queue._runs[0].waiting.pop() for _ in pictures][::-1]
        for count in split:
            for _ in range(count):
                server.queue._runs[0].waiting.append(waiting.pop(0))
            server.queue._wake()
            await trio.sleep(0.5)
        await until(lambda: len(host.taken) == 3, 20)
    assert len(host.batches) == 1


async def test_an_album_at_the_end_of_a_full_answer_is_not_torn(
    host: Host, stage: Stage, autojump_clock: MockClock
) -> None:
    server = stage.server
    for number in range(97):
        server.say(5, 5, f"m{number}")
    server.album(5, 5, [b"1", b"2", b"3", b"4", b"5"])
    async with bot_over(host, server, stage.network):
        await until(lambda: len(host.taken) == 102, 30)
    assert [len(batch) for batch in host.batches if batch] == [97, 5]


async def test_a_group_that_moved_is_told_before_the_cursor(
    host: Host, stage: Stage, autojump_clock: MockClock
) -> None:
    server = stage.server
    group = server.group(-77, "Old", kind="group")
    told: list[int] = []
    host.before_commit = lambda: told.append(len(host.moves))
    async with bot_over(host, server, stage.network):
        new = server.migrate(group)
        await until(lambda: host.moves and not len(server.queue), 20)
    assert host.moves[0] == ("telegram:-77", f"telegram:{new.id}")
    assert told[0] == 1


async def test_strangers_are_told_once_and_buttons_stop_spinning(
    host: Host, stage: Stage, autojump_clock: MockClock
) -> None:
    server = stage.server
    host.say = lambda item: "Your code is `ABC`." if isinstance(item, Inbound) and item.text == "hi" else ""
    async with bot_over(host, server, stage.network) as bot:
        await reached(host, "up")
        server.say(5, 5, "hi")
        await until(lambda: server.sent(5), 20)
        assert server.sent(5)[0].text == "Your code is ABC."
        question = reply("Well?", choices=(Choice("Yes", "yes"), Choice("No", "no")))
        await send(bot.connector, question)
        server.press(server.sent(5)[-1], "yes")
        await until(lambda: server.answered_callbacks, 20)
    assert host.texts == ["hi", "yes"]


async def test_an_answer_to_a_button_that_hangs_keeps_no_other_waiting(
    host: Host, stage: Stage, autojump_clock: MockClock
) -> None:
    server = stage.server
    async with bot_over(host, server, stage.network) as bot:
        await reached(host, "up")
        server.say(5, 5, "hi")
        await send(bot.connector, reply("Well?", choices=(Choice("Yes", "yes"),)))
        server.fault("answerCallbackQuery", TelegramFault(stall="before"), times=2)
        for _ in range(2 * BUTTONS_AT_ONCE):
            server.press(server.sent(5)[-1], "yes")
        await until(lambda: len(server.answered_callbacks) == 2 * BUTTONS_AT_ONCE - 2, BUTTON_S / 2)


async def test_a_choice_is_made_once_and_its_buttons_go(host: Host, stage: Stage, autojump_clock: MockClock) -> None:
    server = stage.server
    async with bot_over(host, server, stage.network) as bot:
        await reached(host, "up")
        server.say(5, 5, "hi")
        await send(bot.connector, reply("Well?", choices=(Choice("Yes", "yes"), Choice("No", "no"))))
        await send(bot.connector, reply("A request", choices=(Choice("Show", "/approve 7"),)))
        asked, request = server.sent(5)
        for data in ("yes", "no", "yes"):  # a nervous thumb, before the buttons can go
            server.press(asked, data)
        await until(lambda: not asked.keyboard, 20)
        for _ in range(2):
            server.press(request, "/approve 7")
        await until(lambda: len(server.answered_callbacks) == 5, 20)
    assert host.texts == ["hi", "yes", "/approve 7", "/approve 7"]
    assert asked.text == "Well?"
    assert request.keyboard, "commands know themselves what is done already"


# -- how it goes -------------------------------------------------------------------------------------------------------


async def test_ten_minutes_without_a_network(host: Host, stage: Stage, autojump_clock: MockClock) -> None:
    server = stage.server
    async with bot_over(host, server, stage.network):
        await reached(host, "up")
        server.away = True
        stage.network.broken = httpcore.ConnectError("[Errno -2] Name or service not known")
        found = await reached(host, "away")
        for number in range(30):
            server.say(5, 5, f"m{number}")
            await trio.sleep(20)
        assert host.health.state == "away"
        assert "not found" in host.health.reason, found
        server.away, stage.network.broken = False, None
        await reached(host, "up")
        await until(lambda: len(host.texts) == 30, 5)
    assert host.texts == [f"m{number}" for number in range(30)]
    assert len(server.called("getUpdates")) < 60


async def test_a_night_without_a_network_breaks_nothing(host: Host, stage: Stage, autojump_clock: MockClock) -> None:
    async with bot_over(host, stage.server, stage.network):
        await reached(host, "up")
        stage.server.away = True
        stage.network.broken = httpcore.ConnectError("[Errno -2] Name or service not known")
        await trio.sleep(10 * 3_600)
        assert host.health.state == "away"
        stage.server.away, stage.network.broken = False, None
        stage.server.say(5, 5, "good morning")
        await until(lambda: host.texts, 60)


@pytest.mark.parametrize(
    ("fault", "state"),
    [(bad_gateway(), "away"), (garbage(), "away"), (flood(20), "away"), (refused(401, "Unauthorized"), "refused")],
)
async def test_each_trouble_has_its_state_and_ends_by_itself(
    host: Host, stage: Stage, fault: TelegramFault, state: str, autojump_clock: MockClock
) -> None:
    server = stage.server
    async with bot_over(host, server, stage.network):
        await reached(host, "up")
        server.fault("getUpdates", fault)
        found = await reached(host, state)
        assert found.reason
        assert TOKEN not in f"{found}"
        server.say(5, 5, "hi")
        await reached(host, "up", 75)
        await until(lambda: host.texts, 5)


async def test_a_connection_that_stands_and_says_nothing(host: Host, stage: Stage, autojump_clock: MockClock) -> None:
    server = stage.server
    async with bot_over(host, server, stage.network):
        await reached(host, "up")
        server.stalled = True
        await reached(host, "stalled")
        await trio.sleep(300)
        assert host.health.state == "stalled"
        server.say(5, 5, "hi")
        server.stalled = False
        await reached(host, "up")
        await until(lambda: host.texts, 5)


async def test_a_second_poller_makes_us_back_off_for_longer_and_longer(
    host: Host, stage: Stage, autojump_clock: MockClock
) -> None:
    server = stage.server
    async with bot_over(host, server, stage.network):
        await reached(host, "up")
        server.fault("getUpdates", refused(409, "Conflict: terminated by other getUpdates request"), times=6)
        found = await reached(host, "conflict")
        assert "same token" in found.reason
        server.say(5, 5, "hi")
        start = trio.current_time()
        await until(lambda: host.texts, 2_000, 1.0)
        polls = [call.at for call in server.called("getUpdates") if call.at >= start - 1]
    gaps = [later - sooner for sooner, later in pairwise(polls) if later - sooner > 1]
    assert gaps[:6] == pytest.approx([*CONFLICT_S, 300.0], abs=0.1)


async def test_while_another_one_polls_we_are_never_called_healthy(
    host: Host, stage: Stage, autojump_clock: MockClock
) -> None:
    """A poll ends the other one's: one that does not wait always ends well, and that tells nothing."""
    server = stage.server
    states: list[str] = []

    async def poll() -> None:
        while True:
            try:
                found, wait_s = server.queue.ask(0, 1, 30)
                if not found:
                    await server.queue.wait(0, 1, wait_s)
            except RefusedError:
                await trio.sleep(0.5)

    async def watch() -> None:
        while True:
            states.append(host.health.state)
            await trio.sleep(0.1)

    async with bot_over(host, server, stage.network):
        await reached(host, "up")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(poll)
            await reached(host, "conflict")
            nursery.start_soon(watch)
            await trio.sleep(400)
            nursery.cancel_scope.cancel()
        assert set(states) == {"conflict"}
        server.say(5, 5, "hi")
        await reached(host, "up", CONFLICT_S[-1] + 45)
        await until(lambda: host.texts, 5)


async def test_a_webhook_that_somebody_sets_is_removed_again(
    host: Host, stage: Stage, autojump_clock: MockClock
) -> None:
    server = stage.server
    server.webhook = {"url": "https://elsewhere.example", "secret_token": "", "max_connections": 40}
    async with bot_over(host, server, stage.network):
        await reached(host, "up")
        assert not server.webhook
        server.webhook = {"url": "https://elsewhere.example", "secret_token": "", "max_connections": 40}
        server.queue.end_poll("Conflict: terminated by setWebhook request")
        await reached(host, "conflict")
        await reached(host, "up")
    assert not server.webhook


@pytest.mark.parametrize("problem", [UnavailableError("DISK_FULL", "the disk is full"), BusyError("BUSY", "later")])
async def test_what_the_store_does_not_take_comes_again(
    host: Host, stage: Stage, problem: Exception, autojump_clock: MockClock
) -> None:
    server = stage.server
    async with bot_over(host, server, stage.network):
        await reached(host, "up")
        host.fails = [problem] * 5  # type: ignore[list-item]
        server.say(5, 5, "hi")
        found = await reached(host, "away")
        assert problem.args[0] in found.reason
        assert not server.confirmed
        await until(lambda: host.texts, 60)
        await reached(host, "up")
    assert server.queue.confirmed == 700_000_002
