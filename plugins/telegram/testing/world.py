"""What a Telegram server knows: people, chats with their messages, files, and the bot's queue of updates."""

import math
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Literal

import msgspec

from daycare.base.bounded import Bounded
from daycare.testing.http_server import RefusedError, bad
from daycare_plugins.telegram.testing.entities import Entity
from daycare_plugins.telegram.testing.limits import FloodControl
from daycare_plugins.telegram.testing.updates import UpdateQueue

_MESSAGES_MAX: Final = 20_000  # kept per chat
_FILES_MAX: Final = 5_000
_HISTORY_MAX: Final = 20_000
_FIRST_UPDATE_ID: Final = 700_000_001
_CALLBACKS_MAX: Final = 10_000
DOWNLOAD_MAX_BYTES: Final = 20_000_000
TOKEN: Final = "123456789:AAF-fake_token_of_a_test_server_00"
GENERAL_TOPIC: Final = 1

Membership = Literal["member", "administrator", "restricted", "left", "kicked", "deactivated", "not_started"]


class FakePerson(msgspec.Struct, kw_only=True):
    """Somebody who uses Telegram. The private chat with the bot has the same id."""

    id: int
    first_name: str
    last_name: str | None = None
    username: str | None = None
    language_code: str | None = None
    is_bot: bool = False

    @property
    def wire(self) -> dict[str, Any]:
        """The `User` object."""
        fields = {"id": self.id, "is_bot": self.is_bot, "first_name": self.first_name}
        rest = {name: getattr(self, name) for name in ("last_name", "username", "language_code")}
        return fields | {name: value for name, value in rest.items() if value}


class FakeFile(msgspec.Struct, kw_only=True):
    """A file that Telegram keeps. Without `content` it has `size` bytes that nobody needs."""

    file_id: str
    file_unique_id: str
    path: str
    size: int
    content: bytes | None = None


class FakeMessage(msgspec.Struct, kw_only=True):
    """A message in a chat. `wire` is the `Message` object; the rest is what no client is told.

    `edits` are the texts it had before. `entities_dropped` counts those that the server ignored without a word.
    """

    wire: dict[str, Any]
    chat_id: int
    by_bot: bool
    at: float  # trio's time
    edits: list[str] = []
    deleted: bool = False
    entities_dropped: int = 0
    silent: bool = False
    effect_id: str | None = None
    reactions: list[Any] = []

    @property
    def id(self) -> int:
        """Its number in the chat."""
        number: int = self.wire["message_id"]
        return number

    @property
    def text(self) -> str:
        """The text, or the caption."""
        words: str = self.wire.get("text") or self.wire.get("caption") or ""
        return words

    @property
    def entities(self) -> list[Entity]:
        """The entities of the text, or of the caption."""
        found: list[Entity] = self.wire.get("entities") or self.wire.get("caption_entities") or []
        return found

    @property
    def reply_to(self) -> int | None:
        """The number of the message that it answers."""
        answered = self.wire.get("reply_to_message")
        return answered["message_id"] if answered else None

    @property
    def thread_id(self) -> int | None:
        """The forum topic."""
        return self.wire.get("message_thread_id")

    @property
    def keyboard(self) -> list[list[dict[str, Any]]]:
        """The rows of the inline keyboard."""
        rows: list[list[dict[str, Any]]] = (self.wire.get("reply_markup") or {}).get("inline_keyboard", [])
        return rows

    @property
    def kind(self) -> str:
        """`text`, `photo`, `document`, ... or `service`."""
        kinds = ("text", "photo", "voice", "video_note", "video", "animation", "audio", "document", "sticker")
        more = ("location", "contact", "poll", "venue", "dice")
        return next((kind for kind in (*kinds, *more) if kind in self.wire), "service")


class FakeChat(msgspec.Struct, kw_only=True):
    """A chat. `bot` is the bot's standing in it; `topics` are a forum's, by thread id."""

    id: int
    type: Literal["private", "group", "supergroup", "channel"]
    title: str | None = None
    person: FakePerson | None = None
    username: str | None = None
    forum: bool = False
    bot: Membership = "member"
    migrated_to: int | None = None
    topics: dict[int, dict[str, Any]] = {}
    closed_topics: set[int] = set()
    messages: Bounded[int, FakeMessage] = msgspec.field(default_factory=lambda: Bounded(_MESSAGES_MAX))
    next_message_id: int = 1

    @property
    def is_group(self) -> bool:
        """Whether several people are in it."""
        return self.type != "private"

    @property
    def wire(self) -> dict[str, Any]:
        """The `Chat` object."""
        if self.person is not None:
            rest = {name: getattr(self.person, name) for name in ("first_name", "last_name", "username")}
        else:
            rest = {"title": self.title, "username": self.username, "is_forum": self.forum or None}
        return {"id": self.id, "type": self.type} | {name: value for name, value in rest.items() if value}


