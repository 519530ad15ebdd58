"""The approval desk on a phone: a diff with buttons, an edit by reply, a group in which one person decides."""

import copy
from functools import partial
from pathlib import Path

import pytest

from daycare.features.approvals.records import CallAction
from daycare.features.approvals.service import ApprovalAsk, Approver
from daycare.messenger import governor
from daycare.messenger.governor import STEP_S, Rate
from daycare.store.records import User
from daycare.testing.daemon import TestDaemon
from daycare.testing.scripted import Scripted
from daycare_plugins.telegram import connector
from daycare_plugins.telegram.rates import new_governor
from daycare_plugins.telegram.testing.faults import bad_gateway
from daycare_plugins.telegram.testing.server import FakeTelegram
from daycare_plugins.telegram.testing.world import FakeMessage
from tests.approvals.story import asking, memory_of, overwrite, remembered, service_of
from tests.telegram.bots import until
from tests.telegram.test_house import daemon


@pytest.fixture
def locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    quick = partial(new_governor, person=Rate(STEP_S, 3))  # none of this is about Telegram's pace
    monkeypatch.setattr(connector, "new_governor", quick)
    monkeypatch.setattr(governor, "ASKED_S", 0.1)
    return tmp_path


def data(message: FakeMessage, label: str) -> str:
    """Return what a button holds."""
    [found] = [b["callback_data"] for row in message.keyboard for b in row if b["text"] == label]
    return str(found)


async def sent(server: FakeTelegram, number: int, chat: int = 5) -> FakeMessage:
    """Return the bot's n-th message of a chat, once it is there."""
    await until(lambda: len(server.sent(chat)) >= number)
    return server.sent(chat)[number - 1]


async def propose(house: TestDaemon, path: str, text: str, reason: str = "you said *so* [here](http://x)") -> None:
    agent = await house.daemon.directory.at(path)
    await service_of(house).request(agent, asking(agent, text, reason=reason, provenance=("web page https://x.org",)))


async def test_a_diff_is_shown_edited_by_reply_approved_and_undone(locks: Path) -> None:
    model = Scripted()
    async with FakeTelegram.serve() as server, daemon(locks, server, model) as house:
        server.person(5)
        agent = await house.agent("/ann/telegram")
        await overwrite(house, memory_of(agent), "- likes tea\n```\nodd\n")
        await propose(house, "/ann/telegram", "- **bold** `code` <b>html</b>\n```\nfence\u202e\n")
        shown = await sent(server, 1)
        assert "Request 1: /ann/telegram wants to add to MEMORY.md" in shown.text
        assert "Why: you said *so* [here](http://x)" in shown.text, "no Markdown of the model's is rendered"
        assert "+ - **bold** `code` <b>html</b>\n+ ```\n+ fence⟦U+202E⟧" in shown.text, "nothing of it is invisible"
        assert "- likes tea" not in shown.text
        marks = [mark["type"] for mark in shown.wire["entities"] if mark["type"] != "url"]
        assert sorted(set(marks) - {"bot_command"}) == ["bold", "code", "pre"]
        assert [b["text"] for row in shown.keyboard for b in row] == ["Approve", "Edit", "Reject"]
        server.say(5, 5, "- likes coffee", reply_to=shown)
        again = await sent(server, 2)
        assert "+ - likes coffee" in again.text and "The text is by telegram:5." in again.text
        server.press(shown, data(shown, "Approve"), 5)
        third = await sent(server, 3)
        assert "not what it says now" in third.text
        server.press(again, data(again, "Approve"), 5)
        done = await sent(server, 4)
        assert done.text == "Approved with your text: request 1. MEMORY.md is at version 2 now."
        assert await remembered(house, agent) == "- likes tea\n```\nodd\n- likes coffee\n"
        followed = await sent(server, 5)
        assert followed.text.startswith("echo: ") and "was approved with a text that the user wrote" in followed.text
        server.press(done, data(done, "Undo"), 5)
        assert (await sent(server, 6)).text.startswith("Undone")
        assert await remembered(house, agent) == "- likes tea\n```\nodd\n"
        assert len(model.history) == 1, "neither the reply nor the buttons were for the model"
        await until(lambda: not shown.keyboard and not again.keyboard)
        [before] = again.edits
        kept, decided = again.text.split("Decided: ")
        assert before == f"{kept}You have 7 days to decide.", "the rest stands as it stood"
        assert decided.startswith("approved with another text by Ann (telegram:5), 20")
        assert "Changed before it was decided: approved with" in shown.text, "nobody approved what stands there"


