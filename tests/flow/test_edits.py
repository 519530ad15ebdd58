"""Edited messages: what still waits is replaced, what is worked on is steered, what was answered is noted."""

from pathlib import Path

import trio

from daycare.base.limits import INBOX_MAX_MESSAGES
from daycare.store.records import Policy
from daycare.testing.clock import VirtualClock
from daycare.testing.crash import Doom, live
from daycare.testing.daemon import TestDaemon, open_daemon
from daycare.testing.fake_connector import FakeConnector, texts
from daycare.testing.scripted import Scripted, call, say
from tests.actors.helpers import config, history, tools
from tests.flow.platform import answered, asked, in_club, inbound, people, receive, states

EDITED = "[edited an earlier message, which now reads:]\n"


async def test_what_waits_is_read_in_its_last_words_where_it_stood(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, plugins=[FakeConnector().plugin()]) as house:
        await people(house)
        house.model.enqueue(5.0, say("done"))
        await receive(house, inbound("a", "think"))
        await trio.sleep(1)
        outcomes = await receive(
            house,
            inbound("b", "by trian", message="12"),
            inbound("c", "tomorrow"),
            inbound("b:1", "by tram", edits="b", message="12"),
            inbound("b:2", "by train", edits="b", message="12"),
        )
        assert set(states(outcomes)) == {"accepted"}
        for outcome in outcomes:
            assert await answered(house, outcome) == "echo: tomorrow", "one turn answers them all"
        assert asked(house.model) == ["think", "by train", "tomorrow"]


