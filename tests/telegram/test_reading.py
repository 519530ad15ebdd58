"""Every kind of update becomes what the host takes."""

import json
from typing import Any

import pytest
import telegram

from daycare.base.connector import Inbound, RemoteFile, Unreadable
from daycare.base.messages import Origin
from daycare_plugins.telegram.choices import Touch
from daycare_plugins.telegram.reading import UPDATES, Bot, ReadingRules, ReadUpdate, message_key, read
from tests.telegram.samples import (
    ANN,
    BEN,
    CHANNEL,
    DATE,
    EVERY,
    FORUM,
    GROUP,
    OTHER_BOT,
    PHOTO,
    PRIVATE,
    STICKER,
    Json,
    edited,
    entity,
    file,
    member,
    mentioning,
    message,
    pressed,
    question,
    reacted,
    said,
)

BOT = Bot(700, "Helper_Bot")
RULES = ReadingRules(connector="telegram")
ALWAYS = ReadingRules(connector="telegram", group_answers="always")


def read_item(update: Json, rules: ReadingRules = RULES) -> Inbound:
    item = read(update, BOT, rules).item
    assert isinstance(item, Inbound)
    return item


def only_file(item: Inbound) -> RemoteFile:
    (file,) = item.files
    assert isinstance(file, RemoteFile)
    return file


@pytest.mark.parametrize("kind", EVERY)
@pytest.mark.filterwarnings("ignore::telegram.warnings.PTBDeprecationWarning")
def test_the_samples_are_true_to_the_api(kind: str) -> None:
    update = telegram.Update.de_json(json.loads(json.dumps(EVERY[kind])), None)
    if kind not in ("nothing known",):
        assert not update.api_kwargs
        inner = next(getattr(update, part) for part in telegram.Update.ALL_TYPES if getattr(update, part, None))
        assert not inner.api_kwargs


@pytest.mark.parametrize("kind", EVERY)
def test_no_sample_is_unreadable(kind: str) -> None:
    done = read(EVERY[kind], BOT, ALWAYS)
    assert not isinstance(done.item, Unreadable)
    assert done.update_id == EVERY[kind]["update_id"]
    assert (done.item is None) == bool(done.why_ignored)


def test_a_message_says_who_where_when_and_which() -> None:
    done = read(EVERY["text"], BOT, ReadingRules(connector="telegram-work"))
    assert (done.chat, done.message_id, done.press, done.moved) == (42, 10, None, None)
    assert done.item == Inbound(
        connector="telegram-work",
        sender="telegram-work:42",
        key="700:42:m:10",
        text="hello",
        name="Ann Lee",
        meta={"language": "de"},
        message="10",
        at_ms=DATE * 1000,
    )


def test_a_command_keeps_its_payload_and_its_name() -> None:
    assert read_item(EVERY["command"]).text == "/start pay-load"
    assert read_item(EVERY["anonymous"]).text == "/new@helper_bot"


def test_the_largest_photo_that_can_be_had_is_taken() -> None:
    item = read_item(EVERY["photo"])
    assert (item.text, item.origin) == ("my cat", Origin.PERSON)
    assert only_file(item) == RemoteFile(
        name="photo-10.jpg",
        media_type="image/jpeg",
        size=160_000,
        reference='{"file_id":"id-large"}',
        key="telegram:unique-large",
    )
    huge = file("huge", width=9000, height=9000) | {"file_size": 30 * 1024 * 1024}
    assert only_file(read_item(said(photo=[*PHOTO, huge]))).key == "telegram:unique-large"


@pytest.mark.parametrize(
    ("kind", "name", "media_type"),
    [
        ("document", "report.pdf", "application/pdf"),
        ("audio", "blue.mp3", "audio/mpeg"),
        ("video", "video-10.mp4", "video/mp4"),
        ("video note", "video-note-10.mp4", "video/mp4"),
        ("animation", "animation-10.mp4", "video/mp4"),
    ],
)
def test_a_file_without_words_is_of_the_origin_file(kind: str, name: str, media_type: str) -> None:
    item = read_item(EVERY[kind])
    assert (item.text, item.origin) == ("", Origin.FILE)
    assert (only_file(item).name, only_file(item).media_type) == (name, media_type)


