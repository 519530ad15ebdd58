"""Short ways to say what the tests of memories are about."""

import hashlib
import struct
from collections.abc import Sequence
from itertools import count
from typing import Any

from daycare.base.memories import EntityPart, FactPart, NewMemory, Tier
from daycare.base.messages import Message, Origin, Text
from daycare.features.memory.store.records import EndedTurn, MemoryShape, MergeResult, NewVector, StoredMemory
from daycare.features.memory.store.rows import MemoryRows
from daycare.store.records import Agent, Turn
from daycare.store.sqlite.store import Store
from tests.store.samples import EPOCH_MS, PATH, begin, end

SCOPE = "u1"
_keys = count()
MODEL = "model/small"


def entry(text: str, turn: int = 0, **more: Any) -> NewMemory:
    fields: dict[str, Any] = {
        "tier": Tier.LOG,
        "scope": SCOPE,
        "user": "u1",
        "agent_id": "id-u1-telegram",
        "path": PATH,
        "origin": Origin.PERSON,
        "text": text,
        "at_ms": EPOCH_MS,
        "session": 1,
        "turn": turn,
        "speaker": "Ann",
        "role": "user",
    }
    return NewMemory(**(fields | more))


def fact(text: str, *sources: int, subject: str = "Ann", **more: Any) -> NewMemory:
    about = {key: more.pop(key) for key in ("attribute", "value") if key in more}
    part = FactPart(subject=subject, by="rules", **about)
    return entry(text, tier=Tier.FACT, sources=sources, fact=part, **more)


def entity(name: str, *sources: int, description: str = "", aliases: Sequence[str] = (), **more: Any) -> NewMemory:
    part = EntityPart(name=name, kind="person", aliases=tuple(aliases), description=description, by="rules")
    return entry(f"{name} - {description}", tier=Tier.ENTITY, sources=sources, entity=part, **more)


async def said(store: Store, *texts: str, to: str = PATH, answer: str = "noted") -> Turn:
    """Finish a turn in which somebody says these things, all by themselves or in several messages."""
    history = (*(Message("user", (Text(text),)) for text in texts), Message("assistant", (Text(answer),)))
    agent, turn, _ = await begin(store, f"say-{next(_keys)}", to=to)
    await store.turns.finish(agent, turn, end(turn, answer, history=history, result=answer))
    return turn


async def agent_at(store: Store, path: str = PATH) -> Agent:
    agent = await store.agents.at(path)
    assert agent is not None
    return agent


async def written(store: Store, **more: Any) -> list[int]:
    """Log what was said and is not logged, one entry for each message of a user."""
    turns = await store.of(MemoryRows).unlogged(1_000)
    return await store.of(MemoryRows).log(turns, [each for turn in turns for each in entries_of(turn, **more)])


def entries_of(turn: EndedTurn, **more: Any) -> list[NewMemory]:
    return [
        entry(message.text, turn.turn, **({"agent_id": turn.agent_id, "session": turn.session} | more))
        for message in turn.messages
        if message.role == "user"
    ]


async def logged(store: Store, *texts: str, to: str = PATH, **more: Any) -> list[int]:
    """Say things, each in a turn of its own, and log them; return the entries' numbers."""
    for text in texts:
        await said(store, text, to=to)
    return await written(store, **more)


async def learned(store: Store, *add: NewMemory, **more: Any) -> list[int]:
    """Let the worker of the agent learn things from all that it has not looked at."""
    agent_id = more.pop("agent_id", "id-u1-telegram")
    after = await store.of(MemoryRows).mark(agent_id)
    [waiting] = [each for each in await store.of(MemoryRows).unextracted(1_000) if each.agent_id == agent_id]
    lesson = MergeResult(agent_id=agent_id, after=after, through=waiting.through, add=add, **more)
    numbers = await store.of(MemoryRows).learn(lesson)
    assert numbers is not None
    return numbers


async def only(store: Store, no: int, scope: str = SCOPE) -> StoredMemory:
    [found] = await store.of(MemoryRows).get([scope], [no])
    return found


def texts(store: Store, query: str, scope: str = SCOPE, **more: Any) -> list[int]:
    """Return the numbers of what has any of these words."""
    options: dict[str, Any] = {"postings_max": 1_000, "limit": 1_000}
    return sorted(store.of(MemoryRows).alike(scope, query.split(), **(options | more)))


def numbers(shapes: Sequence[MemoryShape]) -> list[int]:
    return [shape.no for shape in shapes]


def hash_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def vector(no: int, text: str, *values: float) -> NewVector:
    return NewVector(no, hash_of(text), struct.pack(f"<{len(values)}e", *values))


async def embedded(store: Store, model: str = MODEL, dimensions: int = 3) -> int:
    """Give each memory without a vector one that tells its number."""
    rows = await store.of(MemoryRows).unembedded(model, 1_000)
    vectors = [vector(no, text, *([float(no % 1_000)] * dimensions)) for no, _, text in rows]
    return await store.of(MemoryRows).embed(model, dimensions, vectors)
