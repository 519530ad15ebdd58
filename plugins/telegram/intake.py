"""From updates to the host, and what follows at once: buttons stop spinning, and who was not let in is told why.

Nothing of what follows matters as much as receiving. It waits in short queues, is tried twice and then dropped.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

import trio

from daycare.base.connector import Inbound, Outcome, Unreadable
from daycare.base.errors import BusyError, DaycareError, UnavailableError
from daycare.messenger.receiving import Errands, Receiver
from daycare.plugin import PluginContext
from daycare_plugins.telegram import health
from daycare_plugins.telegram.choices import Touch
from daycare_plugins.telegram.known import Known
from daycare_plugins.telegram.overheard import Overheard
from daycare_plugins.telegram.reading import Bot, ReadingRules, ReadUpdate, join_albums, read

BUTTON_S: Final = 10.0  # a person looks at it
BUTTONS_AT_ONCE: Final = 8  # a question in a group is answered by all of them together


class TelegramSpeaker(Protocol):
    """What is needed of the connector."""

    def heard(self, chat: int, message: str) -> None:
        """Take note of the newest message of a chat."""
        ...

    async def notice(self, target: str, text: str) -> None:
        """Send a line to somebody, past the outbox."""
        ...

    async def answer_button(self, press: Touch) -> None:
        """Let a pressed button stop spinning, and those of a choice that was made go."""
        ...


class TelegramIntake:
    """Takes in the updates of one bot."""

    def __init__(
        self, context: PluginContext, rules: ReadingRules, known: Known, speaker: TelegramSpeaker, overheard: Overheard
    ) -> None:
        self.bot = Bot(id=0, username="")  # known before the first update is read
        self._context = context
        self._rules = rules
        self._known = known
        self._speaker = speaker
        self._overheard = overheard
        name = rules.connector
        self._receiver = Receiver(context, name, "telegram", defect="TELEGRAM_DEFECT")
        self._notices = Errands(context, name, "telegram_notice", self._notify)
        self._buttons = Errands(
            context, name, "telegram_button", self._answer, tries=1, within_s=BUTTON_S, at_once=BUTTONS_AT_ONCE
        )

    async def run(self) -> None:
        """Do what follows, until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._notices.run)
            nursery.start_soon(self._buttons.run)

    async def take(self, updates: Sequence[Mapping[str, Any]], cursor: str) -> bool:
        """Commit updates with the place to read on; return whether there was anything new.

        Raises `BusyError` or `UnavailableError` TELEGRAM_STORE when nothing is committed: all of it has to come again.
        """
        reads = read_batch(updates, self.bot, self._rules, self._known)
        reads, said_since = self._overheard.told(reads)
        found = [(one, one.item) for one in reads if one.item is not None]
        try:
            for old, new in dict.fromkeys(one.moved for one in reads if one.moved is not None):
                await self._moved(old, new)
            outcomes = await self._receiver.receive([item for _, item in found], cursor)
        except (BusyError, UnavailableError) as error:
            raise type(error)(
                health.STORE,
                f"keeping what came: {error.message}",
                hint=error.hint,
                retry_after_s=error.retry_after_s,
            ) from error
        self._overheard.keep(said_since)
        for (one, item), outcome in zip(found, outcomes, strict=True):
            self._follow(one, item, outcome)
        for one in reads:
            if one.why_ignored:
                self._context.log.debug(
                    "telegram_ignored", connector=self._rules.connector, update=one.update_id, why=one.why_ignored
                )
            if one.press is not None:
                self._buttons.add(one.press)
        return any(outcome.state != "repeated" for outcome in outcomes)

    async def _moved(self, old: int, new: int) -> None:
        name = self._rules.connector
        try:
            await self._context.moved(name, f"{name}:{old}", f"{name}:{new}")
        except (BusyError, UnavailableError):
            raise
        except DaycareError as error:  # it stays refused, and the other updates have to be read
            self._context.log.error("telegram_move_failed", connector=name, code=error.code, reason=error.message)

    def _follow(self, one: ReadUpdate, item: Inbound | Unreadable, outcome: Outcome) -> None:
        if isinstance(item, Unreadable):
            return
        self._known.add(item.key)
        if one.album:
            self._known.add(one.album)
        if one.chat is not None and item.message and not item.edits and item.kind == "message":
            self._speaker.heard(one.chat, item.message)
        if outcome.say:
            prefix = f"{item.connector}:"
            target = item.reply_target or (item.chat or item.sender).removeprefix(prefix)
            self._notices.add((target, outcome.say))

    async def _notify(self, notice: tuple[str, str], again: bool) -> None:
        await self._speaker.notice(*notice)

    async def _answer(self, press: Touch, again: bool) -> None:
        await self._speaker.answer_button(press)


def read_batch(
    updates: Sequence[Mapping[str, Any]], bot: Bot, rules: ReadingRules, known: Callable[[str], bool]
) -> list[ReadUpdate]:
    """Read updates that came together: an edit or reaction may belong to a message before it, known only then."""
    here: set[str] = set()
    reads = []
    for update in updates:
        one = read(update, bot, rules, lambda key: key in here or known(key))
        reads.append(one)
        if isinstance(one.item, Inbound):
            here.add(one.item.key)
    return join_albums(reads, known)
