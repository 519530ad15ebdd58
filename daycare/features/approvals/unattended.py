"""Whether a person is there to be asked."""

from typing import Final

from daycare.base.messages import Origin
from daycare.base.path import Kind, Path
from daycare.store.records import Agent
from daycare.store.sqlite.store import Store

_UNATTENDED: Final = (Kind.CRON, Kind.TASK)


async def is_unattended(store: Store, agent: Agent, turn: int) -> bool:
    """Return whether no person has begun a turn: it is of a job or a task, or of a helper of one."""
    if Path.stored(agent.path, Kind(agent.kind)).root.kind in _UNATTENDED:
        return True
    _, rows, _ = await store.turns.load(turn)
    return all(row.envelope.origin in (Origin.CRON, Origin.WEBHOOK) for row in rows)
