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
        rows = await _waiting(inbox, lane.agent_id, Lane.CONTROL, lane.heard)
        lane.hear(rows, more=len(rows) == MAILBOX_MAX_ROWS)
    if lane.behind and not lane.rows:
        rows = await _waiting(inbox, lane.agent_id, Lane.MESSAGES, lane.loaded)
        lane.load(rows, more=len(rows) == MAILBOX_MAX_ROWS)


async def _waiting(inbox: Inbox, agent_id: str, lane: Lane, after: int) -> list[InboxRow]:
    return await with_retry(lambda: inbox.waiting(agent_id, lane, after=after, limit=MAILBOX_MAX_ROWS))
