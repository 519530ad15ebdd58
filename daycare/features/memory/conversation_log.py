"""The log of what was said: each ended turn of an agent that people talk to becomes entries of its memory, once.

It runs behind the turns, in small bites, so that no answer waits for it. What it writes is what people and the agent
said: no prompt, no recalled memory, no question to memory, no result of a tool ever gets into the log. An answer that
only repeats what is remembered is marked as an echo, by comparing it with what is remembered: so it holds whatever
recalled that, and after a crash. People who repeat themselves are heard.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence, Set
from functools import partial
from typing import Final

import trio
from msgspec.structs import replace

from daycare.actors.directory import Directory
from daycare.agent.behaviours import has_behaviour
from daycare.agent.kinds import is_persons, said
from daycare.base.memories import NewMemory, Tier
from daycare.base.messages import File, Message
from daycare.base.path import Kind
from daycare.base.scope import scope_of
from daycare.features.memory.loading import WORDS, loaded
from daycare.features.memory.store.records import ECHO, EVERYBODY, EndedTurn, NewVectors
from daycare.features.memory.store.rows import MemoryRows
from daycare.observe.keeper import SetAside, is_of_the_store
from daycare.rules.chunks import cut
from daycare.rules.taint import worst
from daycare.settings import Live
from daycare.store.records import Agent, User
from daycare.store.sqlite.store import Store
from daycare.store.worker import IDLE_S, Worker

ECHO_ORIGINALS_MAX: Final = 20  # memories that an agent's answer is compared with, those most like it
ECHO_POSTINGS_MAX: Final = 1_000  # entries of the index of words read to find them, under 1 ms
SCRIBE_TURNS: Final = 64  # logged with one commit
SCRIBE_PAUSE_S: Final = 0.5  # before ended turns are logged: several go together, and the answer goes first
SCRIBE_SHARE: Final = 0.25  # of the time at most, when many turns wait to be logged

LOGGED: Final = (Kind.CONNECTOR, Kind.AGENT, Kind.SUBUSER, Kind.APP, Kind.CRON, Kind.TASK)
Alike = Callable[[str, Sequence[str], int, int], Awaitable[list[int]]]
EmbedAtOnce = Callable[[Sequence[str]], Awaitable[NewVectors | None]]


class ConversationLog:
    """Writes the log. `worker` is woken after a commit that may have ended a turn.

    `embed` gives the vectors of texts if that is no more work than to write them; they are kept together then.
    `alike` returns the memories of a scope that have most of some words, as `MemoryRows.alike` does, which is asked
    where there is none.
    `aside` is what a turn that cannot be written is set aside with.
    """

    def __init__(
        self,
        store: Store,
        directory: Directory,
        live: Live,
        aside: Callable[[str], SetAside],
        embed: EmbedAtOnce | None = None,
        alike: Alike | None = None,
    ) -> None:
        self._aside = aside
        self._store = store
        self._directory = directory
        self._embed = embed
        self._alike = alike or self._alike_in_rows
        self._live = live
        self.worker = Worker(self._write, gather_s=SCRIBE_PAUSE_S)

    async def _write(self) -> float:
        """It takes a share of the time at most: turns go first."""
        began = trio.current_time()
        if not await self.catch_up():
            return IDLE_S
        await trio.sleep((trio.current_time() - began) / SCRIBE_SHARE)
        return 0.0

    async def catch_up(self) -> bool:
        """Write a bounded number of turns; return whether there may be more.

        A turn that cannot be written is set aside, and told of: it counts as logged, with nothing in the log.
        """
        turns = await self._store.of(MemoryRows).unlogged(SCRIBE_TURNS)
        try:
            await self._log(turns)
        except Exception as defect:  # whatever is wrong with one turn must not keep others out of the log
            if is_of_the_store(defect):
                raise
            for turn in turns:
                with self._aside(f"turn {turn.turn}") as tried:
                    await self._log([turn])
                if tried.failed:
                    await self._store.of(MemoryRows).log([turn], [])
        return len(turns) == SCRIBE_TURNS

    async def _log(self, turns: Sequence[EndedTurn]) -> None:
        people: dict[str, User] = {}
        entries: list[NewMemory] = []
        section = self._live.now.memory.ingestion
        keeps = section.daily_logs or section.facts or section.entities
        for turn in turns:
            agent = await self._directory.get(turn.agent_id)
            if not keeps or agent.kind not in LOGGED or has_behaviour(agent):  # a program remembers by itself
                continue
            if agent.user not in people:
                people[agent.user] = await self._store.people.get(agent.user) or User(id=agent.user, name=agent.user)
            await loaded(WORDS)
            for entry in await _entries_of(agent, people[agent.user], turn):
                entries.append(replace(entry, role=ECHO) if await self._is_echo(entry) else entry)
        if turns:
            vectors = await self._embed([entry.text for entry in entries]) if self._embed is not None else None
            await self._store.of(MemoryRows).log(turns, entries, vectors)

    async def _alike_in_rows(self, scope: str, words: Sequence[str], postings_max: int, limit: int) -> list[int]:
        rows = self._store.of(MemoryRows)
        return await rows.reading(partial(rows.alike, scope, words, postings_max, limit))

    async def _is_echo(self, entry: NewMemory) -> bool:
        """Return whether an answer says nothing but what is remembered from earlier turns."""
        if entry.role != "assistant":
            return False
        from daycare.features.memory.language.analysis import telling

        words = telling(entry.text)
        originals: list[str] = []
        memories = self._store.of(MemoryRows)
        for scope in (entry.scope, EVERYBODY):
            near = await self._alike(scope, words, ECHO_POSTINGS_MAX, ECHO_ORIGINALS_MAX)
            originals += (await memories.reading(partial(memories.texts, scope, near))).values() if near else ()
        await trio.lowlevel.checkpoint()
        return repeats(entry.text, originals)


async def _entries_of(agent: Agent, user: User, turn: EndedTurn) -> list[NewMemory]:
    """Return what was said in a turn, in order: people's words, and the agent's last ones, which are its answer."""
    answer = next((message for message in reversed(turn.messages) if message.role == "assistant"), None)
    entries: list[NewMemory] = []
    for message in turn.messages:
        if message.asks:
            continue  # it would be found in place of its answer, by whoever asks the same again
        if message.role == "user" and is_persons(message):
            name, text = said(message)
            shared = "".join(f" [shares {part.name}]" for part in message.parts if isinstance(part, File))
            entries += await _entries(agent, turn, message, name or user.name, f"{text}{shared}")
        elif message is answer and message.sender in ("", agent.path):  # not what a search found: it is memory already
            entries += await _entries(agent, turn, message, agent.config.name or _ASSISTANT, message.text)
    return entries


_ASSISTANT: Final = "assistant"


async def _entries(agent: Agent, turn: EndedTurn, message: Message, speaker: str, text: str) -> Sequence[NewMemory]:
    """Return a message as entries: one, or, for a long one, one for each chunk."""
    from daycare.features.memory.language.analysis import indexed

    return [
        NewMemory(
            tier=Tier.LOG,
            scope=scope_of(agent.path),
            user=agent.user,
            agent_id=agent.id,
            path=agent.path,
            origin=worst(message.origins) if message.origins else message.origin,
            text=chunk.told,
            index=indexed(chunk.told),
            at_ms=message.at_ms or turn.ended_at,
            session=turn.session,
            turn=turn.turn,
            speaker=speaker,
            role=message.role,
        )
        for chunk in await cut(text)
    ]


SHINGLE_CHARS: Final = 12  # two or three words of a European language, a clause of Chinese
ECHO_MIN_CHARS: Final = 200  # below it a fact that is said again is no echo
ECHO_SHARE: Final = 0.8
FRAME_MAX_CHARS: Final = 32  # around what is quoted: you told me on 3 March 2026 that

_STRIDE: Final = 4  # of the shingles that are looked at first: a quarter of them can say no
_SIGNS: Final = bytes(code for code in range(128) if not chr(code).isalnum())


def is_echo(text: str, recalled: Iterable[str]) -> bool:
    """Return whether a text is substantially what was recalled."""
    plain = _plain(text)
    if len(plain) < ECHO_MIN_CHARS:
        return False
    left = _shingles(plain)
    missing_max = len(left) * (1 - ECHO_SHARE)
    for other in recalled:
        left -= _shingles(_plain(other))
        if len(left) <= missing_max:
            return True
    return False


def repeats(answer: str, remembered: Iterable[str]) -> bool:
    """Return whether an answer says nothing but what is remembered."""
    own = _shingles(_plain(answer))
    others: dict[str, int] = {}
    for each in map(_plain, remembered):
        others[each] = others.get(each, 0) + 1
    quoted = sum(times for plain, times in others.items() if _is_quoted(plain, own))
    most = max(len(own) * (1 - ECHO_SHARE), quoted * FRAME_MAX_CHARS)
    theirs, left = "\n".join(others), 0
    for shingle in own:  # most answers say something new, which shows soon
        left += shingle not in theirs
        if left > most:
            return False
    return bool(own)


def _is_quoted(plain: str, own: Set[str]) -> bool:
    """Return whether nearly all of a text stands in an answer with these shingles."""
    many = len(plain) - SHINGLE_CHARS + 1
    some = {plain[at : at + SHINGLE_CHARS] for at in range(0, many, _STRIDE)}
    if len(some - own) > many - ECHO_SHARE * many:  # too many of all are missing then
        return False
    theirs = _shingles(plain)
    return len(theirs & own) >= max(1, ECHO_SHARE * len(theirs))


def _plain(text: str) -> str:
    if text.isascii():  # nearly all of English, in a tenth of the time
        return text.encode().translate(None, _SIGNS).decode().lower()
    return "".join(filter(str.isalnum, text)).casefold()


def _shingles(plain: str) -> set[str]:
    return {plain[at : at + SHINGLE_CHARS] for at in range(len(plain) - SHINGLE_CHARS + 1)}
