"""A database that is not to be trusted any more: removed, replaced, damaged, or short of what was in it."""

import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw
import pytest
import trio

from daycare.base.errors import BrokenError, DaycareError, StoreAwayError
from daycare.features import open_store
from daycare.store.sqlite import guard, mark, watch
from daycare.store.sqlite.database import check, refuse_damage
from daycare.store.sqlite.store import Store
from tests.store.samples import HandClock, post

WITHIN_S = 5.0  # in which whoever looks after the daemon is to know


def messages(file: Path) -> set[str]:
    """Return the keys of what is in a database, with what is in its log."""
    with closing(apsw.Connection(str(file))) as db:
        return {str(key) for (key,) in db.execute("SELECT key FROM inbox")}


async def codes(store: Store, *keys: str) -> list[str]:
    found = []
    for key in keys:
        try:
            await post(store, key)
            found.append("ok")
        except DaycareError as error:
            assert isinstance(error, StoreAwayError), "whoever needs the store waits, and counts no attempt"
            found.append(error.code)
    return found


async def another(file: Path) -> None:
    async with open_store(str(file), HandClock(), inline=True) as store:
        await post(store, "of another past")
    mark.file_of(str(file)).unlink()


def removed(file: Path) -> None:
    file.unlink()


def replaced(file: Path) -> None:
    (file.parent / "other.db").replace(file)


def all_removed(file: Path) -> None:
    for each in file.parent.glob(f"{file.name}*"):
        each.unlink()


def log_removed(file: Path) -> None:
    Path(f"{file}-wal").unlink()


def folder_removed(file: Path) -> None:
    shutil.rmtree(file.parent)


WAYS = [removed, replaced, all_removed, log_removed, folder_removed]


