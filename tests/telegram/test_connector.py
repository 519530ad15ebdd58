"""Sending: answers arrive whole, once, in the right place, and in the pace that Telegram wants."""

import sys
from collections.abc import AsyncGenerator
from types import ModuleType

import pytest
import trio
from trio.testing import MockClock

from daycare.base.connector import Attachment
from daycare.base.errors import AwayError, BusyError, ForbiddenError, InvalidError, NotFoundError, UnavailableError
from daycare.base.messages import Choice
from daycare.messenger.starting import START_MAX_S
from daycare.testing.memory_network import MemoryNetwork
from daycare_plugins.telegram import bot
from daycare_plugins.telegram import serving as _serving  # noqa: F401 -- imported before virtual time runs
from daycare_plugins.telegram.connector import FLOOD, TelegramConnector
from daycare_plugins.telegram.files import reference_of
from daycare_plugins.telegram.outgoing import DUPLICATE, caption
from daycare_plugins.telegram.settings import BotSettings
from daycare_plugins.telegram.testing.faults import TelegramFault, bad_gateway, flood, lost, refused
from daycare_plugins.telegram.testing.limits import FloodLimits
from daycare_plugins.telegram.testing.server import FakeTelegram
from tests.telegram.bots import Host, bot_over, host, reply, send, until

__all__ = ["host"]

PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)
LONG = "\n\n".join(f"Paragraph {number}: " + "word " * 60 + "\U0001f600" for number in range(60))


class Stage:
    """A bot that is up, and its server."""

    def __init__(self, server: FakeTelegram, connector: TelegramConnector, host: Host) -> None:
        self.server = server
        self.connector = connector
        self.host = host


@pytest.fixture
async def stage(host: Host) -> AsyncGenerator[Stage, None]:
    server = FakeTelegram()
    server.person(5)
    server.group(-100, "Group")
    async with trio.open_nursery() as nursery:
        network = MemoryNetwork(server.serve_stream, nursery)
        async with bot_over(host, server, network) as task:
            await until(lambda: host.health.state == "up")
            yield Stage(server, task.connector.made(), host)
        nursery.cancel_scope.cancel()


# -- answers -----------------------------------------------------------------------------------------------------------


async def test_a_long_answer_arrives_whole_in_parts_that_are_the_same_each_time(
    stage: Stage, autojump_clock: MockClock
) -> None:
    outgoing = reply(LONG, reply_to="7", silent=True, choices=(Choice("More", "more"),))
    parts = stage.connector.split(outgoing)
    assert len(parts) > 3
    again = stage.connector.split(reply(LONG, reply_to="7", silent=True, maybe_duplicate=True))
    assert [part.text for part in again] == [part.text for part in parts]
    assert len({part.key for part in parts}) == len(parts)
    assert [bool(part.choices) for part in parts] == [False] * (len(parts) - 1) + [True]
    assert [bool(part.reply_to) for part in parts] == [True] + [False] * (len(parts) - 1)
    receipts = await send(stage.connector, outgoing)
    sent = stage.server.sent(5)
    assert receipts == [str(message.id) for message in sent]
    assert " ".join("\n".join(message.text for message in sent).split()) == " ".join(LONG.split())
    assert all(message.silent for message in sent)
    assert sent[-1].keyboard
    assert not sent[0].keyboard


@pytest.mark.parametrize("text", ["hello **you**", "", LONG, "x" * 5_000, "[a](https://a.example)" * 120])
async def test_a_part_that_may_have_arrived_says_so_and_still_fits(
    stage: Stage, autojump_clock: MockClock, text: str
) -> None:
    files = (Attachment(name="a.png", media_type="image/png", data=PNG),) if len(text) < 100 else ()
    for part in stage.connector.split(reply(text, files=files, maybe_duplicate=True)):
        await trio.sleep(stage.connector.delay_s("5"))
        await stage.connector.send(part)
    sent = stage.server.sent(5)
    assert all(message.text.startswith(DUPLICATE) for message in sent)
    assert not any(message.entities_dropped for message in sent)


async def test_an_answer_to_an_older_message_names_it(stage: Stage, autojump_clock: MockClock) -> None:
    server, connector = stage.server, stage.connector
    first = server.say(5, 5, "one")
    await until(lambda: stage.host.texts == ["one"])
    await send(connector, reply("to one", reply_to=str(first.id)))
    server.say(5, 5, "two")
    await until(lambda: len(stage.host.texts) == 2)
    await send(connector, reply("to one again", reply_to=str(first.id)))
    await send(connector, reply("to what is gone", reply_to="4711"))
    asked = server.say(-100, 5, "@fake_bot three")
    await until(lambda: len(stage.host.texts) == 3)
    await send(connector, reply("to three", "-100", reply_to=str(asked.id)))
    assert [message.reply_to for message in server.sent(5)] == [None, first.id, None]
    assert [message.reply_to for message in server.sent(-100)] == [asked.id]


