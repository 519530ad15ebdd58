"""A store whose files lie in a bucket: nothing is lost, nothing stays, and nobody reads what is not theirs."""

import random
from pathlib import Path

import pytest
import trio

from daycare.base.errors import BrokenError, DaycareError, UnavailableError
from daycare.base.files_settings import FilePlace
from daycare.base.limits import FILE_MAX_BYTES
from daycare.base.messages import File, Origin
from daycare.features import open_store
from daycare.features.files.bucket import BUCKET_AWAY_S
from daycare.features.files.carrying import Carrier
from daycare.features.files.rows import FileCounts
from daycare.features.files.upkeep import BUCKET_LOOK_S, BUCKET_ORPHAN_S
from daycare.store.bucket import PlacedObject
from daycare.testing.s3_server import Fault, StoredObject
from tests import chance
from tests.files.conftest import Kept, UpOrDown, joined

DATA = bytes(range(256)) * 1_024


async def put(kept: Kept, key: str = "k", user: str = "ann", data: bytes = DATA) -> File:
    return await kept.store.files.put(key, user, Origin.PERSON, "secret-name.pdf", "application/pdf", data)


async def expire(kept: Kept) -> None:
    """Let every file but the newest be too old."""
    await put(kept, "the newest", data=b"")
    now = kept.clock.now_ms()
    while await kept.store.ledger.expire(now + 1, now + 2):
        pass


async def test_a_file_lies_in_the_bucket_under_a_name_that_tells_nothing(autojump_clock: object, kept: Kept) -> None:
    file = await put(kept)
    [(name, it)] = kept.s3.objects.items()
    assert it.data == DATA and name.startswith("daycare/") and len(name) > 40
    said = "\n".join([*(target for _, target in kept.s3.asked), name, *it.meta, *it.meta.values()])
    assert "ann" not in said and "secret" not in said and "pdf" not in said
    assert (await kept.rows.counts()) == FileCounts(placed=1, waiting=0, gone=0)
    assert await kept.rows.data(file.id) == b"", "the store has no copy"
    assert await kept.store.files.get(file.id, "ann") == file


async def test_it_is_read_whole_and_in_portions_by_whose_it_is(autojump_clock: object, kept: Kept) -> None:
    file = await put(kept)
    for offset, length in ((0, 10), (5, 0), (100_001, 7), (len(DATA) - 3, 10), (len(DATA), 10), (0, len(DATA))):
        assert await kept.store.files.read(file.id, "ann", offset, length) == DATA[offset : offset + length]
    assert await kept.store.files.read(file.id, "ann", 1, 10**9) == DATA[1:]
    assert await kept.store.files.read(file.id, "bob") is None
    assert await kept.store.files.remote(file.id, "ann") is None


async def test_the_object_is_there_before_the_row_that_names_it(autojump_clock: object, kept: Kept) -> None:
    counts: list[tuple[int, int]] = []

    async def look(_: object) -> None:
        counts.append((len(kept.s3.objects), (await kept.rows.counts()).placed))

    kept.s3.hold = look
    await put(kept)
    assert counts == [(1, 0)]


async def test_a_repeat_puts_nothing_again(autojump_clock: object, kept: Kept) -> None:
    file = await put(kept)
    assert await put(kept, data=b"another") == file
    assert [method for method, _ in kept.s3.asked].count("PUT") == 1


async def test_the_same_bytes_of_two_people_are_two_objects(autojump_clock: object, kept: Kept) -> None:
    await put(kept, user="ann")
    await put(kept, user="bob")
    await put(kept, "again", user="bob")
    assert len(kept.s3.objects) == 3


async def test_of_two_that_put_the_same_at_once_one_object_stays(autojump_clock: object, kept: Kept) -> None:
    found: list[File] = []

    async def once() -> None:
        found.append(await put(kept))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(once)
        nursery.start_soon(once)
    assert found[0] == found[1] and len(kept.s3.objects) == 2
    await kept.looks(3)
    assert len(kept.s3.objects) == 1 and await kept.store.files.read(found[0].id, "ann") == DATA


async def test_an_announced_file_is_filled_once(autojump_clock: object, kept: Kept) -> None:
    files = kept.store.files
    file = await files.announce("k", "ann", Origin.FILE, "cat.png", "image/png", 70, "at-1")
    assert await files.read(file.id, "ann") is None and await files.remote(file.id, "ann") == "at-1"
    for data in (b"first", b"second"):
        await files.fill(file.id, "ann", data)
    await files.fill(file.id, "bob", b"third")
    assert await files.read(file.id, "ann") == b"first" and await files.remote(file.id, "ann") is None
    again = await files.announce("k", "ann", Origin.FILE, "cat.png", "image/png", 70, "at-2")
    assert again == File(id=file.id, name="cat.png", media_type="image/png", size=5)
    assert await files.remote(file.id, "ann") is None
    await kept.looks(3)
    assert [it.data for it in kept.s3.objects.values()] == [b"first"]


