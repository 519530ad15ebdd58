"""A daemon whose memory is searched in Redis: it recalls, goes on without it, and loses nothing meanwhile."""

import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from daycare.base.memories import Tier
from daycare.base.memory_settings import MemorySection, RedisSection
from daycare.config import Config
from daycare.features.memory.search.queries import MemoryQuery
from daycare.features.memory.store.rows import MemoryRows
from daycare.settings import with_offline
from daycare.testing.daemon import TestDaemon, open_daemon
from tests.redis_server import RedisProcess

SAID = "My sister Clara lives in Bern."
ASKED = "Where does Clara live?"
WORD = "correct-horse-battery"


@pytest.fixture
def redis() -> Iterator[RedisProcess]:
    process = RedisProcess()
    process.start()
    yield process
    process.remove()


@asynccontextmanager
async def house_with(tmp: Path, redis: RedisProcess, embedder: str = "none") -> AsyncIterator[TestDaemon]:
    section = RedisSection(url=redis.url, timeout_ms=200)
    config = Config(memory=MemorySection(backend="redis", redis=section, embedder=embedder), providers=with_offline({}))
    async with open_daemon(tmp, config=config) as house:
        yield house


async def shown(house: TestDaemon) -> dict[str, Any]:
    found: dict[str, Any] = (await house.daemon.status())["memory"]["redis"]
    return found


async def health(house: TestDaemon) -> tuple[bool, str]:
    [finding] = await house.daemon.memory.findings()
    return finding.ok, finding.text


def stored(redis: RedisProcess) -> bytes:
    """Return all values of all keys."""
    from redis import Redis

    client = Redis(unix_socket_path=str(redis.socket))
    found = []
    for key in client.scan_iter():
        kind = client.type(key)
        found.append(key + (repr(client.hgetall(key)).encode() if kind == b"hash" else b""))
    return b"\n".join(found)


async def test_what_was_said_is_recalled_from_redis(
    tmp_path: Path, autojump_clock: object, redis: RedisProcess
) -> None:
    async with house_with(tmp_path, redis) as house:
        await house.talk(SAID)
        await trio.sleep(10)
        assert b"Bern" in stored(redis)
        await house.talk("/new")
        assert "Bern" in await house.talk(ASKED)
        assert await shown(house) == {"server": redis.url, "waiting": 0, "policy": "noeviction", "trouble": ""}
        ok, text = await health(house)
        assert ok and redis.url in text


async def test_while_it_is_away_answers_go_on_and_what_waits_is_carried_over_later(
    tmp_path: Path, autojump_clock: object, redis: RedisProcess
) -> None:
    async with house_with(tmp_path, redis) as house:
        await house.talk(SAID)
        await trio.sleep(10)
        redis.stop()
        assert await house.talk("I love green tea.")
        await trio.sleep(10)
        await house.talk("/new")
        assert "Bern" not in await house.talk(ASKED)
        why = await house.daemon.memory.controls.why(await house.daemon.directory.at("/ann/direct"))
        assert redis.url in why.without and not why.memories
        ok, text = await health(house)
        assert not ok and "nothing is recalled" in text
        assert "nothing is recalled" in await house.talk("/status")
        assert (await shown(house))["trouble"] and (await shown(house))["waiting"] > 0
        redis.start()
        await trio.sleep(120)
        assert (await shown(house)) == {"server": redis.url, "waiting": 0, "policy": "noeviction", "trouble": ""}
        await house.talk("/new")
        assert "Bern" in await house.talk(ASKED)
        assert [bool(event.get("cleared")) for event in house.events("memory.away")] == [False, True]


async def test_one_that_does_not_answer_holds_up_no_turn(
    tmp_path: Path, autojump_clock: object, redis: RedisProcess
) -> None:
    async with house_with(tmp_path, redis) as house:
        await house.talk(SAID)
        await trio.sleep(10)
        redis.signal(signal.SIGSTOP)
        try:
            began = trio.current_time()
            assert await house.talk(ASKED)
            assert trio.current_time() - began < 1.0
            await trio.sleep(10)
            assert not (await health(house))[0]
        finally:
            redis.signal(signal.SIGCONT)
        await trio.sleep(120)
        assert (await health(house))[0]