async def test_files_go_as_what_they_are(stage: Stage, autojump_clock: MockClock) -> None:
    files = {
        "photo": Attachment(name="a.png", media_type="image/png", data=PNG),
        "voice": Attachment(name="a.ogg", media_type="audio/ogg", data=b"OggS" + bytes(50)),
        "audio": Attachment(name="a.mp3", media_type="audio/mpeg", data=b"ID3" + bytes(50)),
        "video": Attachment(name="a.mp4", media_type="video/mp4", data=bytes(50)),
        "document": Attachment(name="a.pdf", media_type="application/pdf", data=b"%PDF"),
    }
    for file in files.values():
        await send(stage.connector, reply("*look*", files=(file,)))
    await send(stage.connector, reply("words first", files=(files["photo"], files["document"])))
    sent = stage.server.sent(5)
    assert [message.kind for message in sent] == [*files, "text", "photo", "document"]
    assert [message.text for message in sent] == ["look"] * 5 + ["words first", "", ""]
    stage.server.fault("sendPhoto", refused(400, "Bad Request: PHOTO_INVALID_DIMENSIONS"))
    await send(stage.connector, reply("odd", files=(files["photo"],)))
    assert stage.server.sent(5)[-1].kind == "document"
    fetched = await stage.connector.fetch(reference_of(stage.server.sent(5)[-1].wire["document"]["file_id"]), 1_000)
    assert fetched == PNG


async def test_several_files_of_a_reply_go_as_albums_in_their_order(stage: Stage, autojump_clock: MockClock) -> None:
    photos = tuple(Attachment(name=f"{n}.jpg", media_type="image/jpeg", data=PNG + bytes([n])) for n in range(12))
    notes = tuple(Attachment(name=f"{n}.md", media_type="text/markdown", data=b"# x") for n in range(2))
    await send(stage.connector, reply("*look*", files=photos[:3]))
    sent = stage.server.sent(5)
    assert [message.kind for message in sent] == ["photo"] * 3
    assert [message.text for message in sent] == ["look", "", ""]
    assert len({message.wire["media_group_id"] for message in sent}) == 1
    assert len(stage.connector.split(reply("*look*", files=photos[:3]))) == 1, (
        "one call, so that a retry is all or none"
    )
    many = stage.connector.split(reply("look", files=(*photos, *notes)))
    assert [[file.name for file in part.files] for part in many] == [
        [],
        [file.name for file in photos[:10]],
        ["10.jpg", "11.jpg"],
        ["0.md", "1.md"],
    ]
    asked = stage.connector.split(reply("which?", files=photos[:3], choices=(Choice("this", "this"),)))
    assert [len(part.files) for part in asked] == [0, 2, 1]
    assert [bool(part.choices) for part in asked] == [False, False, True]


async def test_an_album_with_a_refused_picture_goes_as_files_and_a_repeat_says_so(
    stage: Stage, autojump_clock: MockClock
) -> None:
    photos = tuple(Attachment(name=f"{n}.jpg", media_type="image/jpeg", data=PNG + bytes([n])) for n in range(2))
    stage.server.fault("sendMediaGroup", refused(400, "Bad Request: PHOTO_INVALID_DIMENSIONS"), chat=5)
    await send(stage.connector, reply("look", files=photos, maybe_duplicate=True))
    sent = stage.server.sent(5)
    assert [message.kind for message in sent] == ["document", "document"]
    assert sent[0].text == "(this may be a duplicate)\nlook"


async def test_a_long_answer_can_come_as_a_file(stage: Stage, autojump_clock: MockClock) -> None:
    chosen = BotSettings(long_answers="file", file_over_chars=5_000)
    (part,) = TelegramConnector(stage.host, "telegram", chosen, "telegram").split(reply(LONG))
    await stage.connector.send(part)
    (sent,) = stage.server.sent(5)
    assert sent.wire["document"]["file_name"] == "answer.md"
    assert sent.text.startswith("Paragraph 0")
    assert await stage.connector.fetch(reference_of(sent.wire["document"]["file_id"]), 100_000) == LONG.encode()


async def test_topics_effects_and_groups(stage: Stage, autojump_clock: MockClock) -> None:
    server = stage.server
    server.group(-200, "Forum", forum=True)
    topic = server.topic(-200, "Garden", by=5)
    await send(stage.connector, reply("here", f"-200:{topic}", effect="5104841245755180586"))
    assert server.sent(-200)[-1].thread_id == topic
    assert server.sent(-200)[-1].effect_id is None
    await send(stage.connector, reply("boom", effect="5104841245755180586"))
    server.fault("sendMessage", refused(400, "Bad Request: EFFECT_ID_INVALID"))
    await send(stage.connector, reply("none such", effect="1"))
    assert [message.effect_id for message in server.sent(5)] == ["5104841245755180586", None]


