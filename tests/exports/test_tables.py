"""Whoever adds a table says what an export does with it."""

import apsw

from daycare.features import rows
from daycare.features.exports.archive import PARTS
from daycare.features.exports.rows_tables import LEFT_OUT, TAKEN
from daycare.store.sqlite.database import migrate

DECLARED = [*LEFT_OUT, *(table for each in rows() for table in each.tables)]

SOMEBODYS = {"agent_id", "agent", "path", "user", "owner", "scope", "root", "layer"}  # columns that say whose a row is


def somebodys() -> set[str]:
    db = apsw.Connection(":memory:")
    migrate(db, ":memory:")
    virtual = {name for (name,) in db.execute("SELECT name FROM pragma_table_list WHERE type IN ('virtual', 'shadow')")}
    rows = db.execute(
        "SELECT t.name, c.name FROM pragma_table_list t, pragma_table_info(t.name) c WHERE t.type = 'table'"
    )
    return {str(table) for table, column in rows if column in SOMEBODYS} - virtual


def test_each_table_of_somebodys_is_exported_or_left_out_with_a_reason() -> None:
    known = TAKEN.keys() | {table.name for table in DECLARED}
    missing = somebodys() - known
    assert not missing, f"{missing}: say in exports/rows_tables.py, or beside its rows, if an export takes them"


def test_no_table_is_named_twice_and_each_is_there() -> None:
    named = [*TAKEN, *(table.name for table in DECLARED)]
    assert len(named) == len(set(named))
    db = apsw.Connection(":memory:")
    migrate(db, ":memory:")
    tables = {str(name) for (name,) in db.execute("SELECT name FROM pragma_table_list WHERE type = 'table'")}
    assert set(named) <= tables


def test_each_taken_table_has_a_kind_of_record_and_each_kind_a_table() -> None:
    tags = {*TAKEN.values(), *(table.exported for table in DECLARED if table.exported)}
    assert tags == {str(kind.__struct_config__.tag) for kind in PARTS.values()}


def test_the_queries_that_count_can_be_run() -> None:
    db = apsw.Connection(":memory:")
    migrate(db, ":memory:")
    db.execute("CREATE TEMP TABLE exported (place INTEGER, id TEXT, path TEXT)")
    for left in [table for table in DECLARED if not (table.exported or table.again)]:
        assert left.why
        assert bool(left.query) == bool(left.what), left.why
        if left.query:
            assert db.execute(left.query).fetchall() == [(0,)]
