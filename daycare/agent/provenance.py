"""What a turn has read, and where that came from: its messages, its tools, the conversation, what was remembered."""

from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Final
from zoneinfo import ZoneInfo

from daycare.agent.lookup import origins_in, paths_in
from daycare.base.clock import Clock
from daycare.base.errors import InvalidError, NotFoundError
from daycare.base.limits import DOCUMENT_VERSIONS_MAX, SESSION_LOOKED_AT_MAX
from daycare.base.messages import Message, Origin, ToolResult
from daycare.base.times import local_time
from daycare.memory.address import DAILY
from daycare.memory.documents import Documents
from daycare.rules.taint import Source, Sources, sources_in, sources_of
from daycare.store.contract import Store
from daycare.store.records import Agent, InboxRow, Step, Turn, User

OTHERS: Final = (Origin.FORWARD, Origin.FILE, Origin.GROUP, Origin.AGENT)  # words of others, in what is remembered
RECALLING: Final = ("memory_read", "memory_search", "memory_ask")


class Provenance:
    """Tells it of any turn.

    `trusted` are the daemon's own tools; `outside` names plugins that put words into prompts, after which no turn is
    known to be clean.
    """

    def __init__(
        self,
        store: Store,
        documents: Documents,
        clock: Clock,
        *,
        trusted: Collection[str],
        outside: Sequence[str] = (),
    ) -> None:
        self._store = store
        self._documents = documents
        self._clock = clock
        self._trusted = frozenset(trusted)
        self.listen(outside)

    def listen(self, outside: Sequence[str]) -> None:
        """Know which plugins put words into prompts."""
        self._hooks = Sources(tuple(Source(f"words of the plugin {name}", Origin.FILE) for name in outside))

    def of_turn(self, rows: Sequence[InboxRow], steps: Sequence[Step]) -> Sources:
        """Return what the turn itself has read so far."""
        return sources_of(rows, steps, self._trusted) + self._hooks

    async def of(self, agent: Agent, user: User, turn: Turn, step: int) -> Sources:
        """Return all that stood before the model when it made the call of a step."""
        _, rows, steps = await self._store.turns.load(turn.turn)
        made = [each for each in steps if each.step < step]
        return self.of_turn(rows, made) + await self.before(agent, user, turn, made)

    async def is_tainted(self, agent: Agent, user: User, turn: Turn, step: int) -> bool:
        """Return whether the call of a step may speak for others; a foreign tool always may."""
        return (await self.of(agent, user, turn, step + 1)).tainted

    async def before(self, agent: Agent, user: User, turn: Turn, steps: Sequence[Step]) -> Sources:
        """Return what the model reads besides the turn's own: the conversation, and memory that nobody has approved."""
        history = await self._store.turns.history(agent.id, turn.session, SESSION_LOOKED_AT_MAX)
        read = list(sources_in(history, self._trusted).read)
        if len(history) >= SESSION_LOOKED_AT_MAX:
            read.append(Source("a long conversation", Origin.SYSTEM))
        since = history[0].at_ms if history else turn.started_at
        today = local_time(self._clock.now_ms(), ZoneInfo(user.zone))
        days = [f"{DAILY}{today - timedelta(days=back):%Y-%m-%d}.md" for back in (0, 1)]
        messages = [*(step.message for step in steps if step.message is not None), *history]
        for path in dict.fromkeys((*days, *_recalled_paths(messages))):
            read += await self._doubtful(agent, path, since)
        looked_up = dict.fromkeys(origin for result in recalled(messages) for origin in origins_in(result))
        read += [Source("memories that were looked up", origin) for origin in looked_up if origin in OTHERS[:-1]]
        origins = dict.fromkeys(
            origin for step in steps if step.kind == "recall" for origin in step.arguments["origins"]
        )
        read += [Source("recalled memories", Origin(origin)) for origin in origins if origin in OTHERS[:-1]]
        return Sources(tuple(read))

    async def _doubtful(self, agent: Agent, path: str, since: int) -> list[Source]:
        """Return the versions of a document that nobody stands behind and that are not the person's own words.

        What a person had replaced by a text of their own, or deleted, before the conversation began stood in none of
        its prompts.
        """
        try:
            versions = await self._documents.history(agent, path, limit=DOCUMENT_VERSIONS_MAX)
        except (NotFoundError, InvalidError):
            return []  # there is nothing
        found: list[Source] = []
        for version in versions:
            by = version.by
            if version.created_at <= since and (version.deleted or (by.by_person and by.origin is Origin.PERSON)):
                return found
            if not by.approved and by.origin not in (Origin.PERSON, Origin.SYSTEM):
                found.append(Source(f"{path}, version {version.version}", by.origin))
        if len(versions) == DOCUMENT_VERSIONS_MAX:
            found.append(Source(f"{path}, of which there are many versions", Origin.SYSTEM))
        return found


def recalled(messages: Sequence[Message]) -> list[str]:
    """Return what the tools of memory answered."""
    parts = (part for message in messages if message.role == "tool" for part in message.parts)
    return [part.text for part in parts if isinstance(part, ToolResult) and part.name in RECALLING]


def _recalled_paths(messages: Sequence[Message]) -> list[str]:
    """Return what was read or found: a text could only add paths to them, which is to its disadvantage."""
    return [path for result in recalled(messages) for path in paths_in(result)]
