"""The people, channels and messages of a workspace, and what people do there, which becomes events."""

import itertools
import time
from collections.abc import Callable
from typing import Any, Final

import msgspec

TOKEN: Final = "xoxb-1234567890-fakeworkspace"
APP_TOKEN: Final = "xapp-1-A0FAKE-1234567890-fake"
SIGNING_SECRET: Final = "8f742231b10e8888abcd99yyyzzz85a5"
BOT: Final = "U0BOT"
TEAM: Final = "T12345678"

Message = dict[str, Any]
Push = Callable[[str, dict[str, Any]], None]


class FakeChannel(msgspec.Struct, kw_only=True):
    """A channel, or the conversation of one person with the app. `messages` are by their time stamp."""

    id: str
    name: str = ""
    private: bool = False
    person: str = ""  # whose it is, of a conversation with the app
    member: bool = True  # the app is in it
    archived: bool = False
    messages: dict[str, Message] = {}


class FakeSlackFile(msgspec.Struct, kw_only=True):
    """A file; `done` once it was shared."""

    id: str
    name: str
    media_type: str = ""
    subtype: str = ""  # "slack_audio": a clip that was recorded in Slack
    content: bytes = b""
    length: int = 0
    done: bool = False


class SlackWorld:
    """A workspace. What people do in it is told by `push(kind, payload)`; methods return the payload."""

    def __init__(self) -> None:
        self.clock: Callable[[], float] = time.time
        self.people: dict[str, str] = {}
        self.gone: set[str] = set()  # people to whom nobody can write
        self.channels: dict[str, FakeChannel] = {}
        self.files: dict[str, FakeSlackFile] = {}
        self.statuses: list[tuple[str, str, str]] = []  # (channel, thread, text)
        self.streams: dict[tuple[str, str], bool] = {}  # of each message that is one: whether it is open
        self.echoes = False  # the app is told of what it says itself, as in channels to whose messages it subscribes
        self._numbers = itertools.count(1)

    def push(self, kind: str, payload: dict[str, Any]) -> None:
        """Tell the app of something."""
        raise NotImplementedError

    # -- what there is -----------------------------------------------------------------------------------------------

    def person(self, number: str, name: str) -> str:
        """Let there be somebody; return the channel of their conversation with the app."""
        self.people[number] = name
        return self.dm(number).id

    def channel(self, number: str, name: str, **about: Any) -> FakeChannel:
        """Let there be a channel."""
        self.channels[number] = FakeChannel(id=number, name=name, **about)
        return self.channels[number]

    def dm(self, who: str) -> FakeChannel:
        """Return the conversation of somebody with the app."""
        number = f"D{who[1:]}"
        if number not in self.channels:
            self.channels[number] = FakeChannel(id=number, person=who)
        return self.channels[number]

    def sent(self, where: str) -> list[Message]:
        """Return what the app has said in a channel, or to a person, in order, without what it deleted."""
        channel = self.dm(where) if where[0] in "UW" else self.channels[where]
        return [each for each in channel.messages.values() if each.get("user") == BOT]

    def ts(self) -> str:
        """Return a time stamp that no message has."""
        return f"{int(self.clock())}.{next(self._numbers):06d}"

    # -- what people do ----------------------------------------------------------------------------------------------

    def say(
        self, who: str, text: str, channel: str = "", thread: str = "", files: tuple[str, ...] = ()
    ) -> dict[str, Any]:
        """Let somebody say something: to the app alone, or in a channel."""
        place = self.channels[channel] if channel else self.dm(who)
        ts = self.ts()
        message: Message = {"type": "message", "user": who, "text": text, "ts": ts, "client_msg_id": f"msg-{ts}"}
        if thread:
            message |= {"thread_ts": thread}
            if (parent := place.messages.get(thread)) is not None:
                message |= {"parent_user_id": parent["user"]}
        if files:
            message |= {"subtype": "file_share", "files": [self.about_file(number) for number in files]}
        place.messages[ts] = message
        if channel and f"<@{BOT}>" in text:  # who subscribes to both is told twice
            self.event(self._in(place, message | {"type": "app_mention"}))
        return self.event(self._in(place, message))

    def edit(self, channel: str, ts: str, text: str) -> dict[str, Any]:
        """Let the author of a message change it."""
        place = self.channels[channel]
        old = dict(place.messages[ts])
        new = place.messages[ts] = old | {"text": text, "edited": {"user": old["user"], "ts": self.ts()}}
        changed = {"type": "message", "subtype": "message_changed", "message": new, "previous_message": old}
        return self.event(self._in(place, changed | {"ts": self.ts()}))

    def delete(self, channel: str, ts: str) -> dict[str, Any]:
        """Let the author of a message delete it."""
        place = self.channels[channel]
        gone = {"type": "message", "subtype": "message_deleted", "deleted_ts": ts, "ts": self.ts()}
        return self.event(self._in(place, gone | {"previous_message": place.messages.pop(ts)}))

    def react(self, who: str, channel: str, ts: str, name: str) -> dict[str, Any]:
        """Let somebody put an emoji to a message."""
        item = {"type": "message", "channel": channel, "ts": ts}
        return self.event(
            {"type": "reaction_added", "user": who, "reaction": name, "item": item, "event_ts": self.ts()}
        )

    def press(self, who: str, channel: str, ts: str, label: str) -> dict[str, Any]:
        """Let somebody press a button below a message of the app."""
        message = self.channels[channel].messages[ts]
        buttons = [each for block in message["blocks"] for each in block.get("elements", ())]
        [button] = [each for each in buttons if each["text"]["text"] == label]
        action = button | {"block_id": "b", "action_ts": self.ts()}
        payload = {"type": "block_actions", "user": {"id": who}, "channel": {"id": channel}, "message": message,
                   "container": {"type": "message", "message_ts": ts, "channel_id": channel},
                   "team": {"id": TEAM}, "actions": [action], "trigger_id": f"t{next(self._numbers)}"}  # fmt: skip
        self.push("interactive", payload)
        return payload

    def command(self, who: str, text: str, channel: str = "") -> dict[str, Any]:
        """Let somebody use the app's slash command."""
        where = channel or self.dm(who).id
        payload = {"command": "/daycare", "text": text, "user_id": who, "channel_id": where, "team_id": TEAM,
                   "trigger_id": f"t{next(self._numbers)}"}  # fmt: skip
        self.push("slash_commands", payload)
        return payload

    def file(self, name: str, media_type: str, content: bytes, subtype: str = "") -> str:
        """Let there be a file of somebody; return its id."""
        number = f"F{next(self._numbers):09d}"
        self.files[number] = FakeSlackFile(
            id=number, name=name, media_type=media_type, subtype=subtype, content=content, done=True
        )
        return number

    def about_file(self, number: str) -> dict[str, Any]:
        """Return what Slack says of a file."""
        raise NotImplementedError

    def event(self, event: dict[str, Any]) -> dict[str, Any]:
        """Tell the app of an event."""
        number = next(self._numbers)
        payload = {"type": "event_callback", "team_id": TEAM, "api_app_id": "A0FAKE", "event": event,
                   "event_id": f"Ev{number:09d}", "event_time": int(self.clock())}  # fmt: skip
        self.push("events_api", payload)
        return payload

    def _in(self, place: FakeChannel, message: Message) -> dict[str, Any]:
        kind = "im" if place.person else "group" if place.private else "channel"
        return message | {"channel": place.id, "channel_type": kind, "event_ts": message["ts"]}
