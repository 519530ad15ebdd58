"""Statuses as receipts: which of our messages WhatsApp has, and what became of them.

The Graph API knows no idempotency key, but each status gives back what we put into a message: our own key. So a status
confirms a message whose answer was lost, and the same reply is not sent again. What a status confirms is remembered
over restarts, for the last thousand messages or so.
"""

import zlib
from collections import Counter, OrderedDict
from typing import Final

import msgspec
import trio

from daycare.base.bounded import Bounded
from daycare.plugin import PluginContext

SHARDS: Final = 32
SHARD_MAX_CHARS: Final = 3_900  # some 35 messages
NAME: Final = "sent:"  # + number of the shard
LATEST_MAX: Final = 2_000  # messages whose last status is remembered, to tell one that comes late
RANK: Final = {"sent": 1, "delivered": 2, "read": 3, "played": 4, "failed": 5}  # they come in any order


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """One status: of the message `wamid` to `who`, which carried `key`; `code` is why it failed."""

    wamid: str
    state: str
    who: str
    key: str = ""
    code: int = 0
    reason: str = ""
    at_ms: int = 0


class Receipts:
    """What statuses have told."""

    def __init__(self, context: PluginContext, connector: str) -> None:
        self.counts: Counter[str] = Counter()
        self._context = context
        self._connector = connector
        self._known: list[OrderedDict[str, str]] = [OrderedDict() for _ in range(SHARDS)]
        self._latest: Bounded[str, int] = Bounded(LATEST_MAX)
        self._waiting: dict[str, trio.Event] = {}

    async def load(self) -> None:
        """Read what is remembered; what cannot be read is as if no status had come."""
        for shard in range(SHARDS):
            text = await self._context.recall(self._connector, f"{NAME}{shard}")
            try:
                self._known[shard] = OrderedDict(msgspec.json.decode(text, type=dict[str, str]) if text else {})
            except (msgspec.MsgspecError, UnicodeError) as error:
                self._context.log.error("whatsapp_receipts_unreadable", shard=shard, reason=str(error)[:200])

    async def take(self, status: Status) -> bool:
        """Take a status in, durably; return whether it is news."""
        if status.key and status.key not in self._known[_shard(status.key)]:
            await self._remember(status.key, status.wamid if status.state != "failed" else f"!{status.code}")
        rank = RANK.get(status.state, 0)
        news = rank > self._latest.get(status.wamid, 0)
        if news:
            self._latest[status.wamid] = rank
            self.counts[status.state if status.state in RANK else "other"] += 1
        if status.key in self._waiting:
            self._waiting[status.key].set()
        return news

    async def confirmed(self, key: str, seconds: float) -> str:
        """Return the id under which a message has arrived, `!<code>` if it failed, empty if nothing tells in time."""
        found = self._known[_shard(key)].get(key, "")
        if found or seconds <= 0:
            return found
        waiting = self._waiting.setdefault(key, trio.Event())
        try:
            with trio.move_on_after(seconds):
                await waiting.wait()
        finally:
            if self._waiting.get(key) is waiting:
                del self._waiting[key]
        return self._known[_shard(key)].get(key, "")

    def forget(self, key: str) -> None:
        """It failed and is tried again: what is known belongs to the try before."""
        self._known[_shard(key)].pop(key, None)

    async def _remember(self, key: str, told: str) -> None:
        shard = _shard(key)
        there = OrderedDict(self._known[shard])
        there[key] = told
        while len(text := msgspec.json.encode(there).decode()) > SHARD_MAX_CHARS and len(there) > 1:
            there.popitem(last=False)
        await self._context.remember(self._connector, f"{NAME}{shard}", text)
        self._known[shard] = there


def _shard(key: str) -> int:
    return zlib.crc32(key.encode()) % SHARDS
