"""Updates as the Bot API gives them, after its published pages; tests let python-telegram-bot read each of them."""

from typing import Any

Json = dict[str, Any]

BOT: Json = {"id": 700, "is_bot": True, "first_name": "Helper", "username": "helper_bot"}
ANN: Json = {
    "id": 42,
    "is_bot": False,
    "first_name": "Ann",
    "last_name": "Lee",
    "username": "ann",
    "language_code": "de",
}
BEN: Json = {"id": 43, "is_bot": False, "first_name": "Ben"}
OTHER_BOT: Json = {"id": 701, "is_bot": True, "first_name": "Other", "username": "other_bot"}
ANONYMOUS: Json = {"id": 1087968824, "is_bot": True, "first_name": "Group", "username": "GroupAnonymousBot"}
PRIVATE: Json = {"id": 42, "type": "private", "first_name": "Ann", "last_name": "Lee", "username": "ann"}
GROUP: Json = {"id": -500, "type": "group", "title": "Flat", "all_members_are_administrators": True}
FORUM: Json = {"id": -1001, "type": "supergroup", "title": "Club", "is_forum": True}
CHANNEL: Json = {"id": -1002, "type": "channel", "title": "News", "username": "news"}
DATE = 1_700_000_000


def file(name: str, **more: Any) -> Json:
    """A file of any kind."""
    return {"file_id": f"id-{name}", "file_unique_id": f"unique-{name}", "file_size": 1000, **more}


def message(number: int = 10, /, **content: Any) -> Json:
    """A message of Ann to the bot, from her private chat if nothing else is said."""
    return {"message_id": number, "from": ANN, "chat": PRIVATE, "date": DATE, **content}


def said(number: int = 10, /, **content: Any) -> Json:
    """An update with such a message."""
    return {"update_id": 9_000 + number, "message": message(number, **content)}


def edited(number: int = 10, after: int = 60, /, **content: Any) -> Json:
    """An update with a message that was edited so many seconds later."""
    return {"update_id": 9_500 + number, "edited_message": message(number, edit_date=DATE + after, **content)}


def in_group(number: int = 10, /, **content: Any) -> Json:
    """An update with a message in a group."""
    return said(number, **{"chat": GROUP, **content})


def entity(kind: str, offset: int, length: int, **more: Any) -> Json:
    """A mark in a text."""
    return {"type": kind, "offset": offset, "length": length, **more}


def command(text: str) -> Json:
    """A text that begins with a command, and the mark that says so."""
    return {"text": text, "entities": [entity("bot_command", 0, len(text.split()[0]))]}