async def test_an_empty_file_needs_no_object(autojump_clock: object, kept: Kept) -> None:
    file = await put(kept, data=b"")
    assert await kept.store.files.read(file.id, "ann") == b"" and not kept.s3.objects
    assert (await Carrier(kept.rows, kept.bucket).carry("s3", 0, 10)).moved == 0


async def test_while_the_bucket_is_away_new_files_are_kept_here_and_carried_later(
    autojump_clock: object, kept: Kept
) -> None:
    kept.s3.down = True
    file = await put(kept)
    announced = await kept.store.files.announce("r", "ann", Origin.FILE, "a", "b", 1, "at-1")
    await kept.store.files.fill(announced.id, "ann", b"filled")
    assert await kept.store.files.read(file.id, "ann") == DATA
    assert (await kept.rows.counts()) == FileCounts(placed=0, waiting=2, gone=0)
    await kept.looks(2)
    assert (await kept.rows.counts()).waiting == 2 and kept.bucket.trouble
    kept.s3.down = False
    await kept.looks(2)
    assert (await kept.rows.counts()) == FileCounts(placed=2, waiting=0, gone=0)
    assert not kept.bucket.trouble
    assert await kept.store.files.read(file.id, "ann") == DATA
    assert await kept.store.files.read(announced.id, "ann") == b"filled"


async def test_files_of_before_stay_where_they_are(autojump_clock: object, tmp_path: Path, s3: UpOrDown) -> None:
    async with open_store(str(tmp_path / "a.db"), s3.clock, inline=True) as store:
        before = await store.files.put("k", "ann", Origin.PERSON, "n", "t", DATA)
        kept = joined(store, s3)
        await kept.looks(2)
        assert not s3.objects and await store.files.read(before.id, "ann") == DATA


async def test_a_bucket_that_is_away_costs_one_wait_and_not_each_its_own(autojump_clock: object, kept: Kept) -> None:
    file = await put(kept)
    kept.s3.faults = [Fault(silent=True)]
    began = trio.current_time()
    for _ in range(5):
        with pytest.raises(UnavailableError, match="longer than") as away:
            await kept.store.files.read(file.id, "ann")
        assert away.value.code == "BUCKET_AWAY"
    assert trio.current_time() - began < 11
    await trio.sleep(BUCKET_AWAY_S)
    assert await kept.store.files.read(file.id, "ann") == DATA


async def test_without_a_bucket_in_the_settings_its_files_say_so(
    autojump_clock: object, tmp_path: Path, s3: UpOrDown
) -> None:
    location = str(tmp_path / "a.db")
    async with open_store(location, s3.clock, inline=True) as store:
        file = await put(joined(store, s3))
    async with open_store(location, s3.clock, inline=True) as store:
        with pytest.raises(UnavailableError, match="no bucket is set"):
            await store.files.read(file.id, "ann")
        other = await store.files.put("other", "ann", Origin.PERSON, "n", "t", b"x")
        assert await store.files.read(other.id, "ann") == b"x"


# -- what is wrong in the bucket ---------------------------------------------------------------------------------------


async def test_a_lost_object_is_said_to_be_lost_until_it_is_back(autojump_clock: object, kept: Kept) -> None:
    file = await put(kept)
    [(name, it)] = kept.s3.objects.items()
    del kept.s3.objects[name]
    for length in (10, FILE_MAX_BYTES):
        with pytest.raises(BrokenError, match="it is not there") as lost:
            await kept.store.files.read(file.id, "ann", 0, length)
        assert lost.value.code == "OBJECT_LOST"
    assert len(kept.bucket.lost) == 1 and kept.bucket.trouble is None
    kept.s3.objects[name] = it
    assert await kept.store.files.read(file.id, "ann") == DATA and not kept.bucket.lost