@pytest.mark.parametrize("inline", [True, False], ids=["inline", "threads"])
@pytest.mark.parametrize("away", WAYS)
async def test_nothing_is_acknowledged_into_a_file_that_is_gone_and_what_was_is_rescued(
    tmp_path: Path, away: Callable[[Path], None], inline: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    file = home / "daycare.db"
    await another(home / "other.db")
    async with open_store(str(file), inline=inline) as store:
        await post(store, "before")
        away(file)
        with monkeypatch.context() as late:  # it went away between the look and the answer
            late.setattr(guard.Guard, "look", lambda *_, **__: None)
            await post(store, "acknowledged")
        if away is log_removed:  # which is looked at every few seconds
            with pytest.raises(StoreAwayError):
                store.trusted()
        assert await codes(store, "after", "later") == ["STORE_GONE"] * 2
        assert await store.inbox.counts() == {"waiting": 2}, "what is open is read"
        with pytest.raises(StoreAwayError):
            store.trusted()
    [rescued] = guard.rescues(str(file))
    assert rescued.stat().st_mode & 0o777 == 0o600, "it holds everybody's messages"
    assert check(str(rescued)) is None
    assert messages(rescued) == {"before", "acknowledged"}


@pytest.mark.parametrize("away", WAYS)
async def test_that_a_file_is_gone_is_told_within_seconds_though_nobody_writes(
    tmp_path: Path, autojump_clock: trio.abc.Clock, away: Callable[[Path], None]
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    file = home / "daycare.db"
    await another(home / "other.db")
    told: list[str] = []
    async with open_store(str(file), HandClock(), inline=True) as store:
        store.subscribe(lambda _: None, lambda error: told.append(str(error)))
        await post(store, "before")
        away(file)
        await trio.sleep(WITHIN_S)
        [rescued] = guard.rescues(str(file))
        assert str(rescued) in told[-1]
        before = len(told)
        await trio.sleep(86_400)
        assert guard.rescues(str(file)) == [rescued], "once"
        assert len(told) == before, "once"


async def test_what_is_left_of_the_log_is_not_read_as_that_of_the_file_that_came(
    tmp_path: Path, autojump_clock: trio.abc.Clock
) -> None:
    file = tmp_path / "daycare.db"
    await another(tmp_path / "other.db")
    async with open_store(str(file), HandClock(), inline=True) as store:
        for number in range(20):
            await post(store, f"k{number}")
        replaced(file)
        await trio.sleep(WITHIN_S)
    async with open_store(str(file), HandClock(), inline=True) as store:
        assert messages(file) == {"of another past"}
        assert check(str(file)) is None
        assert store.lost is not None and store.lost.missing["message"] == 19


async def test_a_rescue_that_finds_no_room_is_tried_again(
    tmp_path: Path, autojump_clock: trio.abc.Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "home" / "daycare.db"
    file.parent.mkdir()
    told: list[str] = []

    def full(*_: object) -> None:
        raise apsw.FullError("database or disk is full")

    async with open_store(str(file), HandClock(), inline=True) as store:
        store.subscribe(lambda _: None, lambda error: told.append(str(error)))
        await post(store, "before")
        file.unlink()
        with monkeypatch.context() as patched:
            patched.setattr(guard, "snapshot", full)
            await trio.sleep(WITHIN_S)
            assert guard.rescues(str(file)) == []
            assert "disk is full" in told[-1]
        await trio.sleep(watch.RESCUE_RETRY_S + WITHIN_S)
        [rescued] = guard.rescues(str(file))
        assert messages(rescued) == {"before"}


# -- what is short of what was in it -----------------------------------------------------------------------------------


async def crashed(file: Path, to: Path, keys: int) -> Path:
    """Return what is left of a store that was killed after so many messages."""
    async with open_store(str(file), HandClock(), inline=True) as store:
        for number in range(keys):
            await post(store, f"k{number}")
        shutil.copytree(file.parent, to)
    return to / file.name


def log_lost(file: Path) -> None:
    Path(f"{file}-wal").unlink()


def log_damaged(file: Path) -> None:
    log = Path(f"{file}-wal")
    with log.open("r+b") as opened:
        opened.seek(log.stat().st_size - 200_000)
        opened.write(b"\xff" * 4096)


@pytest.mark.parametrize("harm", [log_lost, log_damaged])
async def test_commits_that_vanished_in_a_crash_are_missed_at_the_next_start(
    tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    (tmp_path / "home").mkdir()
    file = await crashed(tmp_path / "home" / "daycare.db", tmp_path / "left", 110)
    harm(file)
    async with open_store(str(file), HandClock(), inline=True) as store:
        left = (await store.inbox.counts())["waiting"]
        assert left < 110
        assert store.lost is not None and store.lost.missing == {"message": 110 - left}
        assert f"{110 - left} messages" in str(store.lost)
        await post(store, "goes on")
        store.told_of_loss()
    async with open_store(str(file), HandClock(), inline=True) as store:
        assert store.lost is not None and store.lost.told, "found once"


async def test_a_crash_after_which_nothing_is_missing_is_no_loss(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    file = await crashed(tmp_path / "home" / "daycare.db", tmp_path / "left", 110)
    async with open_store(str(file), HandClock(), inline=True) as store:
        assert await store.inbox.counts() == {"waiting": 110}
        assert store.lost is None


@pytest.mark.parametrize("every_s", [3 * watch.LOOK_S, watch.LOOK_S / 2])
async def test_a_quiet_home_and_one_that_never_is_do_not_live_in_their_log(
    tmp_path: Path, autojump_clock: trio.abc.Clock, every_s: float
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    async with open_store(str(home / "daycare.db"), HandClock(), inline=True) as store:
        number = 0
        while trio.current_time() < 2 * watch.SETTLE_MAX_S:
            await post(store, f"k{number}")
            number += 1
            await trio.sleep(every_s)
        shutil.copytree(home, tmp_path / "left")
    log_lost(tmp_path / "left" / "daycare.db")
    async with open_store(str(tmp_path / "left" / "daycare.db"), HandClock(), inline=True) as store:
        missing = number - (await store.inbox.counts())["waiting"]
        assert missing * every_s <= (0 if every_s > watch.LOOK_S else watch.SETTLE_MAX_S + watch.LOOK_S)


@pytest.mark.parametrize("harm", [b"\0" * 512, b'{"damage":"\x82"}', b""])
async def test_a_mark_that_cannot_be_read_or_written_costs_nothing(tmp_path: Path, harm: bytes) -> None:
    file = tmp_path / "daycare.db"
    mark.file_of(str(file)).write_bytes(harm)
    async with open_store(str(file), HandClock(), inline=True) as store:
        await post(store, "a")
        assert store.lost is None
    mark.file_of(str(file)).unlink()
    mark.file_of(str(file)).mkdir()
    async with open_store(str(file), HandClock(), inline=True) as store:
        await post(store, "b")
        assert store.lost is None


# -- damage ------------------------------------------------------------------------------------------------------------


def damage(file: Path, table: str) -> None:
    """Overwrite the first page of a table."""
    with closing(apsw.Connection(str(file))) as db:
        [(page,)] = db.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchall()
    with file.open("r+b") as opened:
        opened.seek((int(str(page)) - 1) * 4096)
        opened.write(b"\xff" * 4096)


@pytest.mark.parametrize("inline", [True, False], ids=["inline", "threads"])
async def test_damage_that_is_met_lets_nothing_be_acknowledged_any_more(tmp_path: Path, inline: bool) -> None:
    file = tmp_path / "daycare.db"
    async with open_store(str(file), inline=inline) as store:
        await post(store, "before")
    damage(file, "summaries")
    async with open_store(str(file), inline=inline) as store:
        assert await codes(store, "accepted") == ["ok"], "nobody knows yet"
        with pytest.raises(StoreAwayError) as met:
            store._reader.execute("SELECT * FROM summaries")
        assert met.value.code == "STORE_CORRUPT" and "daycare restore" in met.value.hint
        assert await codes(store, "a", "b") == ["STORE_CORRUPT"] * 2
    assert mark.read(str(file)).damage
    with pytest.raises(BrokenError):
        refuse_damage(str(file), whole=bool(mark.read(str(file)).damage))


async def test_a_damaged_page_that_a_write_meets_is_told_and_remembered(tmp_path: Path) -> None:
    file = tmp_path / "daycare.db"
    async with open_store(str(file), HandClock(), inline=True) as store:
        await post(store, "before")
    damage(file, "agents")
    told: list[str] = []
    async with open_store(str(file), HandClock(), inline=True) as store:
        store.subscribe(lambda _: None, lambda error: told.append(error.code if error else ""))
        assert await codes(store, "a", "b") == ["STORE_CORRUPT"] * 2
        assert set(told) == {"STORE_CORRUPT"}


@pytest.mark.parametrize("large", [True, False], ids=["large", "small"])
async def test_a_damaged_page_that_nobody_needs_is_found_in_the_background(
    tmp_path: Path, autojump_clock: trio.abc.Clock, monkeypatch: pytest.MonkeyPatch, large: bool
) -> None:
    file = tmp_path / "daycare.db"
    async with open_store(str(file), HandClock(), inline=True) as store:
        await post(store, "before")
    damage(file, "summaries")
    monkeypatch.setattr(watch, "START_CHECK_MAX_BYTES", 0 if large else 1 << 40)
    monkeypatch.setattr(watch, "CHECK_EVERY_S", 900.0)
    told: list[str] = []
    async with open_store(str(file), HandClock(), inline=True) as store:
        store.subscribe(lambda _: None, lambda error: told.append(error.code if error else ""))
        await trio.sleep((watch.CHECK_FIRST_S if large else watch.CHECK_EVERY_S) + 300)
        assert told == ["STORE_CORRUPT"]
        assert await codes(store, "a") == ["STORE_CORRUPT"]


async def test_pages_are_read_in_a_thread_that_ends_with_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CHECK_FIRST_S", "CHECK_PAUSE_S"):
        monkeypatch.setattr(watch, name, 0.0)
    monkeypatch.setattr(watch, "START_CHECK_MAX_BYTES", 0)
    file = tmp_path / "daycare.db"
    async with open_store(str(file)) as store:
        await post(store, "before")
    damage(file, "summaries")
    troubled = trio.Event()
    monkeypatch.setattr(watch, "LOOK_S", 0.0)
    async with open_store(str(file)) as store:
        store.subscribe(lambda _: None, lambda _: troubled.set())
        with trio.fail_after(30):
            await troubled.wait()
        assert await codes(store, "a") == ["STORE_CORRUPT"]


async def test_a_damaged_index_of_words_keeps_nobody_from_being_heard(tmp_path: Path) -> None:
    file = tmp_path / "daycare.db"
    async with open_store(str(file), HandClock(), inline=True) as store:
        await post(store, "before")
    with closing(apsw.Connection(str(file))) as db:
        db.execute("UPDATE documents_text_data SET block = x'ffffffffffffffff' WHERE id = 10").fetchall()
    async with open_store(str(file), HandClock(), inline=True) as store:
        with pytest.raises(DaycareError):
            store._reader.execute("SELECT rowid FROM documents_text WHERE documents_text MATCH 'x'").fetchall()
        assert await codes(store, "a") == ["ok"]


async def test_a_store_in_memory_has_no_file_to_lose(
    autojump_clock: trio.abc.Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with open_store("memory:", HandClock()) as store:
        await post(store, "a")
        await trio.sleep(100_000)
        await post(store, "b")
        store.trusted()
    assert list(tmp_path.iterdir()) == []
