"""A backup holds what a home has, as of one moment, and counts only once it was read again."""

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from daycare.base.errors import BrokenError, ConflictError, DaycareError, InvalidError, UnavailableError
from daycare.features import open_store
from daycare.features.backups import making, restoring
from daycare.features.backups.archive import opened, write
from daycare.features.backups.backup_store import publish
from daycare.features.backups.making import BACKUP_FOLDER_MAX_BYTES, Making
from daycare.features.exports import sealed
from daycare.features.exports.sealed import is_sealed
from daycare.store.home import Home
from daycare.store.sqlite import copies
from tests.backup.homes import WORDS, Death, contents, dies, home_at, make, numbers
from tests.store.samples import post


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return home_at(tmp_path / "home")


def test_a_backup_has_the_database_the_settings_and_the_folders_but_no_key(home: Home, tmp_path: Path) -> None:
    file = tmp_path / "b"
    manifest = make(home, file)
    assert set(contents(file)) == {
        "daycare.db",
        "config.toml",
        "memory/users/ann/USER.md",
        "cron/morning.md",
        "personalities/calm.json",
        "plugins/lists/state",
    }
    assert manifest.counts["messages"] == 3 and manifest.newest_at > 0
    left = {each.what: each.why for each in manifest.left_out}
    assert "--with-key" in left["daycare.key"] and "daycare.log" in left
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not list(home.path.glob(".backup-*")), "what it was made in is gone"
    assert make(home, tmp_path / "with", with_key=True).with_key
    assert contents(tmp_path / "with")["daycare.key"] == b"a key\n"


def test_a_sealed_backup_opens_with_its_passphrase_only(home: Home, tmp_path: Path) -> None:
    file = tmp_path / "b"
    make(home, file, with_key=True, passphrase=WORDS)
    assert is_sealed(file.read_bytes()[:16]) and b"a key" not in file.read_bytes()
    assert contents(file, WORDS)["daycare.key"] == b"a key\n"
    with pytest.raises(InvalidError, match="passphrase is wrong") as refused:
        contents(file, "something else entirely")
    assert refused.value.code == "PASSPHRASE_WRONG"


