"""The home and what is in it, each look both ways: files, settings, database, keys, time, room."""

import os
import re
import socket
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import apsw
import msgspec
import pytest
import trio

from daycare.features import open_store
from daycare.ops.doctor import clocks, database, machine
from daycare.ops.doctor.versions import fits, unfit
from daycare.store.home import Home
from daycare.store.sqlite import mark
from daycare.store.sqlite.database import migrations
from tests.doctor.looking import add_job, bad, fix, look, now_ms, one, sql, store_secret

EXPECTED = {"daemon", "disk", "memory"}  # of the machine of the test, or because nobody set it up


def test_nothing_is_wrong_with_a_home_that_was_just_made(home: Home) -> None:
    findings = look(home)
    assert [each for each in findings if each.level == "fail"] == []
    assert {each.about for each in findings if each.level == "warn"} <= EXPECTED
    assert all(each.hint for each in findings if each.level == "warn")
    assert {"home", "files", "config", "plugins", "database", "keys", "models", "cron", "zone", "versions"} <= {
        each.about for each in findings if each.level == "ok"
    }


# -- files -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["daycare.db", "plugins/whatsapp/session.db", "memory/users/ann/USER.md", "cron/a.md"])
def test_a_file_that_others_may_read_is_found_and_closed(home: Home, name: str) -> None:
    file = home.path / name
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    file.touch()
    for folder in (file.parent, *file.parent.parents):
        if folder.is_relative_to(home.path):
            folder.chmod(0o700)
    file.chmod(0o644)
    assert [(level, about) for level, about, _ in bad(home, "files")] == [("warn", "files")]
    assert name in one(home, "files").message
    assert [(each.done, each.look) for each in fix(home, "files")] == [(True, "files")]
    assert file.stat().st_mode & 0o777 == 0o600
    assert bad(home, "files") == []


def test_a_home_that_others_may_enter_makes_it_worse(home: Home) -> None:
    home.path.chmod(0o755)
    home.config.chmod(0o644)
    assert [level for level, _, _ in bad(home, "home", "files")] == ["fail", "fail"]
    assert all(each.done for each in fix(home, "home", "files"))
    assert bad(home, "home", "files") == []


def test_what_a_link_leads_to_is_nobodys_business(home: Home, tmp_path: Path) -> None:
    outside = tmp_path / "vault"
    outside.mkdir()
    (outside / "note.md").touch()
    (outside / "note.md").chmod(0o644)
    (home.path / "memory").symlink_to(outside)
    (home.path / "notes.md").symlink_to(outside / "note.md")
    assert bad(home, "files") == []
    home.config.chmod(0o640)
    fix(home, "files")
    assert (outside / "note.md").stat().st_mode & 0o777 == 0o644


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_file_of_somebody_else_is_told_and_left_alone(home: Home) -> None:
    os.chown(home.config, 12_345, 12_345)
    found = one(home, "files")
    assert (found.level, found.mend) == ("fail", None)
    assert "sudo chown -R" in found.hint and "config.toml" in found.message


def test_a_dead_daemons_socket_and_unfinished_files_are_swept(home: Home) -> None:
    with closing(socket.socket(socket.AF_UNIX)) as dead:
        dead.bind(str(home.socket))
    (home.path / "starts.json.new").touch(0o600)
    (home.path / "config.toml.new").touch(0o600)
    (home.path / "daycare.db.before-0003.part").touch(0o600)
    assert {about for _, about, _ in bad(home, "leftovers")} == {"socket", "leftovers"}
    assert len([each for each in fix(home, "leftovers", dry_run=True) if not each.done]) == 2
    assert home.socket.exists(), "a dry run changes nothing"
    assert all(each.done for each in fix(home, "leftovers"))
    assert not home.socket.exists() and not list(home.path.glob("*.part"))
    assert [file.name for file in home.path.glob("*.new")] == ["config.toml.new"], "that may be somebody's own"
    assert bad(home, "leftovers") == []


# -- settings ----------------------------------------------------------------------------------------------------------


def test_a_wrong_setting_is_told_with_its_line(home: Home) -> None:
    home.config.write_text('[daemon]\nlog_level = "loud"\n')
    found = one(home, "config")
    assert (found.level, found.hint) == ("fail", "daycare config check")
    assert ":2: daemon.log_level" in found.message
    assert [each.level for each in look(home, "disk", "keys", "cron")], "the other looks go on with defaults"


def test_a_plugin_that_is_missing_is_told(home: Home) -> None:
    home.config.write_text('[plugins]\nload = ["no_such_module:plugin"]\n')
    assert "no_such_module" in one(home, "plugins").message


# -- database ----------------------------------------------------------------------------------------------------------


