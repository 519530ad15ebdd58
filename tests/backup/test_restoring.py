"""A restored home is the one that was backed up, and nothing that was there is lost."""

import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw
import pytest
import trio
import trio.testing

from daycare.base.cron import CronSpec
from daycare.base.errors import BrokenError, BusyError, ConflictError, NotFoundError
from daycare.config import load
from daycare.features import open_store
from daycare.features.backups import restoring
from daycare.features.backups.cli import locked
from daycare.features.backups.half import refuse_half
from daycare.process import open_daemon
from daycare.store.home import Home, HomeLock
from daycare.store.records import Reply, User
from daycare.store.sqlite import copies
from daycare.store.sqlite.database import migrations
from daycare.testing.clock import EPOCH_MS, VirtualClock, patient_clock
from daycare.testing.daemon import open_daemon as open_test_daemon
from tests.backup.homes import WORDS, Death, dies, home_at, make, numbers, rows, tree
from tests.store.samples import begin, post

NOW_MS = 1_800_000_500_000


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return home_at(tmp_path / "home")


@pytest.fixture
def file(home: Home, tmp_path: Path) -> Path:
    make(home, tmp_path / "b")
    return tmp_path / "b"


def empty(folder: Path) -> Home:
    home = Home(folder)
    home.prepare()
    return home


def test_a_restored_home_has_what_was_backed_up(home: Home, file: Path, tmp_path: Path) -> None:
    new = empty(tmp_path / "new")
    done = restoring.restore(file, new, str, force=False, now_ms=NOW_MS)
    before, after = tree(home.path), tree(new.path)
    for name in ("daycare.key", "daycare.log"):
        del before[name]
    assert set(after) == set(before) and all(after[name] == before[name] for name in after if name != "daycare.db")
    sql = "SELECT key, path, text FROM inbox ORDER BY seq"
    assert rows(new.path / "daycare.db", sql) == rows(home.path / "daycare.db", sql)
    assert (done.aside, done.keys, done.problem) == (None, (), "")
    assert copies.restored_in(str(new.path / "daycare.db")) == copies.Restored(
        source=str(file), made_at=1_800_000_000_000, restored_at=NOW_MS
    )


def test_a_dry_run_changes_nothing_and_tells_what_is_in_it(file: Path, tmp_path: Path) -> None:
    new = Home(tmp_path / "nowhere")
    told = restoring.look(file, new, str)
    assert told.manifest.counts["messages"] == 3 and told.dry_run
    assert not new.path.exists()


def test_a_home_with_data_is_refused_and_with_force_put_aside(home: Home, file: Path, tmp_path: Path) -> None:
    shutil.rmtree(home.memory)
    home.cron.joinpath("newer.md").write_text("newer")
    before = tree(home.path)
    with pytest.raises(ConflictError, match=r"there is config\.toml, daycare\.db") as refused:
        restoring.restore(file, home, str, force=False, now_ms=NOW_MS)
    assert "--force" in refused.value.hint and tree(home.path) == before
    done = restoring.restore(file, home, str, force=True, now_ms=NOW_MS)
    assert done.aside is not None
    aside = tree(Path(done.aside))
    assert aside == {name: data for name, data in before.items() if name not in ("daycare.key", "daycare.log")}
    assert home.key_file.read_text() == "a key\n", "a key that is there stays: it may be the right one"
    assert not home.cron.joinpath("newer.md").exists() and home.memory.joinpath("users/ann/USER.md").exists()