@pytest.mark.parametrize("other", [DATA[::-1], DATA[:-1], DATA + b"x", b""], ids=["same-size", "less", "more", "empty"])
@pytest.mark.parametrize("length", [10, FILE_MAX_BYTES], ids=["portion", "whole"])
async def test_an_object_that_is_another_is_never_given_out(
    autojump_clock: object, kept: Kept, other: bytes, length: int
) -> None:
    file = await put(kept)
    [name] = kept.s3.objects
    kept.s3.objects[name] = StoredObject(other, kept.s3.now_s())
    with pytest.raises(BrokenError) as changed:
        await kept.store.files.read(file.id, "ann", 0, length)
    assert changed.value.code == "OBJECT_CHANGED" and len(kept.bucket.lost) == 1


async def test_objects_that_were_copied_without_what_stands_beside_them_are_read_all_the_same(
    autojump_clock: object, kept: Kept
) -> None:
    file = await put(kept)
    for it in kept.s3.objects.values():
        it.meta.clear()
    assert await kept.store.files.read(file.id, "ann", 7, 10) == DATA[7:17]


# -- what goes ---------------------------------------------------------------------------------------------------------


async def test_an_object_goes_a_while_after_its_row(autojump_clock: object, kept: Kept) -> None:
    file = await put(kept)
    placed = PlacedObject(*_row(kept, file.id))
    await expire(kept)
    assert await kept.store.files.get(file.id, "ann") is None
    await kept.upkeep.look()
    assert len(kept.s3.objects) == 1, "whoever has just read the row still finds it"
    assert await kept.bucket.read(placed) == DATA
    await trio.sleep(BUCKET_LOOK_S)
    await kept.upkeep.look()
    assert not kept.s3.objects and (await kept.rows.counts()).gone == 0


async def test_what_is_not_deleted_is_tried_again(autojump_clock: object, kept: Kept) -> None:
    await put(kept)
    await expire(kept)
    kept.s3.refused_names = set(kept.s3.objects)
    await kept.looks(3)
    assert len(kept.s3.objects) == 1 and (await kept.rows.counts()).gone == 1
    kept.s3.refused_names = set()
    await kept.looks(1)
    assert not kept.s3.objects and (await kept.rows.counts()).gone == 0


async def test_an_object_that_no_row_came_to_name_goes_after_a_day(autojump_clock: object, kept: Kept) -> None:
    file = await put(kept)
    orphan = await kept.bucket.put(b"its daemon ended before the row was committed")
    await kept.looks(5)
    assert len(kept.s3.objects) == 2
    await trio.sleep(BUCKET_ORPHAN_S + 10)
    await kept.looks(3)
    assert kept.names() == [_row(kept, file.id)[0]] and orphan.name not in kept.names()


async def test_what_others_have_put_there_stays(
    autojump_clock: object, kept: Kept, tmp_path: Path, s3: UpOrDown
) -> None:
    old = s3.now_s() - 10 * BUCKET_ORPHAN_S
    s3.objects |= {name: StoredObject(b"x", old) for name in ("other/1", "daycare/2", "daycare/3/4", "daycarex/5")}
    async with open_store(str(tmp_path / "another.db"), s3.clock, inline=True) as store:
        theirs = await put(joined(store, s3))
        await trio.sleep(3 * BUCKET_ORPHAN_S)
        await kept.looks(4)
        assert len(s3.objects) == 5 and await store.files.read(theirs.id, "ann") == DATA


async def test_a_long_list_is_walked_through_a_part_at_a_time(autojump_clock: object, kept: Kept) -> None:
    kept.s3.page_max = 2
    files = [await put(kept, f"k{number}") for number in range(12)]
    for _ in range(12):
        await kept.bucket.put(b"orphan")
    await trio.sleep(BUCKET_ORPHAN_S + 10)
    kept.s3.asked.clear()
    await kept.upkeep.look()
    assert sum("start-after" in target or "list-type" in target for _, target in kept.s3.asked) <= 6
    await kept.looks(8)
    assert kept.names() == sorted(_row(kept, file.id)[0] for file in files)


# -- moving ------------------------------------------------------------------------------------------------------------


async def move(kept: Kept, to: FilePlace, limit: int = 3) -> tuple[int, list[int]]:
    moved, lost, after = 0, list[int](), 0
    while True:
        step = await Carrier(kept.rows, kept.bucket).carry(to, after, limit)
        moved, lost = moved + step.moved, [*lost, *step.lost]
        if step.after is None:
            return moved, lost
        after = step.after


