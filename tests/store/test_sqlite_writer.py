"""The SQLite writer: what it remembers, what it survives."""

import random
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import apsw
import pytest
import trio
import trio.testing

from daycare.base.errors import BusyError, DaycareError, UnavailableError
from daycare.base.limits import INBOX_MAX_MESSAGES
from daycare.base.messages import Lane
from daycare.features import open_store
from daycare.store.records import Effects
from daycare.store.sqlite.store import Store
from daycare.store.sqlite.watch import LOOK_S
from daycare.store.sqlite.write import Write
from daycare.testing.clock import patient_clock
from daycare.testing.powercut_disk import RecordingVFS
from tests.store.samples import PATH, HandClock, answer, begin, commits, conclude, end, letter, new_agent, post

PATHS = [PATH, *(f"/u1/agent/a{number}" for number in range(4))]


@pytest.fixture(params=["daycare.db", "memory:"])
async def sqlite(request: pytest.FixtureRequest, tmp_path: Path, clock: HandClock) -> AsyncIterator[Store]:
    location = request.param if request.param == "memory:" else str(tmp_path / request.param)
    async with open_store(location, clock) as store:
        yield store


@pytest.fixture
async def file(tmp_path: Path, clock: HandClock) -> AsyncIterator[Store]:
    async with open_store(str(tmp_path / "daycare.db"), clock) as store:
        yield store


def waiting_in_table(store: Store) -> dict[str, int]:
    rows = store._db.execute("SELECT agent_id, count(*) FROM inbox WHERE state = 0 GROUP BY agent_id")
    return {str(agent): int(str(count)) for agent, count in rows}


def living_in_table(store: Store) -> dict[str, str]:
    rows = store._db.execute("SELECT path, id FROM agents WHERE state <> 'dead'")
    return {str(path): str(agent) for path, agent in rows}


async def do_something(store: Store, rng: random.Random, number: int) -> None:
    """Do one random thing, which may well be refused."""
    path = rng.choice(PATHS)
    fresh = new_agent(path, agent_id=f"id-{number}")
    agent = await store.agents.at(path)
    match rng.randrange(10):
        case 0 | 1:
            lane = rng.choice(list(Lane))
            await store.inbox.post(letter(f"k{rng.randrange(40)}", path, lane=lane), rng.choice([None, fresh]))
        case 2:
            good = [(letter(f"b{number}-{n}", path), fresh) for n in range(rng.randrange(1, 4))]
            await store.inbox.post_all([*good, *rng.choice([[], [(letter("x", "/nobody/agent/x"), None)]])])
        case 3 if agent is not None:
            for row in (await store.inbox.waiting(agent.id, limit=2))[:1]:
                await store.inbox.conclude(agent, row, "done")
        case 4 | 5 | 6 if agent is not None and (rows := await store.inbox.waiting(agent.id, limit=3)):
            turn = await store.turns.begin(agent, rows)
            posts = tuple(letter(f"p{number}-{n}", rng.choice([*PATHS, "/nobody/agent/x"])) for n in range(2))
            match rng.randrange(4):
                case 0:
                    await store.turns.park(agent, turn, code="X", reason="y", posts=posts)
                case 1:
                    await store.turns.split(turn)
                case _:
                    await store.turns.finish(agent, turn, end(turn, effects=Effects(posts=posts)))
        case 7 if agent is not None and rng.random() < 0.3:
            await store.agents.set_state(agent.id, rng.choice(["dead", "parked", "living"]))
        case 8:
            for dead in await store.dead.find(limit=1):
                await store.dead.replay(dead.no)
        case 9:
            await store.ledger.expire(store._writer._clock.now_ms() + 1)


@pytest.mark.parametrize("seed", range(4))
async def test_what_the_writer_remembers_equals_the_table_after_random_operations(sqlite: Store, seed: int) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    refused = 0

    async def attempt(number: int) -> None:
        nonlocal refused
        try:
            await do_something(sqlite, rng, number)
        except DaycareError as error:
            assert error.code != "STORE_ERROR", error
            refused += 1

    for start in range(0, 400, 20):
        async with trio.open_nursery() as nursery:
            for number in range(start, start + 20):
                nursery.start_soon(attempt, number)
        assert sqlite._writer.memory.waiting == waiting_in_table(sqlite)
        living = living_in_table(sqlite)
        assert sqlite._writer.memory.living.items() <= living.items()
    assert refused > 20, "the test would show nothing"
    assert waiting_in_table(sqlite)


