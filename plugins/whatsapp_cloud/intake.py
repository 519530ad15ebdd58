"""From a webhook's body to the host: all of it is committed before the request is answered.

A request that fails anywhere here is sent again by Meta, for days, so each step is idempotent: messages by their id,
statuses by their message and state, changes of identity by the id of what told them.
"""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Final, Protocol

import trio

from daycare.base.bounded import Bounded
from daycare.base.connector import Inbound, Unreadable
from daycare.base.error_boundary import error_boundary
from daycare.base.errors import DaycareError, UnavailableError
from daycare.messenger.receiving import Errands, Receiver
from daycare.plugin import PluginContext
from daycare_plugins.whatsapp_cloud.failures import CODES, REFUSED, WINDOW_CLOSED
from daycare_plugins.whatsapp_cloud.people import CloudPeople, is_id
from daycare_plugins.whatsapp_cloud.reading import MESSAGES_MAX, Raw, ReadMessage, read, undelivered, unpack, unreadable
from daycare_plugins.whatsapp_cloud.receipts import Receipts, Status

COMMIT_S: Final = 15.0  # for a request to be committed; Meta waits for about 20 s
RECENT_MAX: Final = 500  # messages whose words are remembered, to tell what a reply is about
RECENT_MAX_CHARS: Final = 600
OLD_MS: Final = 20 * 86_400_000  # Meta repeats for 7 days; the host knows a repeat for 30
PROBE: Final = "daycare_probe"  # `object` of a request that we sent to ourselves


class CloudSpeaker(Protocol):
    """What is needed of the connector."""

    def heard(self, who: str, message: str) -> None:
        """Somebody wrote, and may be written to."""
        ...

    async def notice(self, target: str, text: str) -> None:
        """Send a line to somebody, past the outbox."""
        ...


class Recent:
    """The words of the latest messages, both ways."""

    def __init__(self) -> None:
        self._words: Bounded[str, str] = Bounded(RECENT_MAX)

    def __call__(self, wamid: str) -> str:
        """Return the words of a message, empty if they are not known."""
        return self._words.get(wamid, "")

    def add(self, wamid: str, words: str) -> None:
        """Remember some."""
        if words:
            self._words[wamid] = words[:RECENT_MAX_CHARS]


class CloudIntake:
    """Takes in what comes for one number. `counts` says of what."""

    def __init__(
        self,
        context: PluginContext,
        connector: str,
        phone_number_id: str,
        people: CloudPeople,
        receipts: Receipts,
        recent: Recent,
        speaker: CloudSpeaker,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.probed = ""  # the last of our own requests that came through
        self._context = context
        self._connector = connector
        self._number = phone_number_id
        self._people = people
        self._receipts = receipts
        self._recent = recent
        self._speaker = speaker
        self._one = trio.Lock()  # one request after another: a change of identity holds for all that follows
        self._receiver = Receiver(context, connector, "whatsapp", defect="WHATSAPP_DEFECT")
        self._notices = Errands(context, connector, "whatsapp_notice", self._notify)

    async def take(self, body: bytes) -> None:
        """Commit what a request holds. Raises `UnavailableError` or `BusyError` when it has to come again."""
        try:
            tree = json.loads(body)  # also takes halves of surrogate pairs
        except (ValueError, RecursionError):
            tree = None
        if isinstance(tree, dict) and tree.get("object") == PROBE:
            self.probed = str(tree.get("nonce"))[:100]
            return
        try:
            with trio.fail_after(COMMIT_S), error_boundary(self._receiver.defect, "reading a webhook"):
                async with self._one:
                    await self._take(tree, body)
        except trio.TooSlowError:
            raise UnavailableError("WHATSAPP_LATE", "committing a webhook took too long") from None
        except DaycareError as error:
            if not self._receiver.is_defect(error):
                raise
            # it would come again for days, and fail each time
            self._context.log.error("whatsapp_receive_failed", code=error.code, reason=error.message)
            await self._receiver.receive([unreadable(tree, f"webhook: {error.message}")])

    async def _take(self, tree: object, body: bytes) -> None:
        if not isinstance(tree, dict):
            await self._receiver.receive([unreadable(body.decode("utf-8", "replace"), "webhook: it is no JSON object")])
            return
        parcel = unpack(tree, self._number)
        waiting: list[ReadMessage] = []
        for raw in parcel.messages:
            one = self._read(raw)
            waiting.append(one)
            if one.changed or len(waiting) == MESSAGES_MAX:
                await self._commit(waiting)
                waiting = []
        await self._commit(waiting)
        for status in parcel.statuses:
            await self._status(status)
        for other in parcel.others:
            self.counts["other"] += 1
            self._context.log.warning("whatsapp_told_us", what=other)

    def _read(self, raw: Raw) -> ReadMessage:
        try:
            with error_boundary(self._receiver.defect, "reading a message"):
                one = read(raw, self._connector, self._people.target, self._recent)
        except DaycareError as error:
            self._context.log.error("whatsapp_unreadable", reason=error.message)
            return ReadMessage(unreadable(raw.message, "message: this daycare cannot read it"))
        if isinstance(one.item, Inbound) and one.item.at_ms and self._context.now_ms() - one.item.at_ms > OLD_MS:
            return ReadMessage(unreadable(raw.message, "message: it is too old to tell whether it is a repeat"))
        return one

    async def _commit(self, reads: Sequence[ReadMessage]) -> None:
        """Commit messages, and what follows of them for the people who sent them."""
        if not reads:
            return
        outcomes = await self._receiver.receive([one.item for one in reads])
        for one, outcome in zip(reads, outcomes, strict=True):
            self.counts[outcome.state] += 1
            item = one.item
            if isinstance(item, Unreadable):
                continue
            if one.changed and outcome.state != "stranger":
                self._context.log.warning("whatsapp_identity_changed", sender=item.sender)
                for who in filter(None, (one.who, one.new)):
                    await self._people.changed(who, one.changed)
            elif outcome.state in ("accepted", "repeated"):
                self._recent.add(item.message, item.text)
                if item.kind == "message":  # a reaction opens no window
                    await self._people.heard(one.who, item.at_ms)
                    self._speaker.heard(one.who, item.message)
            elif item.kind == "message":
                self._people.met(one.who, item.at_ms)
            if outcome.say:
                self._notices.add((item.sender.removeprefix(f"{self._connector}:"), outcome.say))

    # -- statuses ----------------------------------------------------------------------------------------------------

    async def _status(self, status: Status) -> None:
        news = await self._receipts.take(status)
        if status.state != "failed" or not is_id(status.who):
            return
        meaning = CODES.get(status.code)
        if meaning is not None and meaning.code == WINDOW_CLOSED:
            await self._people.closed(status.who)
        if news:
            alert = self._context.log.error if meaning and meaning.code == REFUSED else self._context.log.warning
            alert("whatsapp_not_delivered", code=status.code, reason=status.reason[:200])
        person = self._people.get(status.who)
        if not person.heard_ms or status.key.startswith("ask:"):
            return  # of strangers there is no agent to be told, and templates are ours alone
        note = undelivered(status, self._connector, self._people.target(status.who), self._recent(status.wamid))
        await self._receiver.receive([note])

    # -- what follows ------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Tell people what they are to be told, until cancelled."""
        await self._notices.run()

    async def _notify(self, notice: tuple[str, str], again: bool) -> None:
        await self._speaker.notice(*notice)
