"""Where answers of scheduled runs, heartbeats and tasks go: into a conversation of the user, whose agent is told."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from daycare.actors.directory import Directory
from daycare.agent.kinds import is_background, is_for_person, is_heartbeat, is_scheduled, is_task, route
from daycare.agent.notify import Notifier
from daycare.agent.steps import Thought
from daycare.base.causes import JobRun, TaskWork
from daycare.base.cron import NOBODY, is_silence
from daycare.base.messages import Envelope, EnvelopeKind, Origin, Origins
from daycare.store.records import Agent, ForwardedReply, InboxRow, Reply, Turn

CRON_TOLD_MAX_CHARS: Final = 4_000  # of an answer, in the conversation of the agent whose person got it


@dataclass(frozen=True)
class Deliveries:
    """Finds the way of answers that nobody waits for at the place where they are made."""

    directory: Directory
    notifier: Notifier
    connectors: Collection[str]

    async def of(
        self, agent: Agent, turn: Turn, thought: Thought, origins: Origins
    ) -> tuple[tuple[ForwardedReply, ...], tuple[Envelope, ...]]:
        """Return what goes out in another agent's conversation, and the notes that tell those agents.

        `origins` says where the words of others came from that the turn had read.
        """
        rows = [
            row
            for row in thought.rows
            if is_scheduled(row)
            or is_heartbeat(row)
            or is_for_person(agent, row)
            or (is_task(row) and row.envelope.origin is Origin.PERSON)
        ]
        silent = any(map(is_background, rows))
        texts = [text for text in (thought.reply, *thought.warnings) if text and not (silent and is_silence(text))]
        found: list[ForwardedReply] = []
        notes: list[Envelope] = []
        for row in rows if texts or thought.effects.files else ():
            way = await self._way(agent, row)
            if way is None:
                continue
            to, connector, target = way
            replies = [Reply(connector=connector, target=target, text=text) for text in texts or [""]]
            replies[-1] = replace(replies[-1], files=thought.effects.files, choices=thought.effects.choices)
            found += [ForwardedReply(agent=to, reply=reply) for reply in replies]
            if to.id != agent.id and is_background(row):  # what a permanent agent says stays its own
                notes.append(replace(_note(to, agent, turn, row, "\n\n".join(texts)), origins=origins))
        return tuple(found), tuple(notes)

    async def _way(self, agent: Agent, row: InboxRow) -> tuple[Agent, str, str | None] | None:
        """Return in which conversation, over which connector and where; None: as other answers go, or nowhere."""
        envelope = row.envelope
        cause = envelope.cause
        wish = cause.deliver if isinstance(cause, JobRun | TaskWork) else ""
        if not wish:
            own = await self.notifier.own_connector(agent)
            if route(agent, envelope, self.connectors, own) is not None:
                return None
        asked = (cause.connector, cause.target) if isinstance(cause, TaskWork) else ("", None)
        return await self.way(envelope.user, wish, *asked)

    async def way(
        self, user: str, wish: str, asked_by: str = "", target: str | None = None
    ) -> tuple[Agent, str, str | None] | None:
        """Return where a user is told something: where they wish, by the connector they asked by, else the latest.

        For somebody who has not said a word yet a conversation begins with it.
        """
        if wish == NOBODY:
            return None
        preferred = await self.directory.find(wish) if wish else None
        if preferred is not None and preferred.user == user and asked_by in self.connectors:
            return preferred, asked_by, target
        way = await self.notifier.reachable(user, preferred) or await self.notifier.begin(user)
        return None if way is None else (way.agent, way.connector, None)


def goes_elsewhere(row: InboxRow) -> bool:
    """Return whether the answer to a row is wanted in a place of its own."""
    return isinstance(cause := row.envelope.cause, JobRun) and bool(cause.deliver)


def is_silent(thought: Thought) -> bool:
    """Return whether what nobody asked for just now came to nothing that its user should hear."""
    return bool(thought.rows) and all(map(is_background, thought.rows)) and is_silence(thought.reply)


def _note(to: Agent, agent: Agent, turn: Turn, row: InboxRow, text: str) -> Envelope:
    what = f"a heartbeat of {agent.path}"
    match row.envelope.cause:
        case TaskWork(task=task):
            what = f"the task {task}"
        case JobRun(job=job):
            what = f"the scheduled job {job}"
    return Envelope(
        to=to.path,
        agent_id=to.id,
        user=to.user,
        origin=Origin.AGENT,
        sender=agent.path,
        key=f"told:{turn.turn}:{row.seq}",
        text=told_note(what, text),
        trace=turn.trace,
        kind=EnvelopeKind.NOTE,
        via=(*row.envelope.via, agent.path),
    )


def told_note(what: str, text: str) -> str:
    """Return the words by which an agent learns what its user was told in its conversation."""
    if len(text) > CRON_TOLD_MAX_CHARS:
        text = f"{text[:CRON_TOLD_MAX_CHARS]} [cut: {len(text)} characters in all]"
    return f"The user was just told this here, as the answer of {what}:\n{text}"