async def test_a_write_that_fails_after_its_first_change_is_undone_alone(file: Store) -> None:
    """All in one batch: good, half-done, good."""
    await post(file, "first")
    seen = commits(file)
    codes: list[str] = []

    async def half_done() -> None:
        try:
            await file.inbox.post_all(
                [(letter("half", PATHS[1]), new_agent(PATHS[1])), (letter("x", "/n/agent/x"), None)]
            )
        except DaycareError as error:
            codes.append(error.code)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(post, file, "before")
        nursery.start_soon(half_done)
        nursery.start_soon(post, file, "after")
    assert codes == ["AGENT_UNKNOWN"]
    assert len(seen) == 1, "they shared a commit"
    assert sorted(row.envelope.key for row in seen[0].posted) == ["after", "before"]
    assert await file.agents.at(PATHS[1]) is None
    assert file._writer.memory.waiting == waiting_in_table(file)


async def test_a_broken_rule_of_the_schema_reaches_only_its_caller_and_as_an_error_of_ours(file: Store) -> None:
    await post(file, "first")
    errors: list[DaycareError] = []

    async def same_id() -> None:
        try:
            await file.agents.create(new_agent(PATHS[1], agent_id=new_agent(PATH).id))
        except DaycareError as error:
            errors.append(error)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(same_id)
        nursery.start_soon(post, file, "second")
    assert [error.code for error in errors] == ["STORE_ERROR"]
    assert (await post(file, "second")).duplicate


async def test_the_write_of_a_cancelled_caller_is_carried_out_and_announced(file: Store) -> None:
    await post(file, "first")
    seen = commits(file)
    with trio.CancelScope() as scope:
        scope.cancel()
        await post(file, "second")
    assert scope.cancelled_caught
    await post(file, "third")
    assert [row.envelope.key for commit in seen for row in commit.posted] == ["second", "third"]


async def test_what_was_queued_when_the_block_ended_is_durable(tmp_path: Path) -> None:
    location = str(tmp_path / "daycare.db")
    async with open_store(location) as store:
        with trio.CancelScope() as scope:
            scope.cancel()
            await post(store, "queued")
    with pytest.raises(UnavailableError) as caught:
        await post(store, "too late")
    assert caught.value.code == "STORE_CLOSED"
    async with open_store(location) as again:
        assert (await post(again, "queued")).duplicate


