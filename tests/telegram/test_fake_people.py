"""What people do becomes updates that the real client's types read, with every field."""

from typing import Any

import msgspec
import telegram

from daycare_plugins.telegram.testing.server import FakeTelegram
from tests.telegram.fake_client import call, done

OGG = b"OggS" + bytes(50)


def read(server: FakeTelegram) -> list[telegram.Update]:
    """Return all updates that wait, each read by the real client's types, and compare what it read."""
    updates = []
    for waiting in server.queue.head(1000):
        wire = msgspec.json.decode(waiting.raw)
        update = telegram.Update.de_json(wire, None)
        assert _lacks(wire, update.to_dict()) == []
        updates.append(update)
    return updates


def _lacks(wire: Any, read: Any, path: str = "") -> list[str]:
    """Return the fields of the wire that did not arrive in what was read."""
    if isinstance(wire, dict):
        assert isinstance(read, dict), path
        return [lack for name in wire for lack in _lacks(wire[name], read.get(name), f"{path}.{name}")]
    if wire == [] and read is None:
        return []
    if isinstance(wire, list):
        same = isinstance(read, list | tuple) and len(wire) == len(read)
        return (
            [lack for one, other in zip(wire, read, strict=True) for lack in _lacks(one, other, path)]
            if same
            else [path]
        )
    return [] if wire == read else [f"{path}: {wire!r} is not {read!r}"]


def read_one(server: FakeTelegram) -> telegram.Message:
    """Return the message of the newest update."""
    update = read(server)[-1]
    message = update.message or update.edited_message
    assert message is not None
    return message


async def test_every_kind_of_message_is_read_by_the_real_client() -> None:
    server = FakeTelegram()
    ann = server.person(5, first_name="Ann", last_name="Lee", username="ann", language_code="de")
    sent = [
        server.say(ann, ann, "text"),
        server.photo(ann, ann, b"\xff\xd8\xff", caption="#photo"),
        server.document(ann, ann, b"a,b", "t.csv", mime="text/csv", caption="doc"),
        server.voice(ann, ann, OGG, duration=7),
        server.audio(ann, ann, b"ID3"),
        server.video(ann, ann, b"mp4", caption="v"),
        server.video_note(ann, ann, b"mp4"),
        server.animation(ann, ann, b"mp4"),
        server.sticker(ann, ann, "🎉"),
        server.location(ann, ann, 1.5, 2.5),
        server.contact(ann, ann, "+49", "Bob"),
        server.poll(ann, ann, "Tea?", ["yes", "no"]),
        server.post(ann, ann, {"dice": {"emoji": "🎲", "value": 6}}),
        server.post(
            ann, ann, {"venue": {"location": {"latitude": 1.0, "longitude": 2.0}, "title": "x", "address": "y"}}
        ),
    ]
    assert len(read(server)) == len(sent) == len({message.id for message in sent})
    assert [message.kind for message in sent[:12]] == [
        *("text", "photo", "document", "voice", "audio", "video", "video_note", "animation", "sticker"),
        *("location", "contact", "poll"),
    ]
    voice = read(server)[3].message
    assert voice is not None and voice.voice is not None and voice.voice.to_dict()["duration"] == 7
    assert server.files[voice.voice.file_id].content == OGG


async def test_replies_quotes_and_forwards_keep_their_origin() -> None:
    server = FakeTelegram()
    ann, bob = server.person(5), server.person(6, first_name="Bob")
    first = server.say(ann, ann, "one two")
    server.say(ann, ann, "answer", reply_to=first, quote="two")
    message = read_one(server)
    assert message.reply_to_message is not None and message.quote is not None
    assert (message.reply_to_message.text, message.quote.text, message.quote.position) == ("one two", "two", 4)
    channel = server.group(-100900, "News")
    origins: list[Any] = [bob, "Somebody hidden", channel]
    kinds = []
    for origin in origins:
        server.say(ann, ann, "fwd", forward=origin)
        forwarded = read_one(server).forward_origin
        assert forwarded is not None
        kinds.append(forwarded.type)
    assert kinds == ["user", "hidden_user", "channel"]


async def test_edits_albums_and_reactions() -> None:
    server = FakeTelegram()
    server.queue.allow(["message", "edited_message", "message_reaction"])
    ann = server.person(5)
    said = server.say(ann, ann, "firts")
    server.edit(said, "first /now")
    message = read_one(server)
    assert message.text == "first /now" and message.edit_date is not None and message.entities
    assert said.edits == ["firts"] and said.text == "first /now"
    album = server.album(ann, ann, [b"\xff\xd8\xff1", ("video", b"mp4"), ("document", b"d")], "all", reply_to=said)
    assert len({note.wire["media_group_id"] for note in album}) == 1
    assert [note.text for note in album] == ["all", "", ""] and [note.reply_to for note in album] == [said.id] * 3
    other = server.album(ann, ann, [b"\xff\xd8\xff1", b"\xff\xd8\xff2"])
    assert other[0].wire["media_group_id"] != album[0].wire["media_group_id"]
    server.react(said, ann, "👍")
    assert read(server)[-1].message_reaction is not None


