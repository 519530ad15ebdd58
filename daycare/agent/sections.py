"""Where the sections of a prompt come from: documents, personality files, and the list of agents."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol
from zoneinfo import ZoneInfo

from daycare.agent.blocks import mark_of, one_line
from daycare.agent.personality import Personalities
from daycare.agent.prompt import NOTHING, ROOM, Entry, Passage, Persona, Sections, assemble, is_helper
from daycare.base.clock import Clock
from daycare.base.limits import NAME_MAX_CHARS, PROMPT_OTHERS_MAX, PROMPT_USERS_MAX
from daycare.base.path import Kind
from daycare.plugin import InferRequest
from daycare.store.contract import Store
from daycare.store.records import Agent, AgentConfig, User

IDENTITY: Final = "IDENTITY.md"
SOUL: Final = "SOUL.md"
STYLE: Final = "STYLE.md"
USER: Final = "USER.md"
MEMORY: Final = "MEMORY.md"

_LASTING: Final = (Kind.CONNECTOR, Kind.AGENT, Kind.CRON, Kind.APP)  # helpers and tasks come and go


class Shelf(Protocol):
    """The documents as prompts read them: each by the name that an agent knows it under."""

    async def passage(self, agent: Agent, name: str) -> Passage | None:
        """Return a document as this agent sees it, None if there is none."""

    async def skills(self, agent: Agent) -> Sequence[Entry]:
        """Return the names of this agent's skills with their first lines, in order of name."""
        ...


class BareShelf:
    """A shelf without documents."""

    async def passage(self, agent: Agent, name: str) -> Passage | None:
        """There is none."""

    async def skills(self, agent: Agent) -> Sequence[Entry]:
        """There are none."""
        return ()


async def load_sections(
    shelf: Shelf,
    agent: Agent,
    user: User,
    *,
    mark: str,
    today: datetime,
    persona: Persona,
    personality: Passage = NOTHING,
    others: Sequence[Agent] = (),
    recalled: Passage = NOTHING,
    room: int = ROOM,
) -> Sections:
    """Read what stands in an agent's prompt; `today` is the user's local time.

    Where there is no IDENTITY.md the persona stands in, where there is no USER.md what is known of the user. A helper
    gets none of it: it works on what its task says.
    """
    if is_helper(agent):
        return Sections(mark=mark, room=room)

    async def read(name: str, otherwise: Passage = NOTHING) -> Passage:
        return await shelf.passage(agent, name) or otherwise

    days = [f"{today - timedelta(days=back):%Y-%m-%d}" for back in (1, 0)]
    # What is kept of the owner's user is no concern of a person whom the owner has let in.
    own = agent.kind != Kind.SUBUSER
    return Sections(
        mark=mark,
        identity=await read(IDENTITY, Passage(persona.text, "settings")),
        personality=personality,
        soul=await read(SOUL),
        style=await read(STYLE),
        user=await read(USER, Passage(known_of(user), "settings")) if own else NOTHING,
        others=_others(agent, others) if own else (),
        skills=tuple(await shelf.skills(agent)),
        memory=await read(MEMORY),
        daily=tuple([(day, await read(f"daily/{day}.md")) for day in days]),
        recalled=recalled,
        room=room,
    )


def known_of(user: User) -> str:
    """Return what USER.md says of a person before anybody writes more into it; of a group nothing is known."""
    if user.kind == "group":
        return ""
    return f"The user's name is {one_line(user.name, NAME_MAX_CHARS)}.\nThe user's time zone is {user.zone}."


def _others(agent: Agent, agents: Sequence[Agent]) -> tuple[Entry, ...]:
    known = sorted(each for each in ((each.path, each.config.description) for each in agents) if each[0] != agent.path)
    entries = [Entry(path, about) for path, about in known[:PROMPT_OTHERS_MAX]]
    return tuple(entries if len(known) <= PROMPT_OTHERS_MAX else [*entries, Entry("[more]", "list_agents shows all")])


class Prompts:
    """Makes the prompts of turns.

    `personality` is the installation's, `room_for` tells how many tokens documents may take in an agent's prompt,
    `secret` is the installation's, for the marks of data. `forget` is called when rows of agents have changed.
    """

    def __init__(
        self,
        store: Store,
        shelf: Shelf,
        persona: Persona,
        personalities: Personalities,
        personality: str,
        room_for: Callable[[Agent], Awaitable[int]],
        secret: bytes,
        clock: Clock,
    ) -> None:
        self._store = store
        self._shelf = shelf
        self._persona = persona
        self._personalities = personalities
        self._personality = personality
        self._room_for = room_for
        self._secret = secret
        self._clock = clock
        self._agents: dict[str, Sequence[Agent]] = {}
        self._changes = 0

    async def of(self, agent: Agent, user: User, session: int) -> InferRequest:
        """Return what all model calls of a turn in this session have in common."""
        return assemble(await self.sections(agent, user, session), agent, user)

    async def sections(self, agent: Agent, user: User, session: int) -> Sections:
        """Return what stands in the prompt of a turn in this session, and from where."""
        now = datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC)
        names = [name for name in (agent.config.personality, self._personality) if name]
        return await load_sections(
            self._shelf,
            agent,
            user,
            mark=mark_of(self._secret, agent.id, session),
            today=now.astimezone(ZoneInfo(user.zone)),
            persona=self._persona,
            personality=Passage(self._personalities.chosen(*names).render(), "settings"),
            others=() if is_helper(agent) else await self._lasting(agent.user),
            room=await self._room_for(agent),
        )

    def forget(self) -> None:
        """Read the lists of agents again."""
        self._changes += 1
        self._agents.clear()

    async def _lasting(self, user: str) -> Sequence[Agent]:
        """Return a user's lasting agents in order of path, two more than are shown: one is the reader itself."""
        found = self._agents.get(user)
        if found is None:
            before = self._changes
            found = await self._store.agents.find(user=user, kinds=_LASTING, limit=PROMPT_OTHERS_MAX + 2)
            if before == self._changes and len(self._agents) < PROMPT_USERS_MAX:
                self._agents[user] = found
        return found

    def check(self, config: AgentConfig) -> None:
        """Raise `NotFoundError` or `InvalidError` for settings that name a personality there is not."""
        if config.personality:
            self._personalities.get(config.personality)