def test_a_kill_at_any_step_is_no_half_home_a_daemon_would_start_on(
    home: Home, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    died = 0
    old = home_at(tmp_path / "old", messages=1)
    for n in numbers():
        new = Home(Path(shutil.copytree(old.path, tmp_path / f"new{n}")))

        def attempt(new: Home = new, n: int = n) -> None:
            death = Death(n)
            for name in ("rename", "replace", "unlink", "rmdir"):
                monkeypatch.setattr(Path, name, _dying(getattr(Path, name), death))
            restoring.restore(file, new, str, force=True, now_ms=NOW_MS)

        if not dies(attempt):
            break
        died += 1
        messages = len(rows(new.path / "daycare.db", "SELECT 1 FROM inbox"))
        assert messages in (1, 3), "at every moment there is a whole database"
        try:
            refuse_half(new)
        except BrokenError as half:
            assert f"daycare restore {file} --force" in half.hint
        else:
            whole = {messages, 3 if new.config.exists() else 0}
            assert whole in ({1, 3}, {3}), "nothing was touched yet, or all is done"
        restoring.restore(file, new, str, force=True, now_ms=NOW_MS)
        refuse_half(new)
        assert len(rows(new.path / "daycare.db", "SELECT 1 FROM inbox")) == 3
        kept = [
            path for path in new.path.glob("before-restore-*/daycare.db") if len(rows(path, "SELECT 1 FROM inbox")) == 1
        ]
        assert kept, "what was there before is kept, however often it is tried"
    assert died >= 6


def _dying(real: Callable[..., object], death: Death) -> Callable[..., object]:
    def call(self: Path, *arguments: object, **more: object) -> object:
        death()
        return real(self, *arguments, **more)

    return call


def test_a_log_of_commits_that_is_left_is_not_read_into_the_restored_database(
    home: Home, file: Path, tmp_path: Path
) -> None:
    new = home_at(tmp_path / "new", messages=1)
    assert dies(lambda: _write_and_die(new))
    assert (new.path / "daycare.db-wal").stat().st_size > 0
    done = restoring.restore(file, new, str, force=True, now_ms=NOW_MS)
    assert not (new.path / "daycare.db-wal").exists()
    assert rows(new.path / "daycare.db", "SELECT count(*) FROM events") == [(0,)]
    assert rows(Path(str(done.aside)) / "daycare.db", "SELECT count(*) FROM events") == [(1,)]


def _write_and_die(home: Home) -> None:
    db = apsw.Connection(str(home.path / "daycare.db"))
    db.execute("PRAGMA journal_mode = WAL").fetchall()
    db.execute("INSERT INTO events (at, user, origin, path, trace, event) VALUES (0, '', '', '', '', '')")
    Death(1)()


async def test_what_a_restore_takes_away_is_no_loss(home: Home, file: Path) -> None:
    async with open_store(home.database("daycare.db")) as store:
        await post(store, "later")
    restoring.restore(file, home, str, force=True, now_ms=NOW_MS)
    async with open_store(home.database("daycare.db")) as store:
        assert await store.inbox.counts() == {"waiting": 3}
        assert store.lost is None


def test_a_damaged_database_is_put_aside_as_it_is(home: Home, file: Path) -> None:
    (home.path / "daycare.db").write_bytes(b"damaged" * 1_000)
    done = restoring.restore(file, home, str, force=True, now_ms=NOW_MS)
    assert (Path(str(done.aside)) / "daycare.db").read_bytes() == b"damaged" * 1_000
    assert len(rows(home.path / "daycare.db", "SELECT 1 FROM inbox")) == 3


async def test_replies_that_waited_may_come_twice_and_say_so(tmp_path: Path) -> None:
    home = empty(tmp_path / "home")
    async with open_store(home.database("daycare.db")) as store:
        agent, _, _ = await begin(store, "k")
        for number in range(4):
            await store.outbox.add(agent, Reply(connector="telegram", text=f"r{number}"), "t")
        await store.outbox.start(1)
        await store.outbox.sent([3], "receipt")
        await store.outbox.give_up(4, "BLOCKED", "gone", untouched=True)
    make(home, tmp_path / "b")
    new = empty(tmp_path / "new")
    done = restoring.restore(tmp_path / "b", new, str, force=False, now_ms=NOW_MS)
    assert done.replies == 2
    async with open_store(new.database("daycare.db")) as store:
        assert [(row.seq, row.state) for row in await store.outbox.waiting("telegram")] == [
            (1, "sending"),
            (2, "sending"),
        ]
        [dead] = await store.dead.find()
        assert await store.dead.replay(dead.no) == 5
        assert (await store.outbox.waiting("telegram"))[-1].state == "sending", "it may have been replayed before"


def test_secrets_that_nothing_opens_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daycare.features.exports.sealed._N", 2**10)  # a guess may be cheap here
    home = home_at(tmp_path / "home")

    async def keep() -> None:
        async with open_store(home.database("daycare.db")) as store:
            await store.secrets.put("telegram", "ann", b"\0")

    trio.run(keep)
    make(home, tmp_path / "b")
    make(home, tmp_path / "sealed", with_key=True, passphrase=WORDS)
    plain, sealed = empty(tmp_path / "plain"), empty(tmp_path / "other")
    assert restoring.restore(tmp_path / "b", plain, str, force=False, now_ms=1).keys == ("telegram",)
    done = restoring.restore(tmp_path / "sealed", sealed, lambda: WORDS, force=False, now_ms=1)
    assert done.keys == () and sealed.key_file.read_text() == "a key\n"


def test_a_backup_of_a_newer_daycare_is_refused(tmp_path: Path) -> None:
    home = home_at(tmp_path / "home")
    newest = migrations()[-1][0]
    with closing(apsw.Connection(str(home.path / "daycare.db"))) as db:
        db.execute(f"PRAGMA user_version = {newest + 1}")
    make(home, tmp_path / "b")
    for attempt in (restoring.look, lambda *of: restoring.restore(*of, force=False, now_ms=1)):
        with pytest.raises(BrokenError, match=f"number {newest + 1}, this daycare knows up to {newest}"):
            attempt(tmp_path / "b", empty(tmp_path / "new"), str)


def test_a_backup_writes_outside_of_its_target_only_where_the_targets_own_settings_say_so(tmp_path: Path) -> None:
    home = home_at(tmp_path / "home")
    elsewhere = tmp_path / "elsewhere" / "x.db"
    home.config.write_text(f'[store]\nlocation = "{elsewhere}"\n')
    make(home, tmp_path / "b")
    new = empty(tmp_path / "new")
    for there in (False, True):
        for force in (False, True):
            with pytest.raises(ConflictError, match="outside of it"):
                restoring.restore(tmp_path / "b", new, str, force=force, now_ms=1)
            assert elsewhere.exists() == there
        elsewhere.parent.mkdir(exist_ok=True)
        elsewhere.write_bytes(b"in use")
    assert elsewhere.read_bytes() == b"in use"
    elsewhere.unlink()
    new.config.write_text(f'[store]\nlocation = "{elsewhere}"\n')
    restoring.restore(tmp_path / "b", new, str, force=True, now_ms=1)
    assert len(rows(elsewhere, "SELECT 1 FROM inbox")) == 3


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        restoring.look(tmp_path / "nothing", Home(tmp_path), str)


def test_a_daemon_over_a_restored_home_tells_of_it(home: Home, file: Path, tmp_path: Path) -> None:
    new = empty(tmp_path / "new")
    with closing(apsw.Connection(str(home.path / "daycare.db"))):
        pass
    restoring.restore(file, new, str, force=False, now_ms=NOW_MS)
    new.config.write_text("")
    (new.path / "daycare.key").unlink(missing_ok=True)

    async def status() -> object:
        async with open_store(new.database("daycare.db")) as store:
            await store.people.add(User(id="ann", name="Ann", operator=True))
        async with open_daemon(new, load(new.path), mode="run") as daemon:
            return (await daemon.status())["backup"]["restored"]

    told = trio.run(status)
    assert isinstance(told, copies.Restored) and told.restored_at == NOW_MS


def test_the_lock_of_a_home_keeps_commands_out(home: Home) -> None:
    with HomeLock(home) as lock:
        lock.acquire("run", 1)
        with pytest.raises(BusyError, match=r"restore: .* is in use") as refused, locked(home, "restore"):
            pass
        assert "daycare stop" in refused.value.hint


def test_jobs_of_a_home_that_is_restored_ten_days_later_catch_up_by_their_own_rule_once(tmp_path: Path) -> None:
    home = empty(tmp_path / "home")

    async def before() -> None:
        async with open_test_daemon(home.path, location="daycare.db") as house:
            spec = CronSpec(cron="0 * * * *", prompt="look around", misfire="run_once")
            await house.daemon.cron.controls.add("ann", "look", spec, source="cli")
            await trio.sleep(7_300)

    async def after() -> None:
        later = EPOCH_MS + 10 * 86_400_000 + 60_000
        async with open_test_daemon(new.path, location="daycare.db", clock=VirtualClock(later)) as house:
            await trio.sleep(1_800)
            assert (await house.store.inbox.counts())["waiting"] == 0

    trio.run(before, clock=patient_clock())
    ran = "SELECT count(*) FROM cron_runs WHERE state IN ('ran', 'late')"
    assert rows(home.path / "daycare.db", ran) == [(2,)]
    make(home, tmp_path / "b")
    new = empty(tmp_path / "new")
    restoring.restore(tmp_path / "b", new, str, force=False, now_ms=NOW_MS)
    trio.run(after, clock=patient_clock())
    assert rows(new.path / "daycare.db", ran) == [(3,)], "one for all that were missed"
