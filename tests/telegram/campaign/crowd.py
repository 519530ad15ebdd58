"""People who write all kinds of things to a bot, strangers among them, and who write down what they did."""

import random
import re
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from daycare_plugins.telegram.testing.server import FakeMessage, FakePerson, FakeTelegram
from daycare_plugins.telegram.testing.updates import Update
from tests.telegram.campaign.judge import Said, Store, topic_of
from tests.telegram.campaign.report import Report
from tests.telegram.campaign.stage import BOT, FIRST_STRANGER, Room, Stage

STRANGERS: Final = 12
PRIVATE_WEIGHT: Final = 3  # against a group's, where a bot may answer 20 times a minute only
RECENT: Final = 12  # messages of a room that may be edited, quoted or forwarded
BYSTANDERS: Final = "m998-1"  # what is said to somebody else begins so
_PNG: Final = b"\x89PNG\r\n\x1a\n" + b"\x00" * 60
_WEIGHTS: Final = {
    "text": 60, "photo": 6, "document": 4, "album": 3, "edit": 9, "reply": 4, "forward": 2, "choose": 4, "press": 4,
    "pause": 3, "malformed": 2, "stranger": 7, "aside": 6,
}  # fmt: skip


class Crowd:
    """Everybody. `said` is what allowed people said, in order."""

    def __init__(self, stage: Stage, rng: random.Random) -> None:
        self.said: list[Said] = []
        self.malformed: list[str] = []
        self.knocks: dict[int, int] = {}
        self.asides: list[str] = []  # keys of what is said to others, in the room where the bot has to be addressed
        self.pressed: set[tuple[int, int]] = set()
        self._chosen: set[str] = set()
        self.updates = 0
        self.strange_files: set[str] = set()
        self._stage = stage
        self._server: FakeTelegram = stage.server
        self._rng = rng
        self._recent: dict[int, deque[tuple[FakeMessage, Said]]] = {}
        self._edits: dict[str, int] = {}
        self._weights = dict(_WEIGHTS)
        self._deeds: dict[str, Callable[[Room], int]] = {
            "text": self._text, "photo": self._photo, "document": self._document, "album": self._album,
            "edit": self._edit, "reply": self._reply, "forward": self._forward, "choose": self._choose,
            "press": self._press, "pause": self._pause, "malformed": self._malformed, "stranger": self._stranger,
            "aside": self._aside,
        }  # fmt: skip

    def act(self, rooms: Sequence[Room]) -> int:
        """Let somebody do something; return how many updates came of it."""
        [deed] = self._rng.choices([*self._weights], [*self._weights.values()])
        if deed == "aside":
            rooms = [room for room in rooms if room.addressed] or rooms
        [room] = self._rng.choices(rooms, [1 if room.is_group else PRIVATE_WEIGHT for room in rooms])
        if room.addressed and deed in ("photo", "document", "album", "reply", "forward"):
            deed = "text"  # who sends these without a word does not address anybody
        made = self._deeds[deed](room)
        self.updates += made
        return made

    # -- deeds -------------------------------------------------------------------------------------------------------

    def _text(self, room: Room, more: str = "", **options: Any) -> int:
        name, who = room.name(), self._rng.choice(room.writers)
        thread = options.pop("thread", None) if "thread" in options else self._rng.choice(room.threads)
        at = f"@{self._server.me.username}" if room.addressed else ""
        text = " ".join(filter(None, (name, more, at)))
        message = self._server.say(room.place, who, text, thread=thread, **options)
        self._note(name, room, who, thread, message)
        return 1

    def _photo(self, room: Room) -> int:
        name, who, thread = room.name(), self._rng.choice(room.writers), self._rng.choice(room.threads)
        picture = _PNG + name.encode()
        message = self._server.photo(room.place, who, picture, caption=name, thread=thread)
        self._note(name, room, who, thread, message, picture)
        return 1

    def _document(self, room: Room) -> int:
        name, who, thread = room.name(), self._rng.choice(room.writers), self._rng.choice(room.threads)
        words = f"the words of file{name[1:]}".encode()
        message = self._server.document(room.place, who, words, "words.txt", caption=name, thread=thread)
        self._note(name, room, who, thread, message, words)
        return 1

    def _album(self, room: Room) -> int:
        who, thread = self._rng.choice(room.writers), self._rng.choice(room.threads)
        album = str(13_000_000_000_000_000 + len(self.said))
        parts = self._rng.randint(2, 4)
        for _ in range(parts):
            name = room.name()
            picture = _PNG + name.encode()
            message = self._server.photo(room.place, who, picture, caption=name, thread=thread, media_group_id=album)
            self._note(name, room, who, thread, message, picture)
        return parts

    def _edit(self, room: Room) -> int:
        if not (recent := self._recent.get(room.number)):
            return self._text(room)
        message, said = self._rng.choice(recent)
        number = self._edits[said.name] = self._edits.get(said.name, 0) + 1
        name = f"{said.name}.{number}"
        self._server.edit(message, f"{name} @{self._server.me.username}" if room.addressed else name)
        key = f"{self._server.me.id}:{room.id}:e:{message.id}:"
        self.said.append(Said(name, room, said.sender, key, said.thread, edit_of=said.name, message=message.id))
        return 1

    def _reply(self, room: Room) -> int:
        answered = [message for message, _ in self._recent.get(room.number, ())]
        answered += self._server.sent(room.id)[-RECENT:]
        answered = [message for message in answered if message.text.strip()]
        if not answered:
            return self._text(room)
        message = self._rng.choice(answered)
        quote = self._rng.choice((None, message.text.split()[0]))
        return self._text(room, thread=topic_of(message), reply_to=message, quote=quote)

    def _forward(self, room: Room) -> int:
        return self._text(room, forward=self._rng.choice(room.writers))

    def _choose(self, room: Room) -> int:
        return self._text(room, "choose")

    def _pause(self, room: Room) -> int:
        return self._text(room, f"pause {self._rng.uniform(0.1, 0.5):.2f}")

    def _press(self, room: Room) -> int:
        return 1 if self.press(room) else self._text(room)

    def press(self, room: Room) -> bool:
        """Press a button that nobody has pressed; return whether there is one."""
        shown = [message for message in self._server.sent(room.id)[-50:] if message.keyboard]
        shown = [message for message in shown if (room.id, message.id) not in self.pressed]
        for message in shown:
            data = message.keyboard[0][0]["callback_data"]
            if data in self._chosen:
                continue  # a duplicate of its question was pressed: another press is another message, and told twice
            who = self._rng.choice(room.writers)
            self.pressed.add((room.id, message.id))
            self._chosen.add(data)
            self._server.press(message, data, who)
            key = f"{self._server.me.id}:{room.id}:c:{message.id}"
            self.said.append(Said(data, room, who.id, key, topic_of(message), quotes=message.text, message=message.id))
            return True
        return False

    def _malformed(self, room: Room) -> int:
        mark = f"bad-{len(self.malformed)}-{self._rng.randrange(10**6)}"
        chat: Any = self._server.chat_of(room.place).wire
        kinds: list[dict[str, Any]] = [
            {"message": mark},
            {"message": {"message_id": mark, "chat": chat, "date": 1, "text": "x"}},
            {"message": {"message_id": 1, "date": 1, "text": mark}},
            {"edited_message": {"message_id": 1, "chat": {"id": "five", "type": "private"}, "date": 1, "text": mark}},
            {"callback_query": {"id": mark, "data": 5}},
            {"message": {"message_id": 1, "chat": chat, "date": 1, "text": [mark]}},
        ]
        self._server.raw_update(self._rng.choice(kinds))
        self.malformed.append(mark)
        return 1

    def _stranger(self, room: Room) -> int:
        who = FIRST_STRANGER + self._rng.randrange(STRANGERS)
        self.knocks[who] = self.knocks.get(who, 0) + 1
        if self._rng.random() < 0.2:
            message = self._server.photo(who, who, _PNG, caption="m999-1 look at this")
            self.strange_files.update(size["file_id"] for size in message.wire["photo"])
        else:
            self._server.say(who, who, "m999-1 let me in")
        return 1

    def _aside(self, room: Room) -> int:
        if not room.addressed:
            return self._text(room)
        message = self._server.say(room.place, self._rng.choice(room.writers), f"{BYSTANDERS} not for the bot")
        self.asides.append(f"{self._server.me.id}:{room.id}:m:{message.id}")
        return 1

    def _note(
        self, name: str, room: Room, who: FakePerson, thread: int | None, message: FakeMessage, file: bytes = b""
    ) -> None:
        key = f"{self._server.me.id}:{room.id}:m:{message.id}"
        said = Said(
            name,
            room,
            who.id,
            key,
            thread,
            message=message.id,
            speaker=f"{who.first_name}" if room.is_group else "",
            words=message.text,
            quotes=_quoted(message),
            forwarded="forward_origin" in message.wire,
            file=file,
        )
        self.said.append(said)
        if message.kind == "text" and "forward_origin" not in message.wire:
            self._recent.setdefault(room.number, deque(maxlen=RECENT)).append((message, said))

    # -- what must be so at any moment -------------------------------------------------------------------------------

    def confirmed(self, updates: list[Update]) -> None:
        """Check that everything that an offset confirms is committed."""
        with self._stage.store() as db:
            for update in updates:
                tree = msgspec.json.decode(update.raw)
                where, bindings = _trace_of(tree, self._server.me.id)
                if not db.execute(f"SELECT 1 FROM {where} LIMIT 1", bindings).fetchall():
                    self._stage.report.find("confirmed_early", f"update {update.update_id}: {tree}"[:300])

    def judge_asides(self, store: Store, report: Report) -> None:
        """What is said to others in a group is not the agent's."""
        for key in self.asides:
            if key in store.rows:
                report.find("strangers_in", f"{key} was said to others, and has an inbox row")
        heard = store.heard.get(BYSTANDERS, [])
        if heard:
            report.find("strangers_in", f"turns {heard[:5]} know what was said to others")

    def judge_strangers(self, report: Report) -> None:
        """Strangers are counted, told once at most, and nothing else; malformed updates are dead letters, once each."""
        known = {f"{BOT}:{who}" for who in self.knocks}
        with self._stage.store() as db:
            for (sender,) in db.execute("SELECT DISTINCT sender FROM inbox"):
                if str(sender) in known:
                    report.find("strangers_in", f"{sender} has inbox rows")
            counted = {
                str(key): int(str(knocks)) for key, knocks in db.execute("SELECT connector_key, knocks FROM strangers")
            }
            [(history,)] = db.execute("SELECT count(*) FROM history WHERE messages LIKE '%m999-%'").fetchall()
            bodies = [str(body) for (body,) in db.execute("SELECT body FROM dead_letters WHERE source = 'intake'")]
        if history:
            report.find("strangers_in", f"{history} turns know what strangers said")
        for who, times in self.knocks.items():
            if counted.get(f"{BOT}:{who}", 0) < times:
                report.find("lost", f"{counted.get(f'{BOT}:{who}', 0)} of {times} messages of stranger {who} counted")
            if (told := len(self._server.sent(who))) > 1:
                report.find("strangers_in", f"stranger {who} was told {told} times")
        fetched = {str(call.params.get("file_id")) for call in self._server.called("getFile")}
        if fetched & self.strange_files:
            report.find("strangers_in", f"{len(fetched & self.strange_files)} files of strangers were fetched")
        for mark in self.malformed:
            times = sum(f'"{mark}"' in body for body in bodies)
            if times != 1:
                report.find("doubled" if times else "lost", f"the malformed {mark} has {times} dead letters")


