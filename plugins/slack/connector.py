"""The connector: what the host asks of a workspace. Everything goes through the governor.

It is made with the first token; what is heavy is imported when it is first needed.
"""

from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import trio
from msgspec.structs import replace

from daycare.base.bounded import Bounded
from daycare.base.connector import BaseConnector, Capabilities, Identity, Outgoing
from daycare.base.errors import (
    BusyError,
    DaycareError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    UnavailableError,
)
from daycare.messenger.governor import Governor, Rate
from daycare.messenger.json_paths import at, list_at, text_at
from daycare.messenger.starting import ClientSlot
from daycare.plugin import PluginContext
from daycare_plugins.slack.choices import SlackTouch
from daycare_plugins.slack.emoji import name_of
from daycare_plugins.slack.places import TS, SlackTarget, target_of

if TYPE_CHECKING:
    from daycare_plugins.slack.client import SlackApi
    from daycare_plugins.slack.streams import SlackStreams

PACE: Final = "pace"  # the name under which cool-downs are remembered
CHANNEL: Final = Rate(1.1, 3)  # Slack: one message a second in a channel, and short bursts
WORKSPACE: Final = Rate(1 / 5, 5)  # Slack: several hundred messages a minute in a workspace
TYPING_S: Final = 90.0  # a status goes after two minutes, or with the reply
STATUS: Final = "is working on it…"
OPENED_MAX: Final = 10_000  # people whose conversation with the app is known
SENT_MAX: Final = 10_000  # messages whose thread is known, for the reactions to them
FETCH_TRIES: Final = 3  # to fetch a file, when Slack asks to wait ...
FETCH_WAIT_MAX_S: Final = 60.0  # ... so long at most, each time: a turn waits for it
LOOK_BACK: Final = 50  # messages among which one is looked for that may have arrived

_CAPABLE: Final = Capabilities(
    edits=True, withdrawals=True, reactions=True, choices=True, files=True, preview_every_s=3.0
)
_IN_THREAD: Final = replace(_CAPABLE, typing_s=TYPING_S)  # a status is that of a thread


