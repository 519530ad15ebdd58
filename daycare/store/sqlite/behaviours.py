"""What agents with a behaviour keep from turn to turn."""

import apsw

from daycare.store.records import Agent
from daycare.store.records_upkeep import Kept
from daycare.store.sqlite.writer import Tx, Writer


class BehaviourStore:
    """What agents with a behaviour keep; written by `TurnStore.finish`, with the turn."""

    def __init__(self, writer: Writer, reader: apsw.Connection) -> None:
        self._reader = reader

    async def kept(self, agent_id: str) -> Kept | None:
        """Return what an agent keeps, None before it has kept anything."""
        row = self._reader.execute(
            "SELECT state, at, turn FROM behaviour_states WHERE agent_id = ?", (agent_id,)
        ).fetchone()
        return None if row is None else Kept(*row)


def keep(tx: Tx, agent: Agent, turn: int, state: str) -> None:
    """Let an agent keep this, inside of the transaction that ends its turn."""
    tx.run(
        "INSERT INTO behaviour_states (agent_id, user, origin, turn, at, state) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT DO UPDATE SET turn = excluded.turn, at = excluded.at, state = excluded.state",
        (agent.id, agent.user, str(agent.origin), turn, tx.now, state),
    )
