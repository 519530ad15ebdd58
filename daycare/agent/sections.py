"""Where the sections of a prompt come from: documents, personality files, and the list of agents.

Of the documents of identity a prompt has what a person wrote or approved: a version that nobody stands behind is passed
over for the one before, and an event tells.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, date, timedelta
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol
from zoneinfo import ZoneInfo

from msgspec.structs import replace

from daycare.agent import tokens
from daycare.agent.blocks import mark_of, one_line
from daycare.agent.personality import Personalities
from daycare.agent.prompt import (
    NOTHING,
    ROOM,
    Passage,
    Persona,
    PromptEntry,
    Sections,
    base_of,
    is_helper,
    recalled_parts,
    request_of,
)
from daycare.base.bounded import Bounded
from daycare.base.clock import Clock
from daycare.base.documents import Attribution, DocumentVersion, Layer, NewVersion, Place
from daycare.base.errors import ConflictError, InvalidError, UnavailableError
from daycare.base.limits import NAME_MAX_CHARS, PROMPT_LINE_MAX_CHARS, PROMPTS_KEPT_MAX
from daycare.base.memory_settings import DocumentsSection
from daycare.base.messages import Origin
from daycare.base.path import Kind
from daycare.base.permission import own_flaws
from daycare.base.scope import is_apart, scope_of
from daycare.base.times import local_time
from daycare.plugin import InferRequest
from daycare.rules.chunks import chunks
from daycare.rules.document_paths import DAILY, IDENTITY, MEMORY, SOUL, STYLE, USER
from daycare.settings import Live
from daycare.store.records import Agent, AgentConfig, Commit, User
from daycare.store.records_prompts import PromptBase, PromptPart, digest_of_base
from daycare.store.sqlite.store import Store

PROMPT_OTHERS_MAX: Final = 50  # of other agents in that list: a model picks badly from more, and can ask for all
PROMPT_USERS_MAX: Final = 1_000  # whose list is kept in memory, some 30 KB each at most
PROMPT_HEADINGS_MAX: Final = 50  # of a document that has no room in a prompt: so that a model knows what is in it

Recalled = tuple[tuple[str, str], ...]  # (tier, lines)
Excerpts = tuple[tuple[str, str], ...]  # (document, its passages that fit) of those that do not stand whole

_LASTING: Final = (Kind.CONNECTOR, Kind.AGENT, Kind.CRON, Kind.APP)  # helpers and tasks come and go


class DocumentSource(Protocol):
    """The documents as prompts read them: each by the name that an agent knows it under."""

    async def passage(self, agent: Agent, name: str) -> Passage | None:
        """Return a document as this agent sees it, None if there is none, `NOTHING` if it was deleted."""

    async def version(self) -> int:
        """Return a number that is another one after any document has changed."""
        ...


class _Instead(NamedTuple):
    """A source with other texts in place of some."""

    source: DocumentSource
    own: Mapping[str, str]

    async def passage(self, agent: Agent, name: str) -> Passage | None:
        if name in self.own:
            return Passage(self.own[name], Layer.AGENT)
        return await self.source.passage(agent, name)

    async def version(self) -> int:
        return await self.source.version()


class SkillSource(Protocol):
    """The skills as prompts list them."""

    def stamp(self, agent: Agent) -> object:
        """Return what is another one after the list may have changed, but for what documents say."""
        ...

    async def entries(self, agent: Agent) -> Sequence[PromptEntry]:
        """Return this agent's skills, in order of name."""
        ...


class NoSkills:
    """Knows none, as long as there is nothing that does."""

    def stamp(self, agent: Agent) -> object:
        """Say that nothing changes."""
        return None

    async def entries(self, agent: Agent) -> Sequence[PromptEntry]:
        """Return none."""
        return ()


async def load_sections(
    source: DocumentSource,
    agent: Agent,
    user: User,
    *,
    mark: str,
    today: date,
    persona: Persona,
    personality: Passage = NOTHING,
    others: Sequence[Agent] = (),
    skills: Sequence[PromptEntry] = (),
    recalled: Recalled = (),
    excerpts: Excerpts = (),
    documents: DocumentsSection = DocumentsSection(),  # noqa: B008  # immutable
    room: int = ROOM,
    manner: str = "",
) -> Sections:
    """Read what stands in an agent's prompt; `today` is the user's local time.

    Where there never was an IDENTITY.md the persona stands in, where there never was a USER.md what is known of the
    user; one that somebody deleted stays deleted. Of a document that does not stand whole its `excerpts` do. A helper
    gets only what was `recalled` for it: it works on what its task says.
    """
    if is_helper(agent):
        return Sections(mark=mark, recalled=recalled, room=room)
    parts = dict(excerpts)
    passages = parts.pop(MEMORY, "")

    async def read(name: str, otherwise: Passage = NOTHING) -> Passage:
        found = await source.passage(agent, name)
        found = otherwise if found is None else found
        return replace(found, text=parts[name]) if name in parts else found

    async def memory() -> Passage:
        found = await read(MEMORY)
        return replace(found, text=_outline(found.text)) if is_long(found, documents) else found

    days = [f"{today - timedelta(days=back):%Y-%m-%d}" for back in (1, 0)]
    return Sections(
        mark=mark,
        manner=manner,
        identity=await read(IDENTITY, Passage(persona.text, "settings")),
        personality=personality,
        soul=await read(SOUL),
        style=await read(STYLE),
        user=await read(USER, Passage(known_of(user), "settings")),
        others=_others(agent, others),
        skills=tuple(skills),
        memory=await memory(),
        daily=tuple([(day, await read(f"{DAILY}{day}.md")) for day in days]),
        recalled=(*((("chunk", passages),) if passages else ()), *recalled),
        room=room,
    )


