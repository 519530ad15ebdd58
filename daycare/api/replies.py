"""Replies to programs: they wait in the outbox until whoever has shown them confirms it."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from daycare.base.clock import Clock
from daycare.base.connector import DIRECT
from daycare.base.events import ReplySent
from daycare.base.limits import API_PAGE_MAX_ROWS
from daycare.observe.bus import Bus
from daycare.store.records import OutboxRow, Receipt
from daycare.store.sqlite.outbox import Outbox

_UNREAD: Final = ("waiting", "sending")


class DirectReplies:
    """Those of the connector of terminals and programs."""

    def __init__(self, outbox: Outbox, bus: Bus, clock: Clock) -> None:
        self._outbox = outbox
        self._bus = bus
        self._clock = clock

    async def unread(
        self,
        path: str,
        *,
        after: int = 0,
        limit: int = API_PAGE_MAX_ROWS,
        wanted: Callable[[OutboxRow], Any] = lambda row: True,
    ) -> list[OutboxRow]:
        """Return replies of a path, in order, that nobody has confirmed."""
        found: list[OutboxRow] = []
        while len(found) < limit:
            page = await self._outbox.unread(path, after=after, limit=limit)
            found += [row for row in page if row.connector == DIRECT and wanted(row)]
            if len(page) < limit:
                break
            after = page[-1].seq
        return found[:limit]

    async def answering(self, receipt: Receipt) -> list[OutboxRow]:
        """Return the replies to a message, unless they were confirmed."""
        return await self.unread(receipt.path, wanted=lambda row: _answers(receipt, row))

    async def of(self, seqs: Sequence[int]) -> list[OutboxRow]:
        """Return those of the replies with these numbers that nobody has confirmed."""
        found = [await self._outbox.get(seq) for seq in seqs]
        return [row for row in found if row is not None and row.connector == DIRECT and row.state in _UNREAD]

    async def confirm(self, rows: Sequence[OutboxRow]) -> int:
        """Take somebody's word that these were shown; return how many were unread until now."""
        confirmed = await self._outbox.sent([row.seq for row in rows], "shown") if rows else 0
        now = self._clock.now_ms()
        for row in rows:
            self._bus.publish(
                ReplySent(
                    at_ms=now,
                    path=row.path,
                    user=row.user,
                    agent_id=row.agent_id,
                    trace=row.trace,
                    outbox=row.seq,
                    connector=row.connector,
                    waited_ms=now - row.created_at,
                )
            )
        return confirmed


def spoken(rows: Sequence[OutboxRow], receipt: Receipt) -> str:
    """Return what replies say; those to a message that was sent before were confirmed then."""
    return "\n\n".join(row.text for row in rows if row.text) or receipt.result or ""


def _answers(receipt: Receipt, row: OutboxRow) -> bool:
    """Tell whether a reply belongs to a message: merged messages are answered by a turn that has the first's trace.

    What was said of the message while it waited is no answer to it.
    """
    if row.turn is None:
        return receipt.turn is None and row.trace == receipt.trace  # of a command
    return row.turn == receipt.turn or row.trace == receipt.trace