async def test_too_many_waiting_writes_are_refused_before_they_are_queued(
    file: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await post(file, "first")
    monkeypatch.setattr("daycare.store.sqlite.writer.WRITE_QUEUE_MAX", 5)
    outcomes: list[str] = []

    async def send(number: int) -> None:
        try:
            await post(file, f"k{number}")
            outcomes.append("ok")
        except BusyError as error:
            outcomes.append(error.code)

    async with trio.open_nursery() as nursery:
        for number in range(8):
            nursery.start_soon(send, number)
    assert sorted(outcomes) == ["STORE_BUSY"] * 3 + ["ok"] * 5
    assert await file.inbox.counts() == {"waiting": 6}


async def test_a_commit_is_bounded_and_many_keep_their_order(file: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    await post(file, "first")
    monkeypatch.setattr("daycare.store.sqlite.writer.COMMIT_MAX_OPERATIONS", 3)
    seen = commits(file)
    async with trio.open_nursery() as nursery:
        for number in range(10):
            nursery.start_soon(post, file, f"k{number}")
    assert [len(commit.posted) for commit in seen] == [3, 3, 3, 1]
    seqs = [row.seq for commit in seen for row in commit.posted]
    assert seqs == sorted(seqs)


@pytest.mark.parametrize("seed", range(4))
async def test_writes_keep_their_order_and_their_bounds_among_those_that_are_alone(
    file: Store, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    monkeypatch.setattr("daycare.store.sqlite.writer.COMMIT_MAX_OPERATIONS", 4)
    monkeypatch.setattr("daycare.store.sqlite.writer.COMMIT_MAX_BYTES", 100)
    writer = file._writer
    done: list[int] = []
    batches: list[list[tuple[int, bool]]] = []
    take = writer._take

    def taken() -> list[Write[Any]]:
        batch = take()
        batches.append([(write.size, write.alone) for write in batch])
        return batch

    monkeypatch.setattr(writer, "_take", taken)

    async def ask(number: int, size: int, *, alone: bool) -> None:
        if alone:
            await writer.alone(lambda _: done.append(number))
        else:
            await writer.write(lambda _: done.append(number), size)

    kinds = [(number, rng.choice([0, 40, 120]), rng.random() < 0.2) for number in range(40)]
    async with trio.open_nursery() as nursery:
        for number, size, alone in kinds:
            await trio.testing.wait_all_tasks_blocked() if rng.random() < 0.1 else None
            nursery.start_soon(partial(ask, number, size, alone=alone))
    assert sorted(done) == list(range(40))
    for batch in batches:
        assert len(batch) <= 4 and sum(size for size, _ in batch[:-1]) < 100
        assert len(batch) == 1 or not any(alone for _, alone in batch)
    assert (writer._queued_bytes, writer._queued_alone) == (0, 0)
    assert [alone for batch in batches for _, alone in batch].count(True) == sum(alone for _, _, alone in kinds)


LATER: Final = "daycare.store.sqlite.writer.COMMIT_LATER_S"


async def test_what_may_wait_goes_with_the_next_commit_and_in_its_order(
    file: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LATER, 3_600.0)
    await post(file, "first")
    seen, done = commits(file), []

    async def wait(number: int) -> None:
        await file._writer.write(lambda _: done.append(number), may_wait=True)

    for _ in range(2):  # both ways: none has been asked for before, and one
        async with trio.open_nursery() as nursery:
            for number in range(2):
                nursery.start_soon(wait, number)
                await trio.testing.wait_all_tasks_blocked()
            assert not done
            await file._writer.write(lambda _: done.append(2))
        assert done == [0, 1, 2]
        done.clear()
    assert len(seen) == 2


async def test_what_may_wait_is_durable_by_itself_after_a_while(file: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LATER, 0.001)
    seen = commits(file)
    for number in range(3):
        assert await file._writer.write(lambda _, number=number: number, may_wait=True) == number  # type: ignore[misc]
    assert len(seen) == 3


async def test_what_may_wait_holds_up_nothing_that_stands_alone_and_no_end(
    tmp_path: Path, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LATER, 3_600.0)
    done: list[str] = []
    async with trio.open_nursery() as nursery:
        async with open_store(str(tmp_path / "daycare.db"), clock) as store:

            async def wait(name: str) -> None:
                await store._writer.write(lambda _: done.append(name), may_wait=True)

            nursery.start_soon(wait, "before")
            await trio.testing.wait_all_tasks_blocked()
            await store._writer.alone(lambda _: done.append("alone"))
            assert done == ["before", "alone"]
            nursery.start_soon(wait, "at the end")
            await trio.testing.wait_all_tasks_blocked()
        assert done[2:] == ["at the end"]


def test_a_write_that_failed_and_was_tried_again_is_told_only_its_last_outcome() -> None:
    tries: list[object] = []

    def refused_once(given: object) -> int:
        tries.append(given)
        if len(tries) == 1:
            raise UnavailableError("LATER", "not yet")
        return len(tries)

    write = Write(refused_once, 0, None)
    assert isinstance(write.carry_out(None), UnavailableError)
    assert write.carry_out(None) is None and write.unwrap() == 2
    write.error = UnavailableError("AWAY", "the disk refuses")
    with pytest.raises(UnavailableError, match="the disk refuses"):
        write.unwrap()


async def send_all(store: Store, keys: list[str]) -> list[str]:
    codes: list[str] = []

    async def send(key: str) -> None:
        try:
            await post(store, key)
            codes.append("ok")
        except DaycareError as error:
            codes.append(error.code)

    async with trio.open_nursery() as nursery:
        for key in keys:
            nursery.start_soon(send, key)
    return codes


async def test_a_full_database_acknowledges_nothing_and_recovers_without_reopening(sqlite: Store) -> None:
    troubles: list[DaycareError | None] = []
    seen = commits(sqlite)
    sqlite.subscribe(seen.append, troubles.append)
    await post(sqlite, "first")
    pages = int(str(sqlite._db.pragma("page_count")))
    sqlite._db.pragma("max_page_count", pages)
    long = "x" * 20_000
    for _ in range(2):
        with pytest.raises(UnavailableError) as caught:
            await post(sqlite, "big", text=long)
        assert caught.value.code == "DISK_FULL"
    assert [row.envelope.key for commit in seen for row in commit.posted] == ["first"]
    assert await sqlite.inbox.counts() == {"waiting": 1}
    assert sqlite._writer.memory.waiting == waiting_in_table(sqlite)
    assert [trouble.code if trouble else None for trouble in troubles] == ["DISK_FULL"] * 2
    sqlite._db.pragma("max_page_count", pages + 1_000)
    assert not (await post(sqlite, "big", text=long)).duplicate
    assert troubles[-1] is None and len(troubles) == 3
    await answer(sqlite)


@pytest.mark.parametrize(("raised", "code"), [(apsw.FullError, "DISK_FULL"), (apsw.IOError, "STORE_IO")])
async def test_a_disk_that_refuses_fails_the_whole_batch_and_every_later_one_until_it_recovers(
    tmp_path: Path, raised: type[apsw.Error], code: str
) -> None:
    with RecordingVFS("refusing", tmp_path) as disk:
        async with open_store(str(tmp_path / "daycare.db"), vfs="refusing") as store:
            seen = commits(store)
            await post(store, "first")
            disk.trouble = raised
            for number in range(3):
                assert await send_all(store, [f"k{number}-{n}" for n in range(4)]) == [code] * 4
                assert await store.inbox.counts() == {"waiting": 1}, "reads go on"
            disk.trouble = None
            assert await send_all(store, [f"k0-{n}" for n in range(4)]) == ["ok"] * 4
            keys = [row.envelope.key for commit in seen for row in commit.posted]
            assert sorted(keys) == ["first", *(f"k0-{n}" for n in range(4))]
            assert store._writer.memory.waiting == waiting_in_table(store)
        async with open_store(str(tmp_path / "daycare.db")) as again:
            assert await again.inbox.counts() == {"waiting": 5}


async def test_inline_writes_need_no_thread_and_fail_alike(tmp_path: Path, autojump_clock: object) -> None:
    async with open_store(str(tmp_path / "daycare.db"), inline=True) as store:
        start = trio.current_time()
        agent, turn, _ = await begin(store, "a")
        await store.turns.finish(agent, turn, end(turn, "hello"))
        assert trio.current_time() == start, "virtual time did not jump"
        seqs = await send_all(store, ["b", "b"])
        assert seqs == ["ok", "ok"]
        store._db.execute("BEGIN IMMEDIATE")  # a second writer would be a defect; it must not leak SQLite's error
        assert await send_all(store, ["c"]) == ["STORE_ERROR"]
        assert await send_all(store, ["c"]) == ["ok"]
        await conclude(store, 2)


async def test_a_full_inbox_is_full_for_a_whole_batch(file: Store) -> None:
    """The bound counts what stands before it in the same commit."""
    await file.inbox.post_all([(letter(f"k{n}"), new_agent()) for n in range(INBOX_MAX_MESSAGES - 2)])
    codes = await send_all(file, [f"x{n}" for n in range(5)])
    assert sorted(codes) == ["INBOX_FULL"] * 3 + ["ok"] * 2


async def test_children_are_bounded(sqlite: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daycare.store.sqlite.agents.CHILDREN_MAX", 2)
    parent = await sqlite.agents.create(new_agent())
    for number in range(2):
        await sqlite.agents.create_child(parent.id, "sub", new_agent(agent_id=f"child-{number}", kind="sub"))
    with pytest.raises(BusyError):
        await sqlite.agents.create_child(parent.id, "sub", new_agent(agent_id="child-2", kind="sub"))


async def test_recording_nothing_forgets_nothing(sqlite: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daycare.store.sqlite.ledger.EVENTS_MAX_ROWS", 2)
    await sqlite.ledger.record([(1, "u1", "", "", "a"), (2, "u1", "", "", "b"), (3, "u1", "", "", "c")])
    assert await sqlite.ledger.events() == ["c", "b"]
    await sqlite.inbox.post_all([(letter(f"k{n}"), new_agent()) for n in range(20)])
    await sqlite.ledger.record([])
    assert await sqlite.ledger.events() == ["c", "b"]


def test_a_disk_that_refuses_a_look_at_the_file_does_not_end_the_store(tmp_path: Path, clock: HandClock) -> None:
    bad = True

    def traced(_cursor: apsw.Cursor, _sql: str, _bindings: object) -> bool:
        if bad:
            raise apsw.IOError("disk I/O error")
        return True

    async def live() -> None:
        nonlocal bad
        async with open_store(str(tmp_path / "daycare.db"), clock) as store:
            store._db.exec_trace = traced
            with pytest.raises(UnavailableError):  # and what the writer remembers cannot be read again
                await store.agents.create(new_agent())
            await trio.sleep(3 * LOOK_S)
            bad = False
            await store.agents.create(new_agent())

    trio.run(live, clock=patient_clock())


async def test_a_look_at_the_file_that_finds_too_many_writes_waiting_does_not_end_the_store(
    file: Store, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    monkeypatch.setattr("daycare.store.sqlite.writer.WRITE_QUEUE_MAX", 0)
    await trio.sleep(3 * LOOK_S)
    monkeypatch.undo()
    await file.agents.create(new_agent())