def is_long(memory: Passage, section: DocumentsSection) -> bool:
    """Return whether MEMORY.md has no room in a prompt, so that only what fits of it stands there."""
    return tokens.of_text(memory.text) > section.chat_max_tokens


def _outline(text: str) -> str:
    """Return what stands for a long document: the same from turn to turn, until it is changed."""
    found = dict.fromkeys(" / ".join(chunk.headings) for chunk in chunks(text) if chunk.headings)
    lines = [f"- {one_line(each, PROMPT_LINE_MAX_CHARS)}" for each in list(found)[:PROMPT_HEADINGS_MAX]]
    told = "MEMORY.md is too long to stand here. What of it fits what is said stands below; memory_read shows all."
    return "\n".join([told, *(["It has:", *lines] if lines else [])])


def known_of(user: User) -> str:
    """Return what USER.md says of a person before anybody writes more into it; of a group nothing is known."""
    if user.kind == "group":
        return ""
    return f"The user's name is {one_line(user.name, NAME_MAX_CHARS)}.\nThe user's time zone is {user.zone}."


class DocumentWriter(Protocol):
    """Keeps documents in versions."""

    async def history(self, place: Place, *, limit: int = 100) -> Sequence[DocumentVersion]:
        """Return versions, the newest first."""
        ...

    async def write(self, new: NewVersion) -> DocumentVersion:
        """Append a version."""
        ...


