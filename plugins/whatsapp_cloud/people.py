"""What has to be known of each person over restarts: when they wrote last, what was asked of them, who they are now.

A phone number is no person for ever: it changes hands. When WhatsApp says that the account behind a number is another
one, the number gets a new generation and with it a new key, which nobody has let in: `whatsapp-cloud:4917...~1`.
"""

import zlib
from typing import Final

import msgspec
from msgspec.structs import replace

from daycare.base.bounded import Bounded
from daycare.base.errors import ForbiddenError, InvalidError
from daycare.plugin import PluginContext

SHARDS: Final = 64  # values of 4,000 characters: some 4,000 people
SHARD_MAX_CHARS: Final = 3_900
NAME: Final = "people:"  # + number of the shard is the name under which they are remembered
DAY_MS: Final = 86_400_000
WINDOW_MS: Final = DAY_MS - 60_000  # Meta's is a day by its own clock; what is on its way has to arrive within it
HEARD_STEP_MS: Final = 60_000  # a newer time is written only if it is so much newer: after a crash a minute is missing
ASKS_MAX: Final = 3  # templates that nobody answered, before there is no other until they write
STRANGERS_MAX: Final = 1_000  # remembered until the next start
_ID_MAX_CHARS: Final = 132


class CloudPerson(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """What is kept of somebody. Times in ms since the epoch.

    `change` names what made this `generation`, `asked_for` is the reply for which they were asked last.
    """

    heard_ms: int = 0
    asked_ms: int = 0
    asks: int = 0
    generation: int = 0
    change: str = ""
    asked_for: int = 0


NOBODY: Final = CloudPerson()


class CloudPeople:
    """Everybody who wrote and was let in, by the platform's id of them."""

    def __init__(self, context: PluginContext, connector: str) -> None:
        self._context = context
        self._connector = connector
        self._shards: list[dict[str, CloudPerson]] = [{} for _ in range(SHARDS)]
        self._written: dict[str, int] = {}  # the last time heard that is durable
        self._strangers: Bounded[str, int] = Bounded(STRANGERS_MAX)  # when they wrote; of those who were not let in
        self._templates: list[int] = []  # when templates were sent, of the last day

    async def load(self) -> None:
        """Read what is remembered. What cannot be read is left out: for those the window counts as unknown."""
        for shard in range(SHARDS):
            text = await self._context.recall(self._connector, f"{NAME}{shard}")
            try:
                self._shards[shard] = msgspec.json.decode(text, type=dict[str, CloudPerson]) if text else {}
            except (msgspec.MsgspecError, UnicodeError) as error:
                self._context.log.error("whatsapp_people_unreadable", shard=shard, reason=str(error)[:200])
        found = {who: person for shard in self._shards for who, person in shard.items()}
        self._written = {who: person.heard_ms for who, person in found.items()}
        day_ago = self._context.now_ms() - DAY_MS
        self._templates = sorted(person.asked_ms for person in found.values() if person.asked_ms > day_ago)

    # == who ===========================================================================================================

    def target(self, who: str) -> str:
        """Return what stands behind `<connector>:` in the key of who has this id now."""
        generation = self.get(who).generation
        return f"{who}~{generation}" if generation else who

    def who(self, target: str) -> str:
        """Return the id that a target means. Raises `ForbiddenError` where somebody else has it by now."""
        who, _, generation = target.partition("~")
        if not is_id(who) or not (generation or "0").isdecimal():
            raise InvalidError(
                "WHATSAPP_TARGET", f"sending to {target!r}: it is not a number", hint="such as 4915112345678"
            )
        if self.target(who) != target:
            raise ForbiddenError(
                "IDENTITY_CHANGED",
                f"sending to {target}: WhatsApp says that this number belongs to another account now",
                hint="let them write, and approve them again: daycare pair list",
            )
        return who

    async def changed(self, who: str, change: str) -> None:
        """Let nobody pass for who had this id. Idempotent for each `change`."""
        person = self.get(who)
        if person.change != change:
            await self._keep(who, CloudPerson(generation=person.generation + 1, change=change))

    # == the window ====================================================================================================

    def get(self, who: str) -> CloudPerson:
        """Return what is known of somebody."""
        return self._shards[_shard(who)].get(who, NOBODY)

    async def heard(self, who: str, at_ms: int) -> None:
        """Take note that somebody wrote. Durable up to a minute."""
        person = self.get(who)
        at_ms = min(at_ms or self._context.now_ms(), self._context.now_ms())
        if at_ms <= person.heard_ms:
            return
        answered = at_ms > person.asked_ms  # it may have been on its way when they were asked
        new = replace(person, heard_ms=at_ms, asks=0 if answered else person.asks)
        if person.asks or at_ms - self._written.get(who, 0) >= HEARD_STEP_MS:
            await self._keep(who, new)
        else:
            self._shards[_shard(who)][who] = new

    def met(self, who: str, at_ms: int) -> None:
        """Take note that somebody wrote who was not let in: perhaps they are before the day is over."""
        self._strangers[who] = min(at_ms or self._context.now_ms(), self._context.now_ms())

    def is_open(self, who: str) -> bool | None:
        """Whether they may be written to freely; None where nothing is known, as after a loss."""
        heard_ms = self.get(who).heard_ms or self._strangers.get(who, 0)
        return self._context.now_ms() - heard_ms < WINDOW_MS if heard_ms else None

    async def closed(self, who: str) -> None:
        """Meta says that the window is closed."""
        now_ms, person = self._context.now_ms(), self.get(who)
        if not person.heard_ms or now_ms - person.heard_ms < WINDOW_MS:
            await self._keep(who, replace(person, heard_ms=max(now_ms - DAY_MS, 1)))

    def is_asked(self, who: str) -> bool:
        """Whether they were asked within the last day, and have not answered."""
        person = self.get(who)
        return person.asks > 0 and self._context.now_ms() - person.asked_ms < DAY_MS

    def templates(self) -> int:
        """Return how many templates went out within a day."""
        day_ago = self._context.now_ms() - DAY_MS
        self._templates = [at for at in self._templates if at > day_ago]
        return len(self._templates)

    async def asked(self, who: str, outbox: int) -> CloudPerson:
        """Take note of a template before it goes, so that no crash sends it twice; return what was known before."""
        before, now_ms = self.get(who), self._context.now_ms()
        await self._keep(who, replace(before, asked_ms=now_ms, asks=before.asks + 1, asked_for=outbox))
        self._templates.append(now_ms)
        return before

    async def not_asked(self, who: str, before: CloudPerson) -> None:
        """It surely did not go."""
        sent = self.get(who)
        if sent.asked_ms in self._templates:
            self._templates.remove(sent.asked_ms)
        await self._keep(who, replace(sent, asked_ms=before.asked_ms, asks=before.asks, asked_for=before.asked_for))

    # == inside ========================================================================================================

    async def _keep(self, who: str, person: CloudPerson) -> None:
        """Remember durably; where a shard is full, who was heard longest ago goes, but no generation does."""
        shard = _shard(who)
        there = self._shards[shard] | {who: person}
        going = sorted((each for each in there if each != who), key=lambda each: self._worth(there[each]), reverse=True)
        while len(text := msgspec.json.encode(there).decode()) > SHARD_MAX_CHARS and going:
            del there[going.pop()]
        await self._context.remember(self._connector, f"{NAME}{shard}", text)
        for each in self._shards[shard].keys() - there.keys():
            self._written.pop(each, None)
        self._shards[shard] = there
        self._written[who] = person.heard_ms

    @staticmethod
    def _worth(person: CloudPerson) -> tuple[int, int]:
        return person.generation, max(person.heard_ms, person.asked_ms)


def is_id(text: str) -> bool:
    """Whether it is a phone number as WhatsApp writes it, or an id that Meta made for this business."""
    if not text.isascii() or not 1 <= len(text) <= _ID_MAX_CHARS:
        return False
    country, dot, rest = text.partition(".")
    if not dot:
        return text.isdecimal() and len(text) <= 20
    return len(country) == 2 and country.isalpha() and country.isupper() and rest.replace(".", "").isalnum()


def _shard(who: str) -> int:
    return zlib.crc32(who.encode()) % SHARDS
