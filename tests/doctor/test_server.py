"""A store on a server is looked at from outside as one in a file is: by doctor, its report, and a set-up."""

from pathlib import Path

import msgspec
import pytest

from daycare import features
from daycare.ops import moving, planning, probing
from daycare.ops.doctor.context import DoctorContext
from daycare.store.home import Home
from daycare.store.looking import operators_in, tokens_in
from daycare.store.moving.tables import moved_tables
from daycare.store.sqlite.inspection import inspect, tables_in, words_in
from tests import chance, postgres
from tests.doctor.looking import add_job, look, now_ms, store_secret
from tests.doctor.test_bundle import pack
from tests.moves import stores

_OF_A_FILE = ("bytes", "free_bytes", "log_bytes")
_ROWS_MAX = 10_000


@pytest.fixture
def both(home: Home) -> tuple[str, str]:
    """A home with rows in every table, which has moved to a server: the file that it left, and where it is now."""
    file, server = home.path / "daycare.db", postgres.empty_database()
    operator = operators_in(str(file))
    file.unlink()
    stores.build(file, 30, chance.SEED)
    store_secret(home, "telegram", "1:abc")
    add_job(home, "/ann/cron/news", '{"cron": "0 9 * * *", "prompt": "news"}', next_at=now_ms() + 60_000)
    add_job(home, "/ann/cron/broken", '{"cron": 7}')
    assert operator, "there was one in the home as it was set up"
    moving.move(home, moving.MoveRequest(to=server, switch=True), stop=lambda: False)
    return str(file), server


def test_what_a_look_finds_is_the_same_in_a_file_and_on_a_server(both: tuple[str, str]) -> None:
    file, server = both
    now = now_ms()
    of_file, of_server = inspect(file, now, features.rows()), inspect(server, now, features.rows())
    assert of_file is not None and of_server is not None
    shown = [
        {name: value for name, value in msgspec.structs.asdict(each).items() if name not in _OF_A_FILE}
        for each in (of_file, of_server)
    ]
    assert shown[0] == shown[1] and of_server.bytes > 0 and len(of_server.jobs) >= 2
    assert words_in(server, _ROWS_MAX) == words_in(file, _ROWS_MAX)
    assert tokens_in(server) == tokens_in(file) != {}
    assert operators_in(server) == operators_in(file)
    schema, counts = tables_in(server, 60.0)
    _, counts_of_file = tables_in(file, 60.0)
    names = [table.name for table in moved_tables()]
    assert {name: counts[name] for name in names} == {name: counts_of_file[name] for name in names}
    assert "CREATE TABLE inbox (seq bigint," in schema


def test_doctor_tells_of_keys_and_jobs_that_are_on_a_server(both: tuple[str, str], home: Home, tmp_path: Path) -> None:
    found = [(each.level, each.about, each.message) for each in look(home, "keys", "cron", "database", offline=True)]
    assert any(level == "fail" and "/ann/cron/broken" in told for level, _, told in found), found
    assert any(about == "keys" and "secrets-name-1 does not open" in told for _, about, told in found), found
    assert DoctorContext.of(home, now_ms(), offline=True).closed == ""
    _, report = pack(home, tmp_path / "report.tar.gz")
    assert '"inbox": 3' in report["tables.json"] and "CREATE TABLE inbox" in report["schema.sql"]


def test_a_set_up_sees_who_and_what_is_on_a_server(both: tuple[str, str], home: Home) -> None:
    present = planning.look(home.path)
    assert "telegram" in present.stored
    assert present.owner == next(iter(operators_in(both[0])), None)
    assert probing.StoredSecrets(home.path, present.config).value("telegram") == "1:abc"


def test_a_server_on_which_nothing_was_made_yet_has_nothing(home: Home) -> None:
    server = postgres.empty_database()
    assert tokens_in(server) == {} and operators_in(server) == []
    assert inspect(server, now_ms(), features.rows()) is None
    assert tables_in(server, 1.0) == ("", {})