async def introduce(
    documents: DocumentWriter, persona: Persona, user: User, more: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Write IDENTITY.md, and the operator's USER.md, from the settings, and `more` that are everybody's, by name.

    What is there, or ever was, stays as it is.
    """
    by = Attribution(
        origin=Origin.PERSON,
        author="system",
        approver=user.keys[0] if user.keys else user.id,
        reason="made of the settings at the first start",
    )
    for place, text in (
        (Place(Layer.GLOBAL, "", IDENTITY), persona.text),
        (Place(Layer.USER, user.id, USER), known_of(user)),
        *((Place(Layer.GLOBAL, "", name), text.strip()) for name, text in more.items()),
    ):
        if await documents.history(place, limit=1):
            continue
        try:
            await documents.write(NewVersion(place=place, user=user.id, by=by, text=f"{text}\n", base_hash=""))
        except (ConflictError, UnavailableError):
            pass  # somebody was faster, or the disk is full: then the settings stand in until the next start


def _talks_with(agent: Agent, user: User) -> User:
    """Return whom an agent talks with: its user, or whom that has let in, who is told nothing of them."""
    if not is_apart(agent.path, agent.user):
        return user
    scope = scope_of(agent.path)
    return replace(user, id=scope, name=scope.rpartition("/")[2], kind="person", keys=())


def _others(agent: Agent, agents: Sequence[Agent]) -> tuple[PromptEntry, ...]:
    known = sorted(each for each in ((each.path, each.config.description) for each in agents) if each[0] != agent.path)
    entries = [PromptEntry(path, about) for path, about in known[:PROMPT_OTHERS_MAX]]
    return tuple(
        entries if len(known) <= PROMPT_OTHERS_MAX else [*entries, PromptEntry("[more]", "list_agents shows all")]
    )


class MadePrompt(NamedTuple):
    """What all model calls of a turn have in common, and what of it is the same from turn to turn."""

    request: InferRequest
    base: PromptBase


class _Kept(NamedTuple):
    """The last prompt of an agent: what its sections were made of, and what was recalled behind them."""

    state: object
    recalled: Recalled
    made: MadePrompt


def with_program(made: MadePrompt, text: str, recalled: Recalled) -> MadePrompt:
    """Return a prompt with what a program says about its answer, before what was `recalled`; the same for ""."""
    if not text:
        return made
    base = made.base
    parts = (*base.parts, PromptPart("program", text))
    return _made(replace(base, parts=parts, digest=digest_of_base(parts, base.zone, base.room)), recalled)


def _made(base: PromptBase, recalled: Recalled) -> MadePrompt:
    return MadePrompt(request_of(base, recalled_parts(base, recalled)), base)


class Prompts:
    """Makes the prompts of turns; the last ones are kept for as long as nothing has changed that stands in them.

    `room_for` tells how many tokens documents may take in an agent's prompt, `secret` is the installation's, for the
    marks of data, `manners` tells how words arrive over a connector. `forget` is called when rows of agents have
    changed. `skills` knows what an agent can do by instructions.
    """

    def __init__(
        self,
        store: Store,
        source: DocumentSource,
        personalities: Personalities,
        live: Live,
        room_for: Callable[[Agent], Awaitable[int]],
        secret: bytes,
        clock: Clock,
        manners: Callable[[str], str] = lambda connector: "",
    ) -> None:
        self._store = store
        self._source = source
        self.skills: SkillSource = NoSkills()
        self._personalities = personalities
        self._live = live
        self._room_for = room_for
        self._secret = secret
        self._clock = clock
        self._manners = manners
        self._agents: dict[str, Sequence[Agent]] = {}
        self._changes = 0
        self._kept: Bounded[str, _Kept] = Bounded(PROMPTS_KEPT_MAX)

    async def of(
        self,
        agent: Agent,
        user: User,
        session: int,
        recalled: Recalled = (),
        excerpts: Excerpts = (),
    ) -> MadePrompt:
        """Return what all model calls of a turn in this session have in common; `recalled` are (tier, lines)."""
        user = _talks_with(agent, user)
        changes, version = self._changes, await self._source.version()  # before anything is read that may change
        read_at = self._clock.now_ms()
        settings, now = self._live.now, local_time(read_at, UTC)
        today = now.astimezone(ZoneInfo(user.zone)).date()
        personality = self._personalities.chosen(*filter(None, (agent.config.personality, settings.agent.personality)))
        room = await self._room_for(agent)
        set_by = (settings.agent, settings.memory.documents)
        skilled = None if is_helper(agent) else self.skills.stamp(agent)
        state = (agent, user, session, today, personality, set_by, room, changes, version, excerpts, skilled)
        kept = self._kept.pop(agent.id, None)
        if kept is not None and kept.state == state:
            if kept.recalled != recalled:  # as in most turns: nothing is read again for that
                kept = _Kept(state, recalled, _made(kept.made.base, recalled))
            self._kept[agent.id] = kept
            return kept.made
        sections = await load_sections(
            self._source,
            agent,
            user,
            mark=mark_of(self._secret, agent.id, session),
            today=today,
            persona=Persona(settings.agent.name, settings.agent.tone),
            personality=Passage(personality.render(), "settings"),
            others=() if is_helper(agent) or is_apart(agent.path, agent.user) else await self._permanent(agent.user),
            skills=() if is_helper(agent) else await self.skills.entries(agent),
            excerpts=excerpts,
            documents=settings.memory.documents,
            room=room,
            manner=self._manners(agent.path.rpartition("/")[2]) if agent.kind == Kind.CONNECTOR else "",
        )
        made = _made(replace(base_of(sections, agent, user), at_ms=read_at), recalled)
        if changes == self._changes:  # else what stands in it may be forgotten by now
            self._kept[agent.id] = _Kept(state, recalled, made)
        return made

    async def trial(self, agent: Agent, user: User, own: Mapping[str, str]) -> InferRequest:
        """Return what calls of a model have in common for an agent that is not there, or not yet with these documents.

        `own` are texts by name, in place of those that it has.
        """
        settings = self._live.now
        chosen = self._personalities.chosen(*filter(None, (agent.config.personality, settings.agent.personality)))
        sections = await load_sections(
            _Instead(self._source, own),
            agent,
            user,
            mark=mark_of(self._secret, agent.id, agent.session),
            today=local_time(self._clock.now_ms(), ZoneInfo(user.zone)).date(),
            persona=Persona(settings.agent.name, settings.agent.tone),
            personality=Passage(chosen.render(), "settings"),
            others=await self._permanent(agent.user),
            documents=settings.memory.documents,
            room=await self._room_for(agent),
        )
        return request_of(base_of(sections, agent, user), ())

    def base_mark(self, agent_id: str, session: int) -> str:
        """Return the mark of a session's data blocks."""
        return mark_of(self._secret, agent_id, session)

    def committed(self, commit: Commit) -> None:
        """Read the lists of agents again if a commit changed some; keep no prompt of those, who may have ended."""
        if commit.agents:
            self.forget()
            for agent_id in commit.agents:
                self._kept.pop(agent_id, None)

    def forget(self) -> None:
        """Read the lists of agents again."""
        self._changes += 1
        self._agents.clear()

    def drop(self) -> None:
        """Keep no prompt, nor one that is being made: something that stood in one was forgotten."""
        self._changes += 1
        self._kept.clear()

    async def _permanent(self, user: str) -> Sequence[Agent]:
        """Return a user's permanent agents in order of path, two more than are shown: one is the reader itself."""
        found = self._agents.get(user)
        if found is None:
            before = self._changes
            found = await self._store.agents.find(user=user, kinds=_LASTING, limit=PROMPT_OTHERS_MAX + 2)
            if before == self._changes and len(self._agents) < PROMPT_USERS_MAX:
                self._agents[user] = found
        return found

    def check(self, config: AgentConfig) -> None:
        """Raise `NotFoundError` for a personality there is not, `InvalidError` for that and rules that are wrong."""
        if wrong := next(own_flaws(config.permissions), ""):
            raise InvalidError("PERMISSIONS_INVALID", f"setting {wrong}", hint="doc/operate/permissions.md")
        if config.personality:
            self._personalities.get(config.personality)