class Callback(msgspec.Struct, kw_only=True):
    """A button that was pressed; `answer` are the parameters of `answerCallbackQuery`."""

    id: str
    chat_id: int
    message_id: int
    data: str
    at: float
    answer: dict[str, Any] | None = None


class BotCall(msgspec.Struct, kw_only=True):
    """A call of the bot. `status` is the answer's, lost or not; 0 while there is none, and for ever without effect."""

    method: str
    params: dict[str, Any]
    at: float
    chat_id: int | None = None
    status: int = 0
    description: str = ""


class FakeDraft(msgspec.Struct, frozen=True, kw_only=True):
    """A state of a streamed answer, from `sendMessageDraft`."""

    chat_id: int
    draft_id: int
    text: str
    entities: list[Entity]
    entities_dropped: int
    thread_id: int | None
    can_stop: bool
    at: float


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """Typing, or another action of the bot that a chat shows."""

    chat_id: int
    action: str
    thread_id: int | None
    at: float


class FakeReaction(msgspec.Struct, frozen=True, kw_only=True):
    """A reaction of the bot; no emoji takes it back."""

    chat_id: int
    message_id: int
    emoji: list[str]
    at: float


Place = int | FakeChat | FakePerson
Who = int | FakePerson


class TelegramWorld:
    """The state behind the fake server. `clock` gives the wall time of `date` fields."""

    def __init__(self, token: str = TOKEN, username: str = "fake_bot", clock: Callable[[], float] = time.time) -> None:
        self.token = token
        self.clock = clock
        self.me = FakePerson(id=int(token.partition(":")[0]), is_bot=True, first_name="Fake", username=username)
        self.privacy = False  # as BotFather's privacy mode: only what is for the bot is told from groups
        self.people: dict[int, FakePerson] = {}
        self.chats: dict[int, FakeChat] = {}
        self.files: Bounded[str, FakeFile] = Bounded(_FILES_MAX)
        self.callbacks: Bounded[str, Callback] = Bounded(_CALLBACKS_MAX)
        self.queue = UpdateQueue(_FIRST_UPDATE_ID)
        self.webhook: dict[str, Any] = {}
        self.webhook_settable_at = -math.inf
        self.flood = FloodControl()
        self.drafts: deque[FakeDraft] = deque(maxlen=_HISTORY_MAX)
        self.actions: deque[Action] = deque(maxlen=_HISTORY_MAX)
        self.reactions: deque[FakeReaction] = deque(maxlen=_HISTORY_MAX)
        self.answered_callbacks: deque[Callback] = deque(maxlen=_HISTORY_MAX)
        self.commands: dict[str, list[dict[str, str]]] = {}  # by scope, as `default` or `chat:5:de`
        self.on_sent: list[Callable[[FakeMessage], None]] = []  # called with what the bot sent or edited
        self._private_message_id = 1  # private chats and basic groups share their numbers
        self._files_made = 0
        self._serials = 4_000_000_000_000_000_000
        self.calls: deque[BotCall] = deque(maxlen=_HISTORY_MAX)

    def now(self) -> int:
        """Return the wall time as messages carry it."""
        return int(self.clock())

    def person_of(self, who: Who) -> FakePerson:
        """Return a person; an unknown number is somebody without a name to speak of."""
        if isinstance(who, FakePerson):
            return self.people.setdefault(who.id, who)
        return self.people.setdefault(who, FakePerson(id=who, first_name=f"User {who}"))

    def chat_of(self, place: Place) -> FakeChat:
        """Return a chat that exists, or the private one of a person."""
        if isinstance(place, FakeChat):
            return place
        number = place.id if isinstance(place, FakePerson) else place
        if number in self.chats:
            return self.chats[number]
        if number <= 0:
            raise LookupError(f"there is no group {number}: make it with group()")
        person = self.person_of(place if isinstance(place, FakePerson) else number)
        chat = self.chats[number] = FakeChat(id=number, type="private", person=person)
        return chat

    def messages(self, chat_id: int) -> list[FakeMessage]:
        """Return the messages of a chat, in order, deleted ones too."""
        chat = self.chats.get(chat_id)
        return list(chat.messages.values()) if chat else []

    def sent(self, chat_id: int | None = None) -> list[FakeMessage]:
        """Return what the bot sent and did not delete: to a chat in order, or to all."""
        chats = [self.chats[chat_id]] if chat_id in self.chats else [] if chat_id is not None else self.chats.values()
        return [note for chat in chats for note in chat.messages.values() if note.by_bot and not note.deleted]

    def called(self, method: str) -> list[BotCall]:
        """Return the calls of one method, from the last ones with the right token; `download` are those of files."""
        return [call for call in self.calls if call.method == method]

    def store(self, chat: FakeChat, message: FakeMessage) -> FakeMessage:
        """Keep a message, and only so many of the older ones."""
        chat.messages[message.id] = message
        return message

    def tell(self, message: FakeMessage) -> None:
        """Call those who want to know what the bot sent or edited."""
        for listener in self.on_sent:
            listener(message)

    def serial(self) -> str:
        """Return an identifier as albums, polls and callback queries have them."""
        self._serials += 1
        return str(self._serials)

    def number(self, chat: FakeChat) -> int:
        """Return the number of the chat's next message."""
        if chat.type in ("private", "group"):
            self._private_message_id += 1
            return self._private_message_id
        chat.next_message_id += 1
        return chat.next_message_id

    def skeleton(self, chat: FakeChat, sender: FakePerson, thread_id: int | None = None) -> dict[str, Any]:
        """Return the fields that each message has."""
        wire: dict[str, Any] = {"message_id": self.number(chat), "from": sender.wire, "chat": chat.wire}
        wire["date"] = self.now()
        if thread_id is not None:
            wire["message_thread_id"] = thread_id
            if chat.topics or chat.forum:
                wire["is_topic_message"] = True
        return wire

    def answering(self, chat: FakeChat, wire: dict[str, Any], reply_to: int | None) -> None:
        """Add the message that is answered, as the real server does.

        A message of a topic answers the one that created the topic, unless it answers another; and in a supergroup
        that is no forum an answer carries the number of its thread, too.
        """
        thread = wire.get("message_thread_id")
        if reply_to is None and thread in chat.topics:
            wire["reply_to_message"] = chat.topics[thread]
        answered = chat.messages.get(reply_to) if reply_to is not None else None
        if answered is None:
            return
        wire["reply_to_message"] = bare(answered.wire)
        if thread is None and answered.wire.get("is_topic_message"):  # an answer goes where its question stands
            wire |= {"message_thread_id": answered.wire["message_thread_id"], "is_topic_message": True}
        if chat.type == "supergroup" and not chat.forum:
            wire["message_thread_id"] = answered.wire.get("message_thread_id", answered.id)

    def keep(self, kind: str, content: bytes | None, size: int, suffix: str) -> FakeFile:
        """Keep a file."""
        self._files_made += 1
        number = self._files_made
        file = FakeFile(
            file_id=f"BQACAgIAAxkBAAI{kind[:3].upper()}{number:06d}",
            file_unique_id=f"AgAD{kind[:3]}{number:06d}",
            path=f"{kind}s/file_{number}{suffix}",
            size=size if content is None else len(content),
            content=content,
        )
        self.files[file.file_id] = file
        return file

    def file_at(self, path: str) -> FakeFile | None:
        """Return the file that is downloaded from this path."""
        return next((file for file in self.files.values() if file.path == path), None)

    def remember(self, callback: Callback) -> None:
        """Keep a pressed button until it is answered."""
        self.callbacks[callback.id] = callback

    def open_chat(self, number: int) -> FakeChat:
        """Return a chat that the bot may read and write, or refuse."""
        chat = self.chats.get(number)
        if chat is None:
            raise bad("chat not found")
        if chat.migrated_to is not None:
            description = "Bad Request: group chat was upgraded to a supergroup chat"
            raise RefusedError(400, description, migrate_to_chat_id=chat.migrated_to)
        name = "group" if chat.type == "group" else chat.type
        if chat.type == "private":
            reasons = {
                "kicked": "bot was blocked by the user",
                "deactivated": "user is deactivated",
                "not_started": "bot can't initiate conversation with a user",
            }
        else:
            reasons = {
                "kicked": f"bot was kicked from the {name} chat",
                "left": f"bot is not a member of the {name} chat",
                "deactivated": f"the {name} chat was deleted",
            }
        if chat.bot in reasons:
            raise RefusedError(403, f"Forbidden: {reasons[chat.bot]}")
        return chat


def bare(wire: dict[str, Any]) -> dict[str, Any]:
    """Return a message as it stands within another: without the one that it answers itself."""
    return {name: value for name, value in wire.items() if name not in ("reply_to_message", "quote")}
