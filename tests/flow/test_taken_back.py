"""Deleted messages: nobody answers what its people took back before it was read; what was read is noted."""

from pathlib import Path

import trio

from daycare.plugin import Completion, InferRequest
from daycare.testing.crash import Doom, live
from daycare.testing.daemon import TestDaemon, open_daemon
from daycare.testing.fake_connector import FakeConnector, texts
from daycare.testing.scripted import Scripted, call, say
from tests.actors.helpers import tools
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


async def test_what_is_added_to_a_running_turn_and_taken_back_is_not_read(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with open_daemon(tmp_path, plugins=[FakeConnector().plugin(), tools]) as house:
        await people(house)
        house.model.enqueue(call(("wait", {"seconds": 5})), say("blue it is"))
        [first] = await receive(house, inbound("a", "paint it"))
        await trio.sleep(1)
        await receive(
            house,
            inbound("b", "vermilion", message="12"),
            inbound("b:d", "deleted message 12", kind="note", message="12", deletes="12"),
            inbound("c", "blue", message="13"),
        )
        assert await answered(house, first) == "blue it is"
        await trio.sleep(60)
        assert "vermilion" not in str(house.model.history)
        assert "blue" in asked(house.model, len(house.model.history) - 1)


async def test_a_death_at_any_commit_answers_nothing_that_was_deleted(tmp_path: Path, autojump_clock: object) -> None:
    read: list[str] = []

    def answer(request: InferRequest) -> Completion:
        read.append(str(request.messages))
        return say("done")

    async def story(house: TestDaemon) -> None:
        await receive(house, inbound("a", "think"))
        await receive(
            house,
            inbound("b", "vermilion", message="12"),
            inbound("b:d", "deleted message 12", kind="note", message="12", deletes="12"),
        )
        await trio.sleep(60)

    async def lived(name: str, doom: Doom) -> list[str]:
        """Return what arrived of a life in which somebody dies at a commit, if they do, and the next one."""
        folder, pigeon = tmp_path / name, FakeConnector()
        folder.mkdir()
        plugins = [pigeon.plugin()]
        assert not await live(folder, Scripted(answer), Doom(), people, plugins=plugins)
        if await live(folder, Scripted(answer), doom, story, plugins=plugins):
            assert not await live(folder, Scripted(answer), Doom(), story, plugins=plugins)
        return texts(pigeon.arrived)

    whole = Doom()
    assert await lived("whole", whole) == ["done"]
    assert whole.commits > 5
    for commit in range(1, whole.commits + 1):
        assert await lived(str(commit), Doom(commit)) == ["done"], f"killed at commit {commit}"
    assert "think" in "".join(read) and "vermilion" not in "".join(read)
