"""What the store keeps counted and summed, beside what it is when it is counted now, by the SQL of the migrations."""

import apsw

from daycare.store.sqlite.database import migrations
from daycare.store.sqlite.store import Store

_TABLES = {  # table: (migrations, its order, what follows the statement that fills it)
    "budget_sums": (["budget_sums"], "key, path, part", "CREATE INDEX"),
    "counts": (["counts", "files_in_a_bucket"], "name", "CREATE TRIGGER"),
    "model_sums": (["model_sums"], "key, provider, model", ";"),
}


def filling(table: str) -> str:
    """Return the SQL that fills a table of counts or sums from what there is."""
    names, _, end = _TABLES[table]
    texts = [sql for _, name, sql in migrations() if name in names]
    assert len(texts) == len(names)
    begins = [sql.index(f"INSERT INTO {table}") for sql in texts]
    return "".join(sql[begin : sql.index(end, begin)] for sql, begin in zip(texts, begins, strict=True))


def counted_again(db: apsw.Connection, table: str) -> tuple[list[object], list[object]]:
    """Return the rows of a table of counts or sums as they are, and as its migration would make them."""
    _, order, _ = _TABLES[table]
    kept = db.execute(f"SELECT * FROM {table} ORDER BY {order}").fetchall()
    db.execute(f"BEGIN; DELETE FROM {table}").fetchall()
    try:
        db.execute(filling(table)).fetchall()
        return list(kept), list(db.execute(f"SELECT * FROM {table} ORDER BY {order}").fetchall())
    finally:
        db.execute("ROLLBACK")


def check(store: Store) -> None:
    """Fail where a count or a sum is not what it should be."""
    for table in _TABLES:
        kept, made = counted_again(store._db, table)
        assert kept == made, table
    [(unread,)] = store._db.execute("SELECT count(*) FROM inbox WHERE state = 0")
    assert store._writer.memory.unread == unread
    models = store._db.execute(
        "SELECT no, vectors, (SELECT coalesce(sum(e.vectors), 0) FROM memory_embedded e WHERE e.model = no)"
        " FROM memory_models"
    )
    for model, kept_, counted in models:
        assert kept_ == counted, f"vectors of model {model}"