async def test_what_was_acknowledged_before_it_began_is_in_it_while_others_write(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.prepare()
    target = tmp_path / "copy"
    async with open_store(home.database("daycare.db"), inline=True) as store:
        for number in range(300):
            await post(store, f"before{number}", text="x" * 4_000)
        steps = 0

        def write_more() -> None:
            nonlocal steps
            steps += 1
            store._db.execute(
                "INSERT INTO events (at, user, origin, path, trace, event) VALUES (0, '', '', '', '', ?)",
                ("y" * 2_000,),
            )

        copies.copy(store.location, target, check=write_more, pause=False)
        await post(store, "after")
        facts = copies.examine(target)
    assert steps >= 2, "the copy was made in several steps"
    assert facts.counts["messages"] == 300
    db = apsw.Connection(str(target))
    assert db.execute("SELECT count(*) FROM events").fetchall() == [(0,)], "it is as of the moment it began"
    db.close()


@pytest.mark.parametrize("where", ["head", "manifest", "middle", "last", "short", "tail"])
@pytest.mark.parametrize("passphrase", ["", WORDS], ids=["plain", "sealed"])
def test_a_damaged_backup_is_refused_before_anything_is_changed(
    home: Home, tmp_path: Path, where: str, passphrase: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealed, "_N", 2**10)  # a guess may be cheap here
    file = tmp_path / "b"
    make(home, file, passphrase=passphrase)
    data = bytearray(file.read_bytes())
    match where:
        case "short":
            del data[-len(data) // 3 :]
        case "tail":
            data += b"more"
        case _:
            at = {"head": 1, "manifest": 300, "middle": len(data) // 2, "last": len(data) - 6}[where]
            data[at] ^= 0x40
    file.write_bytes(data)
    new = Home(tmp_path / "new")
    new.prepare()
    attempts: tuple[Callable[[], object], ...] = (
        lambda: restoring.look(file, new, lambda: passphrase),
        lambda: restoring.restore(file, new, lambda: passphrase, force=False, now_ms=1),
    )
    for attempt in attempts:
        with pytest.raises(InvalidError) as refused:
            attempt()
        assert refused.value.code in ("BACKUP_DAMAGED", "PASSPHRASE_WRONG"), refused.value
    assert list(new.path.iterdir()) == []


def test_a_bit_that_turned_anywhere_in_the_beginning_is_damage_or_changes_nothing(home: Home, tmp_path: Path) -> None:
    """What is unpacked of it may be no text at all. Deflate leaves a few bits unused: what was packed stays whole."""
    file = tmp_path / "b"
    make(home, file)
    whole, packed = file.read_bytes(), contents(file)
    damaged = 0
    for at in range(20, 600, 2):
        data = bytearray(whole)
        data[at] ^= 1 << at % 8
        file.write_bytes(data)
        try:
            assert contents(file) == packed, at
        except InvalidError as refused:
            assert refused.code in ("BACKUP_DAMAGED", "BACKUP_VERSION"), (at, refused)
            damaged += 1
    assert damaged >= 280


def test_something_else_is_no_backup(tmp_path: Path) -> None:
    file = tmp_path / "b"
    for data in (b"", b"hello", os.urandom(5_000)):
        file.write_bytes(data)
        with pytest.raises(InvalidError, match=r"no backup|too early|gzip") as refused:
            contents(file)
        assert refused.value.code == "BACKUP_DAMAGED"


def test_a_kill_at_any_step_leaves_no_file_of_that_name_and_the_next_one_is_whole(home: Home, tmp_path: Path) -> None:
    file = tmp_path / "b"
    died = 0
    for n in numbers(3):
        if not dies(lambda n=n: make(home, file, check=Death(n))):  # type: ignore[misc]
            break
        died += 1
        assert not file.exists()
    assert died >= 3
    file.unlink()
    make(home, file)
    assert not list(home.path.glob(".backup-*")) and not list(tmp_path.glob("*.part"))


def test_a_kill_while_it_is_written_or_read_again_leaves_no_file_of_that_name(home: Home, tmp_path: Path) -> None:
    make(home, tmp_path / "first")
    data = (tmp_path / "first").read_bytes()
    for n in (1, 2, 5):
        death = Death(n)
        assert dies(lambda death=death: publish(_dying(data, death), tmp_path / "b", ""))  # type: ignore[misc]
        assert not (tmp_path / "b").exists()
    assert publish([data], tmp_path / "b", "").counts["messages"] == 3


def _dying(data: bytes, death: Death) -> Iterator[bytes]:
    size = 1 + len(data) // 6
    for at in range(0, len(data), size):
        death()
        yield data[at : at + size]


def test_what_does_not_read_back_never_gets_its_name(home: Home, tmp_path: Path) -> None:
    make(home, tmp_path / "first")
    with pytest.raises(InvalidError):
        publish([(tmp_path / "first").read_bytes()[:-100]], tmp_path / "b", "")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["first", "home"]
    with pytest.raises(ConflictError, match="there is one"):
        make(home, tmp_path / "first")
    with pytest.raises(UnavailableError, match="writing the backup"):
        make(home, tmp_path / "nowhere" / "b")


def test_a_damaged_database_makes_no_backup(home: Home, tmp_path: Path) -> None:
    file = home.path / "daycare.db"
    pages = bytearray(file.read_bytes())
    pages[4096 * 3 : 4096 * 6] = b"\xff" * 4096 * 3
    file.write_bytes(pages)
    with pytest.raises(BrokenError) as refused:
        make(home, tmp_path / "b")
    assert refused.value.code == "STORE_CORRUPT" and not (tmp_path / "b").exists()


def test_a_database_of_a_plugin_is_copied_whole_links_are_not_followed_and_large_folders_are_left(
    home: Home, tmp_path: Path
) -> None:
    place = home.path / "plugins" / "whatsapp"
    place.mkdir()
    db = apsw.Connection(str(place / "session.db"))
    db.execute(
        "PRAGMA journal_mode = WAL; CREATE TABLE t (x); INSERT INTO t VALUES ('in the log of commits')"
    ).fetchall()
    (place / "link").symlink_to("/etc/passwd")
    large = home.path / "plugins" / "media"
    large.mkdir()
    with (large / "film").open("wb") as file:
        file.truncate(BACKUP_FOLDER_MAX_BYTES + 1)
    manifest = make(home, tmp_path / "b")
    db.close()
    found = contents(tmp_path / "b")
    assert not {"plugins/whatsapp/link", "plugins/whatsapp/session.db-wal", "plugins/media/film"} & set(found)
    copied = tmp_path / "session.db"
    copied.write_bytes(found["plugins/whatsapp/session.db"])
    other = apsw.Connection(str(copied))
    assert other.execute("SELECT x FROM t").fetchall() == [("in the log of commits",)]
    other.close()
    assert any(each.what == "plugins/media" and "copy it yourself" in each.why for each in manifest.left_out)


@pytest.mark.parametrize("path", ["../evil", "/etc/evil", "memory/../../evil", "memory//x", "daycare.sock", "memory"])
def test_a_backup_cannot_lead_out_of_a_home(
    home: Home, tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forged(target: object, manifest: object, files: object, tell: object) -> None:
        from msgspec.structs import replace

        entries = (*manifest.entries[:-1], replace(manifest.entries[-1], path=path))  # type: ignore[attr-defined]
        write(target, replace(manifest, entries=entries), files, tell)  # type: ignore[arg-type, type-var]

    monkeypatch.setattr(making, "write", forged)
    with pytest.raises(InvalidError, match="belong in no backup"):
        make(home, tmp_path / "b")


def test_messages_in_memory_and_a_missing_database_are_told(home: Home, tmp_path: Path) -> None:
    for location in ("memory:", str(tmp_path / "nowhere.db")):
        with (tmp_path / "f").open("w+b") as file, pytest.raises(DaycareError) as refused:
            Making(home, location, 1, with_key=False).write(file)
        assert refused.value.code in ("STORE_IN_MEMORY", "STORE_MISSING")


def test_a_file_of_more_than_a_part_is_one_file(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daycare.features.backups.archive._PART_MAX_BYTES", 100_000)
    make(home, tmp_path / "b")
    with opened(tmp_path / "b", str) as archive:
        assert archive.manifest.entries[0].bytes > 200_000
        archive.verify()
    new = Home(tmp_path / "new")
    new.prepare()
    assert restoring.restore(tmp_path / "b", new, str, force=False, now_ms=1).manifest.counts["messages"] == 3
