"""What people do at the fake Telegram: write, send files, edit, press buttons, react, block and move chats.

Each deed becomes an update as the real server shapes it, if the bot asked for its kind (`allowed_updates`) and is in
the chat.
"""

from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec
import trio

from daycare_plugins.telegram.testing import media as media
from daycare_plugins.telegram.testing.entities import detected
from daycare_plugins.telegram.testing.world import (
    Callback,
    FakeChat,
    FakeDraft,
    FakeMessage,
    FakePerson,
    Membership,
    Place,
    TelegramWorld,
    Who,
    bare,
)

_RIGHTS: Final = (
    *("can_be_edited", "is_anonymous", "can_manage_chat", "can_delete_messages", "can_manage_video_chats"),
    *("can_restrict_members", "can_promote_members", "can_change_info", "can_invite_users", "can_post_stories"),
    *("can_edit_stories", "can_delete_stories", "can_send_welcome_messages"),
)
_ALLOWED: Final = (
    *("can_send_messages", "can_send_audios", "can_send_documents", "can_send_photos", "can_send_videos"),
    *("can_send_video_notes", "can_send_voice_notes", "can_send_polls", "can_send_other_messages"),
    *("can_add_web_page_previews", "can_change_info", "can_invite_users", "can_pin_messages", "can_manage_topics"),
    *("can_edit_tag", "can_react_to_messages"),
)
_FIRST_SUPERGROUP: Final = -1_001_500_000_000

Answered = FakeMessage | int | None
Origin = FakePerson | FakeChat | str | dict[str, Any] | None


