"""What people see when there is much to be seen: seldom, never late, and gone when the reply is there."""

import random
from pathlib import Path

import msgspec
import pytest
import trio
import trio.testing

from daycare.base.errors import AwayError, BusyError
from daycare.base.events import (
    Notice,
)
from daycare.base.limits import PRESENCE_CALL_S
from daycare.base.tool import STAYS
from daycare.connectors.typing_status import PRESENCE_TURNS_MAX, TypingStatus
from daycare.observe.bus import EVENTS_RING
from daycare.plugin import Inbound, Plugin, StructTool, ToolContext
from daycare.testing.daemon import open_daemon
from daycare.testing.fake_connector import FakeConnector
from daycare.testing.scripted import Scripted, call, say
from tests.connectors.stage import GROUP, PRIVATE, QUIET, Stage, on_stage

# -- load --------------------------------------------------------------------------------------------------------------


async def test_a_hundred_streams_of_a_hundred_pieces_a_second_lose_no_event(autojump_clock: object) -> None:
    async with on_stage() as stage:

        async def stream(user: str) -> None:
            stage.start(user=user)
            for n in range(300):
                await trio.sleep(0.01)
                stage.write(f"{n} ", user=user)
            stage.finish(user=user)

        async with trio.open_nursery() as nursery:
            for n in range(100):
                nursery.start_soon(stream, f"user{n}")
        await trio.testing.wait_all_tasks_blocked()
        assert stage.bus.dropped == 0
        assert len(stage.of("draft")) == 300, "three seconds of a hundred chats"
        assert len(stage.of("act")) == 100


async def test_no_event_is_lost_while_everybody_is_busy(autojump_clock: object) -> None:
    async with on_stage() as stage:

        async def stream(user: str) -> None:
            stage.start(user=user)
            for n in range(300):
                await trio.lowlevel.checkpoint()
                stage.write(f"{n} ", user=user)

        async with trio.open_nursery() as nursery:
            for n in range(100):
                nursery.start_soon(stream, f"user{n}")
        await trio.sleep(2)
        assert stage.bus.dropped == 0
        assert {text.split()[-1] for text in stage.texts("draft")[-100:]} == {"299"}


async def test_more_turns_than_the_bound_are_simply_not_shown(autojump_clock: object) -> None:
    async with on_stage() as stage:
        total = PRESENCE_TURNS_MAX + 50
        for n in range(total):
            stage.start(user=f"user{n}")
        await trio.sleep(1)
        assert len(stage.of("act")) == PRESENCE_TURNS_MAX
        for n in range(total):
            stage.finish(user=f"user{n}")
        await trio.sleep(1)
        stage.start(user=f"user{total - 1}")
        await trio.sleep(1)
        assert len(stage.of("act")) == PRESENCE_TURNS_MAX + 1


async def test_an_observer_that_was_too_slow_forgets_all_and_goes_on(autojump_clock: object) -> None:
    async with on_stage(GROUP) as stage:
        stage.start()
        stage.tool()
        await trio.sleep(5)
        for n in range(EVENTS_RING + 10):
            stage.publish(Notice(at_ms=n, text="x"))
        await trio.sleep(30)
        assert stage.bus.dropped == 10
        assert not stage.pigeon.standing
        assert max(stage.times("act")) < 5
        stage.start(turn=2)
        await trio.sleep(1)
        assert stage.times("act")[-1] == 35.0


async def test_the_end_of_the_bus_ends_it_within_seconds(autojump_clock: object) -> None:
    stage = Stage(FakeConnector(GROUP), {})
    typing_status = TypingStatus(stage.bus, {"pigeon": stage.pigeon}, stage.target, stage.remember, stage.recall_all)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(typing_status.run)
        await trio.testing.wait_all_tasks_blocked()
        stage.start()
        stage.tool()
        await trio.sleep(5)
        stage.pigeon.upset("withdraw", FakeConnector.LOST)
        stage.bus.close()
        with trio.fail_after(PRESENCE_CALL_S + 1):
            while nursery.child_tasks:
                await trio.sleep(0.5)


