"""From updates to the host, and what follows at once: buttons stop spinning, and who was not let in is told why.

Nothing of what follows matters as much as receiving. It waits in short queues, is tried twice and then dropped.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

import trio

from daycare.base.blame import blamed
from daycare.base.connector import Inbound, Outcome, Unreadable
from daycare.base.errors import BusyError, DaycareError, UnavailableError
from daycare.plugin import PluginContext
from daycare_plugins.telegram import health
from daycare_plugins.telegram.choices import Touch
from daycare_plugins.telegram.known import Known
from daycare_plugins.telegram.overheard import Overheard
from daycare_plugins.telegram.reading import Bot, Read, Rules, join_albums, read

WAITING_MAX: Final = 100  # of notices, and of pressed buttons: more is a flood, and nobody reads them all
NOTICE_TRIES: Final = 2
NOTICE_AGAIN_S: Final = 5.0
BUTTON_S: Final = 10.0  # a person looks at it


class Speaker(Protocol):
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


class Intake:
    """Takes in the updates of one bot."""

    def __init__(
        self, context: PluginContext, rules: Rules, known: Known, speaker: Speaker, overheard: Overheard
    ) -> None:
        self.bot = Bot(id=0, username="")  # known before the first update is read
        self._context = context
        self._rules = rules
        self._known = known
        self._speaker = speaker
        self._overheard = overheard
        self._notices, self._to_tell = trio.open_memory_channel[tuple[str, str]](WAITING_MAX)
        self._buttons, self._to_answer = trio.open_memory_channel[Touch](WAITING_MAX)

    async def run(self) -> None:
        """Do what follows, until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._tell)
            nursery.start_soon(self._answer)

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
            outcomes = await self._received([item for _, item in found], cursor)
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
                self._queue(self._buttons, one.press)
        return any(outcome.state != "repeated" for outcome in outcomes)

    async def _moved(self, old: int, new: int) -> None:
        name = self._rules.connector
        try:
            await self._context.moved(name, f"{name}:{old}", f"{name}:{new}")
        except (BusyError, UnavailableError):
            raise
        except DaycareError as error:  # it stays refused, and the other updates have to be read
            self._context.log.error("telegram_move_failed", connector=name, code=error.code, reason=error.message)

    async def _received(self, items: list[Inbound | Unreadable], cursor: str) -> Sequence[Outcome]:
        """Hand items to the host. A defect over one of them must not make the bot deaf: it is parked alone then."""
        name = self._rules.connector
        try:
            with blamed("TELEGRAM_DEFECT", "receiving"):
                return await self._context.receive(name, items, cursor)
        except DaycareError as error:
            if not _is_defect(error):
                raise
            self._context.log.error("telegram_receive_failed", connector=name, items=len(items), code=error.code)
        outcomes: list[Outcome] = []
        for item in items:
            try:
                with blamed("TELEGRAM_DEFECT", "receiving one message"):
                    outcomes += await self._context.receive(name, [item])
            except DaycareError as error:
                if not _is_defect(error):
                    raise
                body = item.body if isinstance(item, Unreadable) else item.text
                parked = Unreadable(key=item.key, reason=error.message, body=body)
                outcomes += await self._context.receive(name, [parked])
        await self._context.receive(name, [], cursor)
        return outcomes

    def _follow(self, one: Read, item: Inbound | Unreadable, outcome: Outcome) -> None:
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
            self._queue(self._notices, (target, outcome.say))

    def _queue(self, channel: Any, what: Any) -> None:
        try:
            channel.send_nowait(what)
        except trio.WouldBlock:
            self._context.log.warning("telegram_notice_dropped", connector=self._rules.connector)

    async def _tell(self) -> None:
        async for target, text in self._to_tell:
            for again in range(NOTICE_TRIES):
                try:
                    await self._speaker.notice(target, text)
                    break
                except (BusyError, UnavailableError) as error:
                    self._dropped("telegram_notice_failed", error)
                    if again + 1 < NOTICE_TRIES:
                        await trio.sleep(min(error.retry_after_s or NOTICE_AGAIN_S, 60.0))
                except DaycareError as error:
                    self._dropped("telegram_notice_failed", error)
                    break

    async def _answer(self) -> None:
        async for press in self._to_answer:
            try:
                with trio.move_on_after(BUTTON_S):
                    await self._speaker.answer_button(press)
            except DaycareError as error:
                self._dropped("telegram_button_failed", error)

    def _dropped(self, event: str, error: DaycareError) -> None:
        self._context.log.warning(event, connector=self._rules.connector, code=error.code, reason=error.message)


def read_batch(
    updates: Sequence[Mapping[str, Any]], bot: Bot, rules: Rules, known: Callable[[str], bool]
) -> list[Read]:
    """Read updates that came together: an edit or reaction may belong to a message before it, known only then."""
    here: set[str] = set()
    reads = []
    for update in updates:
        one = read(update, bot, rules, lambda key: key in here or known(key))
        reads.append(one)
        if isinstance(one.item, Inbound):
            here.add(one.item.key)
    return join_albums(reads, known)


def _is_defect(error: DaycareError) -> bool:
    """Whether it says something about what came, and not about the store."""
    return error.code == "TELEGRAM_DEFECT" or not isinstance(error, BusyError | UnavailableError)
