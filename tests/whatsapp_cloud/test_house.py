"""The whole way through a daemon: from a webhook of Meta's to the agent and back, also over faults and kills."""

import random
import re
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import trio

from daycare.base.fence import fence
from daycare.base.messages import Image
from daycare.features.approvals.service import Approver
from daycare.plugin import Completion, InferRequest
from daycare.store.records import Reply
from daycare.testing.daemon import TestDaemon
from daycare.testing.scripted import Scripted, call, say
from daycare_plugins.whatsapp_cloud import failures
from daycare_plugins.whatsapp_cloud.testing.server import error, lost, stalled, unreached
from tests.approvals.story import asking, remembered, service_of
from tests.whatsapp_cloud.houses import ANN, BEN, KEY, PATH, Stage, health, open_stage, until

MARK = "(this may be a duplicate)"


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncGenerator[Stage, None]:
    async with open_stage(tmp_path) as found:
        yield found


def texts(stage: Stage, who: str = ANN) -> list[str]:
    return [message.text for message in stage.graph.sent(who)]


async def idle(house: TestDaemon) -> None:
    """Wait until no reply is on its way."""
    with trio.fail_after(10):
        while await house.store.outbox.count():
            await trio.sleep(0.02)


async def test_a_person_is_answered_and_a_stranger_shown_a_code(stage: Stage) -> None:
    graph, model = stage.graph, stage.model
    async with stage.daemon() as house:
        model.enqueue(say("Hello **Ann**"))
        graph.say(ANN, "hi")
        assert (await stage.sent(1)).text == "Hello *Ann*"
        assert model.history[-1].messages[-1].text.endswith("hi")
        graph.say(BEN, "let me in")
        assert "-" in (await stage.sent(1, BEN)).text
        assert len(model.history) == 1
        assert any(event.get("connector") == "whatsapp-cloud" for event in house.events())
        await until(lambda: health(house)["state"] == "up")
        assert health(house)["identity"] == "+1 555-078-3881"
    assert {post.status for post in graph.posts} <= {0, 200, 503}  # until it listens, and until it is connected


async def test_while_an_agent_works_the_message_is_read_and_typing_is_shown(stage: Stage) -> None:
    async with stage.daemon():
        stage.model.enqueue(1.0, say("done"))  # an answer that is there at once needs no typing
        message = stage.graph.say(ANN, "hi")
        await stage.sent(1)
    assert stage.graph.read[0]["message_id"] == message["id"]
    assert stage.graph.read[0]["typing_indicator"] == {"type": "text"}


async def test_a_lost_answer_is_confirmed_by_the_status_and_nothing_is_said_twice(stage: Stage) -> None:
    async with stage.daemon(confirm_s=5) as house:
        stage.graph.fault("messages", lost())
        stage.model.enqueue(say("only once"))
        stage.graph.say(ANN, "hi")
        await stage.sent(1)
        await idle(house)
    assert texts(stage) == ["only once"]


async def test_without_a_status_the_repeat_says_that_it_may_be_one(stage: Stage) -> None:
    async with stage.daemon(confirm_s=0) as house:
        stage.graph.fault("messages", lost(silent=True))
        stage.model.enqueue(say("perhaps twice"))
        stage.graph.say(ANN, "hi")
        await stage.sent(2)
        await idle(house)
    assert texts(stage) == ["perhaps twice", f"{MARK}\nperhaps twice"]


async def test_a_kill_before_the_answer_came_repeats_nothing_that_a_status_confirms(stage: Stage) -> None:
    graph = stage.graph
    async with stage.daemon():
        graph.fault("messages", stalled())
        stage.model.enqueue(say("before the kill"))
        graph.say(ANN, "hi")
        await stage.sent(1)
        await until(lambda: not graph.queue)  # the statuses came while the answer stood still
    async with stage.daemon() as house:
        await idle(house)
    assert texts(stage) == ["before the kill"]