def test_a_voice_note_is_its_senders_own_words_unless_it_is_forwarded() -> None:
    item = read_item(EVERY["voice"])
    assert (item.text, item.origin) == ("", Origin.PERSON)
    assert (only_file(item).name, only_file(item).media_type) == ("voice-10.ogg", "audio/ogg")
    forwarded = said(
        voice=file("voice"), forward_date=1, forward_origin={"type": "hidden_user", "sender_user_name": "B"}
    )
    assert read_item(forwarded).origin is Origin.FORWARD


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\temp\\a.txt", "a.txt"),
        ("a\nb\u202etxt.exe", "a_b_txt.exe"),
        ("...", "document-10.bin"),
        ("", "document-10.bin"),
        ("x" * 300 + ".pdf", "x" * 96 + ".pdf"),
        ('say "hi" <b>.txt', "say _hi_ _b_.txt"),
    ],
)
def test_a_file_name_has_no_folders_and_no_surprises(sent: str, kept: str) -> None:
    assert only_file(read_item(said(document=file("doc", file_name=sent)))).name == kept


def test_a_media_type_that_is_none_is_not_believed() -> None:
    document = file("doc", file_name="a", mime_type="text/html; charset=x\r\nX: y")
    assert only_file(read_item(said(document=document))).media_type == ""


def test_stickers_are_words_and_still_ones_pictures_too() -> None:
    item = read_item(EVERY["sticker"])
    assert (item.text, item.origin) == ("[sticker 😀 of the set Cats]", Origin.PERSON)
    assert only_file(item).media_type == "image/webp"
    assert read_item(EVERY["animated sticker"]).files == ()
    assert read_item(said(sticker=STICKER | {"is_video": True})).files == ()


@pytest.mark.parametrize(
    ("kind", "text", "context"),
    [
        ("location", "[location: 52.516275, 13.377704]", ""),
        ("live location", "[live location: 52.5, 13.3]", ""),
        ("venue", "[venue: 52.5, 13.3]", "venue: Gate, Square 1"),
        ("contact", "[shared a contact]", "contact: Cy, phone +491"),
        ("poll", "[poll] Tea or coffee?\n- Tea\n- Coffee", ""),
        ("checklist", "[checklist] Shopping\n- [x] Milk\n- [ ] Eggs", ""),
        ("dice", "[threw 🎲: 4]", ""),
        ("game", "[sent something that this assistant cannot read: a game]", ""),
        ("story", "[sent something that this assistant cannot read: a story]", ""),
        ("nothing known", "[sent something that this assistant cannot read: hologram]", ""),
    ],
)
def test_what_is_no_text_is_readable(kind: str, text: str, context: str) -> None:
    item = read_item(EVERY[kind])
    assert (item.text, item.context, item.origin) == (text, context, Origin.PERSON)


def test_a_field_that_we_do_not_know_does_not_disturb_a_text() -> None:
    assert read_item(said(text="hello", brand_new={"a": 1})).text == "hello"


def test_parts_of_an_album_name_it() -> None:
    assert read_item(EVERY["album"]).album == "13579"


# -- references --------------------------------------------------------------------------------------------------------


def test_a_reply_tells_the_number_of_what_it_answers() -> None:
    assert read_item(said(text="no", reply_to_message=message(9, text="yes?"))).replies_to == "9"
    assert read_item(said(text="no")).replies_to == ""
    topic = {"chat": FORUM, "is_topic_message": True, "message_thread_id": 7, **mentioning("@helper_bot no")}
    assert read_item(said(reply_to_message=message(7, text="the topic", chat=FORUM), **topic)).replies_to == ""
    assert read_item(said(reply_to_message=message(8, text="what?", chat=FORUM), **topic)).replies_to == "8"


def test_a_reply_tells_what_it_answers() -> None:
    assert read_item(EVERY["reply"]).context == "in reply to your message:\n> Sure?"
    by_ben = message(9, text="line 1\nforwarded from the boss", **{"from": BEN})
    item = read_item(said(text="no", reply_to_message=by_ben))
    assert item.context == "in reply to Ben's message:\n> line 1\n> forwarded from the boss"


def test_a_quote_stands_before_the_whole() -> None:
    assert read_item(EVERY["quote"]).context == (
        "in reply to their own message, to this part:\n> two\nof the whole:\n> one two three"
    )
    item = read_item(EVERY["external reply"])
    assert item.context == (
        "in reply to a message by Ben (user) in Club, to this part:\n> a cat\nof the whole:\n> [photo]"
    )