async def test_what_was_lost_there_is_carried_over_again(
    tmp_path: Path, autojump_clock: object, redis: RedisProcess
) -> None:
    async with house_with(tmp_path, redis) as house:
        await house.talk(SAID)
        await trio.sleep(10)
        redis.stop()
        redis.start()  # without what it had, and nobody asked it meanwhile
        await trio.sleep(120)
        assert b"Bern" in stored(redis)
        await house.talk("/new")
        assert "Bern" in await house.talk(ASKED)


async def test_what_is_forgotten_while_it_is_away_goes_when_it_is_back(
    tmp_path: Path, autojump_clock: object, redis: RedisProcess
) -> None:
    async with house_with(tmp_path, redis) as house:
        await house.talk(SAID)
        await trio.sleep(10)
        redis.signal(signal.SIGSTOP)
        rows = house.store.of(MemoryRows)
        entries = await rows.find("ann", Tier.LOG)
        turns = await rows.turns_of("ann", [entry.no for entry in entries])
        await rows.forget("ann", [entry.no for entry in entries], turns=turns)
        await trio.sleep(10)
        redis.signal(signal.SIGCONT)
        assert b"Bern" in stored(redis)
        await trio.sleep(120)
        assert b"Bern" not in stored(redis) and b"bern" not in stored(redis)


async def test_its_password_is_a_stored_key_and_told_nobody(
    tmp_path: Path, autojump_clock: object, redis: RedisProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    redis.stop()
    redis.start("--requirepass", WORD)
    async with house_with(tmp_path, redis) as house:
        await house.talk(SAID)
        await trio.sleep(10)
        ok, text = await health(house)
        assert not ok and "uthentication" in text
        await house.store.secrets.put("redis", "ann", house.daemon.vault.seal(WORD[::-1]))
        await trio.sleep(120)
        ok, text = await health(house)
        assert not ok and WORD[::-1] not in text
        await house.store.secrets.put("redis", "ann", house.daemon.vault.seal(WORD))
        await trio.sleep(120)
        ok, text = await health(house)
        assert ok and WORD not in text
        await house.talk("/new")
        assert "Bern" in await house.talk(ASKED)
        told = str(house.events()) + str(await shown(house)) + "".join(capsys.readouterr())
        assert WORD not in told and WORD[::-1] not in told


async def test_a_server_that_throws_keys_away_is_told_of(
    tmp_path: Path, autojump_clock: object, redis: RedisProcess
) -> None:
    redis.stop()
    redis.start("--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
    async with house_with(tmp_path, redis) as house:
        await house.talk(SAID)
        await trio.sleep(10)
        ok, text = await health(house)
        assert not ok and "allkeys-lru" in text


async def test_vectors_are_carried_there_and_searched(
    tmp_path: Path, autojump_clock: object, redis: RedisProcess
) -> None:
    async with house_with(tmp_path, redis, embedder="local") as house:
        await house.talk(SAID)
        await trio.sleep(20)
        memory = house.daemon.memory
        numbers = [shape.no for shape in house.store.of(MemoryRows).shapes("ann")]
        assert memory.copy is not None and memory.embedding is not None and len(numbers) == 2
        found = await trio.to_thread.run_sync(memory.copy.index.vectors_of, memory.embedding.model, numbers)
        assert found.numbers == tuple(numbers)
        [hit, *_] = await memory.find(MemoryQuery(scope="ann", text="Where is my sibling's home?", now_ms=2**41))
        assert "Bern" in hit.memory.text and hit.parts
        await memory.reembed()
        await trio.sleep(60)
        found = await trio.to_thread.run_sync(memory.copy.index.vectors_of, memory.embedding.model, numbers)
        assert found.numbers == tuple(numbers), "made again, and carried there again"
