"""What a turn has read, and where that came from: its messages, its tools, the conversation, what was remembered."""

from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Final, Protocol
from zoneinfo import ZoneInfo

from daycare.agent.readings import Readings, look
from daycare.base.clock import Clock
from daycare.base.documents import DocumentVersion
from daycare.base.errors import InvalidError, NotFoundError
from daycare.base.limits import DOCUMENT_VERSIONS_MAX, SESSION_LOOKED_AT_MAX
from daycare.base.messages import Origin, ToolCall
from daycare.base.path import Kind
from daycare.base.times import local_time
from daycare.rules.document_paths import DAILY
from daycare.rules.taint import Sources, TaintSource, sources_of
from daycare.store.records import Agent, InboxRow, Step, Turn, User
from daycare.store.sqlite.store import Store
from daycare.tools.runner import ApprovedCalls

# The origins of others' words, in what is remembered.
OTHERS: Final = (Origin.FORWARD, Origin.WEBHOOK, Origin.FILE, Origin.GROUP, Origin.AGENT)


class VersionSource(Protocol):
    """The versions of documents, as an agent sees them."""

    async def history(self, agent: Agent, path: str, *, limit: int) -> Sequence[DocumentVersion]:
        """Return those of one document, newest first."""
        ...


class Provenance:
    """Tells it of any turn.

    `approved` tells which calls a person has approved; `trusted` are the daemon's own tools; `outside` names plugins
    that put words into prompts, after which no turn is known to be clean.
    """

    def __init__(
        self,
        store: Store,
        documents: VersionSource,
        clock: Clock,
        approved: ApprovedCalls,
        *,
        trusted: Collection[str],
        outside: Sequence[str] = (),
    ) -> None:
        self._store = store
        self._documents = documents
        self._clock = clock
        self._approved = approved
        self._trusted = trusted
        self.readings = Readings(store.summaries, self._trusted)
        self.listen(outside)

    def listen(self, outside: Sequence[str]) -> None:
        """Know which plugins put words into prompts."""
        self._hooks = Sources(tuple(TaintSource(f"words of the plugin {name}", Origin.FILE) for name in outside))

    def of_turn(self, rows: Sequence[InboxRow], steps: Sequence[Step]) -> Sources:
        """Return what the turn itself has read so far."""
        return sources_of(rows, steps, self._trusted) + self._hooks

    async def of(self, agent: Agent, user: User, turn: Turn, step: int) -> Sources:
        """Return all that stood before the model when it made the call of a step."""
        _, rows, steps = await self._store.turns.load(turn.turn)
        made = [each for each in steps if each.step < step]
        return self.of_turn(rows, made) + await self.before(agent, user, turn, made)

    async def of_call(self, agent: Agent, user: User, turn: Turn, step: int) -> tuple[Origin, ...]:
        """Return where the words of others came from that the call of a step may pass on; a foreign tool's are some.

        What a person has approved of is their own word.
        """
        _, rows, steps = await self._store.turns.load(turn.turn)
        calls = [ToolCall(each.call_id, each.name, each.arguments) for each in steps if each.step == step]
        if calls and calls[0] in await self._approved(agent, turn.turn, rows):
            return ()
        return (await self.of(agent, user, turn, step + 1)).others

    async def of_ended(
        self,
        agent: Agent,
        turn: Turn,
        rows: Sequence[InboxRow],
        steps: Sequence[Step],
        recalled: Collection[Origin],
    ) -> tuple[Origin, ...]:
        """Return where the words of others came from that a turn had read by its end, of these rows and this journal.

        `recalled` are memories'.
        """
        user = await self._store.people.get(agent.user) or User(id=agent.user, name=agent.user)
        read = self.of_turn(rows, steps) + await self.before(agent, user, turn, steps)
        if agent.kind == Kind.APP and agent.config.behaviour:
            read += Sources((TaintSource(f"words of the program {agent.config.behaviour}", Origin.FILE),))
        return (read + _recalled(recalled)).others

    async def before(self, agent: Agent, user: User, turn: Turn, steps: Sequence[Step]) -> Sources:
        """Return what the model reads besides the turn's own: the conversation, and memory that nobody has approved."""
        past = await self.readings.of(agent.id, turn.session)
        own = look([step.message for step in steps if step.message is not None], self._trusted)
        read = list(past.sources)
        if past.messages >= SESSION_LOOKED_AT_MAX and not past.told:  # else its own words carry what came before them
            read.append(TaintSource("a long conversation", Origin.AGENT))
        since = past.at_ms if past.messages else turn.started_at
        today = local_time(self._clock.now_ms(), ZoneInfo(user.zone))
        days = [f"{DAILY}{today - timedelta(days=back):%Y-%m-%d}.md" for back in (0, 1)]
        for path in dict.fromkeys((*days, *own.paths, *past.paths)):
            read += await self._doubtful(agent, path, since)
        looked_up = dict.fromkeys((*own.origins, *past.origins))
        read += [TaintSource("memories that were looked up", origin) for origin in looked_up if origin in OTHERS[:-1]]
        origins = [Origin(each) for step in steps if step.kind == "recall" for each in step.arguments["origins"]]
        return Sources(tuple(read)) + _recalled(origins)

    async def _doubtful(self, agent: Agent, path: str, since: int) -> list[TaintSource]:
        """Return the versions of a document that nobody stands behind and that are not the person's own words.

        What a person had replaced by a text of their own, or deleted, before the conversation began stood in none of
        its prompts.
        """
        try:
            versions = await self._documents.history(agent, path, limit=DOCUMENT_VERSIONS_MAX)
        except (NotFoundError, InvalidError):
            return []  # there is nothing
        found: list[TaintSource] = []
        for version in versions:
            by = version.by
            if version.created_at <= since and (version.deleted or (by.by_person and by.origin is Origin.PERSON)):
                return found
            if not by.approved and by.origin in OTHERS:
                found.append(TaintSource(f"{path}, version {version.version}", by.origin))
        if len(versions) == DOCUMENT_VERSIONS_MAX:
            found.append(TaintSource(f"{path}, of which there are many versions", Origin.AGENT))
        return found


def _recalled(origins: Collection[Origin]) -> Sources:
    """Return memories as sources. An agent's own are clean: those in which it passed others' words on are theirs."""
    found = dict.fromkeys(origin for origin in origins if origin in OTHERS[:-1])
    return Sources(tuple(TaintSource("recalled memories", origin) for origin in found))