def test_a_damaged_database_is_told(home: Home) -> None:
    file = home.path / "daycare.db"
    content = bytearray(file.read_bytes())
    content[8192:40_000] = os.urandom(31_808)
    file.write_bytes(content)
    found = one(home, "database")
    assert (found.level, found.hint, found.mend) == ("fail", "daycare restore BACKUP --force", None)


@pytest.mark.parametrize("content", [b"", b"no database" * 100])
def test_what_is_no_database_is_told(home: Home, content: bytes) -> None:
    (home.path / "daycare.db").write_bytes(content)
    for name in ("daycare.db-wal", "daycare.db-shm"):
        (home.path / name).unlink(missing_ok=True)
    assert one(home, "database").level == "fail"
    assert "restore" in one(home, "database").hint


def test_some_other_programs_database_is_told(home: Home) -> None:
    (home.path / "daycare.db").unlink()
    sql(home, "CREATE TABLE recipes (name TEXT)")
    assert "none of daycare's" in one(home, "database").message


@pytest.mark.parametrize(
    ("number", "level", "hint"), [(9_999, "fail", "install the newer"), (-1, "warn", "daycare run")]
)
def test_a_schema_of_another_version_is_told(home: Home, number: int, level: str, hint: str) -> None:
    sql(home, f"PRAGMA user_version = {number if number > 0 else migrations()[-1][0] - 1}")
    found = one(home, "database")
    assert (found.level, found.about) == (level, "schema")
    assert found.hint.startswith(hint)


def test_an_index_that_lost_a_document_is_made_anew(home: Home) -> None:
    assert bad(home, "database") == []
    row = "SELECT no, scope, name, text FROM documents WHERE no = (SELECT min(no) FROM living_documents)"
    sql(home, f"INSERT INTO documents_text (documents_text, rowid, scope, name, text) SELECT 'delete', * FROM ({row})")
    found = one(home, "database")
    assert (found.level, found.about) == ("fail", "index")
    assert [(each.done, each.problem) for each in fix(home, "database")] == [(True, "")]
    assert bad(home, "database") == []
    with closing(apsw.Connection(str(home.path / "daycare.db"))) as db:
        indexed = db.execute("SELECT count(*) FROM documents_text WHERE documents_text MATCH 'daycare'").fetchall()
        assert indexed != [(0,)]
        db.execute("INSERT INTO documents_text (documents_text) VALUES ('integrity-check')").fetchall()


def test_a_long_log_of_commits_is_brought_in(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "LOG_WARN_BYTES", 1_000)
    with (
        closing(apsw.Connection(str(home.path / "daycare.db"))) as reader,
        closing(apsw.Connection(str(home.path / "daycare.db"))) as writer,
    ):
        reader.execute("SELECT 1 FROM users").fetchall()
        writer.execute("CREATE TABLE filler AS SELECT randomblob(100000) AS data").fetchall()
        assert one(home, "database").about == "log of commits"
        assert all(each.done for each in fix(home, "database"))
        assert bad(home, "database") == []


def test_backups_that_are_late_or_lie_on_a_disk_that_is_away_are_told(home: Home) -> None:
    assert "none is made by itself" in one(home, "backup").message
    with home.config.open("a") as file:
        file.write('\n[backup]\nevery = "1h"\n')
    assert {message for _, _, message in bad(home, "backup")} == {
        f"{home.path}/backups does not exist yet", "every 1h, but there is none yet",
    }  # fmt: skip
    assert all(each.done for each in fix(home, "backup"))
    made = home.path / "backups" / datetime.now(UTC).strftime("scheduled-%Y%m%dT%H%M%SZ.daycare-backup")
    made.touch(0o600)
    assert bad(home, "backup") == []
    home.config.write_text('[backup]\nevery = "1h"\nfolder = "/nonexistent/disk"\n')
    assert [level for level, _, _ in bad(home, "backup")] == ["fail"]


# -- keys --------------------------------------------------------------------------------------------------------------


def test_stored_secrets_are_opened_and_those_of_another_key_told(home: Home) -> None:
    store_secret(home, "openai", "sk-of-ann-0123456789")
    assert bad(home, "keys") == []
    assert "openai" in look(home, "keys")[-1].message
    home.key_file.unlink()
    found = one(home, "keys")
    assert found.level == "fail" and "1 stored secret cannot be read" in found.message
    assert not home.key_file.exists(), "looking makes no key"
    store_secret(home, "other", "x" * 20)  # makes a key anew
    found = one(home, "keys")
    assert (found.level, found.hint) == ("fail", "daycare keys add openai")
    home.key_file.chmod(0o640)
    assert one(home, "keys").level == "fail"
    fix(home, "keys")
    assert home.key_file.stat().st_mode & 0o777 == 0o600


# -- jobs --------------------------------------------------------------------------------------------------------------


