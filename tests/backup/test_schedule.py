"""Backups that are made by themselves: when they are due, which stay, and how a failure is told."""

from collections.abc import AsyncIterator
from pathlib import Path
from stat import S_IMODE
from typing import Any

import pytest
import trio

from daycare.base.errors import BrokenError, NotFoundError, StoreAwayError
from daycare.config import BackupSection, Config, load
from daycare.features import open_store
from daycare.features.backups.backup_store import rotate, scheduled_in
from daycare.features.backups.engine import BACKUP_RETRY_S, Backups
from daycare.features.backups.making import BackupProgress
from daycare.features.backups.schedule import set_backup
from daycare.settings import Live
from daycare.store.home import Home
from daycare.store.sqlite.database import checkpoint
from daycare.store.sqlite.store import Store
from daycare.testing.daemon import open_daemon
from tests.backup.homes import WORDS, contents
from tests.store.samples import HandClock, post
from tests.store.test_trust import damage

HOUR_MS = 3_600_000


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def live() -> Live:
    return Live(of(every="24h", keep=2))


def of(**backup: Any) -> Config:
    return Config(backup=BackupSection(**backup))


@pytest.fixture
async def backups(tmp_path: Path, clock: HandClock, live: Live) -> AsyncIterator[Backups]:
    home = Home(tmp_path / "home")
    home.prepare()
    home.config.write_text("")
    async with open_store(home.database("daycare.db"), clock) as store:
        await post(store, "k")
        yield Backups(home, live, store, clock)


def kept(backups: Backups) -> list[Path]:
    return [file for _, file in scheduled_in(backups.folder)]


async def test_one_is_made_when_it_is_due_and_the_newest_stay(backups: Backups, clock: HandClock) -> None:
    made: list[Path] = []
    for _ in range(4):
        await backups.look()
        await backups.look()
        made.append(kept(backups)[-1])
        clock.ms += 23 * HOUR_MS
        await backups.look()
        assert kept(backups)[-1] == made[-1], "not before its time"
        clock.ms += HOUR_MS
    assert len(set(made)) == 4 and kept(backups) == made[-2:]
    assert "config.toml" in contents(made[-1])
    assert S_IMODE(backups.folder.stat().st_mode) == 0o700
    status = await backups.status()
    assert (status["last"], status["failure"], status["restored"]) == (str(made[-1]), None, None)


@pytest.mark.parametrize("ahead_ms", [24 * HOUR_MS, 366 * 24 * HOUR_MS])
async def test_one_of_a_clock_that_was_ahead_makes_neither_none_nor_many(
    backups: Backups, clock: HandClock, ahead_ms: int
) -> None:
    clock.ms += ahead_ms
    await backups.look()
    [ahead] = kept(backups)
    clock.ms -= ahead_ms - HOUR_MS
    await backups.look()
    [now, last] = kept(backups)
    assert last == ahead and (await backups.status())["last"] == str(now)
    for _ in range(3):
        clock.ms += HOUR_MS
        await backups.look()
    assert kept(backups) == [now, ahead], "not before its time"


async def test_a_failure_is_told_tried_again_later_and_costs_no_backup_that_is_there(
    backups: Backups, clock: HandClock, live: Live, tmp_path: Path
) -> None:
    await backups.look()
    [first] = kept(backups)
    folder, away = backups.folder, tmp_path / "away"
    folder.rename(away)
    live.take(of(every="24h", folder=str(folder), keep=1))
    clock.ms += 24 * HOUR_MS
    await backups.look()
    finding = backups.finding()
    assert not finding.ok and "there is no folder" in finding.text and finding.watched
    assert "there is no folder" in (await backups.status())["failure"]
    away.rename(folder)
    clock.ms += round(BACKUP_RETRY_S * 1000) - 1
    await backups.look()
    assert kept(backups) == [first]
    clock.ms += 1
    await backups.look()
    [second] = kept(backups)
    assert second != first and backups.finding().ok and "0 seconds old" in backups.finding().text


async def test_none_for_long_is_something_wrong_even_without_a_failure(backups: Backups, clock: HandClock) -> None:
    await backups.look()
    assert backups.finding().ok
    clock.ms += 47 * HOUR_MS
    assert backups.finding().ok
    clock.ms += 2 * HOUR_MS
    assert not backups.finding().ok


async def test_settings_that_change_hold_at_the_next_look(backups: Backups, clock: HandClock, live: Live) -> None:
    await backups.look()
    assert len(kept(backups)) == 1
    live.take(of(every="off"))
    clock.ms += 48 * HOUR_MS
    await backups.look()
    assert len(kept(backups)) == 1 and backups.finding().ok and "none is scheduled" in backups.finding().text


async def test_with_a_passphrase_they_are_sealed_and_have_the_key(backups: Backups, live: Live, tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "daycare.key").write_text("a key\n")
    (home / "words").write_text(WORDS + "\n")
    live.take(of(every="1h", passphrase_file="words"))
    await backups.look()
    assert contents(kept(backups)[0], WORDS)["daycare.key"] == b"a key\n"
    (home / "words").unlink()
    assert (await backups.status())["encrypted"]