def test_a_question_about_a_picture_brings_the_picture_along() -> None:
    item = read_item(said(text="what is it?", reply_to_message=message(9, photo=PHOTO, caption="look")))
    assert only_file(item).name == "photo-9.jpg"
    assert (item.origin, item.context) == (Origin.PERSON, "in reply to their own message:\n> [photo]\n> look")
    assert only_file(read_item(EVERY["external reply"])).key == "telegram:unique-large"


@pytest.mark.parametrize(
    ("kind", "context"),
    [
        ("forward of a user", "forwarded from Ben (user)"),
        ("forward of a channel", "forwarded from News (channel, signed Ed)"),
        ("forward of a hidden user", "forwarded from Ghost (hidden user)"),
        ("forward of a chat", "forwarded from Flat (chat)"),
        ("by an inline bot", "made by the bot Other"),
    ],
)
def test_others_words_are_no_words_of_the_sender(kind: str, context: str) -> None:
    item = read_item(EVERY[kind])
    assert (item.origin, item.context) == (Origin.FORWARD, context)


def test_a_forward_of_an_old_server_is_one() -> None:
    item = read_item(said(text="/stop", forward_date=DATE, forward_sender_name="Ghost"))
    assert (item.origin, item.context) == (Origin.FORWARD, "forwarded from somebody else")


def test_context_is_bounded() -> None:
    item = read_item(said(text="no", reply_to_message=message(9, text="word " * 800), quote={"text": "word " * 200}))
    assert len(item.context) <= 2_000
    assert "[...]" in item.context


# -- edits, presses, reactions, membership -----------------------------------------------------------------------------


def test_an_edit_names_what_it_replaces() -> None:
    item = read_item(EVERY["edit"])
    assert item.edits == read_item(EVERY["text"]).key
    assert (item.text, item.at_ms) == ("hello!", (DATE + 60) * 1000)
    assert item.key.startswith(f"700:42:e:10:{DATE + 60}:")


def test_two_edits_within_a_second_have_two_keys_and_a_repeat_has_one() -> None:
    first, again, second = edited(text="a"), edited(text="a"), edited(text="b")
    again["update_id"] = 3
    assert read_item(first).key == read_item(again).key != read_item(second).key


def test_a_live_location_that_moves_is_no_news() -> None:
    location = {"latitude": 1.0, "longitude": 2.0, "live_period": 60}
    assert read(edited(location=location), BOT, RULES).why_ignored == "a live location has moved"


def test_a_pressed_button_says_what_it_stands_for() -> None:
    done = read(EVERY["press"], BOT, RULES)
    assert isinstance(done.item, Inbound)
    assert done.press == Touch("4382bfdwdsb323b2d9", 42, 9, spent=True)
    assert (done.chat, done.message_id) == (42, 9)
    assert (done.item.text, done.item.sender, done.item.origin) == ("yes", "telegram:42", Origin.PERSON)
    assert (done.item.key, done.item.message) == ("700:42:c:9", "9")
    assert done.item.context == "pressed a button below your message:\n> Sure?"


def test_the_button_of_a_draft_stops_the_turn_that_it_names() -> None:
    chat = {"id": 5, "type": "private", "first_name": "Ann"}
    update = {"update_id": 1, "stopped_message_generation": {"chat": chat, "draft_id": 17}}
    [first, again] = [read(update | {"update_id": number}, BOT, RULES).item for number in (1, 2)]
    assert isinstance(first, Inbound) and isinstance(again, Inbound)
    assert (first.sender, first.text, first.chat) == ("telegram:5", "/stop 17", "")
    assert first.key == again.key
    group = {"chat": {"id": -5, "type": "group", "title": "x"}, "draft_id": 17}
    assert read({"update_id": 3, "stopped_message_generation": group}, BOT, RULES).why_ignored


def test_a_button_of_an_old_message_still_works() -> None:
    gone = {"message_id": 9, "chat": PRIVATE, "date": 0}
    assert read_item(pressed("yes", gone)).text == "yes"
    assert read_item(pressed("#3", gone)).text == "[pressed button #3 of a message too old to be read]"


def test_in_a_group_the_one_who_pressed_speaks() -> None:
    in_topic = question(FORUM, message_thread_id=77, is_topic_message=True)
    item = read_item(pressed("yes", in_topic, **{"from": BEN}))
    assert (item.sender, item.chat, item.within) == ("telegram:43", "telegram:-1001:77", "telegram:-1001")
    assert (item.origin, item.chat_name) == (Origin.GROUP, "Club")