def _quoted(message: FakeMessage) -> str:
    """Return the words that a message answers to, of which a part may be meant."""
    if "quote" in message.wire:
        return str(message.wire["quote"]["text"])
    replied = message.wire.get("reply_to_message", {})
    return "" if "forum_topic_created" in replied else str(replied.get("text", ""))


def _trace_of(update: dict[str, Any], bot: int) -> tuple[str, tuple[str, ...]]:
    """Return the row that must be there for an update: a table with a condition, and its values."""
    kind = next(kind for kind in update if kind != "update_id")
    thing = update[kind]
    if mark := re.search(r"bad-\d+-\d+", str(thing)):
        return "dead_letters WHERE source = 'intake' AND body LIKE ?", (f"%{mark[0]}%",)
    if BYSTANDERS in str(thing.get("text", "")):
        return "connector_memory", ()
    if kind == "callback_query":
        where = thing["message"]
        return "inbox WHERE key = ?", (f"{bot}:{where['chat']['id']}:c:{where['message_id']}",)
    chat = thing["chat"]["id"]
    if FIRST_STRANGER <= chat < FIRST_STRANGER + STRANGERS:
        return "strangers WHERE connector_key = ?", (f"{BOT}:{chat}",)
    if kind == "edited_message":
        return "inbox WHERE key LIKE ?", (f"{bot}:{chat}:e:{thing['message_id']}:{thing['edit_date']}:%",)
    if "forum_topic_created" in thing:
        return "connector_memory", ()
    return "inbox WHERE key = ?", (f"{bot}:{chat}:m:{thing['message_id']}",)
