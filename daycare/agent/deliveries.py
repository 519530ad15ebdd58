"""Where the answer to a scheduled run goes: into a conversation of its user, whose agent is told of it."""

from collections.abc import Collection
from dataclasses import dataclass

from daycare.actors.directory import Directory
from daycare.agent.kinds import is_scheduled, route
from daycare.agent.notify import Notifier
from daycare.agent.steps import Thought
from daycare.base.cron import NOBODY, is_silence
from daycare.base.limits import CRON_TOLD_MAX_CHARS
from daycare.base.messages import Envelope, EnvelopeKind, Origin
from daycare.store.records import Agent, Delivery, InboxRow, Reply, Turn


@dataclass(frozen=True)
class Deliveries:
    """Finds the way of answers that nobody waits for at the place where they are made."""

    directory: Directory
    notifier: Notifier
    connectors: Collection[str]

    async def of(self, agent: Agent, turn: Turn, thought: Thought) -> tuple[tuple[Delivery, ...], tuple[Envelope, ...]]:
        """Return what goes out in another agent's conversation, and the notes that tell those agents."""
        rows = [row for row in thought.rows if is_scheduled(row)]
        texts = [text for text in (thought.reply, *thought.warnings) if text and not (rows and is_silence(text))]
        found: list[Delivery] = []
        notes: list[Envelope] = []
        for row in rows if texts or thought.effects.files else ():
            way = await self._way(agent, row)
            if way is None:
                continue
            deliveries = [Delivery(agent=way[0], reply=Reply(connector=way[1], text=text)) for text in texts or [""]]
            last = deliveries[-1].reply
            reply = Reply(
                connector=last.connector,
                text=last.text,
                files=thought.effects.files,
                choices=thought.effects.choices,
            )
            found += [*deliveries[:-1], Delivery(agent=way[0], reply=reply)]
            if way[0].id != agent.id:
                notes.append(_note(way[0], agent, turn, row, "\n\n".join(texts)))
        return tuple(found), tuple(notes)

    async def _way(self, agent: Agent, row: InboxRow) -> tuple[Agent, str] | None:
        """Return in which conversation and over which connector; None: its answer goes as others do, or nowhere."""
        wish = row.envelope.meta.get("deliver", "")
        if wish == NOBODY:
            return None
        own = await self.notifier.own_connector(agent)
        if not wish and route(agent, row.envelope, self.connectors, own) is not None:
            return None
        preferred = await self.directory.find(wish) if wish else None
        way = await self.notifier.reachable(row.envelope.user, preferred)
        return None if way is None else (way.agent, way.connector)


def goes_elsewhere(row: InboxRow) -> bool:
    """Return whether the answer to a row is wanted in a place of its own."""
    return is_scheduled(row) and bool(row.envelope.meta.get("deliver"))


def is_silent(thought: Thought) -> bool:
    """Return whether a scheduled run came to nothing that its user should hear."""
    return bool(thought.rows) and all(map(is_scheduled, thought.rows)) and is_silence(thought.reply)


def _note(to: Agent, agent: Agent, turn: Turn, row: InboxRow, text: str) -> Envelope:
    if len(text) > CRON_TOLD_MAX_CHARS:
        text = f"{text[:CRON_TOLD_MAX_CHARS]} [cut: {len(text)} characters in all]"
    job = row.envelope.meta["job"]
    return Envelope(
        to=to.path,
        agent_id=to.id,
        user=to.user,
        origin=Origin.AGENT,
        sender=agent.path,
        key=f"told:{turn.turn}:{row.seq}",
        text=f"The user was just told this here, as the answer of the scheduled job {job}:\n{text}",
        trace=turn.trace,
        kind=EnvelopeKind.NOTE,
        via=(*row.envelope.via, agent.path),
    )
