"""People who write all kinds of things in a workspace, strangers among them, and who write down what they did."""

import random
import re
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from daycare_plugins.slack.testing.link import SlackEnvelope
from daycare_plugins.slack.testing.server import BOT, TEAM, FakeWorkspace
from tests.slack.campaign.stage import SLACK, SlackRoom, SlackStage
from tests.telegram.campaign.judge import Said, Store
from tests.telegram.campaign.report import Report

STRANGERS: Final = 12
RECENT: Final = 12  # messages of a room that may be edited, deleted or reacted to
TOP_LEVEL_MAX: Final = 40  # mentions outside of threads in one channel: each begins a conversation, of which it has 100
BYSTANDERS: Final = "m998-1"  # what is said to somebody else begins so
_CHOICE: Final = re.compile(r"m\d+-\d+b")
COMMAND: Final = "agents"
_WEIGHTS: Final = {
    "text": 34, "pause": 12, "file": 4, "edit": 8, "delete": 4, "choose": 4, "press": 4, "reaction": 6, "command": 2,
    "malformed": 2, "stranger": 7, "aside": 7, "unfurl": 6,
}  # fmt: skip


class SlackCrowd:
    """Everybody. `said` is what allowed people said, in order; `deleted` the names of what they took back."""

    def __init__(self, stage: SlackStage, rng: random.Random) -> None:
        self.said: list[Said] = []
        self.deleted: set[str] = set()
        self.malformed: list[str] = []
        self.knocks: Counter[str] = Counter()
        self.asides: list[str] = []  # keys of what is said to others
        self.commands: Counter[str] = Counter()  # by channel
        self.deeds: Counter[str] = Counter()
        self._chosen: set[str] = set()
        self._strange_files: set[str] = set()
        self._stage = stage
        self._slack: FakeWorkspace = stage.slack
        self._rng = rng
        self._recent: dict[str, deque[tuple[str, Said]]] = {}  # by channel: time stamps
        self._edits: Counter[str] = Counter()
        self._top_level: Counter[str] = Counter()
        self._deeds: dict[str, Callable[[SlackRoom], None]] = {
            "text": self._text, "pause": self._pause, "file": self._file, "edit": self._edit, "delete": self._delete,
            "choose": self._choose, "press": self._press, "reaction": self._react, "command": self._command,
            "malformed": self._malformed, "stranger": self._stranger, "aside": self._aside, "unfurl": self._unfurl,
        }  # fmt: skip
        self._slack.links.on_acknowledged.append(self._acknowledged)

    def act(self, rooms: Sequence[SlackRoom]) -> None:
        """Let somebody do something."""
        [deed] = self._rng.choices([*_WEIGHTS], [*_WEIGHTS.values()])
        self.deeds[deed] += 1
        self._deeds[deed](self._rng.choice(rooms))

    # -- deeds -------------------------------------------------------------------------------------------------------

    def _text(self, room: SlackRoom, more: str = "", file: bytes = b"") -> None:
        name, who, thread = room.name(), self._rng.choice(room.writers), self._rng.choice(room.threads)
        if room.is_channel and self._top_level[room.id] < TOP_LEVEL_MAX and self._rng.random() < 0.3:
            self._top_level[room.id] += 1
            thread = ""
        files = (self._slack.file("words.txt", "text/plain", file),) if file else ()
        channel = room.id if room.is_channel else ""
        said = self._slack.say(who, self._addressed(room, f"{name} {more}".strip()), channel, thread, files)
        ts = said["event"]["ts"]
        place = (thread or ts) if room.is_channel else None
        self.said.append(Said(name, room, who, f"{TEAM}:{room.id}:m:{ts}", place, words=name, file=file))
        if not file:
            self._recent.setdefault(room.id, deque(maxlen=RECENT)).append((ts, self.said[-1]))

    def _addressed(self, room: SlackRoom, text: str) -> str:
        return f"<@{BOT}> {text}" if room.is_channel else text

    def _pause(self, room: SlackRoom) -> None:
        self._text(room, f"pause {self._rng.uniform(0.5, 3.0):.2f}")

    def _choose(self, room: SlackRoom) -> None:
        self._text(room, "choose")

    def _file(self, room: SlackRoom) -> None:
        self._text(room, file=f"the words of file{room.number}-{room.said + 1}".encode())

    def _edit(self, room: SlackRoom) -> None:
        if (one := self._one_of(room)) is None:
            return self._text(room)
        ts, said = one
        self._edits[said.name] += 1
        name = f"{said.name}.{self._edits[said.name]}"
        self._slack.edit(room.id, ts, self._addressed(room, name))
        self.said.append(
            Said(name, room, said.sender, f"{TEAM}:{room.id}:e:{ts}:", said.thread, edit_of=said.name, words=name)
        )
        return None

    def _delete(self, room: SlackRoom) -> None:
        if (one := self._one_of(room)) is None:
            return self._text(room)
        self._recent[room.id].remove(one)
        self._slack.delete(room.id, one[0])
        self.deleted.add(one[1].name)
        return None

    def _one_of(self, room: SlackRoom) -> tuple[str, Said] | None:
        recent = self._recent.get(room.id)
        return self._rng.choice(recent) if recent else None

    def _react(self, room: SlackRoom) -> None:
        if (one := self._one_of(room)) is not None:
            self._slack.react(self._rng.choice(room.writers), room.id, one[0], self._rng.choice(("+1", "eyes", "tada")))

    def _press(self, room: SlackRoom) -> None:
        if not self.press(room):
            self._text(room)

    def press(self, room: SlackRoom) -> bool:
        """Press a button that nobody has pressed; return whether there is one."""
        for message in self._slack.sent(room.id)[-50:]:
            buttons = [each for block in message.get("blocks", ()) for each in block.get("elements", ())]
            label = buttons[0]["text"]["text"] if buttons else ""
            if not _CHOICE.fullmatch(label) or label in self._chosen:
                continue  # a duplicate of its question was pressed: another press is another message, and told twice
            self._chosen.add(label)
            who, ts = self._rng.choice(room.writers), message["ts"]
            self._slack.press(who, room.id, ts, label)
            thread = message.get("thread_ts", "") if room.is_channel else None
            quotes = message["text"].replace("`", "")
            self.said.append(Said(label, room, who, f"{TEAM}:{room.id}:c:{ts}", thread, quotes=quotes))
            return True
        return False

    def _command(self, room: SlackRoom) -> None:
        if room.is_channel:
            return self._text(room)
        self._slack.command(room.writers[0], COMMAND)
        self.commands[room.id] += 1
        return None

    def _malformed(self, room: SlackRoom) -> None:
        mark = f"bad-{len(self.malformed)}-{self._rng.randrange(10**6)}"
        message = {"type": "message", "channel": room.id, "user": room.writers[0], "ts": "5.000005", "text": mark}
        kinds: list[tuple[str, Any]] = [
            ("events_api", [mark]),
            ("events_api", {"event_id": mark, "event": message | {"channel": 5}}),
            ("events_api", {"event_id": mark, "event": message | {"user": ["x"], "channel": "D1"}}),
            ("events_api", {"event_id": mark, "event": message | {"ts": "yesterday", "channel": "D1"}}),
            ("slash_commands", {"text": mark, "user_id": {}}),
        ]
        self._slack.links.push(*self._rng.choice(kinds))
        self.malformed.append(mark)

    def _stranger(self, room: SlackRoom) -> None:
        who = f"U9{self._rng.randrange(STRANGERS):02d}STRANGER"
        self._slack.person(who, who)
        self.knocks[who] += 1
        if self._rng.random() < 0.2:
            file = self._slack.file("a.txt", "text/plain", b"m999-1 look")
            self._strange_files.add(file)
            self._slack.say(who, "", files=(file,))
        else:
            self._slack.say(who, "m999-1 let me in")

    def _aside(self, room: SlackRoom) -> None:
        if not room.is_channel:
            return self._text(room)
        said = self._slack.say(
            self._rng.choice(room.writers), BYSTANDERS, room.id, self._rng.choice(["", *room.threads])
        )
        self.asides.append(f"{TEAM}:{room.id}:m:{said['event']['ts']}")
        return None

    def _unfurl(self, room: SlackRoom) -> None:
        """A link of a message gets its preview: Slack tells that the message has changed."""
        if (one := self._one_of(room)) is None:
            return
        old = self._slack.channels[room.id].messages[one[0]]
        changed = {"type": "message", "subtype": "message_changed", "channel": room.id, "ts": self._slack.ts()}
        self._slack.event(changed | {"message": old | {"attachments": [{"text": "a page"}]}, "previous_message": old})

    # -- what must be so at any moment -------------------------------------------------------------------------------

    def _acknowledged(self, envelope: SlackEnvelope) -> None:
        """Check that what is acknowledged is committed."""
        trace = _trace_of(envelope.payload)
        if trace is None:
            return
        with self._stage.store() as db:
            if not db.execute(f"SELECT 1 FROM {trace[0]} LIMIT 1", (trace[1],)).fetchall():
                self._stage.report.find("confirmed_early", f"{envelope.kind}: {envelope.payload}"[:300])

    # -- what came of it ---------------------------------------------------------------------------------------------

    def judge(self, store: Store, report: Report) -> None:
        """Strangers are counted, told once at most, and nothing else; the malformed are dead letters, once each."""
        for key in self.asides:
            if key in store.rows:
                report.find("strangers_in", f"{key} was said to others, and has an inbox row")
        if heard := store.heard.get(BYSTANDERS, []):
            report.find("strangers_in", f"turns {heard[:5]} know what was said to others")
        with self._stage.store() as db:
            senders = {str(sender) for (sender,) in db.execute("SELECT DISTINCT sender FROM inbox")}
            counted = {
                str(key): int(str(knocks)) for key, knocks in db.execute("SELECT connector_key, knocks FROM strangers")
            }
            [(history,)] = db.execute("SELECT count(*) FROM history WHERE messages LIKE '%m999-%'").fetchall()
            bodies = [str(body) for (body,) in db.execute("SELECT body FROM dead_letters WHERE source = 'intake'")]
        if history:
            report.find("strangers_in", f"{history} turns know what strangers said")
        for who, times in self.knocks.items():
            if f"{SLACK}:{who}" in senders:
                report.find("strangers_in", f"{who} has inbox rows")
            if (known := counted.get(f"{SLACK}:{who}", 0)) < times:
                report.find("lost", f"{known} of {times} messages of stranger {who} counted")
            if (told := len(self._slack.sent(who))) > 1:
                report.find("strangers_in", f"stranger {who} was told {told} times")
        fetched = {params.text("file") for params in self._slack.asked_for("files.info")}
        if fetched & self._strange_files:
            report.find("strangers_in", f"{len(fetched & self._strange_files)} files of strangers were fetched")
        for mark in self.malformed:
            times = sum(f'"{mark}"' in body for body in bodies)
            if times != 1:
                report.find("doubled" if times else "lost", f"the malformed {mark} has {times} dead letters")