# -- when it goes wrong ------------------------------------------------------------------------------------------------


async def test_refused_markup_is_sent_as_readable_text(stage: Stage, autojump_clock: MockClock) -> None:
    stage.server.fault("sendMessage", refused(400, "Bad Request: can't parse entities: unsupported"))
    await send(stage.connector, reply("See **the** [page](https://a.example/x)."))
    (sent,) = stage.server.sent(5)
    assert sent.text == "See the page (https://a.example/x)."


@pytest.mark.parametrize(
    ("fault", "kind", "code"),
    [
        (bad_gateway(), UnavailableError, "TELEGRAM_DOWN"),
        (lost(), UnavailableError, "TELEGRAM_LOST"),
        (TelegramFault(stall="after"), UnavailableError, "TELEGRAM_TIMEOUT"),
        (refused(401, "Unauthorized"), AwayError, "NOT_SENT"),
        (refused(403, "Forbidden: bot was blocked by the user"), ForbiddenError, "RECIPIENT_GONE"),
        (refused(400, "Bad Request: chat not found"), NotFoundError, "CHAT_GONE"),
    ],
)
async def test_errors_say_what_can_be_done(
    stage: Stage, autojump_clock: MockClock, fault: TelegramFault, kind: type[Exception], code: str
) -> None:
    stage.server.fault("sendMessage", fault)
    with pytest.raises(kind) as caught:
        await send(stage.connector, reply("hi"))
    assert caught.value.code == code  # type: ignore[attr-defined]
    assert type(caught.value) is kind
    assert stage.server.token not in str(caught.value)


async def test_what_cannot_be_sent_is_refused_here(stage: Stage, autojump_clock: MockClock) -> None:
    for outgoing, code in ((reply(" \n"), "MESSAGE_EMPTY"), (reply("hi", "ann"), "TELEGRAM_TARGET")):
        with pytest.raises(InvalidError) as caught:
            await send(stage.connector, outgoing)
        assert caught.value.code == code
    assert not stage.server.called("sendMessage")


async def test_without_a_token_answers_wait(host: Host) -> None:
    connector = TelegramConnector(host, "telegram", BotSettings(), "telegram")
    with pytest.raises(AwayError):
        await send(connector, reply("hi"))
    assert connector.capabilities("5").drafts
    assert not connector.capabilities("-5:7").drafts
    assert connector.identity() is None


async def test_an_answer_to_a_group_that_moved_is_asked_for_again(stage: Stage, autojump_clock: MockClock) -> None:
    server = stage.server
    group = server.group(-77, "Old", kind="group")
    new = server.migrate(group)
    with pytest.raises(BusyError) as caught:
        await send(stage.connector, reply("hi", "-77"))
    assert caught.value.code == "CHAT_MIGRATED"
    assert ("telegram:-77", f"telegram:{new.id}") in stage.host.moves
    await send(stage.connector, reply("hi", str(new.id)))


