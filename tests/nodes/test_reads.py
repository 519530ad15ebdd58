"""A server that stops answering, or whose connections break, while a daemon reads: nobody else is held up by it."""

import random
import threading
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, cast

import pytest
import trio
import trio.testing

from daycare.base.clock import SystemClock
from daycare.base.errors import BusyError, StoreAwayError, UnavailableError
from daycare.base.messages import Origin
from daycare.features.files.rows import BucketRows
from daycare.features.memory.store.rows import MemoryRows
from daycare.features.roster.rows import RosterRows
from daycare.store.bucket import PlacedObject
from daycare.store.postgres import schema
from daycare.store.postgres.connection import READ_MAX_S, PostgresConnection
from daycare.store.postgres.cursor import Blob, Cursor
from daycare.store.postgres.location import ServerLocation
from daycare.store.postgres.read_lines import LINES_MAX, WAITING_MAX, LoopReader
from daycare.store.postgres.suspending import may_wait, suspended, wait_for
from daycare.testing.daemon import TestDaemon, open_daemon
from tests.chance import SEED
from tests.nodes.line import Line
from tests.nodes.server import Server

DEADLINE_S: Final = 60.0
HELD_MAX_S: Final = 1.5  # a fifth of what a read waits, and as much again for a busy machine
READERS: Final = 20
LOGGED_S: Final = 2.0  # in which the words of a turn are written into the log of the conversation
READS: Final = 25
TURNS: Final = 4


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    found = Server()
    yield found
    found.stop()


@pytest.fixture
def line(server: Server) -> Iterator[Line]:
    found = Line(server.socket)
    yield found
    found.end()


@asynccontextmanager
async def a_reader(address: str) -> AsyncGenerator[LoopReader, None]:
    """Give what reads from there."""
    where = ServerLocation(address)
    plain = await trio.to_thread.run_sync(lambda: PostgresConnection(where, schema.dialect(), 1.0))
    reader = LoopReader(plain, inline=False)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(reader.run)
        yield reader
        nursery.cancel_scope.cancel()
    reader.close()


@asynccontextmanager
async def a_house(line: Line, folder: Path) -> AsyncGenerator[TestDaemon, None]:
    """Give a daemon that works on the server over a line."""
    async with open_daemon(folder, location=line.address(), clock=SystemClock(), inline=False) as house:
        try:
            yield house
        finally:
            line.turn("open")


class Ticking:
    """A task of the loop, and how long it was held up."""

    def __init__(self) -> None:
        self.held_s = 0.0

    async def run(self) -> None:
        before = time.monotonic()
        while True:
            await trio.sleep(0.01)
            now = time.monotonic()
            self.held_s = max(self.held_s, now - before)
            before = now


async def asked(reader: LoopReader, sql: str, *values: object) -> list[tuple[object, ...]]:
    """Ask as an operation of the store does."""

    async def operation() -> list[tuple[object, ...]]:
        assert may_wait()
        return reader.execute(sql, values).fetchall()

    return await suspended(operation())


async def test_a_server_that_stops_answering_holds_nothing_else_up_and_loses_nothing(
    line: Line, tmp_path: Path
) -> None:
    answers: list[str] = []
    refusals: list[StoreAwayError] = []
    async with a_house(line, tmp_path) as house, trio.open_nursery() as nursery:
        assert await house.talk("hello", key="before")
        ticking = Ticking()
        nursery.start_soon(ticking.run)
        line.turn("cut")

        async def talk() -> None:
            answers.append(await house.talk("hello again", key="meanwhile"))

        async def look() -> None:
            try:
                await house.store.agents.find()
            except StoreAwayError as error:
                refusals.append(error)

        with trio.fail_after(DEADLINE_S):
            async with trio.open_nursery() as meanwhile:
                meanwhile.start_soon(talk)
                for _ in range(READERS):
                    meanwhile.start_soon(look)
                await trio.sleep(READ_MAX_S + 1)
                assert len(refusals) == READERS, "who reads is told in time"
                found = {each.name: each for each in await house.daemon.health._look(whole=False)}
                assert not found["messages"].ok and "no answer" in found["messages"].text
                assert not answers, "the turn waits"
                line.turn("open")
        assert ticking.held_s < HELD_MAX_S
        assert await house.talk("and again", key="after")
        agent = await house.store.agents.at("/ann/direct")
        assert agent is not None
        history = await house.store.turns.history(agent.id, agent.session, 100)
        said = [message.text for message in history if message.role == "user"]
        assert [sum(text in each for each in said) for text in ("hello again", "and again")] == [1, 1]
        nursery.cancel_scope.cancel()
    assert len(answers) == 1