def _trace_of(payload: Any) -> tuple[str, str] | None:
    """Return the row that must be there for a payload: a table with a condition, and its value; None where none is."""
    if mark := re.search(r"bad-\d+-\d+", str(payload)):
        return "dead_letters WHERE source = 'intake' AND body LIKE ?", f"%{mark[0]}%"
    event = payload.get("event", {})
    if str(event.get("user", "")).endswith("STRANGER"):
        return "strangers WHERE connector_key = ?", f"{SLACK}:{event['user']}"
    channel = event.get("channel", "")
    if event.get("subtype") == "message_deleted":
        return "inbox WHERE key = ?", f"{TEAM}:{channel}:d:{event['deleted_ts']}"
    if event.get("subtype") == "message_changed":
        edited = event["message"]["text"] != event["previous_message"]["text"]
        key = f"{TEAM}:{channel}:e:{event['message']['ts']}:%"  # one that comes after a later one is passed over
        return ("inbox WHERE key LIKE ?", key) if edited else None
    if event.get("type") in ("message", "app_mention"):
        ours = event.get("user") == BOT or BYSTANDERS in event["text"]
        return None if ours else ("inbox WHERE key = ?", f"{TEAM}:{channel}:m:{event['ts']}")
    if payload.get("type") == "block_actions":
        return "inbox WHERE key = ?", f"{TEAM}:{payload['channel']['id']}:c:{payload['container']['message_ts']}"
    return None
