"""The connector: what the host asks of a number. The client and the renderer are imported when they are needed."""

from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import trio

from daycare.base.bounded import Bounded
from daycare.base.connector import BaseConnector, Capabilities, Identity, Outgoing
from daycare.base.errors import (
    BusyError,
    ConflictError,
    DaycareError,
    ForbiddenError,
    InvalidError,
    UnavailableError,
)
from daycare.messenger.starting import ClientSlot
from daycare.plugin import PluginContext
from daycare_plugins.whatsapp_cloud.people import ASKS_MAX, CloudPeople
from daycare_plugins.whatsapp_cloud.rate_limit import CloudRateLimit
from daycare_plugins.whatsapp_cloud.settings import CONNECTOR as NAME
from daycare_plugins.whatsapp_cloud.settings import NAME as SECRET
from daycare_plugins.whatsapp_cloud.settings import CloudSettings

if TYPE_CHECKING:
    from daycare_plugins.whatsapp_cloud.client import Graph
    from daycare_plugins.whatsapp_cloud.intake import Recent
    from daycare_plugins.whatsapp_cloud.receipts import Receipts

TYPING_S: Final = 24.0  # WhatsApp shows it for 25 s, or until a message comes
HELD_LOOK_S: Final = 3.0  # how soon a held reply goes once the person has written
HELD_TRY_S: Final = 600.0  # how often a held reply is journaled as tried: then the host sees how old it is
NEWEST_MAX: Final = 10_000  # people whose newest message is remembered
_CAPABLE: Final = Capabilities(typing_s=TYPING_S, reactions=True, choices=True, files=True)
_CAPABLE_QUIET: Final = Capabilities(reactions=True, choices=True, files=True)  # typing cannot go without a read mark


