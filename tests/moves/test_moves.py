"""A store that is moved is the same there: every row, what searches find, numbers; nobody opens half of one."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import apsw
import pytest
import trio

from daycare.base.errors import BusyError, ConflictError, DaycareError, InvalidError, StoreAwayError, UnavailableError
from daycare.config import load
from daycare.features import open_store
from daycare.ops import moving
from daycare.ops.doctor.database import moved
from daycare.ops.moving import MoveReport, MoveRequest
from daycare.store.home import Home, HomeLock
from daycare.store.moving import file_side, server_side
from daycare.store.moving.copier import Copier
from daycare.store.sqlite import database
from tests import chance, postgres, program
from tests.backup.samples import sample
from tests.cli.conftest import wait_until_it_works
from tests.exports import houses
from tests.exports.houses import house_at
from tests.moves import stores
from tests.store.samples import HandClock, post

MESSAGES = 300
FILE, MOVED = "daycare.db", "moved.db"


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with rows in every table, to be copied."""
    file = tmp_path_factory.mktemp("whole") / "whole.db"
    stores.build(file, MESSAGES, chance.SEED)
    return file


@pytest.fixture
def home(tmp_path: Path, whole: Path) -> Home:
    found = Home(tmp_path / "home")
    found.prepare()
    shutil.copy(whole, found.path / FILE)
    return found


@pytest.fixture
def server() -> Iterator[str]:
    yield postgres.empty_database()


@pytest.fixture
def short_home() -> Iterator[Path]:
    """A short path, as that of a socket has to be."""
    with tempfile.TemporaryDirectory(prefix="dc-") as folder:
        yield Path(folder)


def move(home: Home, to: str, **more: Any) -> MoveReport:
    return moving.move(home, MoveRequest(to=to, switch=True, **more), stop=lambda: False)


def refused(what: Callable[[], object], kind: type[DaycareError], code: str) -> DaycareError:
    with pytest.raises(kind) as error:
        what()
    assert error.value.code == code
    assert error.value.hint
    return error.value


def opened(location: str) -> None:
    async def once() -> None:
        async with open_store(location, HandClock(), inline=True) as store:
            await post(store, "opened")

    trio.run(once)


def statement(file: Path, sql: str) -> None:
    with closing(apsw.Connection(str(file))) as db:
        db.execute(sql).fetchall()


# -- equal -------------------------------------------------------------------------------------------------------------


def test_every_row_of_every_table_is_the_same_there_and_back_and_so_is_what_searches_find(
    home: Home, whole: Path, server: str, tmp_path: Path
) -> None:
    rows = stores.everything(str(whole))
    assert [name for name, found in rows.items() if not found] == ["forgetting"]
    there = move(home, server)
    assert stores.everything(server) == rows
    back = move(home, MOVED)
    assert stores.everything(str(home.path / MOVED)) == rows
    assert [(it.rows, it.sha256) for it in there.tables] == [(it.rows, it.sha256) for it in back.tables]
    assert {it.table: it.rows for it in there.tables} == {name: len(found) for name, found in rows.items()}
    (asked := tmp_path / "asked.db").write_bytes(whole.read_bytes())
    answers = stores.answers(str(asked))
    assert sum(bool(each) for each in answers) >= len(stores.WORDS)
    assert stores.answers(str(home.path / MOVED)) == answers
    home.config.write_text(f'[store]\nlocation = "{server}"\n')
    moving.undo(home)
    assert stores.answers(server) == answers