async def test_a_call_is_approved_with_others_like_it_that_are_shown_first(locks: Path) -> None:
    async with FakeTelegram.serve() as server, daemon(locks, server, Scripted()) as house:
        server.person(5)
        agent = await house.agent("/ann/telegram")
        call = CallAction(tool="file_write", arguments={"path": "a*b.md", "text": "x"}, where="a*b.md", new="x\n")
        await service_of(house).request(agent, ApprovalAsk(kind="call", action=call, turn=9_000, step=0))
        shown = await sent(server, 1)
        assert "Request 1: /ann/telegram wants to use file_write on a*b.md" in shown.text and "+ x" in shown.text
        labels = [b["text"] for row in shown.keyboard for b in row]
        assert labels == ["Approve", "In this conversation…", "Always…", "Reject"]
        server.press(shown, data(shown, "Always…"), 5)
        asked = await sent(server, 2)
        assert 'path = "a*b.md", text is anything (always, until you take it back' in asked.text
        assert await service_of(house).granted("ann") == []
        server.press(asked, data(asked, "Yes, without asking"), 5)
        assert "Approved" in (await sent(server, 3)).text
        [grant] = await service_of(house).granted("ann")
        assert grant.session is None and not grant.others


async def test_in_a_group_only_the_operators_own_account_decides(locks: Path) -> None:
    async with FakeTelegram.serve() as server, daemon(locks, server, Scripted()) as house:
        server.person(5)
        server.person(6, first_name="Ben")
        server.group(-1001)
        store = house.store
        await store.people.add(User(id="club", name="Club", kind="group", keys=("telegram:-1001",)))
        await store.people.unlink("telegram:5")  # nowhere but in the group
        agent = await house.agent("/club/telegram")
        await house.store.agents.set_state((await house.agent("/ann/direct")).id, "dead", "gone")
        await propose(house, "/club/telegram", "- meets on Mondays\n")
        shown = await sent(server, 1, -1001)
        await store.people.link("telegram:5", "ann")
        server.press(shown, data(shown, "Approve"), 6)
        told = await sent(server, 2, -1001)
        assert "only Ann can decide this" in told.text
        server.say(-1001, 6, "- meets never", reply_to=shown)
        await sent(server, 3, -1001)
        assert await remembered(house, agent) is None
        it = await service_of(house).get(1)
        assert it.revision == 1, "a reply of somebody else is a message"
        server.press(shown, data(shown, "Approve"), 5)
        assert "Approved" in (await sent(server, 4, -1001)).text
        assert await remembered(house, agent) == "- meets on Mondays\n"


async def test_a_change_too_long_for_a_message_comes_whole_as_a_file(locks: Path) -> None:
    async with FakeTelegram.serve() as server, daemon(locks, server, Scripted()) as house:
        server.person(5)
        agent = await house.agent("/ann/telegram")
        lines = [f"- fact number {number}" for number in range(2_000)]
        await propose(house, "/ann/telegram", "\n".join([*lines, "- and a hidden one\n"]))
        await until(lambda: any(message.keyboard for message in server.sent(5)))
        first, last = server.sent(5)[0], server.sent(5)[-1]
        assert "[cut here; " in first.text and "hidden" not in first.text and not first.keyboard
        assert last.kind == "document" and last.wire["document"]["file_name"] == "MEMORY.md.diff"
        server.press(last, data(last, "Approve"), 5)
        await until(lambda: "Approved" in server.sent(5)[-1].text or "Approved" in server.sent(5)[-2].text)
        assert "hidden" in (await remembered(house, agent) or "")
        await until(lambda: not last.keyboard)
        assert last.wire["caption"].startswith("Request 1\nDecided: approved by Ann (telegram:5), 20")
        assert first.edits == []


async def test_a_decision_from_elsewhere_takes_the_buttons_and_an_old_one_says_whose_it_was(locks: Path) -> None:
    async with FakeTelegram.serve() as server, daemon(locks, server, Scripted()) as house:
        server.person(5)
        await house.agent("/ann/telegram")
        await propose(house, "/ann/telegram", "- likes tea\n")
        shown = await sent(server, 1)
        stale = copy.copy(shown)  # as a phone still shows it that was out of reach meanwhile
        it = await service_of(house).get(1)
        await service_of(house).decide(1, "reject", Approver("ann", "direct:ann"), it.seen, why="*not* mine")
        await until(lambda: not shown.keyboard)
        assert "Decided: rejected by Ann (direct:ann), 20" in shown.text and shown.text.endswith(": *not* mine.")
        count = len(server.sent(5))
        for label in ("Approve", "Reject", "Edit"):
            server.press(stale, data(stale, label), 5)
        await until(lambda: sum("rejected already by Ann" in message.text for message in server.sent(5)[count:]) == 3)
        assert (await service_of(house).get(1)).decided_by == "direct:ann"


async def test_over_a_kill_the_buttons_of_what_was_decided_go_at_the_next_start(locks: Path) -> None:
    async with FakeTelegram.serve() as server:
        server.person(5)
        async with daemon(locks, server, Scripted()) as house:
            await house.agent("/ann/telegram")
            await propose(house, "/ann/telegram", "- likes tea\n")
            shown = await sent(server, 1)
            server.fault("editMessageText", bad_gateway(), chat=5)
            it = await service_of(house).get(1)
            await service_of(house).decide(1, "approve", Approver("ann", "direct:ann"), it.seen)
            await until(lambda: server.called("editMessageText"))
            assert shown.keyboard
        async with daemon(locks, server, Scripted()):
            await until(lambda: not shown.keyboard)
            assert "Decided: approved by Ann (direct:ann), 20" in shown.text
