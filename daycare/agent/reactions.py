"""Reactions: an emoji of the agent at the message that it answers, brought like a reply, after the words."""

from collections.abc import Mapping

from daycare.agent.kinds import route
from daycare.base.connector import Connector
from daycare.base.errors import InvalidError
from daycare.base.path import Kind
from daycare.store.records import Agent, Reply, Turn, User
from daycare.store.retry import with_retry
from daycare.store.sqlite.store import Store


class Reacting:
    """Says which agents may react, and whether there is a message to react to."""

    def __init__(self, store: Store, connectors: Mapping[str, Connector]) -> None:
        self._store = store
        self._connectors = connectors

    def offered(self, agent: Agent) -> bool:
        """Whether an agent has the tool, at each call of a model: its conversation is held over a messenger."""
        pushing = {name for name, connector in self._connectors.items() if not connector.pull}
        if agent.kind == Kind.CONNECTOR:
            return agent.path.rsplit("/", 1)[-1] in pushing
        return agent.kind == Kind.SUBUSER and bool(pushing)

    async def check(self, agent: Agent, user: User, turn: Turn) -> None:
        """Raise `InvalidError` unless one of a turn's messages can get a reaction where it came from."""
        _, rows, _ = await with_retry(lambda: self._store.turns.load(turn.turn))
        able = False
        for row in rows:
            address = route(agent, row.envelope, self._connectors)
            if address is None or not row.envelope.person.message:
                continue
            name, target = address
            if target is None:
                target = row.envelope.sender.partition(":")[2]
            able = able or self._connectors[name].capabilities(target).reactions
        if not able:
            raise InvalidError(
                "REACTION_NOWHERE", "reacting: no message of this turn can get a reaction", hint="answer in words"
            )


def reactions(emoji: str, questions: Mapping[tuple[str, str | None], str]) -> tuple[Reply, ...]:
    """Return the reaction to each question: its address, and the platform's number of the message."""
    return tuple(
        Reply(connector=connector, target=target, text=emoji, reply_to=message, reaction=True)
        for (connector, target), message in questions.items()
        if emoji and message
    )