class SlackConnector(BaseConnector):
    """One workspace."""

    pull = False

    def __init__(self, context: PluginContext, name: str, secret: str) -> None:
        self.name = name
        self.who: Identity | None = None
        self.team = ""
        self._context = context
        self._slot: ClientSlot[SlackApi] = ClientSlot(context, secret, f"calling Slack for {name}")
        self._governor: Governor[str] = Governor(lambda channel: CHANNEL, WORKSPACE, key=str)
        self._opened: Bounded[str, str] = Bounded(OPENED_MAX)  # the channel of a person's conversation with the app
        self._threads: Bounded[tuple[str, str], str] = Bounded(SENT_MAX)
        self._asker: Bounded[str, str] = Bounded(OPENED_MAX)  # who wrote last in a thread: a stream is for somebody
        self._latest: Bounded[str, str] = Bounded(OPENED_MAX)  # the thread in which a person wrote last
        self._streams: SlackStreams | None = None

    # == for the workspace's task ======================================================================================

    async def open(self, api: "SlackApi", streams: "SlackStreams") -> None:
        """Send through this client from now on."""
        self._governor.restore(await self._context.recall(self.name, PACE), self._context.now_ms())
        self._streams = streams
        self._slot.fill(api)

    def close(self) -> None:
        """There is no client any more."""
        self._slot.clear()
        self.who = self._streams = None

    def heard(self, channel: str, ts: str, thread: str, who: str) -> None:
        """Take note of a message that was passed on: where it stands, and who wrote it."""
        self._threads[channel, ts] = thread
        if channel[0] == "D":
            self._opened[who] = channel
            self._latest[who] = thread
        if thread:
            self._asker[thread] = who

    def thread_of(self, channel: str, ts: str) -> str | None:
        """Return the thread of a message that was passed on or sent, None if it is not known."""
        return self._threads.get((channel, ts))

    async def notice(self, target: str, text: str) -> None:
        """Send a line to somebody, past the outbox."""
        place = target_of(target)
        await self._governor.acquire(place.where, important=True)
        await self._call("chat.postMessage", place, **_outgoing().posted(_outgoing().tail(text)))

    async def take_buttons(self, press: SlackTouch) -> None:
        """Let the buttons of a choice that was made go."""
        if press.spent and press.text:
            await self._slot.get().call(
                "chat.update", channel=press.channel, ts=press.ts, **_outgoing().shown(press.text)
            )

    # == answers =======================================================================================================

    def split(self, outgoing: Outgoing) -> Sequence[Outgoing]:
        """Return the reply in messages that Slack takes."""
        parts: list[Outgoing] = _outgoing().split(outgoing)
        return parts

    def delay_s(self, target: str) -> float:
        """Return how long the governor keeps a reply back, or before there can be a client."""
        if (starting_s := self._slot.delay_s()) > 0:
            return starting_s
        return self._governor.delay_s(target_of(target).where, important=True)

    async def send(self, outgoing: Outgoing) -> str:
        """Send one part; return its time stamp in the channel, or the id of a file."""
        if outgoing.markup is None:  # it was not split
            receipts = [await self.send(part) for part in self.split(outgoing)]
            return receipts[0]
        module, place, api = _outgoing(), target_of(outgoing.target), self._slot.get()
        if outgoing.maybe_duplicate and (found := await self._arrived(place, outgoing.key)):
            return found
        self._book(place.where, important=True)
        if outgoing.markup == "file":
            [file] = outgoing.files
            number = await api.upload(file)
            channel = await self._channel(place)
            where = {"channel_id": channel, "thread_ts": place.thread or None}
            params = module.shared(file, number, duplicate=outgoing.maybe_duplicate)
            await self._guarded(place, "files.completeUploadExternal", **where, **params)
            return number
        try:
            answer = await self._call("chat.postMessage", place, **module.message(outgoing))
        except InvalidError as error:
            if error.code != "REPLY_GONE":
                raise
            answer = await self._call("chat.postMessage", place._replace(thread=""), **module.message(outgoing))
        return self._receipt(answer, place)

    async def _arrived(self, place: SlackTarget, key: str) -> str:
        """Return the receipt of a message that carries our key; empty if there is none, or nobody can tell."""
        try:
            channel = await self._channel(place)
            method, about = (
                ("conversations.replies", {"ts": place.thread}) if place.thread else ("conversations.history", {})
            )
            answer = await self._slot.get().call(
                method, channel=channel, limit=LOOK_BACK, include_all_metadata=True, **about
            )
        except DaycareError as error:
            self._context.log.info("slack_not_looked_up", connector=self.name, code=error.code)
            return ""
        for each in list_at(answer, "messages"):
            if text_at(each, "metadata", "event_payload", "key") == key:
                return text_at(each, "ts")
        return ""

    def _receipt(self, answer: object, place: SlackTarget) -> str:
        channel, ts = text_at(answer, "channel"), text_at(answer, "ts")
        if not TS.fullmatch(ts):
            raise UnavailableError("SLACK_DOWN", "calling chat.postMessage: the answer names no message")
        if place.is_person and channel:
            self._opened[place.where] = channel
        self._threads[channel, ts] = place.thread
        return ts

    # == what may be left out ==========================================================================================

    def capabilities(self, target: str) -> Capabilities:
        """All that Slack can do; a status only in threads, which a person may have with the app."""
        place = target_of(target)
        return _IN_THREAD if place.thread or place.is_person else _CAPABLE

    async def edit(self, target: str, receipt: str, text: str) -> None:
        """Replace the text of a message; of what is too long for one, the end is shown. Its buttons go."""
        place, words = target_of(target), _outgoing().tail(text)
        if not words:
            return
        channel = await self._channel(place)
        self._book(place.where, important=False)
        if self._streams is not None and await self._streams.grow(channel, _ts(receipt), text):
            return
        await self._guarded(place, "chat.update", channel=channel, ts=_ts(receipt), **_outgoing().shown(words))

    async def withdraw(self, target: str, receipt: str) -> None:
        """Delete a message, or a file."""
        place = target_of(target)
        try:
            if receipt[:1] == "F":
                await self._guarded(place, "files.delete", file=receipt)
                return
            channel = await self._channel(place)
            if self._streams is not None:
                await self._streams.stop(channel, _ts(receipt))
            await self._guarded(place, "chat.delete", channel=channel, ts=_ts(receipt))
        except NotFoundError as error:
            if error.code not in ("MESSAGE_GONE", "FILE_GONE"):
                raise

    async def act(self, target: str, action: str) -> None:
        """Show that the agent works."""
        place = self._watched(target)
        if not place.thread:
            raise self._cannot("act")
        self._must_wait(self._governor.frozen_s(place.where))
        where = {"channel_id": await self._channel(place), "thread_ts": place.thread}
        await self._guarded(place, "assistant.threads.setStatus", status=STATUS, **where)

    async def status(self, target: str, text: str) -> str:
        """Send a message that says how far it is: in a thread as a stream, where Slack has these."""
        place, words = self._watched(target), _outgoing().tail(text)
        if not words:
            raise InvalidError("MESSAGE_EMPTY", "sending a status line: there is nothing to see in it")
        self._book(place.where, important=False)
        if place.thread and self._streams is not None:
            asker = place.where if place.is_person else self._asker.get(place.thread, "")
            begun = await self._streams.begin(await self._channel(place), place.thread, asker, self.team, text)
            if begun:
                return begun
        return self._receipt(await self._call("chat.postMessage", place, **_outgoing().posted(words)), place)

    def _watched(self, target: str) -> SlackTarget:
        """Return where somebody looks who is shown how far it is: the thread in which they wrote last."""
        place = target_of(target)
        thread = self._latest.get(place.where, "") if place.is_person else ""
        return place._replace(thread=place.thread or thread)

    async def react(self, target: str, message: str, emoji: str) -> None:
        """Put an emoji to a message, or take ours away."""
        place = target_of(target)
        name = name_of(emoji) if emoji else ""
        if name is None:
            raise InvalidError(
                "REACTION_REFUSED", f"reacting with {emoji[:16]}: Slack's name of this emoji is not known"
            )
        self._must_wait(self._governor.frozen_s(place.where))
        where = {"channel": await self._channel(place), "timestamp": _ts(message)}
        if name:
            await self._reaction(place, "reactions.add", name, where)
            return
        found = await self._guarded(place, "reactions.get", **where)
        mine = self.who.id if self.who is not None else ""
        for each in list_at(found, "message", "reactions"):
            if mine in list_at(each, "users"):
                await self._reaction(place, "reactions.remove", text_at(each, "name"), where)

    async def _reaction(self, place: SlackTarget, method: str, name: str, where: dict[str, str]) -> None:
        try:
            await self._guarded(place, method, name=name, **where)
        except InvalidError as error:
            if not error.message.endswith(("(already_reacted)", "(no_reaction)")):
                raise

    async def fetch(self, reference: str, max_bytes: int) -> bytes:
        """Return a file's bytes; while the connection starts, or Slack asks to wait, wait: nobody asks again soon."""
        if not (reference.isascii() and reference.isalnum()):
            raise NotFoundError("FILE_GONE", "downloading a file: this is no id of one")
        for _ in range(FETCH_TRIES - 1):
            try:
                return await (await self._slot.wait()).download(reference, max_bytes)
            except BusyError as busy:
                await trio.sleep(min(busy.retry_after_s or 1.0, FETCH_WAIT_MAX_S))
        return await (await self._slot.wait()).download(reference, max_bytes)

    def identity(self) -> Identity | None:
        """Return the app's id and name in the workspace."""
        return self.who

    # == calls =========================================================================================================

    async def _channel(self, place: SlackTarget) -> str:
        """Return the channel of a place: that of a person is opened."""
        if not place.is_person:
            return place.where
        if place.where not in self._opened:
            answer = await self._guarded(place, "conversations.open", users=place.where)
            channel = at(answer, "channel")
            self._opened[place.where] = text_at(channel, "id")
        return self._opened[place.where]

    def _must_wait(self, wait_s: float) -> None:
        if wait_s > 0:
            raise BusyError("SLACK_PACE", f"calling Slack: the next may go in {wait_s:.1f} s", retry_after_s=wait_s)

    def _book(self, where: str, *, important: bool) -> None:
        """Book a call that goes out now. Who asked for the delay and waited may still find others before them."""
        self._must_wait(self._governor.delay_s(where, important=important))
        self._governor.take(where, important=important)

    async def _call(self, method: str, place: SlackTarget, **params: Any) -> dict[str, Any]:
        channel = await self._channel(place)
        return await self._guarded(place, method, channel=channel, thread_ts=place.thread or None, **params)

    async def _guarded(self, place: SlackTarget, method: str, **params: Any) -> dict[str, Any]:
        try:
            return await self._slot.get().call(method, **params)
        except BusyError as busy:
            self._governor.freeze(place.where, busy.retry_after_s or 1.0)
            await self._keep_pace()
            raise
        except (ForbiddenError, NotFoundError) as error:
            if error.code in ("CHAT_GONE", "RECIPIENT_GONE"):
                self._opened.pop(place.where, None)
            raise

    async def _keep_pace(self) -> None:
        """A cool-down outlives a restart. If it cannot be kept, the next 429 tells it again."""
        try:
            await self._context.remember(self.name, PACE, self._governor.frozen_until(self._context.now_ms()))
        except DaycareError as error:
            self._context.log.warning("slack_pace_not_kept", connector=self.name, reason=error.message)


def _outgoing() -> ModuleType:
    """Return the module that renders, which is too heavy to be imported before there is anything to send."""
    from daycare_plugins.slack import outgoing

    return outgoing


def _ts(receipt: str) -> str:
    if not TS.fullmatch(receipt):
        raise NotFoundError("MESSAGE_GONE", f"finding the message {receipt[:40]!r}: it is not a time stamp of one")
    return receipt
