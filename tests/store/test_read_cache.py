"""What is remembered of tables is what stands there, whoever changes them."""

import random
from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import pytest

from daycare.base.errors import ConflictError, DaycareError, NotFoundError
from daycare.features import open_store
from daycare.store.records import User
from daycare.store.sqlite.people import _get
from daycare.store.sqlite.read_cache import ReadCache
from daycare.store.sqlite.store import Store
from daycare.store.sqlite.writer import Tx
from tests.chance import SEED, WHOLE


@pytest.fixture(params=[False, True], ids=["with a thread", "inline"])
async def store(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    async with open_store(str(tmp_path / "daycare.db"), inline=request.param) as opened:
        yield opened


async def test_a_change_of_a_person_is_seen_when_it_is_made(store: Store) -> None:
    await store.people.add(User(id="ann", name="Ann", keys=("direct:ann",)))
    assert (await store.people.get("ann"), await store.people.by_key("telegram:1")) == (
        User(id="ann", name="Ann", keys=("direct:ann",)),
        None,
    )
    await store.people.link("telegram:1", "ann")
    await store.people.change("ann", name="Anna", zone="Europe/Berlin")
    found = await store.people.get("ann")
    assert found is not None and (found.name, found.zone) == ("Anna", "Europe/Berlin")
    assert found.keys == ("direct:ann", "telegram:1") and await store.people.by_key("telegram:1") == found
    await store.people.remove("ann")
    assert await store.people.get("ann") is await store.people.by_key("telegram:1") is None


async def test_a_change_that_was_undone_is_not_seen(store: Store) -> None:
    await store.people.add(User(id="ann", name="Ann"))

    def half(tx: Tx) -> None:
        tx.run("UPDATE users SET name = 'Eve'")
        raise ConflictError("X", "no")

    with pytest.raises(ConflictError):
        await store._writer.write(half)
    found = await store.people.get("ann")
    assert found is not None and found.name == "Ann"


async def test_reading_again_asks_the_database_nothing(store: Store) -> None:
    await store.people.add(User(id="ann", name="Ann", keys=("direct:ann",)))
    await store.people.get("ann")
    asked: list[str] = []
    store._reader.trace_v2(apsw.SQLITE_TRACE_STMT, lambda event: asked.append(event["sql"]))
    for _ in range(3):
        await store.people.get("ann")
    assert asked == []


async def test_what_is_remembered_is_what_stands_there(store: Store) -> None:
    print(f"SEED={SEED}")
    dice = random.Random(SEED)
    ids, keys = [f"u{n}" for n in range(4)], [f"telegram:{n}" for n in range(6)]

    async def change() -> None:
        user, key = dice.choice(ids), dice.choice(keys)
        match dice.randrange(6):
            case 0:
                await store.people.add(User(id=user, name=user, operator=user == "u0"))
            case 1:
                await store.people.change(user, name=str(dice.random()), zone="UTC")
            case 2:
                await store.people.link(key, user)
            case 3:
                await store.people.unlink(key)
            case 4:
                await store.people.move("telegram", key, dice.choice(keys))
            case 5:
                await store.people.remove(user)

    made = 0
    for _ in range(2_000 if WHOLE else 150):
        try:
            await change()
            made += 1
        except (DaycareError, NotFoundError):
            pass
        for user in ids:
            assert await store.people.get(user) == _get(store._reader, user)
        for key in keys:
            owner = store._reader.execute("SELECT user FROM user_connector_keys WHERE connector_key = ?", (key,)).get
            assert await store.people.by_key(key) == (_get(store._reader, str(owner)) if owner else None)
    assert made > 20


async def test_the_answers_that_were_given_first_make_room(store: Store) -> None:
    asked: list[int] = []

    def read(number: int) -> int:
        asked.append(number)
        return number

    known: ReadCache[int, int] = ReadCache(store._writer.versions, store._reader, "users", most=2)
    for number in (1, 2, 3, 3, 1):
        assert known.get(number, lambda number=number: read(number)) == number  # type: ignore[misc]
    assert asked == [1, 2, 3, 1]


async def test_what_is_read_behind_an_open_query_is_not_kept(store: Store) -> None:
    await store.people.add(User(id="ann", name="Ann"))
    await store.people.add(User(id="bob", name="Bob"))
    open_still = store._reader.execute("SELECT * FROM users")  # sees what is there now, until it is read to its end
    next(open_still)
    await store.people.change("ann", name="Anna", zone="UTC")
    await store.people.get("ann")
    open_still.close()
    found = await store.people.get("ann")
    assert found is not None and found.name == "Anna"
