"""The words of documents, as rows of documents come and go one by one."""

from collections.abc import Sequence
from typing import Any, Final

import apsw

from daycare.features.memory.documents.stored import AT
from daycare.features.memory.documents.versions import WHOLE
from daycare.store.sqlite.rows import WordIndex
from daycare.store.sqlite.sql import fetch, those


def _living_come(db: apsw.Connection, places: Sequence[tuple[Any, ...]]) -> None:
    for place in places:
        rows = fetch(
            db,
            f"SELECT d.no, d.scope, d.name, {WHOLE} FROM documents d"
            f" WHERE d.no = (SELECT no FROM living_documents WHERE {AT})",
            place,
        )
        for row in rows:
            db.execute("INSERT INTO documents_text (rowid, scope, name, text) VALUES (?, ?, ?, ?)", row)


def _living_go(db: apsw.Connection, places: Sequence[tuple[Any, ...]]) -> None:
    for place in places:
        db.execute(
            "INSERT INTO documents_text (documents_text, rowid, scope, name, text)"
            f" SELECT 'delete', no, scope, name, {WHOLE} FROM documents d"
            f" WHERE no IN (SELECT no FROM living_documents WHERE {AT})",
            place,
        )


def _versions_go(db: apsw.Connection, keys: Sequence[tuple[Any, ...]]) -> None:
    """Let documents of which a version goes be no living ones: their words cannot be told any more without it."""
    places = fetch(
        db,
        "SELECT DISTINCT l.layer, l.owner, l.name FROM documents d JOIN living_documents l"
        " ON (l.layer, l.owner, l.name) = (d.layer, d.owner, d.name) WHERE d.no IN (SELECT value FROM carray(?))",
        (those(no for (no,) in keys),),
    )
    _living_go(db, places)
    db.executemany(f"DELETE FROM living_documents WHERE {AT}", places)


WORDS: Final = (
    WordIndex("documents", add=lambda db, keys: None, drop=_versions_go),
    WordIndex("living_documents", add=_living_come, drop=_living_go),
)