def mentioning(text: str, name: str = "@helper_bot") -> Json:
    """A text with a mention, and the mark that says so."""
    return {
        "text": text,
        "entities": [entity("mention", len(text[: text.index(name)].encode("utf-16-le")) // 2, len(name))],
    }


def pressed(data: str, message: Json | None, **more: Any) -> Json:
    """A button was pressed."""
    query = {"id": "4382bfdwdsb323b2d9", "from": ANN, "chat_instance": "-3", "data": data, **more}
    return {"update_id": 9_200, "callback_query": query | ({"message": message} if message else {})}


def question(chat: Json = PRIVATE, rows: list[list[Json]] | None = None, **more: Any) -> Json:
    """A message of the bot with buttons."""
    keyboard = {"inline_keyboard": rows or [[{"text": "Yes", "callback_data": "yes"}]]}
    return {"message_id": 9, "from": BOT, "chat": chat, "date": DATE, "text": "Sure?", "reply_markup": keyboard, **more}


def reacted(old: list[str], new: list[str], chat: Json = PRIVATE, **more: Any) -> Json:
    """Reactions at message 12 have changed."""
    change: Json = {"chat": chat, "message_id": 12, "user": ANN, "date": DATE, **more}
    change["old_reaction"] = [{"type": "emoji", "emoji": emoji} for emoji in old]
    change["new_reaction"] = [{"type": "emoji", "emoji": emoji} for emoji in new]
    return {"update_id": 9_300, "message_reaction": change}


_RIGHTS: Json = dict.fromkeys(
    (
        *("can_be_edited", "is_anonymous", "can_manage_chat", "can_delete_messages", "can_manage_video_chats"),
        *("can_restrict_members", "can_promote_members", "can_change_info", "can_invite_users", "can_post_stories"),
        *("can_edit_stories", "can_delete_stories"),
    ),
    False,
)


def member(old: str, new: str, chat: Json = GROUP) -> Json:
    """Ann changed how the bot stands to a chat."""

    def stands(status: str) -> Json:
        more = {"kicked": {"until_date": 0}, "administrator": _RIGHTS}.get(status, {})
        return {"user": BOT, "status": status, **more}

    change = {"chat": chat, "from": ANN, "date": DATE, "old_chat_member": stands(old), "new_chat_member": stands(new)}
    return {"update_id": 9_400, "my_chat_member": change}


POLL: Json = {
    "id": "1",
    "question": "Tea or coffee?",
    "options": [
        {"text": "Tea", "voter_count": 0, "persistent_id": "a"},
        {"text": "Coffee", "voter_count": 0, "persistent_id": "b"},
    ],
    "total_voter_count": 0,
    "is_closed": False,
    "is_anonymous": True,
    "type": "regular",
    "allows_multiple_answers": False,
    "allows_revoting": True,
    "members_only": False,
}
USER_ORIGIN: Json = {"type": "user", "date": DATE - 5, "sender_user": BEN}
TOPIC_ROOT: Json = {
    **{"message_id": 77, "from": BOT, "chat": FORUM, "date": DATE - 9, "message_thread_id": 77},
    **{"is_topic_message": True, "forum_topic_created": {"name": "Cooking", "icon_color": 7322096}},
}
STICKER = file(
    "sticker", type="regular", width=512, height=512, emoji="😀", set_name="Cats", is_animated=False, is_video=False
)
PHOTO = [
    file("small", width=90, height=60) | {"file_size": 1_100},
    file("large", width=1280, height=853) | {"file_size": 160_000},
    file("middle", width=320, height=213) | {"file_size": 17_000},
]
LINK: Json = {"text": "see it 👉 here", "entities": [entity("text_link", 10, 4, url="https://example.org/a")]}

# One of every kind. Tests that look at all of them take these; the key says what each is.
EVERY: dict[str, Json] = {
    "text": said(text="hello"),
    "link": said(**LINK),
    "command": said(**command("/start pay-load")),
    "photo": said(photo=PHOTO, caption="my cat"),
    "album": said(photo=PHOTO, media_group_id="13579"),
    "document": said(document=file("doc", file_name="report.pdf", mime_type="application/pdf")),
    "voice": said(voice=file("voice", duration=3, mime_type="audio/ogg")),
    "audio": said(audio=file("song", duration=200, title="Blue", performer="Joni", file_name="blue.mp3")),
    "video": said(video=file("film", width=640, height=480, duration=9, mime_type="video/mp4")),
    "video note": said(video_note=file("round", length=240, duration=9)),
    "animation": said(
        animation=file("gif", width=10, height=10, duration=1, mime_type="video/mp4"),
        document=file("gif", mime_type="video/mp4"),
    ),
    "sticker": said(sticker=STICKER),
    "animated sticker": said(sticker=STICKER | {"is_animated": True}),
    "location": said(location={"latitude": 52.516275, "longitude": 13.377704}),
    "live location": said(location={"latitude": 52.5, "longitude": 13.3, "live_period": 900}),
    "venue": said(
        location={"latitude": 52.5, "longitude": 13.3},
        venue={"location": {"latitude": 52.5, "longitude": 13.3}, "title": "Gate", "address": "Square 1"},
    ),
    "contact": said(contact={"phone_number": "+491", "first_name": "Cy", "user_id": 44}),
    "poll": said(poll=POLL),
    "checklist": said(
        checklist={
            "title": "Shopping",
            "tasks": [{"id": 1, "text": "Milk", "completion_date": DATE}, {"id": 2, "text": "Eggs"}],
        }
    ),
    "dice": said(dice={"emoji": "🎲", "value": 4}),
    "game": said(game={"title": "Race", "description": "Run", "photo": PHOTO}),
    "story": said(story={"chat": CHANNEL, "id": 3}),
    "nothing known": said(hologram={"depth": 3}),
    "reply": said(text="yes", reply_to_message=message(9, **{"from": BOT, "text": "Sure?"})),
    "quote": said(
        text="this?",
        reply_to_message=message(8, text="one two three"),
        quote={"text": "two", "position": 4, "is_manual": True},
    ),
    "external reply": said(
        text="what is it?",
        external_reply={"origin": USER_ORIGIN, "chat": FORUM, "message_id": 4, "photo": PHOTO},
        quote={"text": "a cat", "position": 0},
    ),
    "forward of a user": said(text="/stop all", forward_origin=USER_ORIGIN),
    "forward of a channel": said(
        photo=PHOTO,
        forward_origin={"type": "channel", "date": DATE, "chat": CHANNEL, "message_id": 3, "author_signature": "Ed"},
    ),
    "forward of a hidden user": said(
        text="psst", forward_origin={"type": "hidden_user", "date": DATE, "sender_user_name": "Ghost"}
    ),
    "forward of a chat": said(text="all", forward_origin={"type": "chat", "date": DATE, "sender_chat": GROUP}),
    "by an inline bot": said(text="found", via_bot=OTHER_BOT),
    "edit": edited(text="hello!"),
    "edited channel post": {
        "update_id": 9_101,
        "edited_channel_post": {
            "message_id": 5,
            "chat": CHANNEL,
            "sender_chat": CHANNEL,
            "date": DATE,
            "edit_date": DATE + 1,
            "text": "n",
        },
    },
    "channel post": {
        "update_id": 9_100,
        "channel_post": {
            "message_id": 5,
            "chat": CHANNEL,
            "sender_chat": CHANNEL,
            "date": DATE,
            "text": "new",
            "author_signature": "Ed",
        },
    },
    "in a group": in_group(text="hello all"),
    "mention": in_group(**mentioning("👋 @helper_bot, hello")),
    "group reply": in_group(text="no", reply_to_message=message(9, **{"from": BOT, "chat": GROUP, "text": "Sure?"})),
    "anonymous": in_group(**{"from": ANONYMOUS, "sender_chat": GROUP, **command("/new@helper_bot")}),
    "topic": in_group(
        chat=FORUM,
        message_thread_id=77,
        is_topic_message=True,
        reply_to_message=TOPIC_ROOT,
        **mentioning("@helper_bot hi"),
    ),
    "joined": in_group(new_chat_members=[BEN]),
    "pinned": said(pinned_message=message(3, text="Milk, eggs")),
    "title": in_group(new_chat_title="Flat 2"),
    "moved to": in_group(migrate_to_chat_id=-1005),
    "moved from": in_group(chat=FORUM, migrate_from_chat_id=-500),
    "press": pressed("yes", question()),
    "press of an old one": pressed("yes", {"message_id": 9, "chat": PRIVATE, "date": 0}),
    "reaction": reacted([], ["👍"]),
    "added": member("left", "member"),
    "blocked": member("member", "kicked", PRIVATE),
    "inline query": {"update_id": 9_600, "inline_query": {"id": "1", "from": ANN, "query": "x", "offset": ""}},
    "business": {"update_id": 9_601, "business_message": message(text="hi", business_connection_id="b")},
    "reaction count": {
        "update_id": 9_602,
        "message_reaction_count": {"chat": CHANNEL, "message_id": 1, "date": DATE, "reactions": []},
    },
}