async def test_an_edit_reaches_its_message_past_what_others_wrote_in_between(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with open_daemon(tmp_path, plugins=[FakeConnector().plugin()]) as house:
        await people(house)
        house.model.enqueue(5.0, say("done"))
        await receive(house, in_club("a", "think"))
        await trio.sleep(1)
        outcomes = await receive(
            house,
            in_club("b", "red", "Bob"),
            in_club("c", "mine", "Eve", sender="pigeon:8"),
            in_club("b:1", "blue", "Bob", edits="b"),
        )
        for outcome in outcomes:
            await answered(house, outcome)
        assert [asked(house.model, number)[-1] for number in (1, 2)] == ["[Bob] blue", "[Eve] mine"]
        assert len(house.model.history) == 3


async def test_an_edit_in_the_same_batch_is_one_message(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, plugins=[FakeConnector().plugin()]) as house:
        await people(house)
        outcomes = await receive(house, inbound("a", "helo"), inbound("a:1", "hello", edits="a"))
        assert [await answered(house, outcome) for outcome in outcomes] == ["echo: hello"] * 2
        assert len(house.model.history) == 1


async def test_an_edit_of_what_is_worked_on_steers_it(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, plugins=[FakeConnector().plugin(), tools]) as house:
        await people(house)
        house.model.enqueue(call(("wait", {"seconds": 5})), say("blue it is"))
        [first] = await receive(house, in_club("a", "paint it red"))
        await trio.sleep(1)
        [between, edit] = await receive(
            house,
            in_club("x", "what for?", "Eve", sender="pigeon:8"),
            in_club("a:1", "paint it blue", edits="a"),
        )
        assert [await answered(house, each) for each in (first, edit)] == ["blue it is"] * 2
        assert asked(house.model, 1) == ["[Bob] paint it red", f"[Bob] {EDITED}paint it blue"]
        assert await answered(house, between) == "echo: [Eve] what for?"


async def test_an_edit_that_comes_too_late_for_the_turn_is_one_of_its_own(
    tmp_path: Path, autojump_clock: object
) -> None:
    """The model is writing its last words: they answer what was said before."""
    pigeon = FakeConnector()
    async with open_daemon(tmp_path, plugins=[pigeon.plugin()]) as house:
        await people(house)
        house.model.enqueue(5.0, say("red it is"))
        await receive(house, inbound("a", "paint it red"))
        await trio.sleep(1)
        [edit] = await receive(house, inbound("a:1", "paint it blue", edits="a"))
        assert await answered(house, edit) == f"echo: {EDITED}paint it blue"
        await trio.sleep(1)
        assert texts(pigeon.arrived) == ["red it is", f"echo: {EDITED}paint it blue"]


async def test_an_edit_of_what_was_answered_is_noted(tmp_path: Path, autojump_clock: object) -> None:
    pigeon = FakeConnector()
    async with open_daemon(tmp_path, plugins=[pigeon.plugin()]) as house:
        await people(house)
        [first] = await receive(house, inbound("a", "it is red"))
        await answered(house, first)
        [edit] = await receive(house, inbound("a:1", "it is blue", edits="a"))
        assert await answered(house, edit) == ""
        assert len(house.model.history) == 1
        [next_] = await receive(house, inbound("b", "which colour?"))
        await answered(house, next_)
        assert asked(house.model) == ["it is red", f"{EDITED}it is blue", "which colour?"]
        await trio.sleep(1)
        assert texts(pigeon.arrived) == ["echo: it is red", "echo: which colour?"]


async def test_an_edit_that_addresses_the_agent_is_answered(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, plugins=[FakeConnector().plugin()]) as house:
        await people(house)
        [note] = await receive(house, in_club("a", "what time is it?", kind="note"))
        await answered(house, note)
        [edit] = await receive(house, in_club("a:1", "what time is it, @bot?", edits="a"))
        assert await answered(house, edit) == f"echo: [Bob] {EDITED}what time is it, @bot?"


async def test_editing_an_answered_message_into_a_command_commands_nothing(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with open_daemon(tmp_path, plugins=[FakeConnector().plugin()]) as house:
        await people(house)
        [first] = await receive(house, inbound("a", "hello"))
        await answered(house, first)
        [edit] = await receive(house, inbound("a:1", "/new", edits="a"))
        assert await answered(house, edit) == ""
        agent = await house.daemon.directory.at("/ann/pigeon")
        assert agent.session == 1


async def test_editing_what_is_worked_on_into_stop_stops_it(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, plugins=[FakeConnector().plugin()]) as house:
        await people(house)
        house.model.enqueue(500.0, say("never"))
        await receive(house, inbound("a", "stpo"))
        await trio.sleep(1)
        [edit] = await receive(house, inbound("a:1", "/stop", edits="a"))
        assert await answered(house, edit, 10) == "Stopped."


async def test_an_edit_interrupts_where_messages_do(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, config=config(Policy.INTERRUPT), plugins=[FakeConnector().plugin()]) as house:
        await people(house)
        house.model.enqueue(500.0, say("never"))
        await receive(house, inbound("a", "red"))
        await trio.sleep(1)
        house.model._script.clear()
        [edit] = await receive(house, inbound("a:1", "blue", edits="a"))
        assert await answered(house, edit, 10) == f"echo: {EDITED}blue"


async def test_an_edit_of_what_was_never_seen_is_answered_like_any_message(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with open_daemon(tmp_path, plugins=[FakeConnector().plugin()]) as house:
        await people(house)
        [edit] = await receive(house, inbound("a:1", "from before you came", edits="a"))
        assert await answered(house, edit) == "echo: from before you came"


async def test_an_edit_survives_a_crash_of_the_turn_that_it_belongs_to(tmp_path: Path, autojump_clock: object) -> None:
    pigeon, model, clock = FakeConnector(), Scripted(), VirtualClock()

    async def first(house: TestDaemon) -> None:
        await people(house)
        model.enqueue(5.0, say("never heard"))
        await receive(house, inbound("a", "red"), inbound("a:1", "blue", edits="a"), inbound("b", "now"))
        await trio.sleep(1)
        model._script.clear()

    async def second(house: TestDaemon) -> None:
        await trio.sleep(60)
        assert asked(model) == ["blue", "now"]
        assert (await history(house, "/ann/pigeon"))[0] == ("user", "blue")

    for story in (first, second):
        assert not await live(tmp_path, model, Doom(), story, plugins=[pigeon.plugin()], clock=clock)
    assert texts(pigeon.arrived) == ["echo: now"]


async def test_a_flood_of_edits_is_bounded_like_any_messages(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, plugins=[FakeConnector().plugin()], work=False) as house:
        await people(house)
        await receive(house, inbound("a", "0"))
        outcomes = await receive(house, *(inbound(f"a:{n}", str(n), edits="a") for n in range(1, INBOX_MAX_MESSAGES)))
        assert set(states(outcomes)) == {"accepted"}
        assert states(await receive(house, inbound("a:x", "last", edits="a"))) == ["limited"]