def test_the_indexes_of_words_are_as_if_made_by_the_store_itself(home: Home, server: str) -> None:
    move(home, server)
    move(home, MOVED)
    with closing(apsw.Connection(str(home.path / MOVED))) as db:
        for index, rank in (("documents_text", 1), ("memory_words", 0)):
            db.execute(f"INSERT INTO {index} ({index}, rank) VALUES ('integrity-check', ?)", (rank and 0,)).fetchall()
        words = "SELECT count(*) FROM memory_words WHERE memory_words MATCH ?"
        [(scope,)] = db.execute("SELECT no FROM memory_scopes WHERE scope = 'u1'").fetchall()
        assert db.execute(words, (f'"{scope}:time"',)).get == len(
            [1 for (text,) in db.execute("SELECT text FROM memories WHERE text IS NOT NULL").fetchall()
             if {"time", "times", "timing", "timed"} & set(str(text).lower().split())]
        )  # fmt: skip


async def test_new_numbers_go_on_behind_the_largest(home: Home, server: str) -> None:
    await trio.to_thread.run_sync(move, home, server)
    last = max(row[0] for row in stores.everything(server)["inbox"])
    async with open_store(server, HandClock(), inline=True) as store:
        assert (await post(store, "new")).seq == last + 1
    await trio.to_thread.run_sync(move, home, MOVED)
    async with open_store(str(home.path / MOVED), HandClock(), inline=True) as store:
        assert (await post(store, "newer")).seq == last + 2


async def test_an_agent_that_was_exported_from_one_engine_is_the_same_on_the_other(
    tmp_path: Path, server: str, autojump_clock: object
) -> None:
    there = "/bob/agent/second"
    async with house_at(tmp_path / "here") as house:
        await houses.lived(house)
        report, data = await houses.exported(house)
    async with house_at(tmp_path / "there", server) as house:
        imported = await houses.imported(house, data, there)
        _, again = await houses.exported(house, there)
    assert imported.taken == report.taken
    assert houses.records(again) == houses.as_it_should_be(data, there)
    async with house_at(tmp_path / "back") as house:
        await houses.imported(house, again, there)
        _, back = await houses.exported(house, there)
    assert houses.records(back) == houses.records(again)
    assert houses.files(back) == houses.files(data)


# -- while the daemon works --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("there", [True, False], ids=["to a server", "to a file"])
def test_what_changes_while_it_is_copied_comes_with_the_last_step(home: Home, server: str, there: bool) -> None:
    if not there:
        move(home, server)
    source, target = (str(home.path / FILE), server) if there else (server, str(home.path / MOVED))
    random = Random(chance.SEED)

    async def works() -> None:
        async with open_store(source, HandClock(), inline=True) as store:
            await stores.change(store, random, documents=30, posts=40)

    trio.run(works)
    with HomeLock(home) as lock:
        lock.acquire("run", 1)

        def stop() -> bool:
            trio.run(works)  # it still works when it is asked
            lock.release()
            return True

        report = moving.move(home, MoveRequest(to=target if there else MOVED), stop=stop)
    assert report.early > MESSAGES
    assert 0 < report.late < report.early
    assert report.stopped_s is not None
    rows = stores.everything(source)
    assert stores.everything(target) == rows
    home.config.write_text(f'[store]\nlocation = "{source}"\n')
    moving.undo(home)
    assert stores.answers(source) == stores.answers(target)


def test_a_daemon_that_is_not_to_be_stopped_goes_on_and_nothing_is_lost(home: Home, server: str) -> None:
    with HomeLock(home) as lock:
        lock.acquire("run", 1)
        error = refused(lambda: move(home, server), BusyError, "MOVE_WAITS")
    assert "--stop" in error.hint
    opened(str(home.path / FILE))
    assert move(home, server).late < MESSAGES, "what was copied stays"
    assert ("opened",) in [row[2:3] for row in stores.everything(server)["inbox"]]


