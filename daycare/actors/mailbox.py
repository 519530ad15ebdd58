"""Reading a mailbox: what waits in the store comes into an activation, the control lane by itself."""

from daycare.actors.lifecycle import Activation
from daycare.base.limits import MAILBOX_MAX_ROWS
from daycare.base.messages import Lane
from daycare.store.records import InboxRow
from daycare.store.retry import with_retry
from daycare.store.sqlite.inbox import Inbox


async def read(inbox: Inbox, lane: Activation) -> None:
    """Read on in both lanes, where nothing is left in memory and the store holds more.

    Messages that nobody takes for now, such as those of a parked agent, must not stand before a command.
    """
    while lane.deaf and not lane.control:
        lane.hear(*await _waiting(inbox, lane, Lane.CONTROL, lane.heard))
    if lane.behind and not lane.rows:
        lane.load(*await _waiting(inbox, lane, Lane.MESSAGES, lane.loaded))
        if inbox.leaving:
            lane.drop(inbox.leaving)


async def _waiting(inbox: Inbox, lane: Activation, which: Lane, after: int) -> tuple[list[InboxRow], bool]:
    """Return what waits, and whether there may be more: a server's answer may be older than what came meanwhile."""
    while True:
        lane.missed = lane.reworded = False
        rows = await with_retry(lambda: inbox.waiting(lane.agent_id, which, after=after, limit=MAILBOX_MAX_ROWS))
        if not lane.reworded:
            return rows, lane.missed or len(rows) == MAILBOX_MAX_ROWS