async def test_a_pressed_button_is_a_callback_query() -> None:
    async with FakeTelegram.serve() as server:
        server.person(5)
        keyboard = {"inline_keyboard": [[{"text": "Try again", "callback_data": "retry:1"}]]}
        await done(server, "sendMessage", chat_id=5, text="Oops", reply_markup=keyboard)
        number = server.press(server.sent(5)[0], "retry:1")
        query = read(server)[-1].callback_query
        assert query is not None and isinstance(query.message, telegram.Message)
        assert (query.id, query.data, query.from_user.id, query.message.text) == (number, "retry:1", 5, "Oops")
        await done(server, "deleteMessage", chat_id=5, message_id=query.message.message_id)
        server.press(server.messages(5)[0], "retry:1")
        wire = msgspec.json.decode(server.queue.head(9)[-1].raw)["callback_query"]["message"]
        assert wire == {"chat": server.chats[5].wire, "message_id": query.message.message_id, "date": 0}


async def test_the_bots_standing_is_told_as_my_chat_member() -> None:
    server = FakeTelegram()
    ann, group = server.person(5), server.group(-100200, "Team")
    for chat, status in (
        *((ann, "kicked"), (ann, "member"), (group, "administrator"), (group, "restricted")),
        *((group, "left"), (group, "member"), (group, "kicked")),
    ):
        server.membership(chat, status, by=ann)  # type: ignore[arg-type]
        told = read(server)[-1].my_chat_member
        assert told is not None and told.new_chat_member.status == status and told.from_user.id == 5
    before = len(server.queue)
    server.say(group, ann, "the bot is not there")
    assert len(server.queue) == before


async def test_a_group_that_becomes_a_supergroup_tells_both_ids() -> None:
    server = FakeTelegram()
    group = server.group(-300, "Team", kind="group")
    server.say(group, 5, "before")
    new = server.migrate(group, by=5)
    server.say(new, 5, "after")
    told = [update.message for update in read(server)]
    assert [message and message.chat.id for message in told] == [-300, -300, new.id, new.id]
    assert told[1] and told[1].migrate_to_chat_id == new.id
    assert told[2] and told[2].migrate_from_chat_id == -300


async def test_topics_and_threads_look_like_the_real_ones() -> None:
    server = FakeTelegram()
    forum, plain = server.group(-100300, forum=True), server.group(-100200)
    thread = server.topic(forum, "Cooking", by=5)
    server.say(forum, 5, "general")
    server.say(forum, 5, "in the topic", thread=thread)
    created, general, inside = (update.message for update in read(server))
    assert created and created.forum_topic_created and created.message_thread_id == thread
    assert general and general.message_thread_id is None and general.chat.is_forum
    assert inside and inside.is_topic_message and inside.reply_to_message
    assert inside.reply_to_message.forum_topic_created == created.forum_topic_created
    answer = server.say(forum, 6, "there, too", reply_to=inside.message_id)
    assert answer.thread_id == thread and read_one(server).is_topic_message
    first = server.say(plain, 5, "a")
    second = server.say(plain, 6, "b", reply_to=first)
    third = server.say(plain, 5, "c", reply_to=second)
    assert [first.thread_id, second.thread_id, third.thread_id] == [None, first.id, first.id]
    assert not read_one(server).is_topic_message


async def test_privacy_mode_tells_only_what_is_for_the_bot() -> None:
    async with FakeTelegram.serve() as server:
        group = server.group(-100200)
        server.privacy = True
        mine = await done(server, "sendMessage", chat_id=group.id, text="I am here")
        for text in ("hello all", "/help", "what do you say, @fake_bot?"):
            server.say(group, 5, text)
        server.say(group, 5, "thanks", reply_to=mine["message_id"])
        got = [update.message and update.message.text for update in read(server)]
        assert got == ["/help", "what do you say, @fake_bot?", "thanks"]


async def test_the_wall_clock_is_the_one_that_is_given() -> None:
    server = FakeTelegram(clock=lambda: 1_800_000_000.9)
    assert server.say(5, 5, "hi").wire["date"] == 1_800_000_000
    assert server.people[5].first_name == "User 5"


async def test_what_methods_return_is_read_by_the_real_client() -> None:
    async with FakeTelegram.serve() as server:
        ann, group = server.person(5), server.group(-100200, "Team", username="team")
        said = server.say(ann, ann, "hi")
        keyboard = {"inline_keyboard": [[{"text": "a", "callback_data": "b"}, {"text": "u", "url": "https://x.y"}]]}
        results = [
            await done(
                server,
                "sendMessage",
                chat_id=5,
                text="<b>x</b>",
                parse_mode="HTML",
                reply_markup=keyboard,
                reply_parameters={"message_id": said.id, "quote": "h"},
                message_effect_id="1",
            ),
            await done(server, "sendMessage", chat_id="@team", text="x"),
            await done(server, "editMessageText", chat_id=5, message_id=said.id + 1, text="y"),
        ]
        for wire in results:
            assert _lacks(wire, telegram.Message.de_json(wire, None).to_dict()) == []
        for chat in (5, group.id):
            wire = await done(server, "getChat", chat_id=chat)
            assert _lacks(wire, telegram.ChatFullInfo.de_json(wire, None).to_dict()) == []
        wire = await done(server, "getMe")
        assert _lacks(wire, telegram.User.de_json(wire, None).to_dict()) == []
        assert (await call(server, "getUpdates", offset=-1))["result"][0]["message"]["text"] == "hi"
