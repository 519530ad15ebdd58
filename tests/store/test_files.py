"""What every store promises of files: whose they are, and that the bytes of a remote one are kept once."""

import pytest

from daycare.base.errors import InvalidError
from daycare.base.limits import FILE_MAX_BYTES
from daycare.base.messages import File, Origin
from daycare.store.sqlite.store import Store


async def announce(store: Store, user: str = "ann", key: str = "unique-1", remote: str = "at-1") -> File:
    return await store.files.announce(key, user, Origin.FILE, "cat.png", "image/png", 70, remote)


async def test_an_announced_file_has_no_bytes_and_says_where_they_are(store: Store) -> None:
    file = await announce(store)
    assert (file.name, file.media_type, file.size) == ("cat.png", "image/png", 70)
    assert await store.files.get(file.id, "ann") == file
    assert (await store.files.read(file.id, "ann"), await store.files.remote(file.id, "ann")) == (None, "at-1")


async def test_the_bytes_are_kept_once(store: Store) -> None:
    file = await announce(store)
    for data in (b"first", b"second"):
        await store.files.fill(file.id, "ann", data)
    assert (await store.files.read(file.id, "ann"), await store.files.remote(file.id, "ann")) == (b"first", None)
    assert await announce(store) == File(id=file.id, name="cat.png", media_type="image/png", size=5), (
        "sent again, it is the same file"
    )
    assert await store.files.remote(file.id, "ann") is None


async def test_a_file_that_is_not_here_yet_is_where_it_was_said_to_be_last(store: Store) -> None:
    file = await announce(store)
    assert await announce(store, remote="at-2") == file
    assert await store.files.remote(file.id, "ann") == "at-2"


async def test_files_of_others_are_out_of_reach(store: Store) -> None:
    file = await announce(store)
    other = await announce(store, "bob")
    assert other.id != file.id, "the same picture of two people is two files"
    await store.files.fill(file.id, "bob", b"not mine")
    for read in (store.files.get, store.files.read, store.files.remote):
        assert await read(file.id, "bob") is None
    assert await store.files.remote(file.id, "ann") == "at-1"


async def test_an_empty_file_is_one_that_is_here(store: Store) -> None:
    file = await announce(store)
    await store.files.fill(file.id, "ann", b"")
    assert (await store.files.read(file.id, "ann"), await store.files.remote(file.id, "ann")) == (b"", None)


async def test_a_file_that_came_with_its_bytes_stays_as_it_is(store: Store) -> None:
    file = await store.files.put("k", "ann", Origin.PERSON, "a.txt", "text/plain", b"abc")
    assert await store.files.remote(file.id, "ann") is None
    await store.files.announce("k", "ann", Origin.FILE, "a.txt", "text/plain", 3, "elsewhere")
    await store.files.fill(file.id, "ann", b"xyz")
    assert (await store.files.read(file.id, "ann"), await store.files.remote(file.id, "ann")) == (b"abc", None)


async def test_a_portion_of_a_file_is_read_without_the_rest(store: Store) -> None:
    data = bytes(range(256)) * 1_024
    file = await store.files.put("k", "ann", Origin.PERSON, "a.bin", "", data)
    for offset, length in (
        (0, 10),
        (5, 0),
        (100_001, 7),
        (len(data) - 3, 10),
        (len(data), 10),
        (0, len(data)),
        (1, 10**9),
    ):
        assert await store.files.read(file.id, "ann", offset, length) == data[offset : offset + length]
    assert await store.files.read(file.id, "bob", 0, 10) is None
    assert await store.files.read(file.id + 1, "ann", 0, 10) is None


async def test_too_many_bytes_are_refused(store: Store) -> None:
    file = await announce(store)
    with pytest.raises(InvalidError) as caught:
        await store.files.fill(file.id, "ann", bytes(FILE_MAX_BYTES + 1))
    assert caught.value.code == "FILE_TOO_LARGE"
    assert await store.files.remote(file.id, "ann") == "at-1"


async def test_filling_what_does_not_exist_changes_nothing(store: Store) -> None:
    await store.files.fill(999, "ann", b"x")
    assert await store.files.get(999, "ann") is None
