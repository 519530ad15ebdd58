"""The index of the words of documents, made again when it does not fit them any more."""

from contextlib import closing

from daycare.features.memory.documents.versions import WHOLE
from daycare.store.sqlite.database import describing
from daycare.store.sqlite.inspection import open_alone


def reindex_documents(location: str) -> None:
    """Rebuild the index of the documents' words, of those that live. Nobody else may have the home."""
    with describing(location), closing(open_alone(location)) as db, db:
        db.execute("INSERT INTO documents_text (documents_text) VALUES ('delete-all')").fetchall()
        db.execute(
            "INSERT INTO documents_text (rowid, scope, name, text)"
            f" SELECT d.no, d.scope, d.name, {WHOLE} FROM living_documents l JOIN documents d ON d.no = l.no"
        ).fetchall()
