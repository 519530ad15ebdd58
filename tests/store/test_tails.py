"""What is known of the newest turns without a read is what a read finds."""

import random
from contextlib import suppress
from itertools import count
from typing import Any, Final

import pytest

from daycare.base.causes import Answer, ClientContext, Person
from daycare.base.errors import ConflictError
from daycare.base.messages import EnvelopeKind, Message, Origin
from daycare.features import open_store
from daycare.features.memory.store.rows import MemoryRows
from daycare.store.postgres.commit_words import blank
from daycare.store.records import Agent, InboxRow, Turn
from daycare.store.sqlite import tails
from daycare.store.sqlite.store import Store
from daycare.store.sqlite.summaries import Summaries
from daycare.store.sqlite.tails import Tails
from daycare.store.sqlite.turns import TurnStore
from tests.chance import SEED
from tests.store.samples import HandClock, answer, end, post, said, tool_step

ALL: Final = 2**62
CHANGES: Final = 400
PATHS: Final = ("/u1/telegram", "/u2/telegram")
LONG: Final = "x" * (tails._CHARS_MAX + 1)
LATE_MS: Final = 10**15


class Conversation:
    """Somebody's talk with an agent, in which anything may come next."""

    def __init__(self, store: Store, path: str, draw: random.Random) -> None:
        self.store = store
        self.path = path
        self.draw = draw
        self.turns: list[int] = []
        self.aside: list[int] = []
        self._open: tuple[Agent, Turn] | None = None
        self._keys = count()

    async def go_on(self) -> None:
        """Let something begin, or end."""
        if self._open is None:
            begin = (self._begin, self._begin, self._begin, self._begin, self._hear, self._reset, self._forget)
            await self.draw.choice(begin)()
        else:
            (agent, turn), self._open = self._open, None
            ends = (self._finish, self._finish, self._finish, self._finish, self._park, self._split, self._wait)
            await self.draw.choice(ends)(agent, turn)

    async def _begin(self, **more: Any) -> None:
        if self.draw.random() < 0.3:
            instead = Person(instead=self.turns[-1] if self.turns else 0)
            more = {"cause": self.draw.choice((instead, Person(client=ClientContext(apart=True))))} | more
        receipt = await post(self.store, f"k{next(self._keys)}", self.path, **more)
        agent = await self.store.agents.get(receipt.agent_id)
        assert agent is not None
        self._note(agent, await self.store.turns.begin(agent, await self.store.inbox.waiting(agent.id)))

    async def _hear(self) -> None:
        """Let the answer come that a turn was set aside for."""
        if self.aside:
            it = Answer(f"wait-{self.aside.pop()}", ok=True)
            await self._begin(cause=it, kind=EnvelopeKind.RESULT, origin=Origin.SYSTEM, sender="system")

    async def _reset(self) -> None:
        if self.turns and self.draw.random() < 0.3:
            agent = await self.store.agents.at(self.path)
            assert agent is not None
            await self.store.agents.new_session(agent.id, "reset")

    async def _forget(self) -> None:
        if ended := [turn for turn in self.turns[-3:] if turn not in self.aside]:
            agent = await self.store.agents.at(self.path)
            assert agent is not None
            scope = self.path.split("/")[1]
            with suppress(ConflictError):  # one that has not ended came of it
                await self.store.of(MemoryRows).forget(scope, [], turns=[(agent.id, self.draw.choice(ended))])

    async def _finish(self, agent: Agent, turn: Turn) -> None:
        following: list[InboxRow] = []
        if self.draw.random() < 0.3:
            await post(self.store, f"k{next(self._keys)}", self.path)
            following = [row for row in await self.store.inbox.waiting(agent.id) if row.seq not in turn.seqs]
        began = await self.store.turns.finish(agent, turn, end(turn, history=self._said()), following)
        if began is not None:
            self._note(agent, began)

    async def _park(self, agent: Agent, turn: Turn) -> None:
        await self.store.turns.park(agent, turn, code="BAD", reason="it broke", history=self._said())

    async def _split(self, agent: Agent, turn: Turn) -> None:
        await self.store.turns.split(turn)

    async def _wait(self, agent: Agent, turn: Turn) -> None:
        wait = tool_step(turn, 1, state="waiting", wait=f"wait-{turn.turn}", wait_until=LATE_MS)
        await self.store.turns.journal([wait])
        await self.store.turns.set_aside(agent, turn, [wait])
        self.aside.append(turn.turn)

    def _note(self, agent: Agent, turn: Turn) -> None:
        self._open = agent, turn
        self.turns.append(turn.turn)

    def _said(self) -> tuple[Message, ...]:
        words = LONG if self.draw.random() < 0.05 else f"words {self.draw.random()}"
        return (said(words),) * self.draw.choice((0, 1, 1, 1, 2))


async def test_what_is_known_of_the_newest_turns_is_what_is_there(store: Store) -> None:
    draw = random.Random(SEED)
    print(f"SEED={SEED}")
    talks = [Conversation(store, path, draw) for path in PATHS]
    known = 0
    for _ in range(CHANGES):
        talk = draw.choice(talks)
        await talk.go_on()
        agent = await store.agents.at(talk.path)
        if agent is None:
            continue
        after = draw.choice([0, *talk.turns[-4:], *(turn - 1 for turn in talk.turns[-4:])])
        before = draw.choice([ALL, ALL, *talk.turns[-2:]])
        asked: dict[str, Any] = {"after": after, "before": before, "max_chars": draw.choice((50, 1_000_000))}
        known += store._tails.newest(agent.id, after, before) is not None
        read = await Summaries(store._writer, store._reader, Tails()).newest(agent.id, agent.session, **asked)
        assert await store.summaries.newest(agent.id, agent.session, **asked) == read
        limit = draw.randrange(1, 8)
        said_lately = await TurnStore(store._writer, store._reader, Tails()).history(agent.id, agent.session, limit)
        assert await store.turns.history(agent.id, agent.session, limit) == said_lately
    assert known > CHANGES / 4, "most of them, where nothing was forgotten"


async def test_no_more_is_known_than_there_is_room_for() -> None:
    async with open_store("memory:", HandClock()) as store:
        for number in range(tails.TAILS_MAX + 1):
            await answer(store, "a", to=f"/u{number}/telegram")
        found = store._tails
        assert len(found._tails) == tails.TAILS_MAX
        for number in range(10):
            await answer(store, f"b{number}")
        [tail] = [found._tails[agent] for agent in found._tails if agent == "id-u1-telegram"]
        assert len(tail.turns) == tails._TURNS_MAX


@pytest.mark.parametrize("change", ["people", "forgotten", "shards", "agents"])
async def test_a_commit_that_may_have_changed_what_had_ended_leaves_nothing_known(store: Store, change: str) -> None:
    turn = await answer(store, "a")
    known = store._tails
    assert known.newest(turn.agent_id, turn.turn - 1, ALL)
    commit = blank()
    setattr(commit, change, {turn.agent_id} if change == "agents" else True)
    store._writer.listener(commit)
    assert known.newest(turn.agent_id, turn.turn - 1, ALL) is None
