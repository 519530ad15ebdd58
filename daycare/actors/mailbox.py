"""Reading a mailbox: what waits in the store comes into an activation, the control lane by itself."""

from daycare.actors.lifecycle import Activation
from daycare.base.limits import MAILBOX_MAX_ROWS
from daycare.base.messages import Lane
from daycare.store.contract_actors import InboxStore


async def read(inbox: InboxStore, lane: Activation) -> None:
    """Read on in both lanes, where nothing is left in memory and the store holds more.

    Messages that nobody takes for now, such as those of a parked agent, must not stand before a command.
    """
    while lane.deaf and not lane.control:
        rows = await inbox.waiting(lane.agent_id, Lane.CONTROL, after=lane.heard, limit=MAILBOX_MAX_ROWS)
        lane.hear(rows, more=len(rows) == MAILBOX_MAX_ROWS)
    if lane.behind and not lane.rows:
        rows = await inbox.waiting(lane.agent_id, Lane.MESSAGES, after=lane.loaded, limit=MAILBOX_MAX_ROWS)
        lane.load(rows, more=len(rows) == MAILBOX_MAX_ROWS)
