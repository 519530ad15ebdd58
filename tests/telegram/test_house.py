"""The whole way through a daemon: from a Telegram server to the agent and back, also over a kill."""

import random
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from msgspec.structs import replace

from daycare.agent.attachments import FILE_TEXT_MAX_BYTES
from daycare.base.fence import fence
from daycare.base.messages import Image, Message, Part, Text, ToolCall
from daycare.config import Config, ModelSection, ModelsSection, PluginsSection, ProviderSection
from daycare.plugin import Completion, InferRequest
from daycare.store.records import User
from daycare.testing.daemon import OWNER, TestDaemon, open_daemon
from daycare.testing.scripted import Scripted, call, say
from daycare_plugins.telegram import serving as _serving  # noqa: F401 -- it would block the house's loop
from daycare_plugins.telegram.testing.faults import flood, lost
from daycare_plugins.telegram.testing.server import FakeTelegram
from daycare_plugins.telegram.testing.world import DOWNLOAD_MAX_BYTES
from tests.telegram.bots import until


@asynccontextmanager
async def daemon(tmp: Path, server: FakeTelegram, model: Scripted, **more: object) -> AsyncGenerator[TestDaemon, None]:
    config = Config(
        models=ModelsSection(default="scripted/model"),
        providers={"scripted": ProviderSection(kind="scripted", models={"model": ModelSection(images=True)})},
        plugins=PluginsSection(
            settings={"telegram": {"base_url": server.base_url, "base_file_url": server.base_file_url, **more}}
        ),
    )
    async with open_daemon(tmp, model, location=str(tmp / "house.db"), config=config, work=False) as house:
        await house.store.secrets.put("telegram", OWNER, house.daemon.vault.seal(server.token))
        await house.store.people.link("telegram:5", OWNER)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(house.daemon.work)
            yield house
            nursery.cancel_scope.cancel()


@pytest.fixture
def locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path


async def test_a_person_is_answered_and_a_stranger_shown_a_code(locks: Path) -> None:
    model = Scripted()
    async with FakeTelegram.serve() as server, daemon(locks, server, model) as house:
        model.enqueue(say("Hello **Ann**"))
        server.say(5, 5, "hi")
        await until(lambda: server.sent(5))
        assert server.sent(5)[0].text == "Hello Ann"
        assert model.history[-1].messages[-1].text.endswith("hi")
        server.say(6, 6, "let me in")
        await until(lambda: server.sent(6))
        assert "-" in server.sent(6)[0].text
        assert len(model.history) == 1
        assert any(event["connector"] == "telegram" for event in house.events() if "connector" in event)


async def test_an_agent_reacts_to_the_message_it_answers(locks: Path) -> None:
    model = Scripted()
    async with FakeTelegram.serve() as server, daemon(locks, server, model) as house:
        server.fault("setMessageReaction", lost(), chat=5)
        model.enqueue(call(("react", {"emoji": "👍"})), say(""), say("two"))
        asked = server.say(5, 5, "I will bring the milk")
        await until(lambda: server.reactions)
        server.say(5, 5, "and now?")
        await until(lambda: server.sent(5), 20)
        await _delivered(house)
        assert {(it.chat_id, it.message_id, *it.emoji) for it in server.reactions} == {(5, asked.id, "👍")}
        assert [message.text for message in server.sent(5)] == ["two"], "a reaction may stand for the words"
        assert len(model.history) == 3


async def test_a_reaction_that_telegram_refuses_is_told_to_the_agent_only(locks: Path) -> None:
    model = Scripted()
    async with FakeTelegram.serve() as server, daemon(locks, server, model) as house:
        model.enqueue(call(("react", {"emoji": "🧦"})), say("noted"), say("sorry"))
        server.say(5, 5, "socks")
        await until(lambda: server.sent(5))
        await _delivered(house)
        server.say(5, 5, "did you like them?")
        await until(lambda: len(server.sent(5)) == 2)
        assert not server.reactions
        assert "Your reaction 🧦 did not arrive" in str(model.history[-1].messages)


async def test_who_only_reads_at_the_terminal_is_offered_no_reactions(locks: Path) -> None:
    model = Scripted()
    async with FakeTelegram.serve() as server, daemon(locks, server, model) as house:
        model.enqueue(say("one"), say("two"))
        server.say(5, 5, "hi")
        await until(lambda: server.sent(5))
        await house.talk("hi")
        over_telegram, at_the_terminal = ({tool.name for tool in it.tools} for it in model.history)
    assert over_telegram - at_the_terminal == {"react"}