async def test_a_turn_reads_nothing_with_the_loop_held_up(
    line: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, held = threading.get_ident(), []
    execute = PostgresConnection.execute

    def watched(self: PostgresConnection, sql: str, bindings: object = ()) -> Cursor:
        if threading.get_ident() == loop and not may_wait():
            held.append(sql)
        return execute(self, sql, bindings)

    async with a_house(line, tmp_path) as house:
        assert await house.talk("My cat is called Luna.")  # the key of a provider is read once
        monkeypatch.setattr(PostgresConnection, "execute", watched)
        with trio.fail_after(DEADLINE_S):
            assert await house.talk("What is my cat called?")
            assert await house.talk("/status")
            await house.daemon.health._look(whole=True)
            await house.store.of(RosterRows).branches("", "", 10)
            await trio.sleep(LOGGED_S)
    assert not held


async def test_a_turn_reads_nothing_that_this_node_has_written(line: Line, tmp_path: Path) -> None:
    trips: list[int] = []
    async with a_house(line, tmp_path) as house:
        reader = cast(LoopReader, house.store._reader)
        for said in ("My cat is called Luna.", "I live in Bonn.", "What is my cat called?"):
            assert await house.talk(said)
        for _ in range(TURNS):
            await trio.sleep(LOGGED_S)
            before = reader.trips
            assert await house.talk("What is my cat called?")
            trips.append(reader.trips - before)
    assert min(trips) == 0, "a sweep may read beside some of them"


class Bucket:
    """A bucket with one object."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    async def put(self, data: bytes) -> PlacedObject:
        raise NotImplementedError

    async def read(self, it: PlacedObject, offset: int = 0, length: int | None = None) -> bytes:
        return self.data[offset : None if length is None else offset + length]


async def test_a_file_that_is_carried_away_while_it_is_read_is_read_where_it_is_then(
    line: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = b"the bytes of a file"
    async with a_house(line, tmp_path) as house:
        files = house.store.files
        files.use(Bucket(data), puts=False)
        file = await files.put("key", "ann", Origin.PERSON, "a.txt", "text/plain", data)
        open_blob = LoopReader.blob_open

        def late(self: LoopReader, schema: str, table: str, column: str, number: int, writable: bool) -> Blob:
            placed = PlacedObject("an object", len(data), "0" * 64)
            assert wait_for(house.store.of(BucketRows).carried(file.id, placed))
            return open_blob(self, schema, table, column, number, writable)

        monkeypatch.setattr(LoopReader, "blob_open", late)
        assert await files.read(file.id, "ann") == data
        assert await files.read(file.id, "ann", offset=4, length=5) == data[4:9]


async def test_who_reads_while_connections_break_waits_for_the_next_and_is_answered(line: Line, tmp_path: Path) -> None:
    async with a_house(line, tmp_path) as house, trio.open_nursery() as nursery:
        assert await house.talk("hello")

        async def look() -> None:
            for _ in range(READS):
                [agent, *_] = await house.store.agents.find()
                assert await house.store.of(MemoryRows).counts(agent.path) is not None

        with trio.fail_after(DEADLINE_S):
            async with trio.open_nursery() as looking:
                for _ in range(LINES_MAX + 1):
                    looking.start_soon(look)
                for _ in range(2):
                    await trio.sleep(0.1)
                    line.break_lines()
        nursery.cancel_scope.cancel()


async def test_an_answer_goes_to_who_asked_whoever_is_cancelled_and_whatever_breaks(line: Line) -> None:
    draw = random.Random(SEED)
    print(f"SEED={SEED}")
    right = 0

    async def ask(reader: LoopReader, number: int) -> None:
        nonlocal right
        for turn in range(READS):
            mine = number * READS + turn
            with trio.move_on_after(draw.choice((0.0, 0.001, 0.01, DEADLINE_S))):
                [(found, _)] = await asked(reader, "SELECT CAST(? AS bigint), pg_sleep(0.0005)", mine)
                assert found == mine
                right += 1

    with trio.fail_after(DEADLINE_S):
        async with a_reader(line.address()) as reader:
            async with trio.open_nursery() as nursery:
                for number in range(READERS):
                    nursery.start_soon(ask, reader, number)
                for _ in range(2):
                    await trio.sleep(0.2)
                    line.break_lines()
            assert right > READERS, "most of them were not cancelled"
            assert await asked(reader, "SELECT 7") == [(7,)]
            assert not reader.is_asked


async def test_what_one_statement_does_wrong_is_told_to_who_asked_and_to_nobody_else(line: Line) -> None:
    wrong: list[BaseException] = []

    async def ask(reader: LoopReader, number: int) -> None:
        if number % 3:
            assert await asked(reader, "SELECT CAST(? AS bigint)", number) == [(number,)]
            return
        try:
            await asked(reader, "SELECT 1 / CAST(? AS bigint)" if number % 2 else "SELECT nothing FROM nowhere", 0)
        except Exception as error:  # noqa: BLE001  # whatever it is
            wrong.append(error)

    with trio.fail_after(DEADLINE_S):
        async with a_reader(line.address()) as reader:
            async with trio.open_nursery() as nursery:
                for number in range(12):
                    nursery.start_soon(ask, reader, number)
            assert [type(each).__name__ for each in wrong] == ["StatementError"] * 4
            assert reader.trips <= LINES_MAX * 4, "together, and not one by one"


async def test_slow_reads_let_others_by_and_no_more_wait_than_may(line: Line) -> None:
    slow, more, refused = LINES_MAX - 1, 500, 0
    order: list[str] = []

    async def ask(reader: LoopReader, name: str, sql: str) -> None:
        await asked(reader, sql)
        order.append(name)

    async def wait(reader: LoopReader) -> None:
        nonlocal refused
        try:
            await asked(reader, "SELECT 1")
        except BusyError:
            refused += 1

    with trio.fail_after(DEADLINE_S):
        async with a_reader(line.address()) as reader:
            async with trio.open_nursery() as nursery:
                for _ in range(slow):
                    nursery.start_soon(ask, reader, "slow", "SELECT pg_sleep(1)")
                    await trio.testing.wait_all_tasks_blocked(0.05)
                for _ in range(5):
                    await ask(reader, "quick", "SELECT 1")
            assert order == ["quick"] * 5 + ["slow"] * slow
            line.turn("cut")
            async with trio.open_nursery() as nursery:
                for _ in range(WAITING_MAX + more):
                    nursery.start_soon(wait, reader)
                await trio.testing.wait_all_tasks_blocked(0.05)
                assert 0 < refused <= more
                nursery.cancel_scope.cancel()
            line.turn("open")
            assert await asked(reader, "SELECT 7") == [(7,)]


async def test_a_read_that_is_under_way_as_the_store_closes_is_refused(server: Server) -> None:
    plain = PostgresConnection(ServerLocation(server.address()), schema.dialect(), 1.0)
    reader = LoopReader(plain, inline=False)
    slow = "SELECT 7 FROM pg_sleep(?)"
    async with trio.open_nursery() as serving:
        serving.start_soon(reader.run)
        assert await asked(reader, slow, 0) == [(7,)]
        serving.start_soon(_close_once_asked, reader, serving)
        with trio.CancelScope(shield=True), pytest.raises(UnavailableError) as refused:
            await asked(reader, slow, 30)
    assert refused.value.code == "STORE_CLOSED"
    reader.close()


async def _close_once_asked(reader: LoopReader, serving: trio.Nursery) -> None:
    while not reader.is_asked:
        await trio.sleep(0.01)
    serving.cancel_scope.cancel()
