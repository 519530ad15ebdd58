"""From payloads to the host, and what follows at once: the buttons of a choice go, strangers are told why.

Nothing of what follows matters as much as receiving. It waits in short queues, is tried twice and then dropped.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

import trio

from daycare.base.bounded import Bounded
from daycare.base.connector import Inbound, Outcome, Unreadable
from daycare.base.error_boundary import error_boundary
from daycare.base.errors import BusyError, DaycareError, UnavailableError
from daycare.messenger.json_paths import text_at
from daycare.messenger.receiving import Errands, Receiver
from daycare.plugin import PluginContext
from daycare_plugins.slack.choices import SlackTouch
from daycare_plugins.slack.names import SlackNames
from daycare_plugins.slack.places import TS
from daycare_plugins.slack.reading import ReadEnvelope, SlackKnown, SlackRules, read, unreadable, who_in

STORE: Final = "SLACK_STORE"  # the store takes nothing
COMMIT_S: Final = 15.0
OLD_MS: Final = 20 * 86_400_000  # the host knows a repeat for 30 days
EDITED_MAX: Final = 10_000  # messages of which the last edit is known
BUTTON_S: Final = 10.0  # a person looks at it


class Payload(NamedTuple):
    """What came: the kind of its envelope, and what is in it."""

    kind: str
    body: object


class SlackSpeaker(Protocol):
    """What is needed of the connector."""

    def heard(self, channel: str, ts: str, thread: str, who: str) -> None:
        """Take note of a message that was passed on."""
        ...

    def thread_of(self, channel: str, ts: str) -> str | None:
        """Return the thread of a message that was passed on or sent."""
        ...

    async def notice(self, target: str, text: str) -> None:
        """Send a line to somebody, past the outbox."""
        ...

    async def take_buttons(self, press: SlackTouch) -> None:
        """Let the buttons of a choice that was made go."""
        ...


class SlackIntake:
    """Takes in what comes for one workspace. `rules` are set once it is known who we are there."""

    def __init__(self, context: PluginContext, rules: SlackRules, names: SlackNames, speaker: SlackSpeaker) -> None:
        self.rules = rules
        self._context = context
        self._names = names
        self._speaker = speaker
        self._edited: Bounded[str, float] = Bounded(EDITED_MAX)  # when a message was edited last, by its key
        self._one = trio.Lock()  # two connections may deliver at the same time, while one takes the other's place
        name = rules.connector
        self._receiver = Receiver(context, name, "slack", defect="SLACK_DEFECT", within_s=COMMIT_S, late=STORE)
        self._notices = Errands(context, name, "slack_notice", self._notify)
        self._buttons = Errands(context, name, "slack_button", self._pressed, within_s=BUTTON_S)

    async def run(self) -> None:
        """Do what follows, until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._notices.run)
            nursery.start_soon(self._buttons.run)

    async def take(self, payloads: Sequence[Payload]) -> None:
        """Commit payloads. Raises `BusyError` or `UnavailableError` SLACK_STORE when they have to come again."""
        async with self._one:
            people, channels = set[str](), set[str]()
            for payload in payloads:
                more = who_in(payload.body)
                people |= more[0]
                channels |= more[1]
            await self._names.learn(people, channels)
            reads = self._read(payloads)
            found = [(one, one.item) for one in reads if one.item is not None]
            try:
                outcomes = await self._receiver.receive([item for _, item in found]) if found else []
            except (BusyError, UnavailableError) as error:
                message = f"keeping what came: {error.message}"
                raise type(error)(STORE, message, hint=error.hint, retry_after_s=error.retry_after_s) from error
            for (one, item), outcome in zip(found, outcomes, strict=True):
                self._follow(one, item, outcome)

    def _read(self, payloads: Sequence[Payload]) -> list[ReadEnvelope]:
        """Read payloads that came together: what belongs to a message may stand right behind it."""
        here: dict[tuple[str, str], str] = {}

        def thread_of(channel: str, ts: str) -> str | None:
            return here.get((channel, ts), self._speaker.thread_of(channel, ts))

        reads = []
        for payload in payloads:
            one = self._read_one(payload, SlackKnown(self._names, self._names.channel, thread_of))
            if isinstance(one.item, Inbound) and one.ts:
                here[one.channel, one.ts] = one.thread
            if one.why_ignored:
                self._context.log.debug("slack_ignored", connector=self.rules.connector, why=one.why_ignored)
            reads.append(one)
        return reads

    def _read_one(self, payload: Payload, known: SlackKnown) -> ReadEnvelope:
        try:
            with error_boundary(self._receiver.defect, "reading an event"):
                one = read(payload.kind, payload.body, self.rules, known)
        except DaycareError as error:
            self._context.log.error("slack_unreadable", reason=error.message)
            return ReadEnvelope(unreadable(payload.kind, payload.body, "this daycare cannot read it"))
        if isinstance(one.item, Inbound) and one.item.at_ms and self._context.now_ms() - one.item.at_ms > OLD_MS:
            return ReadEnvelope(unreadable(payload.kind, payload.body, "it is too old to tell whether it is a repeat"))
        if isinstance(one.item, Inbound) and one.item.edits and self._is_overtaken(one.item.edits, payload):
            return ReadEnvelope(why_ignored="the message was edited again since")
        return one

    def _is_overtaken(self, message: str, payload: Payload) -> bool:
        """Whether a later edit of the message came before this one: Slack promises no order."""
        ts = text_at(payload.body, "event", "event_ts")
        when, last = float(ts) if TS.fullmatch(ts) else 0.0, self._edited.get(message, 0.0)
        self._edited[message] = max(when, last)
        return 0.0 < when < last

    def _follow(self, one: ReadEnvelope, item: Inbound | Unreadable, outcome: Outcome) -> None:
        if isinstance(item, Unreadable):
            return
        prefix = f"{item.connector}:"
        if one.ts and outcome.state in ("accepted", "repeated"):
            self._speaker.heard(one.channel, one.ts, one.thread, item.sender.removeprefix(prefix))
        if one.press is not None and outcome.state in ("accepted", "repeated"):
            self._buttons.add(one.press)
        if outcome.say:
            target = item.reply_target or (item.chat or item.sender).removeprefix(prefix)
            self._notices.add((target, outcome.say))

    async def _notify(self, notice: tuple[str, str], again: bool) -> None:
        await self._speaker.notice(*notice)

    async def _pressed(self, press: SlackTouch, again: bool) -> None:
        await self._speaker.take_buttons(press)
