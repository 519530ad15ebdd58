"""What a running tool may do and know: it collects effects, asks other agents, and reads what its user may read."""

from collections.abc import Awaitable, Callable, Sequence
from math import inf
from typing import Final, NamedTuple, Protocol

import msgspec

from daycare.base import foreign
from daycare.base.causes import AgentQuestion
from daycare.base.errors import ConflictError, ForbiddenError, InvalidError, NotFoundError
from daycare.base.limits import ASK_CHAIN_MAX, CHOICES_MAX, FILE_MAX_BYTES, FILES_MAX, WAIT_MAX_S
from daycare.base.messages import Chains, Choice, Envelope, EnvelopeKind, File, Origin, Told
from daycare.base.path import PEOPLES, Kind
from daycare.base.times import is_moment
from daycare.plugin import Memory, Waiting
from daycare.store.records import Agent, AgentConfig, Effects, NewTimer, Policy, Turn, User
from daycare.tools import lengthy

BEGINS_ANEW_S: Final = 60.0  # a reminder so far ahead begins a new chain; a shorter one is a detour of the same

SEARCHES_WITH: Final = ("memory_search", "memory_read")  # the only tools of a search agent


class CallMemory(Memory, Protocol):
    """An agent's memory for one call, and what that call was told out of it so far."""

    told: Told | None


class Reach(msgspec.Struct, frozen=True):
    """What tools reach through their context; handed in, as directory and router are siblings of the tools.

    `admit(message)` returns who gets a message that is committed later, or raises; `post` commits one at once;
    `help(parent, config, born, task, kind)` makes a helper or a search, once for each `born`; `agents(user)` lists the
    living ones; `file(id, user)` returns a user's file, `read(id, user, offset, length)` bytes of it,
    `keep(key, user, origin, name, media_type, data)` keeps one;
    `memory(agent, user, turn, step)` is the agent's memory for one call; `reactable(agent, user, turn)` raises where
    no message of a turn can get a reaction;
    `origins(agent, user, turn, step)` says where the words of others came from that one call may pass on.
    """

    admit: Callable[[Envelope], Awaitable[Agent]]
    post: Callable[[Envelope], Awaitable[object]]
    help: Callable[[Agent, AgentConfig, str, Envelope, Kind], Awaitable[Agent]]
    agents: Callable[[str], Awaitable[list[Agent]]]
    file: Callable[[int, str], Awaitable[File | None]]
    read: Callable[[int, str, int, int], Awaitable[bytes | None]]
    keep: Callable[[str, str, Origin, str, str, bytes], Awaitable[File]]
    memory: Callable[[Agent, User, Turn, int], CallMemory]
    reactable: Callable[[Agent, User, Turn], Awaitable[None]]
    origins: Callable[[Agent, User, Turn, int], Awaitable[tuple[Origin, ...]]]


class Call(NamedTuple):
    """Which call of which turn a tool runs for; `id` is the model's."""

    agent: Agent
    user: User
    turn: Turn
    step: int
    id: str