async def test_files_move_both_ways_and_are_the_same(autojump_clock: object, tmp_path: Path, s3: UpOrDown) -> None:
    async with open_store(str(tmp_path / "a.db"), s3.clock, inline=True) as store:
        datas = [bytes([number]) * (number * 1_000) for number in range(8)]
        files = [await store.files.put(f"k{at}", "ann", Origin.PERSON, "n", "t", it) for at, it in enumerate(datas)]
        kept = joined(store, s3)
        assert await move(kept, "s3") == (7, []) and await move(kept, "s3") == (0, [])
        assert sorted(it.data for it in s3.objects.values()) == sorted(datas[1:])
        assert [await store.files.read(file.id, "ann") for file in files] == datas
        kept = joined(store, s3, puts=False)
        lost = next(name for name, it in s3.objects.items() if it.data == datas[3])
        del s3.objects[lost]
        assert await move(kept, "store") == (6, [files[3].id])
        assert [await kept.rows.data(file.id) for file in files] == [*datas[:3], b"", *datas[4:]]
        await kept.looks(3)
        assert not s3.objects


async def test_a_file_that_is_forgotten_while_it_is_carried_leaves_nothing(
    autojump_clock: object, tmp_path: Path, s3: UpOrDown
) -> None:
    async with open_store(str(tmp_path / "a.db"), s3.clock, inline=True) as store:
        file = await store.files.put("k", "ann", Origin.PERSON, "n", "t", DATA)
        kept = joined(store, s3)

        async def forget(_: object) -> None:
            await store.upkeep._writer.write(
                lambda tx: tx.run("UPDATE files SET size = 0, data = x'', object = NULL WHERE id = ?", (file.id,))
            )

        s3.hold = forget
        assert await move(kept, "s3") == (0, [])
        await kept.looks(3)
        assert not s3.objects and await store.files.read(file.id, "ann") == b""


async def test_whatever_fails_no_file_is_lost_and_nothing_else_stays(
    autojump_clock: object, tmp_path: Path, s3: UpOrDown
) -> None:
    """Puts, moves, deletions and daemons that end at any point, over a server that fails in each way it can."""
    print(f"SEED={chance.SEED}")
    rng = random.Random(f"bucket/{chance.SEED}")
    location, known = str(tmp_path / "a.db"), dict[str, bytes]()
    for life in range(12):
        async with open_store(location, s3.clock, inline=True) as store:
            kept = joined(store, s3, puts=rng.random() < 0.7, timeout_s=1)
            with trio.move_on_after(rng.uniform(5, 400)):
                for number in range(20):
                    s3.down = rng.random() < 0.1
                    if rng.random() < 0.5:
                        s3.faults.append(rng.choice(FAULTS)())
                    await _one_thing(rng, kept, known, f"{life}/{number}")
    s3.down = False
    s3.faults.clear()
    async with open_store(location, s3.clock, inline=True) as store:
        kept = joined(store, s3)
        await trio.sleep(BUCKET_ORPHAN_S * 2)
        await kept.looks(6)
        assert (await kept.rows.counts()).waiting == (await kept.rows.counts()).gone == 0
        placed = set()
        for key, data in known.items():
            file = await store.files.find(key, "ann")
            if file is not None:  # else it was too old
                assert await store.files.read(file.id, "ann") == data, key
                placed.add(_row(kept, file.id)[0])
        assert kept.names() == sorted(filter(None, placed))
        assert len(placed) > 5 and not kept.bucket.lost


FAULTS = (
    lambda: Fault(status=503, code="SlowDown"),
    lambda: Fault(status=403, code="AccessDenied"),
    lambda: Fault(silent=True),
    lambda: Fault(silent=True, late=True),
    lambda: Fault(lost=True),
    lambda: Fault(lost=True, late=True),
    lambda: Fault(cut=5, method="GET"),
)


async def _one_thing(rng: random.Random, kept: Kept, known: dict[str, bytes], key: str) -> None:
    await trio.sleep(rng.choice((0, 1, 6, 70)))
    choice = rng.random()
    if choice < 0.5:
        data = rng.randbytes(rng.choice((1, 100, 70_000)))
        await put(kept, key, data=data)
        known[key] = data
    elif choice < 0.7:
        try:
            await Carrier(kept.rows, kept.bucket).carry(rng.choice(("s3", "store")), 0, 3)
        except DaycareError as error:
            assert error.code.startswith("BUCKET_")
    elif choice < 0.75:
        now = kept.clock.now_ms()
        await kept.store.ledger.expire(now - 60_000, now)
    else:
        await kept.upkeep.look()


def _row(kept: Kept, file_id: int) -> tuple[str, int, str]:
    """Return what the row says of an object."""
    row = kept.store.upkeep._reader.execute(
        "SELECT coalesce(object, ''), size, sha256 FROM files WHERE id = ?", (file_id,)
    ).fetchone()
    assert row is not None
    return str(row[0]), int(str(row[1])), str(row[2])
