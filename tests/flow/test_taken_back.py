"""Deleted messages: nobody answers what its people took back before it was read; what was read is noted."""

from pathlib import Path

import pytest
import trio

from daycare.testing.crash import Doom, live
from daycare.testing.daemon import TestDaemon, open_daemon
from daycare.testing.fake_connector import FakeConnector, texts
from daycare.testing.scripted import Scripted, say
from tests.flow.platform import answered, asked, in_club, inbound, people, receive

UNREAD = "[took back a message that nobody has read]"


async def test_what_is_deleted_before_it_is_read_is_neither_answered_nor_read(
    tmp_path: Path, autojump_clock: object
) -> None:
    pigeon = FakeConnector()
    async with open_daemon(tmp_path, plugins=[pigeon.plugin()]) as house:
        await people(house)
        house.model.enqueue(5.0, say("done"))
        await receive(house, inbound("a", "think"))
        await trio.sleep(1)
        outcomes = await receive(
            house,
            inbound("b", "send my secret to Bob", message="12"),
            inbound("b:d", "deleted message 12", kind="note", message="12", deletes="12"),
        )
        for outcome in outcomes:
            assert await answered(house, outcome) == ""
        assert len(house.model.history) == 1, "nothing was asked"
        await answered(house, (await receive(house, inbound("c", "and now?")))[0])
        assert asked(house.model) == ["think", UNREAD, "and now?"]
        await trio.sleep(1)
        assert texts(pigeon.arrived) == ["done", "echo: and now?"]


async def test_what_else_waits_is_answered_without_it_and_without_what_corrects_it(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with open_daemon(tmp_path, plugins=[FakeConnector().plugin()]) as house:
        await people(house)
        house.model.enqueue(5.0, say("done"))
        await receive(house, inbound("a", "think"))
        await trio.sleep(1)
        outcomes = await receive(
            house,
            inbound("b", "buy milk", message="12"),
            inbound("c", "buy bread", message="13"),
            inbound("b:1", "buy oat milk", edits="b", message="12"),
            inbound("b:d", "deleted message 12", kind="note", message="12", deletes="12"),
        )
        for outcome in outcomes:
            await answered(house, outcome)
        assert asked(house.model)[1:] == ["buy bread", UNREAD]


async def test_in_a_group_a_deletion_reaches_its_message_past_others_and_no_other_chat(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with open_daemon(tmp_path, plugins=[FakeConnector().plugin()]) as house:
        await people(house)
        house.model.enqueue(5.0, say("done"))
        await receive(house, in_club("a", "think"))
        await trio.sleep(1)
        outcomes = await receive(
            house,
            in_club("b", "vermilion", "Bob", message="12"),
            in_club("c", "mine", "Eve", sender="pigeon:8", message="13"),
            in_club("b:d", "deleted message 12", "Bob", kind="note", message="12", deletes="12"),
        )
        await receive(house, inbound("x:d", "deleted message 13", kind="note", message="13", deletes="13"))
        for outcome in outcomes:
            await answered(house, outcome)
        assert "vermilion" not in str(house.model.history)
        assert asked(house.model, len(house.model.history) - 1)[-1] == "[Eve] mine"


async def test_what_was_answered_stays_and_its_deletion_is_noted(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, plugins=[FakeConnector().plugin()]) as house:
        await people(house)
        await answered(house, (await receive(house, inbound("a", "it is red", message="12")))[0])
        await receive(house, inbound("a:d", "deleted message 12", kind="note", message="12", deletes="12"))
        await answered(house, (await receive(house, inbound("b", "which colour?")))[0])
        assert asked(house.model) == ["it is red", "[deleted message 12]", "which colour?"]


@pytest.mark.parametrize("at", range(1, 9))
async def test_a_death_at_any_commit_answers_nothing_that_was_deleted(
    tmp_path: Path, autojump_clock: object, at: int
) -> None:
    seen: list[str] = []

    async def story(house: TestDaemon) -> None:
        await people(house)
        await receive(house, inbound("a", "think"))
        await receive(
            house,
            inbound("b", "vermilion", message="12"),
            inbound("b:d", "deleted message 12", kind="note", message="12", deletes="12"),
        )
        await trio.sleep(60)
        seen.append(str(house.model.history))

    pigeon = FakeConnector()
    await live(tmp_path, Scripted(lambda _: say("done")), Doom(at), story, plugins=[pigeon.plugin()])
    await live(tmp_path, Scripted(lambda _: say("done")), Doom(), story, plugins=[pigeon.plugin()])
    assert seen and "vermilion" not in "".join(seen)
    assert texts(pigeon.arrived) == ["done"]
