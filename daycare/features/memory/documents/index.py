"""The index of the words of documents: made again when it does not fit them any more, or as their rows come and go."""

from collections.abc import Sequence
from contextlib import closing
from typing import Any, Final

import apsw

from daycare.features.memory.documents.versions import WHOLE
from daycare.store.sqlite.database import describing
from daycare.store.sqlite.inspection import open_alone
from daycare.store.sqlite.rows import WordIndex
from daycare.store.sqlite.sql import fetch, those

_AT: Final = "layer = ? AND owner = ? AND name = ?"


def reindex_documents(location: str) -> None:
    """Rebuild the index of the documents' words, of those that live. Nobody else may have the home."""
    with describing(location), closing(open_alone(location)) as db, db:
        db.execute("INSERT INTO documents_text (documents_text) VALUES ('delete-all')").fetchall()
        db.execute(
            "INSERT INTO documents_text (rowid, scope, name, text)"
            f" SELECT d.no, d.scope, d.name, {WHOLE} FROM living_documents l JOIN documents d ON d.no = l.no"
        ).fetchall()


def _living_come(db: apsw.Connection, places: Sequence[tuple[Any, ...]]) -> None:
    for place in places:
        rows = fetch(
            db,
            f"SELECT d.no, d.scope, d.name, {WHOLE} FROM documents d"
            f" WHERE d.no = (SELECT no FROM living_documents WHERE {_AT})",
            place,
        )
        for row in rows:
            db.execute("INSERT INTO documents_text (rowid, scope, name, text) VALUES (?, ?, ?, ?)", row)


def _living_go(db: apsw.Connection, places: Sequence[tuple[Any, ...]]) -> None:
    for place in places:
        db.execute(
            "INSERT INTO documents_text (documents_text, rowid, scope, name, text)"
            f" SELECT 'delete', no, scope, name, {WHOLE} FROM documents d"
            f" WHERE no IN (SELECT no FROM living_documents WHERE {_AT})",
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
    db.executemany(f"DELETE FROM living_documents WHERE {_AT}", places)


WORDS: Final = (
    WordIndex("documents", add=lambda db, keys: None, drop=_versions_go),
    WordIndex("living_documents", add=_living_come, drop=_living_go),
)