def test_a_button_that_is_none_of_ours_is_answered_all_the_same() -> None:
    for update in (pressed("x", None, inline_message_id="5"), pressed("x", question())):
        update["callback_query"].pop("data")
        done = read(update, BOT, RULES)
        assert (done.item, done.press) == (None, Touch("4382bfdwdsb323b2d9"))


def test_an_odd_callback_id_makes_a_plain_key() -> None:
    assert len(read_item(pressed("/approve 7", question(), id="a/b" * 200)).key) < 60


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ([], ["👍"], "reacted 👍 to message 12"),
        (["👍"], [], "took back 👍 from message 12"),
        (["👍"], ["❤"], "reacted ❤ to and took back 👍 from message 12"),
    ],
)
def test_reactions_are_noted(old: list[str], new: list[str], text: str) -> None:
    item = read_item(reacted(old, new))
    assert (item.kind, item.text, item.message) == ("note", text, "12")


def test_reactions_of_one_second_have_keys_of_their_own() -> None:
    keys = {read_item(reacted(old, new)).key for old, new in (([], ["👍"]), (["👍"], []), (["👍"], ["❤"]))}
    assert len(keys) == 3
    assert all(key.startswith(f"700:42:r:12:42:{DATE}:") for key in keys)


def test_paid_and_own_emoji_have_a_name() -> None:
    change = reacted([], [])
    change["message_reaction"]["new_reaction"] = [
        {"type": "paid"},
        {"type": "custom_emoji", "custom_emoji_id": "1"},
        {"type": "some_day"},
    ]
    assert read_item(change).text == "reacted a star an emoji of their own something to message 12"


@pytest.mark.parametrize(
    ("old", "new", "chat", "text"),
    [
        ("left", "member", GROUP, "added this assistant to the group"),
        ("left", "administrator", CHANNEL, "added this assistant to the channel"),
        ("member", "kicked", GROUP, "removed this assistant from the group"),
        ("member", "kicked", PRIVATE, "blocked this assistant"),
        ("kicked", "member", PRIVATE, "unblocked this assistant"),
    ],
)
def test_being_added_and_removed_is_noted(old: str, new: str, chat: Json, text: str) -> None:
    item = read_item(member(old, new, chat))
    assert (item.kind, item.text, item.sender) == ("note", text, "telegram:42")
    assert item.chat == ("" if chat is PRIVATE else f"telegram:{chat['id']}")
    assert item.key.startswith(f"700:{chat['id']}:s:{DATE}:")


def test_other_rights_are_no_news() -> None:
    assert read(member("member", "administrator"), BOT, RULES).item is None
    update = member("member", "left")
    update["my_chat_member"]["new_chat_member"] = {"status": "restricted", "is_member": True}
    assert read(update, BOT, RULES).item is None


def test_service_messages_are_noted_only_when_they_matter() -> None:
    pinned, title = read_item(EVERY["pinned"]), read_item(EVERY["title"])
    assert (pinned.kind, pinned.text) == ("note", "pinned a message")
    assert pinned.context == "the pinned message, by Ann Lee:\n> Milk, eggs"
    assert (title.kind, title.text, title.chat_name) == ("note", "gave this chat a new title", "Flat 2")
    assert read(EVERY["joined"], BOT, ALWAYS).why_ignored == "service message: new_chat_members"


def test_both_messages_of_a_move_tell_the_same_move() -> None:
    for update in (
        said(chat=GROUP, migrate_to_chat_id=-1001),
        said(chat=FORUM, migrate_from_chat_id=-500),
    ):
        done = read(update, BOT, ALWAYS)
        assert (done.item, done.moved) == (None, (-500, -1001))


def test_what_is_not_used_is_ignored_with_a_reason() -> None:
    assert read(EVERY["business"], BOT, RULES) == ReadUpdate(
        update_id=9_601, why_ignored="nothing is done with business_message"
    )
    assert read({"update_id": 1}, BOT, RULES).why_ignored == "it is empty"
    channel_dm = said(text="hi", chat=FORUM | {"is_direct_messages": True})
    assert read(channel_dm, BOT, ALWAYS).why_ignored == "direct messages of a channel"
    assert read(said(text="hi", **{"from": OTHER_BOT}), BOT, RULES).why_ignored == "it is from another bot"


def test_a_topic_of_a_private_chat_is_answered_in_it() -> None:
    item = read_item(said(text="hi", message_thread_id=5, is_topic_message=True))
    assert (item.sender, item.chat, item.within, item.reply_target) == ("telegram:42", "", "", "42:5")


