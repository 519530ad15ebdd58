"""What becomes of documents inside the transactions of the core: with agents that end, and with people who are purged.

And what others change of them with what they decide.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import apsw

from daycare.base.documents import DocumentVersion, Layer, NewVersion, Place
from daycare.features.memory.documents import stored
from daycare.features.memory.documents.versions import WHOLE
from daycare.features.memory.store.stored import remove
from daycare.store.sqlite.facts import AgentExpires, Heed, PersonPurged
from daycare.store.sqlite.ports import DocumentPort
from daycare.store.sqlite.rows import PURGED_PATH
from daycare.store.sqlite.sql import fetch
from daycare.store.sqlite.writer import Tx

_OWNER: Final = "('/' || owner)"  # a user's id, or a scope below it, as a path
# Whose a document is stands in its layer and owner: an agent's id, a user's, or a scope below that.
DOCUMENTS_PURGED: Final = (
    "(layer = 'agent' AND owner IN (SELECT id FROM purged_agents))"
    f" OR (layer NOT IN ('agent', 'global') AND {PURGED_PATH.format(_OWNER)})"
)
_BLANK: Final = (  # what is left of the newest row: numbers that count on are never given again
    "layer = 'agent', owner = '', name = 'purged-' || no, version = 1, user = 'system', origin = 'system',"
    " author = '', approver = '', reason = '', provenance = '[]', hash = '', base_hash = '', size = 0, key = '',"
    " scope = '', text = NULL, tail = 0"
)
_VERSIONS: Final = 20  # deleted in one bite: they may have 100 KB each


class DocumentFollower(DocumentPort):
    """Documents, as the transactions of others need them."""

    def heeds(self) -> Mapping[type, Heed]:
        """Return what is done about facts, by their class."""
        return {AgentExpires: _expire, PersonPurged: _purge}

    def newest(self, db: apsw.Connection, place: Place) -> DocumentVersion | None:
        """Return the newest version, unless it is a deletion."""
        found = stored.get(db, place)
        return None if found is None else found.version

    def write(self, tx: Tx, new: NewVersion) -> DocumentVersion:
        """Append a version."""
        return stored.write(tx, new)

    def append(self, tx: Tx, new: NewVersion, head: str = "", section: str = "") -> DocumentVersion:
        """Append a version with more text."""
        return stored.append(tx, new, head, section)

    def undo(self, tx: Tx, new: NewVersion, version: int | None = None) -> DocumentVersion:
        """Append a version with the text before the newest."""
        return stored.undo(tx, new, version)

    def versions(self, db: apsw.Connection, layer: Layer, owner: str) -> Iterator[tuple[Any, ...]]:
        """Yield what an export keeps of an owner's versions, in order of name and number."""
        yield from db.execute(
            "SELECT name, version, origin, author, approver, reason, provenance, hash, created_at,"
            f" {WHOLE} FROM documents d WHERE layer = ? AND owner = ? ORDER BY name, version",
            (str(layer), owner),
        )


def _purge(tx: Tx, it: PersonPurged) -> None:
    tx.run(
        "INSERT INTO documents_text (documents_text, rowid, scope, name, text)"
        f" SELECT 'delete', no, scope, name, {WHOLE} FROM documents d"
        f" WHERE no IN (SELECT no FROM living_documents) AND ({DOCUMENTS_PURGED})"
    )
    tx.run(f"DELETE FROM living_documents WHERE {DOCUMENTS_PURGED}")
    tx.run(f"DELETE FROM memory_documents WHERE {DOCUMENTS_PURGED}")
    tx.run(f"UPDATE documents SET {_BLANK} WHERE no = (SELECT max(no) FROM documents) AND ({DOCUMENTS_PURGED})")
    it.gone["documents"] = tx.db.changes()
    tx.run(f"DELETE FROM documents WHERE {DOCUMENTS_PURGED}")
    it.gone["documents"] += tx.db.changes()


def _expire(tx: Tx, it: AgentExpires) -> None:
    """Delete some versions of an agent's documents, the newest of all at last, with their words and chunks."""
    whose = (str(Layer.AGENT), it.agent_id)
    chunks = fetch(
        tx.db,
        "SELECT m.no FROM memory_documents d JOIN memories m ON m.document = d.no WHERE d.layer = ? AND d.owner = ?"
        " LIMIT ?",
        (*whose, it.bite.limit),
    )
    remove(tx, [no for (no,) in chunks], hashes=False)
    for (no,) in chunks:
        tx.run("DELETE FROM memories WHERE no = ? AND text IS NULL", (no,))
    it.bite.rows += len(chunks)
    if len(chunks) == it.bite.limit:
        return
    newest = "SELECT max(no) FROM documents"
    living = fetch(
        tx.db,
        f"SELECT no FROM living_documents WHERE layer = ? AND owner = ? AND no < ({newest}) LIMIT ?",
        (*whose, _VERSIONS),
    )
    for (no,) in living:  # first: the index has to be told the whole text
        tx.run(
            "INSERT INTO documents_text (documents_text, rowid, scope, name, text)"
            f" SELECT 'delete', no, scope, name, {WHOLE} FROM documents d WHERE no = ?",
            (no,),
        )
        tx.run("DELETE FROM living_documents WHERE layer = ? AND owner = ? AND no = ?", (*whose, no))
    rows = fetch(
        tx.db,
        "SELECT no FROM documents d WHERE layer = ? AND owner = ? AND NOT EXISTS (SELECT 1 FROM living_documents l"
        f" WHERE (l.layer, l.owner, l.name) = (d.layer, d.owner, d.name)) AND no < ({newest}) ORDER BY no LIMIT ?",
        (*whose, _VERSIONS),
    )
    tx.db.executemany("DELETE FROM documents WHERE no = ?", rows)
    tx.run("DELETE FROM documents_grown WHERE layer = ? AND owner = ?", whose)
    if rows:
        tx.commit.documents = True
    if not fetch(tx.db, "SELECT 1 FROM documents WHERE layer = ? AND owner = ? LIMIT 1", whose):
        tx.run("DELETE FROM memory_documents WHERE layer = ? AND owner = ?", whose)
    it.bite.rows += len(rows)