async def test_a_file_of_a_bot_that_starts_is_fetched_once_it_is_up(
    host: Host, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A turn that goes on after a restart reads its files before the client is imported."""
    server, imported = FakeTelegram(), trio.Event()

    async def slowly(name: str, *_others: str) -> ModuleType:
        await imported.wait()
        return sys.modules[name]

    monkeypatch.setattr(bot, "imported", slowly)
    message = server.document(server.person(5), server.person(5), PNG, "p.png")
    reference = reference_of(message.wire["document"]["file_id"])
    fetched: list[bytes] = []
    async with trio.open_nursery() as nursery:
        async with bot_over(host, server, MemoryNetwork(server.serve_stream, nursery)) as task:
            async with trio.open_nursery() as reading:

                async def read() -> None:
                    fetched.append(await task.connector.fetch(reference, 1_000))

                reading.start_soon(read)
                await trio.sleep(START_MAX_S / 2)
                assert not fetched
                imported.set()
            assert fetched == [PNG]
        nursery.cancel_scope.cancel()


# -- pace --------------------------------------------------------------------------------------------------------------


async def test_a_429_is_obeyed_also_by_the_next_process(stage: Stage, autojump_clock: MockClock) -> None:
    stage.server.fault("sendMessage", flood(30))
    with pytest.raises(BusyError) as caught:
        await stage.connector.send(reply("**hi**"))
    assert caught.value.retry_after_s == 30
    assert 29 < stage.connector.delay_s("5") <= 30
    assert stage.host.values["telegram", FLOOD]
    next_one = TelegramConnector(stage.host, "telegram", BotSettings(), "telegram")
    await next_one.open(stage.connector._slot.get())
    assert 29 < next_one.delay_s("5") <= 30.01
    await trio.sleep(next_one.delay_s("5"))
    await next_one.send(reply("**hi**"))
    assert stage.server.sent(5)[0].entities
    assert not stage.server.impatient


async def test_four_hundred_answers_to_fifty_chats_under_limits_all_arrive(
    stage: Stage, autojump_clock: MockClock
) -> None:
    server, connector = stage.server, stage.connector
    server.limits = FloodLimits()
    for chat in range(1_000, 1_050):
        server.person(chat)
        server.fault("sendMessage", flood(7), chat=chat)

    async def chat_with(chat: int) -> None:
        for number in range(8):
            try:
                await connector.status(str(chat), f"working on {number}")
            except BusyError:
                pass
            while True:
                await trio.sleep(connector.delay_s(str(chat)))
                try:
                    await connector.send(reply(f"answer {number}", str(chat)))
                    break
                except BusyError as busy:
                    await trio.sleep(busy.retry_after_s or 0.0)

    async with trio.open_nursery() as nursery:
        for chat in range(1_000, 1_050):
            nursery.start_soon(chat_with, chat)
    for chat in range(1_000, 1_050):
        texts = [message.text for message in server.sent(chat) if message.text.startswith("answer")]
        assert texts == [f"answer {number}" for number in range(8)]
    assert not server.impatient


# -- what may be left out ----------------------------------------------------------------------------------------------


async def test_status_lines_edits_and_reactions(stage: Stage, autojump_clock: MockClock) -> None:
    server, connector = stage.server, stage.connector
    asked = server.say(5, 5, "hi")
    receipt = await connector.status("5", "looking ...")
    assert server.sent(5)[0].silent
    await trio.sleep(5)
    await connector.edit("5", receipt, "looking **harder**")
    await trio.sleep(5)
    await connector.edit("5", receipt, "looking **harder**")
    assert server.sent(5)[0].text == "looking harder"
    await connector.react("5", str(asked.id), "\U0001f440")
    await connector.react("5", str(asked.id), "")
    assert [each.emoji for each in server.reactions] == [["\U0001f440"], []]
    await connector.act("5", "typing")
    assert server.actions[-1].action == "typing"
    await connector.withdraw("5", receipt)
    await connector.withdraw("5", receipt)
    assert not server.sent(5)
    await trio.sleep(5)
    with pytest.raises(NotFoundError):
        await connector.edit("5", receipt, "more")


async def test_typing_shows_at_once_whatever_the_pace_of_messages(stage: Stage, autojump_clock: MockClock) -> None:
    server, connector = stage.server, stage.connector
    for number in range(6):
        await send(connector, reply(f"{number}"))
    assert connector.delay_s("5") > 0
    await connector.act("5", "typing")
    assert len(server.actions) == 1
    server.fault("sendMessage", flood(30))
    await trio.sleep(5)
    with pytest.raises(BusyError):
        await connector.send(reply("one too many"))
    with pytest.raises(BusyError) as caught:
        await connector.act("5", "typing")
    assert (caught.value.retry_after_s or 0) > 29, "a cool-down is of all calls"


async def test_a_growing_answer_shows_its_end(stage: Stage, autojump_clock: MockClock) -> None:
    server, connector = stage.server, stage.connector
    code = "Look:\n\n```python\n" + "\n".join(f"line_{number} = {number}" for number in range(2_000))
    for text in ("", "Hel", "Hello **wor", code):
        await trio.sleep(5)
        await connector.draft("5", 7, text)
    assert [draft.text for draft in server.drafts][:2] == ["Hel", "Hello **wor"]
    last = server.drafts[-1]
    assert (last.draft_id, last.can_stop) == (7, True)
    assert last.text.endswith("line_1999 = 1999")
    assert last.entities[-1]["type"] == "pre"
    with pytest.raises(InvalidError):
        await connector.draft("-100", 7, "hi")


async def test_what_may_be_left_out_never_waits(stage: Stage, autojump_clock: MockClock) -> None:
    connector = stage.connector
    start = trio.current_time()
    with pytest.raises(BusyError) as caught:
        for number in range(20):
            await connector.status("-100", f"{number}")
    assert caught.value.retry_after_s
    assert trio.current_time() == start
    assert connector.delay_s("-100") == 0, "an answer still has room"


@pytest.mark.parametrize("text", ["", " \n", "# \n\n######\t   ", "<!-- -->"])
def test_what_shows_nothing_is_an_empty_caption(text: str) -> None:
    assert caption(text) == {"caption": ""}
