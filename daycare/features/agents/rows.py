"""Agents that come into being together with their first documents, or not at all."""

from collections.abc import Mapping

from daycare.base.documents import Attribution, Layer, NewVersion, Place
from daycare.base.errors import ConflictError
from daycare.features.memory.documents import stored
from daycare.store.records import Agent, NewAgent
from daycare.store.sqlite.agents import create
from daycare.store.sqlite.rows import Rows
from daycare.store.sqlite.writer import Tx


class FurnishedAgents(Rows):
    """Writes them."""

    async def create(self, new: NewAgent, documents: Mapping[str, str], by: Attribution) -> Agent:
        """Create an agent with documents of its own, by name. Raises `ConflictError` AGENT_EXISTS where one lives."""

        def run(tx: Tx) -> Agent:
            if tx.one("SELECT 1 FROM agents WHERE path = ? AND state <> 'dead'", (new.path,)) is not None:
                raise ConflictError(
                    "AGENT_EXISTS", f"creating {new.path}: there is one", hint=f"daycare agents show {new.path}"
                )
            agent = create(tx, new)
            for name, text in documents.items():
                place = Place(Layer.AGENT, agent.id, name)
                stored.write(tx, NewVersion(place=place, user=agent.user, by=by, text=text, base_hash=""))
            return agent

        return await self._write(run, sum(map(len, documents.values())))