def test_the_next_runs_of_all_jobs_are_told_in_order(home: Home) -> None:
    now = now_ms()
    add_job(home, "/ann/cron/late", '{"cron": "0 9 * * *", "prompt": "x"}', next_at=now + 7_200_000)
    add_job(home, "/ann/cron/soon", '{"cron": "0 8 * * *", "prompt": "x"}', next_at=now + 3_600_000)
    [found] = look(home, "cron")
    assert found.level == "ok" and found.message.startswith("2 jobs; next /ann/cron/soon ")
    assert found.message.index("soon") < found.message.index("late") and found.message.count("/ann/cron/") == 3


@pytest.mark.parametrize(
    ("spec", "level", "says"),
    [
        ('{"cron": "0 9 * * *", "prompt": "x", "zone": "Mars/Olympus"}', "fail", "'Mars/Olympus'"),
        ('{"cron": "0 9 * * *", "prompt": "x", "colour": "red"}', "fail", "does not understand"),
        ('{"cron": "61 9 * * *", "prompt": "x"}', "fail", "61"),
        ('{"cron": "0 9 * * *", "prompt": "x", "enabled": false}', "ok", "switched off"),
    ],
)
def test_a_job_that_cannot_run_is_told(home: Home, spec: str, level: str, says: str) -> None:
    add_job(home, "/ann/cron/morning", spec, next_at=now_ms() + 60_000)
    found = next(each for each in look(home, "cron") if "/ann/cron/morning" in each.message)
    assert found.level == level and says in found.message


def test_jobs_that_wait_for_a_daemon_are_told(home: Home) -> None:
    spec = '{"cron": "0 9 * * *", "prompt": "x"}'
    add_job(home, "/ann/cron/a", spec, next_at=now_ms() - 3_600_000)
    add_job(home, "/ann/cron/b", spec, next_at=now_ms() - 3_600_000, paused=True)
    assert [(level, message[:5]) for level, _, message in bad(home, "cron")] == [("warn", "1 job")]
    assert any("1 paused" in each.message for each in look(home, "cron"))


def test_runs_that_failed_or_were_missed_within_a_day_are_told(home: Home) -> None:
    run = (
        "INSERT INTO cron_runs (job, path, user, origin, by_hand, due_at, until_at, count, state, reason, created_at,"
        " ended_at) VALUES (1, ?, 'ann', 'person', 0, ?, 0, ?, ?, ?, ?, ?)"
    )
    now = now_ms()
    sql(home, run, "/ann/cron/a", 1, 1, "failed", "no such shop", now, now)
    sql(home, run, "/ann/cron/b", 2, 7, "missed", "", now, now)
    sql(home, run, "/ann/cron/c", 3, 1, "failed", "long ago", 0, 0)
    assert [message for _, _, message in bad(home, "cron")] == [
        "/ann/cron/a failed within a day: no such shop",
        "/ann/cron/b missed 7 runs within a day: no daemon ran, or it was too late",
    ]


def test_dead_letters_and_messages_that_wait_are_told(home: Home) -> None:
    assert bad(home, "dead") == []
    row = "?, 'inbox', 1, 'a', '/ann/direct', 'ann', 'person', 't', 'C', 'r', 1, '', ?, ?"
    letter = f"INSERT INTO dead_letters VALUES ({row}, 'ann')"
    sql(home, letter, 1, now_ms(), None)
    sql(home, letter, 2, 5, None)
    sql(home, letter, 3, 5, 6)
    assert bad(home, "dead")[0] == ("warn", "dead", "2 dead letters wait for a decision, 1 new within a day")
    sql(home, "INSERT INTO dropped_letters (user, letters, first_at, last_at) VALUES ('ben', 7, 1, 2), ('', 3, 1, 2)")
    told = "older dead letters made room for newer ones: 7 of ben, 3 of nobody known"
    assert bad(home, "dead")[1] == ("warn", "dead", told)


# -- time --------------------------------------------------------------------------------------------------------------


def test_a_clock_before_the_newest_row_is_told(home: Home) -> None:
    assert not [each for each in look(home, "clock") if each.level == "fail"]
    sql(home, "UPDATE documents SET created_at = ? WHERE no = (SELECT max(no) FROM documents)", now_ms() + 86_400_000)
    found = one(home, "clock")
    assert (found.level, found.hint) == ("fail", "timedatectl set-ntp true")
    assert "before the newest row of documents" in found.message


@pytest.mark.parametrize("unsynchronised", [True, False])
def test_a_clock_that_nobody_keeps_right_is_told_and_is_no_trouble_while_it_is_right(
    home: Home, monkeypatch: pytest.MonkeyPatch, unsynchronised: bool
) -> None:
    monkeypatch.setattr(clocks, "_unsynchronised", lambda: unsynchronised)
    assert bad(home, "clock") == []
    assert ("keeps it right" in one(home, "clock").message) is unsynchronised


