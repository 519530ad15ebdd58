"""Giving up a message that waits, because somebody wants it: before its agent takes it, or not at all."""

from collections.abc import Mapping

import trio

from daycare.actors.lifecycle import Activation
from daycare.base.errors import DaycareError, NotFoundError
from daycare.base.messages import Lane
from daycare.store.records import Agent
from daycare.store.sqlite.inbox import Inbox, in_work


async def drop(inbox: Inbox, awake: Mapping[str, Activation], agent: Agent, seq: int, reason: str) -> None:
    """Make a waiting message of an agent a dead letter. Raises as `Inbox.drop`; `awake` are the lanes, by agent.

    A lane holds rows in memory: what it has taken out of them is about to be in a turn, if that is not journaled yet.
    """
    lane = awake.get(agent.id)
    row = None
    if lane is not None and seq <= lane.loaded:
        row = next((row for row in lane.rows if row.seq == seq and row.envelope.lane is Lane.MESSAGES), None)
        if row is None and await inbox.rows([seq]):
            raise in_work(agent.path, seq)
        lane.drop({seq} if row is not None else set())
    try:
        with trio.CancelScope(shield=True):  # who asked may leave: the row is gone, or comes back
            await inbox.drop(agent, seq, reason)
    except DaycareError as error:
        if lane is not None and row is not None and not isinstance(error, NotFoundError):  # it waits on
            after = sum(each.seq < seq or each.envelope.lane is Lane.CONTROL for each in lane.rows)
            lane.rows.insert(after, row)
            lane.nudge()
        raise