async def test_the_button_of_a_draft_stops_its_turn_once_and_no_other(locks: Path) -> None:
    model = Scripted()
    async with FakeTelegram.serve() as server, daemon(locks, server, model):
        begun = Message("assistant", (Text("It began long ago. " * 20), ToolCall("c1", "now", {})))
        model.enqueue(Completion(message=begun, finish="tools"), 600.0)
        server.say(5, 5, "tell me everything")
        await until(lambda: server.drafts and len(model.history) == 2)  # it waits within the second call
        draft = server.drafts[-1]
        server.stop(draft)
        await until(lambda: server.sent(5))
        assert [message.text for message in server.sent(5)] == ["Stopped."]
        model.enqueue(Completion(message=begun, finish="tools"), 2.0, say("all of it"))
        server.say(5, 5, "again")
        await until(lambda: server.drafts[-1].draft_id != draft.draft_id)
        server.stop(draft)  # known already
        server.stop(replace(draft, draft_id=draft.draft_id + 1000))
        await until(lambda: len(server.sent(5)) == 3)
        assert [it.text for it in server.sent(5)] == ["Stopped.", "all of it", "Nothing is running."]
        server.stop(server.drafts[-1])
        await until(lambda: len(server.sent(5)) == 4)
        assert server.sent(5)[-1].text == "Nothing is running."


async def _delivered(house: TestDaemon) -> None:
    with trio.fail_after(20):
        while await house.store.outbox.count():
            await trio.sleep(0.02)


async def test_the_owner_lets_a_stranger_in_by_a_button_of_the_notice(locks: Path) -> None:
    model = Scripted()
    async with FakeTelegram.serve() as server, daemon(locks, server, model) as house:
        model.enqueue(say("hello"), say("hello Eve"))
        server.say(5, 5, "hi")
        await until(lambda: server.sent(5))
        server.say(6, 6, "let me in")
        await until(lambda: len(server.sent(5)) == 2)
        notice = server.sent(5)[-1]
        [let_in, refuse] = [button["callback_data"] for row in notice.keyboard for button in row]
        assert refuse == "/pair deny telegram:6"
        server.press(notice, let_in)
        await until(lambda: any("connected as" in message.text for message in server.sent(6)))
        server.say(6, 6, "hi")
        await until(lambda: any(message.text == "hello Eve" for message in server.sent(6)))
        assert await house.store.people.by_key("telegram:6") is not None


async def test_last_words_of_a_group_reach_the_prompt_as_data(locks: Path) -> None:
    model = Scripted()
    async with FakeTelegram.serve() as server, daemon(locks, server, model, group_context=5) as house:
        server.group(-100, "Friends")
        await house.store.people.add(User(id="friends", name="Friends", kind="group", keys=("telegram:-100",)))
        server.say(-100, 5, "tea is better")
        server.say(-100, 6, "no, coffee")
        server.say(-100, 5, "@fake_bot who is right?")
        await until(lambda: server.sent(-100))
    words = _shown(model.history[-1].messages[-1].parts)[1]
    assert len(model.history) == 1
    assert "tea is better" in words and words.index("no, coffee") < words.index("who is right?")
    assert "said in the group before" in words.partition("no, coffee")[0]


PNG = b"\x89PNG\r\n\x1a\n" + bytes(40)
JPEG = b"\xff\xd8\xff\xe0" + bytes(40)
PDF = b"%PDF-1.4\n1 0 obj <</Type /Catalog>> endobj\n%%EOF\n"


def _shown(parts: tuple[Part, ...]) -> tuple[list[bytes], str]:
    """Return the pictures of a prompt's message, and all its words."""
    return [part.data for part in parts if isinstance(part, Image)], Message("user", parts).text