async def test_one_that_is_asked_for_is_fetched_once(backups: Backups, tmp_path: Path) -> None:
    report = await backups.make(with_key=False, progress=BackupProgress())
    data = b"".join([piece async for piece in backups.fetch(report.id)])
    assert len(data) == report.bytes
    (tmp_path / "b").write_bytes(data)
    assert "daycare.db" in contents(tmp_path / "b")
    with pytest.raises(NotFoundError):
        backups.size_of(report.id)


async def test_whoever_goes_away_ends_it(backups: Backups) -> None:
    with trio.move_on_after(0) as scope:
        await backups.make(with_key=False, progress=BackupProgress())
    assert scope.cancelled_caught
    await backups.make(with_key=False, progress=BackupProgress())


def test_the_last_one_that_was_checked_is_never_removed(tmp_path: Path) -> None:
    for hour in range(5):
        (tmp_path / f"scheduled-20270101T0{hour}0000Z.daycare-backup").write_text("")
    (tmp_path / "daycare-20200101T000000Z.daycare-backup").write_text("by hand")
    (tmp_path / "scheduled-20270101T090000Z.daycare-backup.part").write_text("killed")
    newest = tmp_path / "scheduled-20270101T010000Z.daycare-backup"  # the clock went back
    assert rotate(tmp_path, 1, newest) == 4
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "daycare-20200101T000000Z.daycare-backup",
        newest.name,
    ]


async def test_the_operator_is_told_once_that_backups_fail(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    (tmp_path / "config.toml").write_text(f'[backup]\nevery = "1h"\nfolder = "{tmp_path / "nowhere"}"\n')
    async with open_daemon(tmp_path, location="daycare.db", config=load(tmp_path)) as house:
        await house.talk("hello")
        await trio.sleep(7_200)
        told = [event for event in house.events("notice") if "backup" in str(event["text"])]
        assert len(told) == 1 and "there is no folder" in str(told[0]["text"])
        (tmp_path / "nowhere").mkdir()
        await trio.sleep(3_600)
        assert len(scheduled_in(tmp_path / "nowhere")) >= 1


# -- writing the settings ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", '[backup]\nevery = "24h"\n'),
        ("[agent]\nname = 'x'", "[agent]\nname = 'x'\n\n[backup]\nevery = \"24h\"\n"),
        (
            '[backup]\nkeep = 3 # few\n\n[metrics]\nlisten = ""\n',
            '[backup]\nevery = "24h"\nkeep = 3 # few\n\n[metrics]\nlisten = ""\n',
        ),
        ('[backup] # b\nevery = "off"\n#every = "7d"\n', '[backup] # b\nevery = "24h"\n#every = "7d"\n'),
        ("[backup]", '[backup]\nevery = "24h"\n'),
    ],
)
def test_only_what_is_asked_for_changes_in_the_settings(tmp_path: Path, before: str, after: str) -> None:
    home = Home(tmp_path)
    home.config.write_text(before)
    assert set_backup(home, {"every": "24h"}).every == "24h"
    assert home.config.read_text() == after and S_IMODE(home.config.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "text", ['backup = { every = "off" }\n', '"backup" = {}\n', '[agent]\nx = """\n[backup]\n"""\n']
)
def test_settings_that_cannot_be_changed_are_left_alone(tmp_path: Path, text: str) -> None:
    home = Home(tmp_path)
    home.config.write_text(text)
    with pytest.raises(BrokenError) as refused:
        set_backup(home, {"every": "24h"})
    assert refused.value.code in ("CONFIG_UNUSUAL", "CONFIG_INVALID") and home.config.read_text() == text
    assert Config().backup.every_ms == 0


async def test_a_disk_that_refuses_is_a_failure_and_no_end_of_the_daemon(backups: Backups, tmp_path: Path) -> None:
    backups.folder.write_text("a file where the folder should be")
    await backups.look()
    assert not backups.finding().ok and "backups" in backups.finding().text


async def test_a_backup_of_a_damaged_store_says_so_and_costs_no_good_one(backups: Backups, clock: HandClock) -> None:
    for _ in range(2):
        await backups.look()
        clock.ms += 25 * HOUR_MS
    good = kept(backups)
    assert len(good) == 2
    store = backups._store
    assert isinstance(store, Store)
    await store._writer.alone(checkpoint)  # else the page is read from the log
    damage(Path(store.location), "summaries")
    for _ in range(3):
        await backups.look()
        clock.ms += 25 * HOUR_MS
    assert kept(backups) == good
    finding = backups.finding()
    assert not finding.ok and "damaged" in finding.text
    with pytest.raises(StoreAwayError) as refused:  # and it is known of from then on
        backups._store.trusted()
    assert refused.value.code == "STORE_CORRUPT"
    with pytest.raises(StoreAwayError):
        await post(backups._store, "after")


async def test_a_database_that_was_replaced_is_not_backed_up_in_the_place_of_the_real_one(
    backups: Backups, clock: HandClock, tmp_path: Path
) -> None:
    await backups.look()
    good = kept(backups)
    location = Path(backups._store.location)
    async with open_store(str(tmp_path / "other.db"), clock):
        pass
    (tmp_path / "other.db").replace(location)
    clock.ms += 25 * HOUR_MS
    await backups.look()
    assert kept(backups) == good
    assert not backups.finding().ok and "removed or replaced" in backups.finding().text