def test_another_program_that_writes_meanwhile_is_noticed(
    home: Home, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle = Copier.settle

    def settled(self: Copier) -> object:
        found = settle(self)
        statement(home.path / FILE, "INSERT INTO budgets VALUES ('/x', '{}', '{}', 'ann', 1)")
        return found

    monkeypatch.setattr(Copier, "settle", settled)
    refused(lambda: move(home, server), BusyError, "MOVE_CHANGED")
    monkeypatch.undo()
    assert move(home, server).late == 1


def test_a_server_that_a_daemon_works_on_is_not_left(home: Home, server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    move(home, server)
    monkeypatch.setattr(server_side, "OWNER_GONE_S", 0.1)

    async def works() -> None:
        async with open_store(server, HandClock(), inline=True):
            refused(lambda: move(home, MOVED), StoreAwayError, "STORE_IN_USE")

    trio.run(works)
    move(home, MOVED)


# -- cut off -----------------------------------------------------------------------------------------------------------


class CutOff(BaseException):
    """A move ends here, as by a kill."""


STEPS = ("begin", "put", "drop", "complete", "leave", "finish", "set_note")
CUTS = [(step, behind, there) for step in STEPS for behind in (False, True) for there in (True, False)]


@pytest.mark.parametrize(("step", "behind", "there"), chance.sliced(CUTS, 4))
def test_cut_off_at_any_step_one_of_the_two_opens_at_most_and_a_repeat_ends_it(
    home: Home, server: str, monkeypatch: pytest.MonkeyPatch, step: str, behind: bool, there: bool
) -> None:
    if not there:
        move(home, server)
    source, target = (str(home.path / FILE), server) if there else (server, str(home.path / MOVED))

    def cut(self: Any, *given: Any) -> None:
        if behind:
            steps[type(self)](self, *given)
        raise CutOff

    sides = (file_side.FileSide, server_side.ServerSide)
    steps = {side: getattr(side, step) for side in sides}
    for side in sides:
        monkeypatch.setattr(side, step, cut)
    try:
        move(home, target if there else MOVED)
    except CutOff:
        were = rows_of(source), rows_of(target)
        opens = opened_of(source, target)
        assert target not in opens or were[0] == were[1]
    else:
        assert step == "drop", "nothing had to go"
        opens = []
    monkeypatch.undo()
    rows = rows_of(target if target in opens else source)  # as a daemon left it that was started on it
    if _named(home) != target:
        move(home, target if there else MOVED)
    assert stores.everything(target) == rows
    refused(lambda: opened(source), DaycareError, "STORE_MOVED")
    opened(target)


def _named(home: Home) -> str:
    return home.database(load(home.path).store.location)


def rows_of(location: str) -> stores.Everything:
    try:
        return stores.everything(location)
    except (DaycareError, apsw.Error):
        return {}  # it is not there yet


def opened_of(source: str, target: str) -> list[str]:
    """Return those of two stores that a daemon opens: one at most, and none that has a part of the rows."""
    found = []
    for location in (source, target):
        if sum(map(len, rows_of(location).values())) < MESSAGES:
            continue  # nothing has come yet
        try:
            trio.run(_looks, location)
            found.append(location)
        except DaycareError as error:
            assert error.code in ("STORE_HALF_MOVED", "STORE_MOVED")
            assert "\n" not in error.message
    assert len(found) <= 1
    return found


async def _looks(location: str) -> None:
    async with open_store(location, HandClock(), inline=True):
        pass


def test_half_a_store_is_opened_by_nobody_and_says_what_to_do(
    home: Home, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for to, location in ((server, server), (MOVED, str(home.path / MOVED))):
        monkeypatch.setattr(Copier, "settle", _cut_off)
        with pytest.raises(CutOff):
            move(home, to)
        error = refused(partial(opened, location), DaycareError, "STORE_HALF_MOVED")
        assert str(home.path / FILE) in error.message
        assert "daycare migrate-store --to" in error.hint
        monkeypatch.undo()
    home.config.write_text(f'[store]\nlocation = "{MOVED}"\n')
    refused(lambda: move(home, server), ConflictError, "MOVE_OF_A_HALF")


def _cut_off(*_: object) -> None:
    raise CutOff


def test_moves_that_are_killed_go_on_from_where_they_were() -> None:
    command = [sys.executable, "-m", "tests.moves", "--kills", "4", "--messages", "100", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["kills"] >= 4
    assert found["moves"] >= 2


# -- refused -----------------------------------------------------------------------------------------------------------


def test_who_starts_the_old_one_by_accident_learns_where_all_is_and_how_to_go_back(home: Home, server: str) -> None:
    move(home, server)
    error = refused(lambda: opened(str(home.path / FILE)), DaycareError, "STORE_MOVED")
    assert server.partition(":@")[2] in error.message
    assert "--undo" in error.hint
    refused(lambda: moving.undo(home), ConflictError, "MOVE_NONE")
    home.config.write_text(f'[store]\nlocation = "{FILE}"\n')
    refused(lambda: move(home, MOVED), ConflictError, "STORE_MOVED")
    assert moving.undo(home).location == str(home.path / FILE)
    opened(str(home.path / FILE))


def test_the_doctor_says_of_a_store_that_it_was_moved(home: Home, server: str) -> None:
    move(home, server)
    [found] = moved(str(home.path / FILE))
    assert (found.level, found.about) == ("fail", "moved")
    assert not list(moved(server))


def test_a_target_with_rows_of_its_own_is_not_touched(home: Home, server: str) -> None:
    opened(server)
    database.open_writer(str(home.path / MOVED)).close()  # a file, wherever else tests look for stores
    opened(str(home.path / MOVED))
    before = stores.everything(server), stores.everything(str(home.path / MOVED))
    for to in (server, MOVED):
        refused(partial(move, home, to), ConflictError, "MOVE_TARGET_TAKEN")
    assert (stores.everything(server), stores.everything(str(home.path / MOVED))) == before
    opened(str(home.path / FILE))


def test_a_target_in_which_only_the_schema_is_will_do(home: Home, server: str) -> None:
    async def empty() -> None:
        async with open_store(server, HandClock(), inline=True):
            pass

    trio.run(empty)
    move(home, server)


def test_a_target_that_a_kill_left_without_a_schema_is_gone_on_with(home: Home, server: str) -> None:
    """A file is made before its schema; the kill may come between."""
    before = stores.everything(str(home.path / FILE))
    move(home, server)
    (home.path / MOVED).touch()
    move(home, MOVED)
    assert stores.everything(str(home.path / MOVED)) == before


def test_a_file_without_a_log_of_commits_as_a_restore_leaves_it_is_moved_at_once(home: Home, server: str) -> None:
    file = home.path / "daycare.db"
    statement(file, "PRAGMA journal_mode = DELETE")
    before = stores.everything(str(file))
    move(home, server)
    assert stores.everything(server) == before


def test_a_file_that_was_left_before_is_put_aside_and_not_written_over(home: Home, server: str) -> None:
    before = stores.everything(str(home.path / FILE))
    move(home, server)
    opened(server)
    report = move(home, moving.DEFAULT)
    assert stores.everything(report.aside) == before
    assert len(stores.everything(str(home.path / FILE))["inbox"]) == len(before["inbox"]) + 1


def test_a_nul_character_is_found_before_anything_is_written(home: Home, server: str) -> None:
    statement(home.path / FILE, "UPDATE inbox SET text = 'a' || char(0) || 'b' WHERE seq IN (3, 7)")
    statement(home.path / FILE, "UPDATE agents SET reason = char(0) WHERE kind = 'agent'")
    found = moving.move(home, MoveRequest(to=server, dry_run=True), stop=lambda: False).unfit
    assert [(it.table, it.column) for it in found] == [("agents", "reason"), ("inbox", "text"), ("inbox", "text")]
    assert [it.key for it in found[1:]] == [{"seq": 3}, {"seq": 7}]
    error = refused(lambda: move(home, server), InvalidError, "TEXT_NUL")
    assert "agents" in error.message
    with pytest.raises(DaycareError):
        stores.everything(server)
    move(home, server, replace_nul=True)
    rows = {row[0]: row for row in stores.everything(server)["inbox"]}
    assert "a\u2400b" in rows[3]


def test_a_file_keeps_nul_characters(home: Home) -> None:
    statement(home.path / FILE, "UPDATE inbox SET text = 'a' || char(0) || 'b' WHERE seq = 3")
    rows = stores.everything(str(home.path / FILE))
    move(home, MOVED)
    assert stores.everything(str(home.path / MOVED)) == rows


def test_a_value_of_another_type_is_told_with_its_row(home: Home, server: str) -> None:
    statement(home.path / FILE, "UPDATE inbox SET attempts = 1.5 WHERE seq = 3")
    error = refused(lambda: move(home, server), DaycareError, "MOVE_UNFIT")
    assert "{'seq': 3} of inbox" in error.message
    assert "attempts" in error.message


def test_what_cannot_come_to_its_end_is_refused_before_anything_is_written(
    home: Home, server: str, tmp_path: Path
) -> None:
    refused(lambda: move(home, FILE), InvalidError, "MOVE_SAME")
    refused(lambda: move(home, "mysql://there"), InvalidError, "USAGE")
    refused(lambda: move(home, "memory:"), InvalidError, "STORE_IN_MEMORY")
    error = refused(lambda: move(home, "postgresql://ann:secret@there/db"), InvalidError, "USAGE")
    assert "secret" not in str(error)
    refused(lambda: file_side.refuse_no_room(str(tmp_path / "x.db"), 2**60), UnavailableError, "MOVE_NO_ROOM")
    older = Home(tmp_path / "older")
    older.prepare()
    sample(older.path / FILE, database.migrations()[-1][0] - 1)
    refused(lambda: move(older, server), ConflictError, "MOVE_OLD_SCHEMA")
    with pytest.raises(DaycareError):
        stores.everything(server)


def test_a_database_of_another_encoding_is_refused(home: Home) -> None:
    refused(lambda: move(home, postgres.empty_database("SQL_ASCII")), DaycareError, "STORE_ENCODING")


def test_a_dry_run_writes_nothing(home: Home, server: str) -> None:
    before = home.path.joinpath(FILE).read_bytes()
    report = moving.move(home, MoveRequest(to=server, dry_run=True), stop=lambda: False)
    assert report.rows == sum(map(len, stores.everything(str(home.path / FILE)).values()))
    assert home.path.joinpath(FILE).read_bytes() == before
    with pytest.raises(DaycareError):
        stores.everything(server)


# -- as a person does it -----------------------------------------------------------------------------------------------


def test_a_daemon_that_was_moved_there_and_back_answers_and_remembers(server: str, short_home: Path) -> None:
    environment = {
        name: value for name, value in os.environ.items() if name in ("PATH", "PYTHONPATH", "VIRTUAL_ENV")
    } | {"DAYCARE_HOME": str(short_home), "TZ": "UTC", "LANG": "C.UTF-8", "HOME": str(short_home)}

    def daycare(*arguments: str) -> str:
        done = program.call(arguments, env=environment, deadline_s=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    daycare("init", "--yes", "--user-name", "Ann", "--model", "offline", "--embedder", "none")
    for number, to in enumerate((server, "sqlite", "")):
        with program.start(["run"], env=environment) as running:
            wait_until_it_works(short_home)
            daycare("send", "--wait", f"the kettle number {number} is green")
            said = daycare("memory", "search", "kettle")
            assert all(f"the kettle number {earlier} is green" in said for earlier in range(number)), said
            if to:
                report = json.loads(daycare("migrate-store", "--to", to, "--stop", "--switch", "--json"))
                assert report["stopped_s"] is not None
                assert report["switched"]
            else:
                running.send_signal(signal.SIGTERM)
            running.wait(30)