class ToolCallContext:
    """A `ToolContext`: collects effects instead of carrying them out, so that a failed turn leaves nothing behind."""

    def __init__(
        self,
        reach: Reach,
        call: Call,
        now_ms: int,
        chains: Chains,
        allowed: tuple[str, ...],
        progress: Callable[[str], None],
    ) -> None:
        agent, user, turn, step, call_id = call
        self.path = agent.path
        self.user = agent.user
        self.zone = user.zone
        self.now_ms = now_ms
        self.trace = turn.trace
        self.turn = turn.turn
        self.step = step
        self.call_id = call_id
        self._reach = reach
        self._agent = agent
        self._person = user
        self._turn = turn
        self._chain = (*chains.waiting, agent.path)  # who waits for this turn's answer, and now this agent
        self._via = (*chains.via, agent.path)
        self.chains = Chains(self._chain, self._via)
        self.allowed = allowed
        self.progress = progress
        self.memory = reach.memory(agent, user, turn, step)
        self._call = call
        self._session = turn.session
        self._asked = 0
        self.waits: set[str] = set()  # the keys of what it asked, which alone may be waited for
        self._posts: list[Envelope] = []
        self._timers: list[NewTimer] = []
        self._choices: list[Choice] = []
        self._files: list[File] = []
        self._reaction = ""

    async def send(self, to: str, text: str) -> None:
        """Send `text` to the agent at `to` when the turn commits."""
        message = self._envelope(to, text, Origin.AGENT, EnvelopeKind.TEXT, f"{len(self._posts)}")
        recipient = await self._reach.admit(message)
        self._posts.append(msgspec.structs.replace(message, user=recipient.user))

    def remind(self, after_s: float, text: str) -> int:
        """Have `text` posted to this agent after so many seconds; return the due wall time in ms."""
        due_ms = self.now_ms + round(foreign.seconds(after_s, inf) * 1000)
        if not is_moment(due_ms):
            raise InvalidError("REMINDER_TIME", f"reminding in {after_s:g} s: no calendar holds that time")
        key = self._key(f"t{len(self._timers)}")
        envelope = self._envelope(self.path, text, Origin.TIMER, EnvelopeKind.NOTICE, f"t{len(self._timers)}")
        if after_s >= BEGINS_ANEW_S:
            envelope = msgspec.structs.replace(envelope, via=())
        self._timers.append(NewTimer(agent_id=self._agent.id, key=key, due_at=due_ms, envelope=envelope))
        return due_ms

    async def ask(self, to: str, text: str, deadline_s: float) -> Waiting:
        """Post to another agent of this user; its answer is the call's result."""
        if to in self._chain:
            raise ConflictError(
                "ASK_CYCLE",
                f"asking {to}: it waits for this answer itself ({' -> '.join((*self._chain, to))})",
                hint="send a message without waiting instead",
            )
        question, wait = await self._question(to, text)
        await self._reach.post(question)
        return Waiting(key=wait, deadline_s=_clipped(deadline_s))

    async def spawn(
        self, task: str, *, prompt: str = "", tools: Sequence[str] | None = None, deadline_s: float | None = None
    ) -> tuple[str, Waiting | None]:
        """Create a helper with a task of its own."""
        wanted = self.allowed if tools is None else foreign.items(tools, foreign.ITEMS_MAX)
        granted = tuple(name for name in wanted if name in self.allowed)
        task, prompt = foreign.text(task), foreign.text(prompt)
        question, wait = await self._question("", task)
        config = AgentConfig(
            description=told_of(question),
            system_prompt=prompt,
            policy=Policy.FOLLOWUP,
            tools=granted,
            workspace=self._agent.config.workspace,
            access=self._agent.config.access,
        )
        child = await self._reach.help(self._agent, config, wait, question, Kind.SUB)
        waiting = None if deadline_s is None else Waiting(key=wait, deadline_s=_clipped(deadline_s))
        return child.path, waiting

    async def ask_memory(self, question: str, deadline_s: float) -> Waiting:
        """Have a question answered from memory by a search agent."""
        question = foreign.text(question)
        if self._agent.kind not in PEOPLES:
            raise ForbiddenError(
                "SEARCH_FORBIDDEN",
                f"asking the memory of {self.path}: only agents that people talk with may",
                hint="use memory_search",
            )
        envelope, wait = await self._question("", question)
        await self._reach.help(self._agent, searching(told_of(envelope)), wait, envelope, Kind.SEARCH)
        return Waiting(key=wait, deadline_s=_clipped(deadline_s))

    async def origins(self) -> tuple[Origin, ...]:
        """Return where the words of others came from that this call may pass on."""
        return await self._reach.origins(*self._call[:4])

    async def _question(self, to: str, text: str) -> tuple[Envelope, str]:
        """Return a message whose answer comes back to this call, and the key under which that waits."""
        if len(self._chain) > ASK_CHAIN_MAX:
            raise ConflictError("ASK_CHAIN", f"asking {to}: {len(self._chain)} agents wait already", hint="ask less")
        mark = f"ask{self._asked}"
        self._asked += 1
        envelope = self._envelope(to, text, Origin.AGENT, EnvelopeKind.TEXT, mark)
        wait = f"{self._agent.id}:{self._key(mark)}"
        self.waits.add(wait)
        cause = AgentQuestion(wait, self._agent.id, self._session)
        origins = await self.origins()
        return msgspec.structs.replace(envelope, chain=self._chain, cause=cause, origins=origins), wait

    async def read(self, file_id: int, offset: int = 0, length: int = FILE_MAX_BYTES) -> tuple[File, bytes]:
        """Return a file of this user, and bytes of it."""
        file = await self._file(file_id)
        data = await self._reach.read(file_id, self.user, offset, length)
        return file, data or b""

    async def _file(self, file_id: int) -> File:
        found = await self._reach.file(file_id, self.user)
        if found is None:
            raise NotFoundError("FILE_UNKNOWN", f"reading file {file_id}: there is none, or it is kept no longer")
        return found

    async def agents(self) -> list[tuple[str, str]]:
        """Return (path, description) of the user's living agents."""
        return [(agent.path, agent.config.description) for agent in await self._reach.agents(self.user)]

    def offer(self, choices: Sequence[Choice]) -> None:
        """Let the turn's reply come with these answers to choose from."""
        choices = [foreign.struct(choice, Choice) for choice in foreign.items(choices, foreign.ITEMS_MAX)]
        if len(self._choices) + len(choices) > CHOICES_MAX:
            raise InvalidError("CHOICES_MAX", f"offering {len(choices)} choices: {CHOICES_MAX} are the most")
        self._choices += choices

    async def react(self, emoji: str) -> None:
        """Put an emoji to the message that is being answered, when the turn commits; the last of a turn counts."""
        emoji = foreign.line(emoji)
        await self._reach.reactable(self._agent, self._person, self._turn)
        self._reaction = emoji

    async def attach(self, file_id: int) -> File:
        """Let the turn's reply come with a file of this user."""
        file = await self._file(file_id)
        if len(self._files) >= FILES_MAX:
            raise InvalidError("FILES_MAX", f"attaching {file.name}: {FILES_MAX} files are the most for one reply")
        self._files.append(file)
        return file

    async def write(self, name: str, media_type: str, data: bytes) -> File:
        """Keep a new file of this user, once for each call of the tool and name."""
        name, media_type = foreign.line(name), foreign.line(media_type)
        data = await lengthy.content(data, 2 * FILE_MAX_BYTES)  # the store says by how much it is too large
        return await self._reach.keep(self._key(f"file:{name}"), self.user, Origin.AGENT, name, media_type, data)

    async def effects(self) -> Effects:
        """Return what was asked for so far; what is sent carries where the words of others in it came from."""
        origins = await self.origins() if self._posts or self._timers else ()
        sent = (msgspec.structs.replace(each, origins=origins) for each in self._posts)
        timers = (
            msgspec.structs.replace(each, envelope=msgspec.structs.replace(each.envelope, origins=origins))
            for each in self._timers
        )
        return Effects(
            posts=tuple(sent),
            timers=tuple(timers),
            choices=tuple(self._choices),
            files=tuple(self._files),
            reaction=self._reaction,
        )

    def _envelope(self, to: str, text: str, origin: Origin, kind: EnvelopeKind, mark: str) -> Envelope:
        return Envelope(
            to=to,
            user=self.user,
            origin=origin,
            sender=self.path,
            key=self._key(mark),
            text=foreign.text(text),
            trace=self.trace,
            kind=kind,
            via=self._via,
        )

    def _key(self, mark: str) -> str:
        return f"turn:{self.turn}:{self.step}:{mark}"


def searching(question: str) -> AgentConfig:
    """Return the settings of a search agent."""
    return AgentConfig(description=shortened(question, 100), policy=Policy.FOLLOWUP, tools=SEARCHES_WITH)


def shortened(text: str, chars: int) -> str:
    """Return the first line of a text, cut to `chars`."""
    line = " ".join(text.split())
    return line if len(line) <= chars else line[: chars - 3] + "..."


def told_of(task: Envelope) -> str:
    """Return what other agents read of a helper: nothing that others may have put into its task."""
    return shortened(task.text, 100) if task.origins == () else "a helper with a task of its own"


def _clipped(deadline_s: float) -> float:
    return max(foreign.seconds(deadline_s, WAIT_MAX_S), 1.0)
