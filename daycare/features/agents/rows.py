"""Agents that come into being together with their first documents, or not at all."""

from collections.abc import Mapping

from daycare.base.documents import Attribution, Layer, NewVersion, Place
from daycare.features.memory.documents import stored
from daycare.store.records import Agent, NewAgent
from daycare.store.sqlite.agents import create_permanent
from daycare.store.sqlite.rows import Rows
from daycare.store.sqlite.writer import Tx


class FurnishedAgents(Rows):
    """Writes them."""

    async def create(self, new: NewAgent, at_most: int, documents: Mapping[str, str], by: Attribution) -> Agent:
        """Create an agent with documents of its own, by name; raises as `Agents.create_permanent`."""

        def run(tx: Tx) -> Agent:
            agent = create_permanent(tx, new, at_most)
            for name, text in documents.items():
                place = Place(Layer.AGENT, agent.id, name)
                stored.write(tx, NewVersion(place=place, user=agent.user, by=by, text=text, base_hash=""))
            return agent

        return await self._write(run, sum(map(len, documents.values())))