@pytest.mark.parametrize("seed", range(20))
async def test_nothing_is_left_in_any_chat_whatever_happens(seed: int, autojump_clock: object) -> None:
    chance = random.Random(seed)
    pigeon = FakeConnector(GROUP)
    pigeon.able = {"chat:ann": PRIVATE, "chat:eve": QUIET}
    for what in ("act", "draft", "status", "edit", "withdraw"):
        troubles: list[float | BaseException] = []
        for _ in range(200):
            busy = BusyError("FLOOD", "flood", retry_after_s=chance.choice((None, 1.0, 20.0)))
            away = AwayError("AWAY", "away")
            troubles.append(chance.choice((0.0, 0.0, 0.1, 3.0, busy, away)))
        pigeon.upset(what, *troubles)
    async with on_stage(pigeon=pigeon) as stage:
        turns = {"ann": 0, "bob": 0, "eve": 0}
        for _ in range(400):
            user = chance.choice(("ann", "bob", "eve"))
            turn = turns[user]
            match chance.randrange(10):
                case 0:
                    turns[user] += 1
                    stage.start(turns[user], user)
                case 1 | 2 | 3:
                    stage.write("some more words ", turn, user)
                case 4:
                    stage.tool(chance.randrange(3), turn=turn, user=user)
                case 5:
                    stage.tool_done(chance.randrange(3), turn, user)
                case 6:
                    stage.progress(f"{chance.random()}", chance.randrange(3), turn, user)
                case 7:
                    stage.void(turn, user)
                case 8:
                    stage.finish(chance.choice(("", "an answer")), turn, user)
                case 9:
                    stage.sent(user)
            await trio.sleep(chance.choice((0.0, 0.1, 1.0, 4.0)))
        for user, turn in turns.items():
            stage.finish("", turn, user)
        await trio.sleep(300)
        after = trio.current_time()
        for _ in range(4):  # what could not be withdrawn goes at a next start
            async with on_stage(pigeon=pigeon, memory=stage.memory):
                await trio.sleep(300)
        assert not pigeon.standing and not stage.memory
        assert {shown.call for shown in pigeon.shown if shown.at > after} <= {"withdraw"}
        assert {shown.call for shown in pigeon.shown if shown.target == "chat:ann"} <= {"act", "draft"}


# -- a whole house -----------------------------------------------------------------------------------------------------


class Ponder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Take half a minute."""


async def _ponder(context: ToolContext, arguments: Ponder) -> str:
    await trio.sleep(20)
    context.progress("nearly done")
    await trio.sleep(9)
    return "pondered"


async def test_in_a_house_a_turn_is_seen_from_its_first_moment_to_its_reply(
    tmp_path: Path, autojump_clock: object
) -> None:
    pigeon = FakeConnector(GROUP)
    model = Scripted()
    model.enqueue(2.0, call(("ponder", {}), text="I wait."), 3.0, say("I have waited."))
    tools = Plugin(name="pondering", tools=(StructTool("ponder", Ponder, _ponder, idempotent=True, **STAYS),))
    async with open_daemon(tmp_path, model, plugins=[pigeon.plugin(), tools]) as house:
        await house.store.people.link("pigeon:7", "ann")
        receipt = await house.daemon.intake.accept(
            Inbound(connector="pigeon", sender="pigeon:7", key="p1", text="wait a little")
        )
        assert await house.hear(receipt) == "I have waited."
        await trio.sleep(30)
        assert {shown.target for shown in pigeon.shown} == {"7"}
        assert [shown.text for shown in pigeon.shown if shown.call in ("status", "edit")][:4] == [
            "I wait.\n\n⏳ using ponder … 2 s",
            "I wait.\n\n⏳ using ponder … 12 s",
            "I wait.\n\n⏳ using ponder … 20 s · `nearly done`",
            "I wait.\n\n✓ 1 tool done",
        ]
        assert [flight.text for flight in pigeon.arrived] == ["I have waited."]
        assert not pigeon.standing
        assert await house.store.intake.recall_all("pigeon", "status:") == {}
