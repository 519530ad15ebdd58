"""Stores to be moved: rows in every table, conversations with memories and documents, and what is compared of them."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any, Final, cast

import apsw
import trio

from daycare.base.documents import Attribution, Layer, NewVersion, Place
from daycare.base.messages import Origin
from daycare.base.store_location import is_server
from daycare.features import open_store
from daycare.features.memory.documents.rows import DocumentRows
from daycare.features.memory.store.rows import MemoryRows
from daycare.store.moving.tables import moved_tables
from daycare.store.postgres import schema
from daycare.store.postgres.connection import PostgresConnection
from daycare.store.postgres.location import ServerLocation
from daycare.store.sqlite.packing import add_functions
from daycare.store.sqlite.store import Store
from tests.backup import samples
from tests.bench import memories, population
from tests.store.samples import HandClock, post

Everything = dict[str, list[tuple[Any, ...]]]

WORDS: Final = ("run", "house", "time", "tea", "good", "people", "grün", "water", "morning")
_DOCUMENTS: Final = 40
_DIMENSIONS: Final = 8
_INBOX: Final = (
    "INSERT INTO inbox (agent_id, key, lane, state, kind, path, user, origin, sender, trace, turn, created_at, done_at,"
    " text, result) VALUES (?1, 'k' || ?2, 1, 2, 'text', ?3, 'bench', 'person', 'bench:1', printf('%016x', ?2), ?2, ?2,"
    " ?2, 'message ' || ?2 || ' grün 😀 ''quoted''', 'done')"
)
_OUTBOX: Final = (
    "INSERT INTO outbox (agent_id, path, turn, connector, user, origin, trace, state, created_at, sent_at, text)"
    " VALUES (?1, ?3, ?2, 'direct', 'bench', 'agent', printf('%016x', ?2), 2, ?2, ?2, 'answer ' || ?2)"
)
_STEP: Final = (
    "INSERT INTO steps (turn, step, kind, name, state, idempotent, user, origin, at, body)"
    " VALUES (?2, 1, 'model', 'm', 'done', 1, 'bench', 'agent', ?2, json_object('agent', ?1, 'path', ?3))"
)


def build(file: Path, messages: int, seed: int = 1) -> None:
    """Make a store with so many messages, each answered and in the memory, and rows in every table."""
    memories.open_turns(file, messages)
    with closing(apsw.Connection(str(file))) as db, db:
        agent, path = population.agent_id(0), population.path(0)
        for statement in (_INBOX, _OUTBOX, _STEP):
            db.executemany(statement, ((agent, number, path) for number in range(1, messages + 1)))
    trio.run(_remember, str(file), messages, Random(seed))
    with closing(apsw.Connection(str(file))) as db, db:
        for table in samples.tables(db):
            if table == "users" or not db.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone():
                for row in range(1, 4):
                    samples._insert(db, table, row)
        db.execute("DELETE FROM forgetting")  # of an interrupted one, which the next start would end


async def _remember(location: str, messages: int, random: Random) -> None:
    async with open_store(location, HandClock(), inline=True) as store:
        await memories.fill(store, messages, (_DIMENSIONS,), "u1")
        await change(store, random, documents=_DOCUMENTS, posts=3)


async def change(store: Store, random: Random, *, documents: int, posts: int) -> None:
    """Do what goes on in a store: messages come, documents get versions and end, memories are forgotten."""
    for _ in range(posts):
        await post(store, f"n{random.randrange(10**9)}", text=" ".join(random.choices(WORDS, k=5)))
    rows = store.of(DocumentRows)
    for _ in range(documents):
        place = Place(Layer.USER, "u1", f"{random.choice('abcdefgh')}.md")
        by = Attribution(origin=Origin.PERSON, author="ann", approver="ann", reason="said")
        text = " ".join(random.choices(WORDS, k=random.randrange(1, 30)))
        await rows.write(NewVersion(place=place, text=text, by=by, user="u1", key=""))
    shapes = store.of(MemoryRows).shapes("u1")
    if gone := [shape.no for shape in random.sample(shapes, min(3, len(shapes)))]:
        await store.of(MemoryRows).forget("u1", gone)


def everything(location: str) -> Everything:
    """Return every row of every table, read by the engine's own means."""
    if not is_server(location):
        with closing(apsw.Connection(location, flags=apsw.SQLITE_OPEN_READONLY)) as db:
            add_functions(db)
            return dict(_rows(db))
    with closing(PostgresConnection(ServerLocation(location), schema.dialect())) as server:
        return dict(_rows(cast(apsw.Connection, server)))


def _rows(db: apsw.Connection) -> Iterator[tuple[str, list[tuple[Any, ...]]]]:
    for table in moved_tables():
        yield table.name, sorted(map(tuple, db.execute(f"SELECT {table.read} FROM {table.name}").fetchall()), key=repr)


def answers(location: str) -> list[object]:
    """Return what searches for some words find in a store, once it is opened as a daemon opens it."""

    async def ask() -> list[object]:
        async with open_store(location, HandClock(), inline=True) as store:
            found: list[object] = []
            for word in WORDS:
                documents = store.of(DocumentRows).search([(Layer.USER, "u1")], [word])
                found.append([(it.version.place.name, it.version.version, it.text) for it in documents])
                found.append(store.of(MemoryRows).postings("u1", [word], postings_max=10_000))
                found.append(store.of(MemoryRows).alike("u1", [word, "tea"], postings_max=10_000, limit=50))
            return found

    return trio.run(ask)
