"""What a turn costs in figures that no machine changes: statements, commits, bytes. Who raises one says why."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import apsw
import msgspec
import pytest
import trio

from daycare.base.memory_settings import IngestionSection, MemorySection, RetrievalSection
from daycare.config import Config, ModelsSection, ProviderSection
from daycare.testing.daemon import TestDaemon, open_daemon
from daycare.testing.scripted import call, say

INLINE_ONLY: Final = True  # with threads, what is counted depends on when they run
TURNS: Final = 5
SETTLED_S: Final = 2.0  # virtual, for what follows an answer
TOOLS_BYTES: Final = 19_282  # of all tools of a person's agent, as a provider gets them
QUIET: Final = MemorySection(
    retrieval=RetrievalSection(enabled=False),
    ingestion=IngestionSection(daily_logs=False, entities=False, facts=False, background=False),
)
KNOWN: Final = ("My dentist is Dr. Weber.", "I live in Bonn.", "My cat is called Luna.", "I drink oolong tea.")


class Counts:
    """What SQLite was asked: statements without those of triggers, and transactions that wrote."""

    def __init__(self) -> None:
        self.statements = self.commits = 0

    def note(self, event: dict[str, Any]) -> None:
        self.statements += not event["trigger"]
        self.commits += event["sql"].upper().startswith(("COMMIT", "END"))


@pytest.fixture
def counts() -> Iterator[Counts]:
    found = Counts()

    def watch(db: apsw.Connection) -> None:
        db.trace_v2(apsw.SQLITE_TRACE_STMT, found.note, id="cost")

    apsw.connection_hooks.append(watch)
    yield found
    apsw.connection_hooks.remove(watch)


def settings(memory: MemorySection) -> Config:
    return Config(
        models=ModelsSection(default="scripted/model"),
        providers={"scripted": ProviderSection(kind="scripted")},
        memory=memory,
    )


async def a_turn(house: TestDaemon, counts: Counts, text: str, calls: int = 0) -> tuple[float, float]:
    """Return the statements and commits of a turn in a conversation that has begun, with all that follows it.

    Its model calls so many tools first, at once.
    """

    async def talk() -> None:
        if calls:
            house.model.enqueue(call(*[("now", {})] * calls), say("It is noon."))
        await house.talk(text)

    for _ in range(3):
        await talk()
    await trio.sleep(SETTLED_S)
    counts.statements = counts.commits = 0
    for _ in range(TURNS):
        await talk()
    await trio.sleep(SETTLED_S)
    assert len(msgspec.json.encode(house.model.history[-1].tools)) <= TOOLS_BYTES
    return counts.statements / TURNS, counts.commits / TURNS


@pytest.mark.parametrize(
    ("memory", "known", "text", "statements", "commits"),
    [
        (QUIET, (), "hello there", 27.4, 4.2),  # some of them keep what was shown
        (MemorySection(), (), "hello there", 35.0, 4.2),
        (MemorySection(), KNOWN, "What is my dentist called?", 33.8, 4.2),
    ],
    ids=["without memory", "greeting", "question"],
)
async def test_a_turn_asks_no_more_of_the_store(
    tmp_path: Path,
    autojump_clock: object,
    counts: Counts,
    memory: MemorySection,
    known: tuple[str, ...],
    text: str,
    statements: float,
    commits: float,
) -> None:
    async with open_daemon(tmp_path, config=settings(memory)) as house:
        for each in known:
            await house.talk(each)
        found = await a_turn(house, counts, text)
    assert found[0] <= statements and found[1] <= commits, found


@pytest.mark.parametrize(("calls", "statements", "commits"), [(1, 49.4, 7.2), (2, 55.4, 8.2)])
async def test_a_tool_begins_with_the_commit_of_what_came_before_it(
    tmp_path: Path, autojump_clock: object, counts: Counts, calls: int, statements: float, commits: float
) -> None:
    async with open_daemon(tmp_path, config=settings(QUIET)) as house:
        found = await a_turn(house, counts, "What time is it?", calls)
    assert found[0] <= statements and found[1] <= commits, found