def test_a_zone_that_nobody_knows_is_told(home: Home) -> None:
    assert bad(home, "zone") == []
    sql(home, "INSERT INTO users VALUES ('ben', 'Ben', 'Mars/Olympus', 'person', 0, NULL, 'person', 0, NULL)")
    assert "ben lives in 'Mars/Olympus'" in one(home, "zone").message


# -- the machine -------------------------------------------------------------------------------------------------------


def test_little_room_is_told(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "DISK_WARN_BYTES", 0)
    assert one(home, "disk").level == "ok"
    monkeypatch.setattr(machine, "DISK_WARN_BYTES", 10**18)
    assert one(home, "disk").level == "warn"
    monkeypatch.setattr(machine, "DISK_FAIL_BYTES", 10**18)
    assert one(home, "disk").level == "fail"


@pytest.mark.skipif(not os.path.ismount("/dev/shm"), reason="there is no file system in memory here")
def test_a_home_in_memory_is_told(home: Home) -> None:
    shared = Path("/dev/shm") / f"dc-{os.getpid()}"
    home.path.joinpath("daycare.lock").unlink(missing_ok=True)
    shared.mkdir(mode=0o700)
    try:
        assert any("tmpfs" in message for _, _, message in bad(Home(shared), "disk"))
    finally:
        shared.rmdir()


@pytest.mark.parametrize(
    ("version", "bounds", "fit"),
    [
        ("3.54.1.0", ">=3.50.4,<4", True),
        ("4.0", ">=3.50.4,<4", False),
        ("3.50", ">=3.50.4,<4", False),
        ("22.8", "==22.8", True),
        ("22.9", "==22.8", False),
        ("1.0rc1", ">=1,<2", True),
        ("7", "", True),
    ],
)
def test_bounds_of_versions(version: str, bounds: str, fit: bool) -> None:
    assert fits(version, bounds) is fit


def test_the_libraries_of_this_environment_fit() -> None:
    assert list(unfit()) == []


# -- memory ------------------------------------------------------------------------------------------------------------


def test_an_embedder_that_cannot_be_loaded_is_told(home: Home) -> None:
    assert "by their words" in one(home, "embedding").message
    home.config.write_text('[memory]\nembedder = "dir"\nmodel_dir = "nowhere"\n')
    assert one(home, "embedding").level == "fail"


def test_vectors_of_other_dimensions_are_told(home: Home) -> None:
    pytest.importorskip("wordllama")
    home.config.write_text('[memory]\nembedder = "local"\n')
    [found] = look(home, "embedding")
    assert found.level == "ok" and "256 dimensions" in found.message
    model = found.message.split()[1].rstrip(",")
    sql(home, "INSERT INTO memory_models (model, dimensions) VALUES (?, 384)", model)
    assert one(home, "embedding").hint == "daycare memory reembed"


# -- the sandbox -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("script", "level"), [("exit 0", "ok"), ("echo no >&2; exit 1", "warn"), ("", "warn")])
def test_bridges_that_are_not_fenced_in_are_told(
    home: Home, programs: Callable[[str, str], None], script: str, level: str
) -> None:
    assert one(home, "sandbox").level == "ok", "there are no bridges"
    home.config.write_text('[plugins.bridge.to.signal]\ncommand = ["true"]\n')
    if script:
        programs("bwrap", script)
    found = one(home, "sandbox")
    assert found.level == level and found.message.startswith("signal")


# -- what is not to be trusted -----------------------------------------------------------------------------------------


def test_a_database_that_is_gone_is_a_failure_where_the_home_was_in_use(home: Home) -> None:
    for file in home.path.glob("daycare.db*"):
        file.unlink()
    assert [level for level, _, _ in bad(home, "database")] == ["warn"], "it may never have been there"
    home.log_file.touch(mode=0o600)
    [(level, _, told)] = bad(home, "database")
    assert level == "fail" and "it is gone" in told
    assert "daycare init --new" in one(home, "database").hint


def test_what_was_rescued_and_what_is_missing_is_told(home: Home) -> None:
    assert [about for _, about, _ in bad(home, "database")] == []
    rescued = home.path / "daycare.db.rescued-20270101-000000"
    rescued.touch(mode=0o600)
    location = home.database("daycare.db")
    held = mark.Held(newest=(10_000, 0, 0, 0))
    mark.file_of(location).write_bytes(msgspec.json.encode(held))

    async def start() -> None:
        async with open_store(location):
            pass

    trio.run(start)
    found = {about: told for _, about, told in bad(home, "database")}
    assert str(rescued) in found["rescued"]
    assert re.search("[0-9]+ messages", found["commits"])
    mark.file_of(location).unlink()
    rescued.unlink()
    assert bad(home, "database") == []