class FakePeople(TelegramWorld):
    """A world with hands. `chat` may be a `FakeChat`, its id, or a `FakePerson` for the private chat with the bot."""

    def person(
        self,
        id: int,  # noqa: A002 -- Telegram's word
        *,
        first_name: str = "Ann",
        last_name: str | None = None,
        username: str | None = None,
        language_code: str | None = None,
        started: bool = True,
    ) -> FakePerson:
        """Make a person. One who has not `started` the bot cannot be written to before they write."""
        person = FakePerson(
            id=id, first_name=first_name, last_name=last_name, username=username, language_code=language_code
        )
        self.people[id] = person
        chat = FakeChat(id=id, type="private", person=person, bot="member" if started else "not_started")
        self.chats[id] = chat
        return person

    def group(
        self,
        id: int,  # noqa: A002 -- Telegram's word
        title: str = "Group",
        *,
        forum: bool = False,
        kind: Literal["group", "supergroup"] = "supergroup",
        username: str | None = None,
    ) -> FakeChat:
        """Make a group with the bot in it; ids of supergroups begin with -100."""
        if id >= 0 or (forum and kind == "group"):
            raise ValueError("groups have negative ids, and only supergroups are forums")
        chat = self.chats[id] = FakeChat(id=id, type=kind, title=title, forum=forum, username=username)
        return chat

    # -- messages ----------------------------------------------------------------------------------------------------

    def say(self, chat: Place, person: Who, text: str, **options: Any) -> FakeMessage:
        """Send a text; for `options` see `post`."""
        entities = options.pop("entities", None) or detected(text)
        return self.post(chat, person, {"text": text} | ({"entities": entities} if entities else {}), **options)

    def post(
        self,
        chat: Place,
        person: Who,
        content: dict[str, Any],
        *,
        reply_to: Answered = None,
        quote: str | None = None,
        forward: Origin = None,
        thread: int | None = None,
        **fields: Any,
    ) -> FakeMessage:
        """Send a message with any content; `fields` are further ones of the `Message` object."""
        where, sender = self.chat_of(chat), self.person_of(person)
        if where.migrated_to is not None:
            raise ValueError(f"nobody can write to a group that became {where.migrated_to}")
        if where.bot == "not_started":
            where.bot = "member"
        wire = self.skeleton(where, sender, thread)
        answered = reply_to.id if isinstance(reply_to, FakeMessage) else reply_to
        self.answering(where, wire, answered)
        if quote is not None and answered is not None:
            position = where.messages[answered].text.find(quote)
            wire["quote"] = {"text": quote, "position": max(position, 0), "is_manual": True}
        if forward is not None:
            wire["forward_origin"] = self._origin(forward)
        wire |= content | fields
        message = FakeMessage(wire=wire, chat_id=where.id, by_bot=False, at=trio.current_time())
        self.store(where, message)
        if self._told(where, message):
            self.queue.push("message", wire)
        return message

    def edit(self, message: FakeMessage, text: str | None = None, **fields: Any) -> FakeMessage:
        """Change a person's message: its text or caption, or other fields."""
        message.edits.append(message.text)
        change: dict[str, Any] = dict(fields)
        if text is not None:
            name = "text" if message.kind == "text" else "caption"
            change[name] = text
            change["entities" if name == "text" else "caption_entities"] = detected(text)
        message.wire = message.wire | change | {"edit_date": self.now()}
        chat = self.chats[message.chat_id]
        if self._told(chat, message):
            self.queue.push("edited_message", message.wire)
        return message

    def photo(
        self,
        chat: Place,
        person: Who,
        content: bytes | None = None,
        *,
        size: int = 100_000,
        width: int = 1280,
        height: int = 960,
        caption: str | None = None,
        **options: Any,
    ) -> FakeMessage:
        """Send a photo in several sizes, the largest with `content`; without it, it is said to have `size` bytes."""
        sizes = media.photo(self, content, size, width, height)
        return self.post(chat, person, {"photo": sizes} | _captioned(caption), **options)

    def document(
        self,
        chat: Place,
        person: Who,
        content: bytes | None = None,
        name: str | None = "file.txt",
        *,
        mime: str | None = None,
        **options: Any,
    ) -> FakeMessage:
        """Send a file."""
        return self._file(chat, person, "document", content, {"file_name": name, "mime_type": mime}, options)

    def voice(self, chat: Place, person: Who, content: bytes | None = None, **options: Any) -> FakeMessage:
        """Send a voice message."""
        return self._file(chat, person, "voice", content, {"duration": options.pop("duration", 2)}, options)

    def audio(self, chat: Place, person: Who, content: bytes | None = None, **options: Any) -> FakeMessage:
        """Send a piece of music."""
        details = {"duration": 180, "title": "Song", "performer": "Band", "file_name": "song.mp3"}
        return self._file(chat, person, "audio", content, details, options)

    def video(self, chat: Place, person: Who, content: bytes | None = None, **options: Any) -> FakeMessage:
        """Send a video."""
        return self._file(chat, person, "video", content, {"file_name": "video.mp4"}, options)

    def video_note(self, chat: Place, person: Who, content: bytes | None = None, **options: Any) -> FakeMessage:
        """Send a round video."""
        return self._file(chat, person, "video_note", content, {}, options)

    def animation(self, chat: Place, person: Who, content: bytes | None = None, **options: Any) -> FakeMessage:
        """Send an animation, which comes as a document, too."""
        details = media.attachment(self, "animation", content, 1000, file_name="cat.mp4")
        document = {name: details[name] for name in ("file_id", "file_unique_id", "file_size", "file_name")}
        return self.post(chat, person, {"animation": details, "document": document}, **options)

    def sticker(
        self, chat: Place, person: Who, emoji: str = "👍", content: bytes | None = None, **options: Any
    ) -> FakeMessage:
        """Send a sticker."""
        return self._file(chat, person, "sticker", content, {"emoji": emoji, "set_name": "Stickers"}, options)

    def location(
        self, chat: Place, person: Who, latitude: float = 52.5, longitude: float = 13.4, **options: Any
    ) -> FakeMessage:
        """Send a place on the map."""
        return self.post(chat, person, {"location": {"latitude": latitude, "longitude": longitude}}, **options)

    def contact(
        self, chat: Place, person: Who, phone_number: str = "+100", first_name: str = "Bob", **options: Any
    ) -> FakeMessage:
        """Send somebody's address card."""
        card = {"phone_number": phone_number, "first_name": first_name}
        return self.post(chat, person, {"contact": card}, **options)

    def poll(
        self,
        chat: Place,
        person: Who,
        question: str = "Tea?",
        answers: Sequence[str] = ("yes", "no"),
        **options: Any,
    ) -> FakeMessage:
        """Send a poll."""
        listed = [
            {"persistent_id": str(index), "text": text, "voter_count": 0} for index, text in enumerate(answers, 1)
        ]
        content = {"id": self.serial(), "question": question, "options": listed, "type": "regular"}
        no = ("is_closed", "allows_multiple_answers", "allows_revoting", "members_only")
        more = {"total_voter_count": 0, "is_anonymous": True} | dict.fromkeys(no, False)
        return self.post(chat, person, {"poll": content | more}, **options)

    def album(
        self,
        chat: Place,
        person: Who,
        items: Sequence[bytes | tuple[Literal["photo", "video", "document", "audio"], bytes]],
        caption: str | None = None,
        **options: Any,
    ) -> list[FakeMessage]:
        """Send a media group: one message for each item, the first with the caption. Bytes alone are a photo."""
        shared = {**options, "media_group_id": self.serial()}
        sent: list[FakeMessage] = []
        for item in items:
            kind, content = ("photo", item) if isinstance(item, bytes) else item
            sender = getattr(self, kind)
            sent.append(sender(chat, person, content, caption=None if sent else caption, **shared))
        return sent

    def _file(
        self,
        chat: Place,
        person: Who,
        kind: str,
        content: bytes | None,
        details: dict[str, Any],
        options: dict[str, Any],
    ) -> FakeMessage:
        size, caption = options.pop("size", 1000), options.pop("caption", None)
        file = media.attachment(self, kind, content, size, **details)
        return self.post(chat, person, {kind: file} | _captioned(caption), **options)

    # -- other deeds -------------------------------------------------------------------------------------------------

    def press(self, message: FakeMessage, data: str, person: Who | None = None) -> str:
        """Press a button below a message of the bot; return the id of the callback query."""
        if not any(button.get("callback_data") == data for row in message.keyboard for button in row):
            raise ValueError(f"message {message.id} has no button with the data {data!r}")
        who = self.person_of(message.chat_id if person is None else person)
        number = self.serial()
        now = trio.current_time()
        self.remember(Callback(id=number, chat_id=message.chat_id, message_id=message.id, data=data, at=now))
        shown = message.wire
        if message.deleted:
            shown = {"chat": shown["chat"], "message_id": message.id, "date": 0}
        query = {"id": number, "from": who.wire, "message": shown, "data": data}
        self.queue.push("callback_query", query | {"chat_instance": str(message.chat_id * 7919)})
        return number

    def stop(self, draft: FakeDraft) -> None:
        """Press the button of a draft. Nothing is told of who did: a private chat has one person."""
        if not draft.can_stop:
            raise ValueError(f"draft {draft.draft_id} has no button")
        update = {"chat": self.chats[draft.chat_id].wire, "draft_id": draft.draft_id}
        thread = {"message_thread_id": draft.thread_id} if draft.thread_id is not None else {}
        self.queue.push("stopped_message_generation", update | thread)

    def react(self, message: FakeMessage, person: Who, *emoji: str, before: Sequence[str] = ()) -> None:
        """React to a message; no emoji takes the reaction back."""
        chat = self.chats[message.chat_id]
        update = {"chat": chat.wire, "message_id": message.id, "user": self.person_of(person).wire}
        old, new = ([{"type": "emoji", "emoji": one} for one in some] for some in (before, emoji))
        self.queue.push("message_reaction", update | {"date": self.now(), "old_reaction": old, "new_reaction": new})

    def membership(self, chat: Place, status: Membership, by: Who | None = None) -> None:
        """Change the bot's standing: `kicked` by a person blocks it; groups kick it, let it in, make it an admin."""
        where = self.chat_of(chat)
        who = self.person_of(where.id if by is None and not where.is_group else by if by is not None else 1)
        old, where.bot = where.bot, status
        if "deactivated" in (old, status) or "not_started" in (old, status):
            return  # nobody is told
        update = {"chat": where.wire, "from": who.wire, "date": self.now()}
        members = {"old_chat_member": self._member(old), "new_chat_member": self._member(status)}
        self.queue.push("my_chat_member", update | members)

    def migrate(self, group: Place, by: Who = 1) -> FakeChat:
        """Make a supergroup of a group, and return it; the old id is refused from now on."""
        old = self.chat_of(group)
        new = self.group(_FIRST_SUPERGROUP - len(self.chats), old.title or "Group")
        new.bot = old.bot
        self.post(old, by, {"migrate_to_chat_id": new.id})
        self.post(new, by, {"migrate_from_chat_id": old.id})
        old.migrated_to = new.id
        return new

    def topic(self, chat: Place, name: str, by: Who = 1) -> int:
        """Open a topic in a forum, and return its thread id; write to it with `thread=`."""
        where = self.chat_of(chat)
        if where.is_group and not where.forum:
            raise ValueError("only forums have topics")
        wire = self.skeleton(where, self.person_of(by))
        number: int = wire["message_id"]
        wire |= {"message_thread_id": number, "is_topic_message": True}
        wire["forum_topic_created"] = {"name": name, "icon_color": 7322096}
        where.topics = where.topics | {number: bare(wire)}
        message = self.store(where, FakeMessage(wire=wire, chat_id=where.id, by_bot=False, at=trio.current_time()))
        if self._told(where, message):
            self.queue.push("message", wire)
        return number

    def close_topic(self, chat: Place, thread: int, by: Who = 1) -> None:
        """Close a topic: the bot cannot write to it any more."""
        where = self.chat_of(chat)
        where.closed_topics = where.closed_topics | {thread}
        self.post(where, by, {"forum_topic_closed": {}}, thread=thread)

    def raw_update(self, update: dict[str, Any] | bytes) -> int:
        """Queue an update as it stands, however malformed; a dict gets an id if it has none. Return the queue's id."""
        if isinstance(update, dict):
            update = msgspec.json.encode({"update_id": self.queue.next_id} | update)
        return self.queue.push_raw(update)

    def _origin(self, forward: FakePerson | FakeChat | str | dict[str, Any]) -> dict[str, Any]:
        date = self.now() - 3600
        if isinstance(forward, FakePerson):
            return {"type": "user", "date": date, "sender_user": forward.wire}
        if isinstance(forward, FakeChat):
            return {"type": "channel", "date": date, "chat": forward.wire, "message_id": 1}
        if isinstance(forward, str):
            return {"type": "hidden_user", "date": date, "sender_user_name": forward}
        return forward

    def _member(self, status: str) -> dict[str, Any]:
        more: dict[str, Any] = {}
        if status == "kicked":
            more = {"until_date": 0}
        elif status == "administrator":
            more = dict.fromkeys(_RIGHTS, True)
        elif status == "restricted":
            more = dict.fromkeys(_ALLOWED, False) | {"is_member": True, "until_date": 0}
        return {"status": status, "user": self.me.wire} | more

    def _told(self, chat: FakeChat, message: FakeMessage) -> bool:
        """Return whether the bot hears of a message."""
        if chat.bot in ("left", "kicked", "deactivated"):
            return False
        if not (self.privacy and chat.is_group) or message.kind == "service" or chat.bot == "administrator":
            return True
        answered = message.wire.get("reply_to_message", {}).get("from", {}).get("id")
        return message.text.startswith("/") or f"@{self.me.username}" in message.text or answered == self.me.id


def _captioned(caption: str | None) -> dict[str, Any]:
    if not caption:
        return {}
    entities = detected(caption)
    return {"caption": caption} | ({"caption_entities": entities} if entities else {})