def test_names_are_one_harmless_line() -> None:
    odd = ANN | {"first_name": "An\nn\u202e", "last_name": "x" * 500, "language_code": "d\ne"}
    item = read_item(said(text="hi", **{"from": odd}))
    assert item.name.startswith("An n x")
    assert len(item.name) == 100
    assert item.meta == {}


def test_all_kinds_that_are_read_are_asked_for() -> None:
    from aiogram.types import Update

    assert set(UPDATES) <= set(Update.model_fields)


def test_the_key_of_a_message_can_be_made_by_who_sends() -> None:
    assert message_key(700, 42, 10) == read_item(EVERY["text"]).key


# -- unreadable --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("update", "reason"),
    [
        (None, "update: it is no object"),
        ([1], "update: it is no object"),
        ({}, "`update_id`: it is not a number of an update"),
        ({"update_id": True}, "`update_id`: it is not a number of an update"),
        ({"update_id": 10**30, "message": message()}, "`update_id`: it is not a number of an update"),
        ({"update_id": 5, "message": []}, "Expected `object`, got `array` - at `message`"),
        (
            {"update_id": 5, "message": {"message_id": 1, "date": 1}},
            "Object missing required field `chat` - at `message`",
        ),
        (said(text=5), "Expected `str | null`, got `int` - at `message.text`"),
        (said(chat={"id": "x", "type": "private"}), "Expected `int`, got `str` - at `message.chat.id`"),
        (said(chat={"id": 2**60, "type": "group"}), "Expected `int` <= 4503599627370496 - at `message.chat.id`"),
        (said(text="x", message_id=10**40), "Expected `int` <= 4503599627370496 - at `message.message_id`"),
        (said(chat=GROUP, text="x", **{"from": None}), "Object missing required field `from` - at `message`"),
        (said(text="x", forward_origin=5), "Expected `object | null`, got `int` - at `message.forward_origin`"),
    ],
)
def test_what_is_malformed_is_parked_with_its_reason(update: Any, reason: str) -> None:
    item = read(update, BOT, RULES).item
    assert isinstance(item, Unreadable)
    assert item.reason == reason
    assert item == read(json.loads(json.dumps(update)), BOT, RULES).item


def test_null_is_the_same_as_nothing() -> None:
    nulls = dict.fromkeys(("is_topic_message", "message_thread_id", "reply_to_message", "photo", "game", "edit_date"))
    assert read_item(said(text="hello", **nulls)) == read_item(EVERY["text"])


def test_a_reaction_of_nobody_is_malformed() -> None:
    update = reacted([], ["👍"])
    update["message_reaction"].pop("user")
    item = read(update, BOT, RULES).item
    assert isinstance(item, Unreadable)
    assert item.reason == "Object missing required field `user` - at `message_reaction`"


def test_a_channel_may_react_and_write() -> None:
    update = reacted([], ["👍"], actor_chat=CHANNEL)
    update["message_reaction"].pop("user")
    assert read_item(update).sender == "telegram:-1002"
    post = read_item(EVERY["channel post"], ALWAYS)
    assert (post.sender, post.chat, post.name) == ("telegram:-1002", "telegram:-1002", "News (Ed)")


def test_deep_nesting_is_malformed() -> None:
    deep: Any = "x"
    for _ in range(500):
        deep = [deep]
    done = read(said(text="x", odd=deep), BOT, RULES)
    assert isinstance(done.item, Unreadable)
    assert (done.update_id, done.item.reason) == (9_010, "update 9010: it is nested too deep")


def test_half_characters_are_replaced() -> None:
    update = json.loads(r'{"text": "a\ud83d b\ud83d\ude00 c\u0000", "entities": []}')
    assert read_item(said(**update)).text == "a\ufffd b😀 c\ufffd"


def test_parking_keeps_a_bounded_piece_and_a_stable_key() -> None:
    item = read(said(text=["x" * 100_000]), BOT, RULES).item
    assert isinstance(item, Unreadable)
    assert len(item.body) == 4_000
    assert item.key.startswith("700:u:9010:")


def test_a_text_beyond_every_bound_is_cut() -> None:
    links = [entity("text_link", 2 * n, 1, url="https://e.org/" + "x" * 2000) for n in range(200)]
    item = read_item(said(text="ab" * 300, entities=links))
    assert item.text == "ab" * 300  # without the links, rather than without the end
    long = read_item(said(text="ä" * 60_000)).text
    assert len(long.encode()) <= 48 * 1024
    assert long.endswith(" [...]")
