"""What is read of the Bot API's objects, strictly typed. What is not named here is not looked at."""

from typing import Annotated

import msgspec
from msgspec import Meta, field

Id = Annotated[int, Meta(ge=-(2**52), le=2**52)]  # the API promises at most 52 significant bits
Count = Annotated[int, Meta(ge=0, le=2**52)]
FileId = Annotated[str, Meta(min_length=1, max_length=1_000)]  # real ones have up to 100 characters
Short = Annotated[str, Meta(max_length=200)]


class TelegramUser(msgspec.Struct, frozen=True):
    """A person or a bot."""

    id: Id
    first_name: str | None = None
    last_name: str | None = None
    username: str | None = None
    language_code: str | None = None
    is_bot: bool = False


class TelegramChat(msgspec.Struct, frozen=True):
    """A private chat, a group, a supergroup or a channel."""

    id: Id
    type: str
    title: str | None = None
    first_name: str | None = None
    last_name: str | None = None
    username: str | None = None
    is_direct_messages: bool | None = None


class Entity(msgspec.Struct, frozen=True):
    """A marked part of a text. `offset` and `length` count UTF-16 units."""

    type: str
    offset: Count
    length: Count
    url: str | None = None
    user: TelegramUser | None = None
    language: str | None = None


class Media(msgspec.Struct, frozen=True):
    """Any file: a size of a photo, a document, a voice, a sticker ... with what only some of them have."""

    file_id: FileId
    file_unique_id: Annotated[str, Meta(min_length=1, max_length=150)]
    file_size: Count | None = None
    file_name: str | None = None
    mime_type: str | None = None
    width: Count | None = None
    height: Count | None = None
    title: str | None = None
    performer: str | None = None
    emoji: str | None = None
    set_name: str | None = None
    is_animated: bool = False
    is_video: bool = False


class Location(msgspec.Struct, frozen=True):
    """A point on the earth; a live one moves."""

    latitude: float
    longitude: float
    live_period: Count | None = None


class Venue(msgspec.Struct, frozen=True):
    """A place with a name."""

    location: Location
    title: str = ""
    address: str = ""


class Contact(msgspec.Struct, frozen=True):
    """Somebody's card."""

    phone_number: str = ""
    first_name: str = ""
    last_name: str | None = None


class PollOption(msgspec.Struct, frozen=True):
    """One answer of a poll."""

    text: str


class Poll(msgspec.Struct, frozen=True):
    """A question with answers to choose from."""

    question: str
    options: list[PollOption] = []
    type: str = "regular"
    allows_multiple_answers: bool = False


class ChecklistTask(msgspec.Struct, frozen=True):
    """One line of a checklist."""

    text: str
    completion_date: Count | None = None


class Checklist(msgspec.Struct, frozen=True):
    """Things to do."""

    title: str
    tasks: list[ChecklistTask] = []


class Dice(msgspec.Struct, frozen=True):
    """A throw."""

    emoji: str
    value: Count


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """What a message can carry."""

    text: str | None = None
    entities: list[Entity] | None = None
    caption: str | None = None
    caption_entities: list[Entity] | None = None
    photo: list[Media] | None = None
    document: Media | None = None
    animation: Media | None = None
    audio: Media | None = None
    voice: Media | None = None
    video: Media | None = None
    video_note: Media | None = None
    sticker: Media | None = None
    location: Location | None = None
    venue: Venue | None = None
    contact: Contact | None = None
    poll: Poll | None = None
    checklist: Checklist | None = None
    dice: Dice | None = None


class TelegramOrigin(msgspec.Struct, frozen=True):
    """Where a forward comes from; which fields it has depends on `type`."""

    type: str
    sender_user: TelegramUser | None = None
    sender_user_name: str | None = None
    sender_chat: TelegramChat | None = None
    chat: TelegramChat | None = None
    author_signature: str | None = None


class Quote(msgspec.Struct, frozen=True):
    """The part of a message that a reply is about."""

    text: str


class Elsewhere(Content, frozen=True, kw_only=True):
    """A message of another chat or topic that a reply is about."""

    origin: TelegramOrigin
    chat: TelegramChat | None = None


class Topic(msgspec.Struct, frozen=True):
    """A forum's topic, as told when it was made."""

    name: str = ""


class Quoted(Content, frozen=True, kw_only=True):
    """A message inside another one: replied to, pinned, or with buttons that were pressed."""

    message_id: Count
    chat: TelegramChat
    from_: TelegramUser | None = field(default=None, name="from")
    sender_chat: TelegramChat | None = None
    author_signature: str | None = None
    message_thread_id: Count | None = None
    is_topic_message: bool = False
    forum_topic_created: Topic | None = None


class TelegramMessage(Quoted, frozen=True, kw_only=True):
    """A message, a channel's post or a service message."""

    date: Count
    edit_date: Count | None = None
    reply_to_message: Quoted | None = None
    external_reply: Elsewhere | None = None
    quote: Quote | None = None
    forward_origin: TelegramOrigin | None = None
    forward_date: Count | None = None  # all that servers before Bot API 7.0 say of every forward
    via_bot: TelegramUser | None = None
    media_group_id: Short | None = None
    pinned_message: Quoted | None = None
    new_chat_title: str | None = None
    migrate_to_chat_id: Id | None = None
    migrate_from_chat_id: Id | None = None


class Button(msgspec.Struct, frozen=True):
    """A button below a message."""

    text: str
    callback_data: str | None = None


class Keyboard(msgspec.Struct, frozen=True):
    """The buttons below a message, in rows."""

    inline_keyboard: list[list[Button]] = []


class WithButtons(Quoted, frozen=True, kw_only=True):
    """The message whose button was pressed; of an old one only its number and chat are told."""

    reply_markup: Keyboard | None = None


class Press(msgspec.Struct, frozen=True, kw_only=True):
    """A `callback_query`."""

    id: Annotated[str, Meta(min_length=1, max_length=1_000)]
    from_: TelegramUser = field(name="from")
    message: WithButtons | None = None
    data: str | None = None


class Halt(msgspec.Struct, frozen=True, kw_only=True):
    """A `stopped_message_generation`: somebody pressed the button in a draft."""

    chat: TelegramChat
    draft_id: int
    message_thread_id: int | None = None


class TelegramReaction(msgspec.Struct, frozen=True):
    """One emoji at a message."""

    type: str
    emoji: str | None = None


class Reactions(msgspec.Struct, frozen=True, kw_only=True):
    """A `message_reaction`: what somebody's reactions were and are."""

    chat: TelegramChat
    message_id: Count
    date: Count
    user: TelegramUser | None = None
    actor_chat: TelegramChat | None = None
    old_reaction: list[TelegramReaction] = []
    new_reaction: list[TelegramReaction] = []


class TelegramMember(msgspec.Struct, frozen=True):
    """How somebody stands to a chat."""

    status: str
    is_member: bool | None = None

    @property
    def inside(self) -> bool:
        """Whether they are in it."""
        return self.status in ("creator", "administrator", "member") or (
            self.status == "restricted" and self.is_member is not False
        )


class Membership(msgspec.Struct, frozen=True, kw_only=True):
    """A `my_chat_member`: somebody changed how the bot stands to a chat."""

    chat: TelegramChat
    from_: TelegramUser = field(name="from")
    date: Count
    old_chat_member: TelegramMember
    new_chat_member: TelegramMember