@pytest.mark.parametrize(
    ("kind", "pictures", "words"),
    [
        ("photo", [JPEG], "look"),
        ("album", [JPEG, PNG], "look"),
        ("picture sent as a file", [PNG], "look"),
        ("text", [], fence("attached", "four words of text")),
        ("pdf", [], "not readable: "),
    ],
)
async def test_bytes_of_a_file_sent_over_telegram_reach_the_prompt(
    locks: Path, kind: str, pictures: list[bytes], words: str
) -> None:
    model = Scripted()
    async with FakeTelegram.serve() as server, daemon(locks, server, model):
        match kind:
            case "photo":
                server.photo(5, 5, JPEG, caption="look")
            case "album":
                server.album(5, 5, [("photo", JPEG), ("photo", PNG)], caption="look")
            case "picture sent as a file":
                server.document(5, 5, PNG, "p.png", mime="image/png", caption="look")
            case "text":
                server.document(5, 5, b"four words of text", "a.txt", mime="text/plain")
            case "pdf":
                server.document(5, 5, PDF, "a.pdf", mime="application/pdf")
        await until(lambda: server.sent(5))
        found, text = _shown(model.history[-1].messages[-1].parts)
    assert len(model.history) == 1
    assert found == pictures
    assert words in text


async def test_a_file_of_20_mb_is_read_in_portions(locks: Path) -> None:
    model = Scripted()
    data = (b"one line of a long story\n" * (DOWNLOAD_MAX_BYTES // 24))[: DOWNLOAD_MAX_BYTES - 7] + b"the end"
    async with FakeTelegram.serve() as server, daemon(locks, server, model):
        last = call(("read_result", {"file": 1, "offset": DOWNLOAD_MAX_BYTES - 7}))
        model.enqueue(last, lambda request: say(request.messages[-1].parts[0].text))  # type: ignore[union-attr]
        server.document(5, 5, data, "story.txt", mime="text/plain")
        await until(lambda: server.sent(5), 60)
        assert [message.text for message in server.sent(5)] == ["the end"]
        _, text = _shown(model.history[0].messages[-1].parts)
        assert f"[cut: {DOWNLOAD_MAX_BYTES} bytes in all; read on with read_result, file 1, from offset" in text
        assert len(text) < 2 * FILE_TEXT_MAX_BYTES


async def test_a_file_of_21_mb_is_told_to_its_sender_and_to_the_model(locks: Path) -> None:
    model = Scripted()
    async with FakeTelegram.serve() as server, daemon(locks, server, model):
        model.enqueue(say("Send me a part of it."))
        server.document(5, 5, bytes(21 * 1024 * 1024), "film.bin", mime="application/x", caption="look")
        await until(lambda: len(server.sent(5)) == 2)
        assert {message.text for message in server.sent(5)} == {
            'I cannot read "film.bin" (21 MB): I take files of up to 20 MB.',
            "Send me a part of it.",
        }
        _, text = _shown(model.history[-1].messages[-1].parts)
        assert '"film.bin", application/x, 22020096 bytes; not readable: it is larger than 20 MB]' in text
        assert "look" in text


async def test_a_429_and_a_lost_answer_lose_nothing(locks: Path) -> None:
    model = Scripted()
    async with FakeTelegram.serve() as server, daemon(locks, server, model):
        server.fault("sendMessage", flood(2), chat=5)
        model.enqueue(say("one"), say("two"))
        server.say(5, 5, "a")
        await until(lambda: server.sent(5), 20)
        server.fault("sendMessage", lost(), chat=5)
        server.say(5, 5, "b")
        await until(lambda: len(server.sent(5)) >= 3, 20)
    texts = [message.text for message in server.sent(5)]
    assert texts[:2] == ["one", "two"]
    assert texts[2] == "(this may be a duplicate)\ntwo"
    assert not server.impatient


async def test_over_kills_each_message_is_answered_and_in_order(locks: Path) -> None:
    """One kill fewer than a turn may be interrupted by, however slow the machine: more make it a dead letter."""
    chance = random.Random(7)
    async with FakeTelegram.serve() as server:
        for number in range(0, 8, 2):
            async with daemon(locks, server, Scripted(_echo)):
                for each in (number, number + 1):
                    server.say(5, 5, f"m{each}")
                    await trio.sleep(chance.uniform(0.0, 0.2))
        async with daemon(locks, server, Scripted(_echo)):
            await until(lambda: "m7" in _said(server), 20)
    said = _said(server)
    assert [said.index(f"m{number}") for number in range(8)] == sorted(said.index(f"m{n}") for n in range(8))


def _echo(request: InferRequest) -> Completion:
    """Answer with the words of all that this turn is about."""
    texts: list[str] = []
    for message in request.messages:
        texts = [*texts, message.text] if message.role == "user" else []
    return say(" ".join(re.findall(r"m\d", " ".join(texts))))


def _said(server: FakeTelegram) -> str:
    return " ".join(message.text for message in server.sent(5))