class CloudConnector(BaseConnector):
    """One phone number."""

    name = NAME
    pull = False
    manner = (
        "Your answers are read in WhatsApp: bold, italics, struck text, lists and code of Markdown arrive as such, "
        "tables and headings do not. A message has at most 4,096 characters; longer answers come as several."
    )

    def __init__(self, context: PluginContext, settings: CloudSettings) -> None:
        self.people = CloudPeople(context, NAME)
        self.who: Identity | None = None
        self._context = context
        self._settings = settings
        self._pace = CloudRateLimit()
        self._newest: Bounded[str, str] = Bounded(NEWEST_MAX)  # the newest message of each person
        self._held: dict[str, float] = {}  # until when the replies for somebody are not even tried
        self._refusal = ""  # why Meta did not let us in, as told last
        self._slot: ClientSlot[tuple[Graph, Receipts]] = ClientSlot(context, SECRET, "calling WhatsApp")
        self._recent: Recent | None = None

    # == for the task ==================================================================================================

    def open(self, graph: "Graph", receipts: "Receipts", recent: "Recent") -> None:
        """Send by these from now on; what people and receipts remember has been read."""
        self._recent = recent
        self._slot.fill((graph, receipts))

    def close(self) -> None:
        """There is no client any more."""
        self._slot.clear()
        self._recent = self.who = None

    def heard(self, who: str, message: str) -> None:
        """Somebody wrote, and may be written to."""
        self._held.pop(who, None)
        self._newest[who] = message

    async def notice(self, target: str, text: str) -> None:
        """Send a line to somebody who has just written, past the outbox."""
        who = self.people.who(target)
        module = _outgoing()
        for words in module.render(text, module.TEXT_MAX_UNITS)[:1]:
            self._book(who)
            body = {"type": "text", "text": {"body": words, "preview_url": False}}
            await self._message(who, module.recipient(who) | body)

    # == answers =======================================================================================================

    def capabilities(self, target: str) -> Capabilities:
        """Buttons, files and reactions; typing where messages may be marked as read."""
        return _CAPABLE if self._settings.read_marks else _CAPABLE_QUIET

    def split(self, outgoing: Outgoing) -> Sequence[Outgoing]:
        """Return the reply in messages that WhatsApp takes."""
        parts: list[Outgoing] = _outgoing().split(outgoing)
        return parts

    def delay_s(self, target: str) -> float:
        """Return how long pace or a closed window keep a reply back, or before there can be a client."""
        if (starting_s := self._slot.delay_s()) > 0:
            return starting_s
        who = target.partition("~")[0]
        if self._held.get(who, 0.0) > trio.current_time():
            return HELD_LOOK_S
        return self._pace.delay_s(who)

    async def send(self, outgoing: Outgoing) -> str:
        """Send one part; return its id."""
        if outgoing.markup is None:  # it was not split
            return [await self.send(part) for part in self.split(outgoing)][0]  # noqa: RUF015 -- all have to go
        graph, receipts = self._slot.get()
        who = self.people.who(outgoing.target)
        if outgoing.maybe_duplicate and (found := await self._confirmed(outgoing.key, receipts, who)):
            return self._sent(found, outgoing)
        await self._window(who, outgoing.outbox)
        self._book(who)
        module = _outgoing()
        media_id = ""
        if outgoing.markup == "file":
            [file] = outgoing.files
            media_id = await self._guarded(who, graph.upload(file, module.media_kind(file)[1]))
        reply = self._newest.get(who) != outgoing.reply_to  # what answers the newest message needs no reference to it
        payload = module.message(outgoing, module.recipient(who), reply=reply, media_id=media_id)
        try:
            try:
                wamid = await self._message(who, payload)
            except InvalidError:
                if payload.pop("context", None) is None:
                    raise
                wamid = await self._message(who, payload)  # without the reference: its message may be gone
        except ConflictError:  # Meta knows the window better
            await self.people.closed(who)
            await self._window(who, outgoing.outbox)
            raise
        return self._sent(wamid, outgoing)

    def _sent(self, wamid: str, outgoing: Outgoing) -> str:
        if self._recent is not None:
            self._recent.add(wamid, outgoing.text)
        return wamid

    async def _confirmed(self, key: str, receipts: "Receipts", who: str) -> str:
        """Wait for a status that says that a message has arrived, or raise why it has not; empty if none comes."""
        found = await receipts.confirmed(key, self._settings.confirm_s)
        if not found.startswith("!"):
            return found
        receipts.forget(key)
        doing = "sending a message: a status says so"
        error = _failures().of_code(int(found[1:]), "it failed", doing)
        if isinstance(error, ConflictError):
            await self.people.closed(who)
            return ""
        if error is not None and not isinstance(error, UnavailableError | BusyError):
            raise error
        return ""  # it failed, so it may go once more

    # == the window ====================================================================================================

    async def _window(self, who: str, outbox: int) -> None:
        """Return if somebody may be written to freely; else ask them to write, and hold the reply."""
        state = self.people.is_open(who)
        template = self._settings.template
        if state or (state is None and not template):  # nothing is known: Meta will say
            return
        closed = f"sending to {self.people.target(who)}: they wrote more than 24 hours ago, so WhatsApp takes no reply"
        if not template:
            raise ForbiddenError(
                "WINDOW_CLOSED",
                closed,
                hint="ask them to write first, or set an approved `template` in [plugins.whatsapp_cloud]",
            )
        if self.people.is_asked(who):
            self._hold(who, f"{closed}; they were asked to write by the template {template}")
        person = self.people.get(who)
        if person.asks and person.asked_for == outbox:
            raise ForbiddenError(
                "UNANSWERED", f"{closed}; they were asked to write and did not within a day", hint="ask them to write"
            )
        if person.asks >= ASKS_MAX:
            raise ForbiddenError(
                "UNANSWERED", f"{closed}, and {ASKS_MAX} templates were not answered", hint="ask them to write first"
            )
        if self.people.templates() >= self._settings.templates_per_day:
            self._hold(who, f"{closed}, and as many templates as allowed were sent today")
        await self._ask(who, outbox)
        self._hold(who, f"{closed}; they were asked to write by the template {template}")

    async def _ask(self, who: str, outbox: int) -> None:
        """Send the template. It is noted before, so that it goes at most once."""
        self._book(who)
        before = await self.people.asked(who, outbox)
        key = f"ask:{who}:{self.people.get(who).asked_ms}"
        payload = _outgoing().template(who, self._settings.template, self._settings.template_language, key)
        try:
            await self._message(who, payload)
        except DaycareError as error:
            if _failures().surely_not_sent(error):
                await self.people.not_asked(who, before)
                raise
            self._context.log.warning("whatsapp_template_uncertain", code=error.code, reason=error.message)

    def _hold(self, who: str, reason: str) -> None:
        now = trio.current_time()
        if len(self._held) >= NEWEST_MAX:
            self._held = {each: until for each, until in self._held.items() if until > now}
        self._held[who] = now + HELD_TRY_S
        raise BusyError("WINDOW_CLOSED", reason, retry_after_s=HELD_LOOK_S)

    # == what may be left out ==========================================================================================

    async def act(self, target: str, action: str) -> None:
        """Show that the newest message was read, and that an answer is being written."""
        newest = self._newest.get(self.people.who(target))
        if newest is None or not self._settings.read_marks:
            raise self._cannot("act")
        graph, _ = self._slot.get()
        await graph.mark({"status": "read", "message_id": newest, "typing_indicator": {"type": "text"}})

    async def react(self, target: str, message: str, emoji: str) -> None:
        """Put an emoji to a message, or take it away."""
        who = self.people.who(target)
        self._book(who)
        reaction = {"type": "reaction", "reaction": {"message_id": message, "emoji": emoji}}
        await self._message(who, _outgoing().recipient(who) | reaction)

    async def fetch(self, reference: str, max_bytes: int) -> bytes:
        """Return a file's bytes, `reference` is its id; while the number starts, wait for it."""
        graph, _ = await self._slot.wait()
        return await graph.media(reference, max_bytes)

    def identity(self) -> Identity | None:
        """Return the number."""
        return self.who

    # == calls =========================================================================================================

    def _book(self, who: str) -> None:
        """Book a message that goes now. Who asked for the delay and waited may still find others before them."""
        wait_s = self._pace.delay_s(who)
        if wait_s > 0:
            raise BusyError(
                "WHATSAPP_PACE", f"calling WhatsApp: the next may go in {wait_s:.1f} s", retry_after_s=wait_s
            )
        self._pace.take(who)

    async def _message(self, who: str, payload: dict[str, Any]) -> str:
        graph, _ = self._slot.get()
        wamid = await self._guarded(who, graph.message(payload))
        self._pace.went(who)
        return wamid

    async def _guarded(self, who: str, call: Any) -> str:
        """Make a call, and heed the pace that its refusal asks for."""
        try:
            found: str = await call
        except BusyError as error:
            pair = bool(getattr(error, "pair", False))
            error.retry_after_s = self._pace.refused(who, error.retry_after_s or 1.0, pair=pair)
            raise
        except DaycareError as error:
            if error.code == _failures().REFUSED and error.message != self._refusal:
                self._refusal = error.message  # once, and not with each reply
                self._context.log.error("whatsapp_refused_us", reason=error.message, hint=error.hint)
            raise
        self._refusal = ""
        return found


def _outgoing() -> ModuleType:
    """Return the module that renders, which is too heavy to be imported before there is anything to send."""
    from daycare_plugins.whatsapp_cloud import outgoing

    return outgoing


def _failures() -> ModuleType:
    """Return the module that knows httpx, imported with the first token."""
    from daycare_plugins.whatsapp_cloud import failures

    return failures