async def test_a_status_that_comes_after_the_restart_confirms_too(stage: Stage) -> None:
    graph = stage.graph
    async with stage.daemon():
        await until(lambda: graph.calls)
        graph.fault("messages", stalled())
        stage.model.enqueue(say("before the kill"))
        graph.say(ANN, "hi")
        await until(lambda: not graph.queue)
        graph.automatic = False  # Meta is slow with its statuses
        await stage.sent(1)
    graph.automatic = True
    async with stage.daemon(confirm_s=15) as house:
        graph._news.set()
        await idle(house)
    assert texts(stage) == ["before the kill"]


async def test_paces_and_outages_lose_nothing(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, model = stage.graph, stage.model
    monkeypatch.setitem(failures.CODES, 131056, failures.CODES[131056]._replace(wait_s=0.5))
    async with stage.daemon(confirm_s=0) as house:
        await until(lambda: graph.calls)
        graph.fault("messages", error(131000, 500, "Something went wrong"))
        graph.fault("messages", error(131056, 400, "Pair rate limit hit"))
        model.enqueue(say("one"))
        graph.say(ANN, "a")
        await until(lambda: texts(stage) == ["one"], 20)
        graph.fault("messages", unreached())
        model.enqueue(say("two"))
        graph.say(ANN, "b")
        await stage.sent(2)
        await idle(house)
    assert texts(stage) == ["one", f"{MARK}\ntwo"]


async def test_a_refused_token_is_told_and_the_reply_waits_for_a_new_one(stage: Stage) -> None:
    graph = stage.graph
    async with stage.daemon() as house:
        stage.model.enqueue(say("later"))
        await until(lambda: health(house)["state"] != "off")
        graph.fault("messages", error(190, 401, f"Error validating access token: {graph.token}"))
        graph.say(ANN, "hi")

        async def failed() -> str:
            rows = await house.store.outbox.waiting("whatsapp-cloud")
            return str(rows[0].error) if rows else ""

        with trio.fail_after(10):
            while "(code 190)" not in (said := await failed()):
                await trio.sleep(0.02)
        assert graph.token not in said


async def test_over_kills_each_message_is_answered_and_in_order(stage: Stage) -> None:
    chance = random.Random(7)
    graph = stage.graph
    for number in range(6):
        stage.model = Scripted(_echo)
        async with stage.daemon(confirm_s=3):
            graph.say(ANN, f"m{number}")
            await trio.sleep(chance.uniform(0.05, 0.5))
    stage.model = Scripted(_echo)
    async with stage.daemon(confirm_s=3) as house:
        await until(lambda: "m5" in " ".join(texts(stage)), 30)
        await idle(house)
    said = " ".join(texts(stage))
    assert [said.index(f"m{number}") for number in range(6)] == sorted(said.index(f"m{n}") for n in range(6))
    assert sorted(re.findall(r"m\d", said)) == [f"m{number}" for number in range(6)], "none came twice"


async def test_doubled_webhooks_and_statuses_in_any_order_change_nothing(stage: Stage) -> None:
    graph = stage.graph
    graph.copies, graph.reversed_ = 3, True
    graph.statuses = ("sent", "delivered", "read")
    async with stage.daemon():
        stage.model.enqueue(say("one"), say("two"))
        graph.say(ANN, "a")
        await stage.sent(1)
        graph.say(ANN, "b")
        await stage.sent(2)
        await until(lambda: not graph.queue)
    assert texts(stage) == ["one", "two"]
    assert len(stage.model.history) == 2


async def test_files_come_in_and_go_out(stage: Stage) -> None:
    graph, model = stage.graph, stage.model
    async with stage.daemon() as house:
        model.enqueue(call(("send_file", {"name": "plan.md", "text": "# the plan"})), say("here it is"))
        graph.send(ANN, "document", graph.file("text/plain", b"four words of text") | {"filename": "a.txt"})
        sent = await stage.sent(1)
        await idle(house)
    assert "four words of text" in str(model.history[0].messages)
    assert (sent.kind, sent.text) == ("document", "here it is")
    assert sent.payload["document"]["filename"] == "plan.md"
    assert graph.files[sent.payload["document"]["id"]] == ("text/plain", b"# the plan")


@pytest.mark.parametrize(
    ("kind", "media_type", "content", "words"),
    [
        ("image", "image/jpeg", b"\xff\xd8\xff\xe0" + bytes(40), ""),
        ("document", "text/plain", b"four words of text", fence("attached", "four words of text")),
        ("document", "application/pdf", b"%PDF-1.4\n%%EOF\n", "not readable: "),
    ],
)
async def test_bytes_of_a_file_sent_over_whatsapp_reach_the_prompt(
    stage: Stage, kind: str, media_type: str, content: bytes, words: str
) -> None:
    async with stage.daemon():
        stage.graph.send(ANN, kind, stage.graph.file(media_type, content))
        await stage.sent(1)
        message = stage.model.history[-1].messages[-1]
    assert [part.data for part in message.parts if isinstance(part, Image)] == ([content] if kind == "image" else [])
    assert words in message.text


async def test_a_file_from_a_host_that_is_not_listed_is_not_fetched(stage: Stage) -> None:
    graph = stage.graph
    async with open_stage(stage.folder / "other") as evil, stage.daemon():
        evil.graph.files = graph.files
        graph.media_origin = evil.graph.origin
        stage.model.enqueue(say("ok"))
        graph.send(ANN, "document", graph.file("text/plain", b"secret words") | {"filename": "a.txt"})
        await stage.sent(1)
        assert not evil.graph.calls
        assert "secret words" not in str(stage.model.history)


async def test_a_choice_is_made_once(stage: Stage) -> None:
    graph, model = stage.graph, stage.model
    async with stage.daemon() as house:
        model.enqueue(call(("offer_choices", {"choices": ["Yes", "No"]})), say("Shall I?"), say("done"), say("more"))
        graph.say(ANN, "a")
        shown = await stage.sent(1)
        for button in ("Yes", "No", "Yes"):
            graph.press(ANN, shown, button)
        await stage.sent(2)
        graph.say(ANN, "and now?")
        await stage.sent(3)
        await idle(house)
    said = [message.text for message in model.history[-1].messages if message.role == "user"]
    assert texts(stage) == ["Shall I?", "done", "more"]
    assert [words.rpartition("\n")[2] for words in said if "Shall I?" in words] == ["Yes"], said


async def test_an_agent_reacts_to_the_message_it_answers(stage: Stage) -> None:
    graph = stage.graph
    async with stage.daemon() as house:
        stage.model.enqueue(call(("react", {"emoji": "👍"})), say("I will"))
        asked = graph.say(ANN, "bring milk")
        await stage.sent(1)
        await idle(house)
    reactions = [it.payload["reaction"] for it in graph.messages if it.kind == "reaction"]
    assert reactions == [{"message_id": asked["id"], "emoji": "👍"}]
    assert texts(stage) == ["I will"]


async def test_choices_are_buttons_and_many_are_a_list(stage: Stage) -> None:
    graph, model = stage.graph, stage.model
    many = [f"answer number {number:02} of the twelve" for number in range(12)]
    async with stage.daemon() as house:
        model.enqueue(call(("offer_choices", {"choices": ["Yes", "No"]})), say("Shall I?"), say("fine"))
        graph.say(ANN, "a")
        shown = await stage.sent(1)
        assert shown.payload["interactive"]["type"] == "button"
        graph.press(ANN, shown, "Yes")
        assert (await stage.sent(2)).text == "fine"
        assert model.history[-1].messages[-1].text.endswith("Yes")
        assert "Shall I?" in str(model.history[-1].messages[-1])
        model.enqueue(call(("offer_choices", {"choices": many})), say("Which?"), say("good"))
        graph.say(ANN, "b")
        first, second = await stage.sent(3), await stage.sent(4)
        assert [len(first.buttons), len(second.buttons)] == [10, 2]
        graph.press(ANN, second, second.buttons[1][1])
        assert (await stage.sent(5)).text == "good"
        assert model.history[-1].messages[-1].text.endswith(many[11])
        await idle(house)


async def test_a_request_is_approved_by_a_button(stage: Stage) -> None:
    graph = stage.graph
    async with stage.daemon() as house:
        agent = await house.agent(PATH)
        graph.last_said[ANN] = graph.clock()
        await service_of(house).request(agent, asking(agent, "- likes tea\n", reason="you said so"))
        shown = await stage.sent(1)
        assert [title for _, title in shown.buttons] == ["Approve", "Edit", "Reject"]
        assert "likes tea" in shown.text
        graph.press(ANN, shown, "Approve")
        await until(lambda: any("Approved" in text for text in texts(stage)))
        assert await remembered(house, agent) == "- likes tea\n"
        assert (await service_of(house).get(1)).decided_by == KEY


async def test_an_edit_of_a_request_is_a_reply_to_it(stage: Stage) -> None:
    graph = stage.graph
    async with stage.daemon() as house:
        agent = await house.agent(PATH)
        graph.last_said[ANN] = graph.clock()
        await service_of(house).request(agent, asking(agent, "- likes tea\n", reason="you said so"))
        shown = await stage.sent(1)
        graph.say(ANN, "- likes coffee", reply_to=shown.id)
        again = await stage.sent(2)
        assert "likes coffee" in again.text
        it = await service_of(house).get(1)
        await service_of(house).decide(1, "approve", Approver("ann", KEY), it.seen)
        assert await remembered(house, agent) == "- likes coffee\n"


async def test_what_is_deleted_or_edited_while_it_waits_is_not_read_as_it_was(stage: Stage) -> None:
    async with stage.daemon():
        stage.model.enqueue(1.0, say("first"), say("second"))
        stage.graph.say(ANN, "go on")
        await until(lambda: len(stage.model.history) == 1)
        gone, wrong = stage.graph.say(ANN, "vermilion")["id"], stage.graph.say(ANN, "ochre")["id"]
        stage.graph.send(ANN, "revoke", {"original_message_id": gone})
        better = {"type": "text", "text": {"body": "cobalt"}}
        stage.graph.send(ANN, "edit", {"original_message_id": wrong, "message": better})
        await stage.sent(2)
    assert re.findall("vermilion|ochre|cobalt", str(stage.model.history[1].messages)) == ["cobalt"]


async def test_what_whatsapp_took_and_could_not_deliver_is_told_to_the_agent(stage: Stage) -> None:
    graph, model = stage.graph, stage.model
    async with stage.daemon():
        model.enqueue(say("into the void"), say("ok"))
        graph.say(ANN, "a")
        sent = await stage.sent(1)
        await until(lambda: "delivered" in sent.states and not graph.queue)
        graph.post(statuses=[graph.status(sent, "failed", 131026, "Message undeliverable")])
        await until(lambda: not graph.queue)
        graph.say(ANN, "b")
        await stage.sent(2)
    seen = str(model.history[-1].messages)
    assert "could not deliver it: Message undeliverable (code 131026)" in seen
    assert "into the void" in seen


async def test_who_has_a_new_number_is_a_stranger_at_both(stage: Stage) -> None:
    graph, model = stage.graph, stage.model
    new = "4915199999999"
    async with stage.daemon() as house:
        model.enqueue(say("hello"))
        graph.say(ANN, "a")
        await stage.sent(1)
        graph.change_number(ANN, new)
        graph.say(new, "it is me")
        assert "-" in (await stage.sent(1, new)).text
        graph.say(ANN, "I have this number now")
        assert "-" in (await stage.sent(2)).text, "whoever has the old number is nobody's friend"
        assert len(model.history) == 1
        model.enqueue(say("never seen"))
        await house.talk("hi", path=PATH)
        with trio.fail_after(10):
            while not any(letter.code == "IDENTITY_CHANGED" for letter in await house.store.dead.find()):
                await house.store.outbox.add(
                    await house.daemon.directory.at(PATH), Reply(connector="whatsapp-cloud", text="never seen"), "t"
                )
                await trio.sleep(0.1)
    async with stage.daemon():
        graph.say(ANN, "still me")
        await until(lambda: not graph.queue)
    assert len(model.history) == 2
    assert not any("never seen" in text for text in texts(stage))


def _echo(request: InferRequest) -> Completion:
    """Answer with the words of all that this turn is about."""
    found: list[str] = []
    for message in request.messages:
        found = [*found, message.text] if message.role == "user" else []
    return say(" ".join(re.findall(r"m\d", " ".join(found))))
