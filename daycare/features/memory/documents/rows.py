"""Documents: versions that are added behind the newest. The living ones are a table, with their words in an index."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import apsw

from daycare.base.clock import Clock
from daycare.base.documents import DocumentVersion, Layer, NewVersion, Place
from daycare.base.limits import (
    DOCUMENT_SEARCH_MAX,
    DOCUMENT_SEARCH_WORDS_MAX,
)
from daycare.features.memory.documents import rows_index, stored, versions
from daycare.features.memory.documents.followers import DOCUMENTS_PURGED, DocumentFollower
from daycare.features.memory.documents.records import Document, DocumentTotals
from daycare.features.memory.documents.stored import AT, COLUMNS, VERSIONS, any_of, document, key_of, scope_word
from daycare.features.memory.documents.versions import WHOLE
from daycare.store.sqlite.database import count
from daycare.store.sqlite.read_cache import ReadCache
from daycare.store.sqlite.readers import Readers
from daycare.store.sqlite.rows import Rows, Table
from daycare.store.sqlite.writer import Tx, Writer

DOCUMENTS_REMEMBERED_MAX: Final = 2_048  # places whose newest version is kept in memory, some 500 bytes each

_LAST = "\U0010ffff"
_TERM = re.compile(r"[^\W_]+")  # what the index takes for a word

_ASTRAY: Final = (
    "SELECT (SELECT count(*) FROM living_documents WHERE no NOT IN (SELECT id FROM documents_text_docsize))"
    " + (SELECT count(*) FROM documents_text_docsize WHERE id NOT IN (SELECT no FROM living_documents))"
)


class DocumentRows(Rows):
    """Documents by place (layer, owner, name), each a line of versions whose numbers rise, deletions included.

    What changes one raises `ConflictError` DOCUMENT_CHANGED when its newest version is not the one that `base_hash`
    names; the message tells the hash it has now. `InvalidError` DOCUMENT_TOO_LARGE past `DOCUMENT_MAX_BYTES`,
    DOCUMENT_TEXT or DOCUMENT_ATTRIBUTION for what cannot be kept; `BusyError` DOCUMENTS_FULL past `DOCUMENTS_MAX`
    living ones of one (layer, owner), of an agent's daily logs (`daily/...`) past `DAILY_LOGS_MAX`. Idempotent on
    (place, `new.key`), if there is a key: a repeat returns the first version.
    """

    tables: ClassVar = (
        Table(
            "documents",
            called="versions of documents",
            exported="document",
            whose=DOCUMENTS_PURGED,
            own="layer = 'agent' AND owner = ?1",
            number="no",
            apart=True,
            watched=True,
        ),
        Table("living_documents", again="from the documents", apart=True),
        Table("documents_grown", again="from the documents"),
    )
    followers: ClassVar = (DocumentFollower,)
    indexes: ClassVar = rows_index.WORDS

    def __init__(self, writer: Writer, reader: apsw.Connection, readers: Readers, clock: Clock) -> None:
        super().__init__(writer, reader, readers, clock)
        self._newest: ReadCache[Place, list[DocumentVersion]] = ReadCache(
            writer.versions, reader, "documents", most=DOCUMENTS_REMEMBERED_MAX
        )
        self._last: ReadCache[None, int] = ReadCache(writer.versions, reader, "documents", most=1)

    @classmethod
    def inspected(cls, db: apsw.Connection) -> Mapping[str, Any]:
        """Return how many documents are found by their words and should not be, or should be and are not."""
        return {"astray": count(db, _ASTRAY)}

    async def write(self, new: NewVersion) -> DocumentVersion:
        """Append a version. The text that is there already makes none: the newest is returned, whatever the base.

        Raises `NotFoundError` DOCUMENT_MISSING for the deletion of what is not there.
        """
        return await self._write(lambda tx: stored.write(tx, new), len(new.text or ""))

    async def move(self, gone: NewVersion, new: NewVersion) -> DocumentVersion:
        """Append a deletion to one line and a version to another, both or neither; return the latter."""

        def run(tx: Tx) -> DocumentVersion:
            stored.write(tx, gone)
            return stored.write(tx, new)

        return await self._write(run, len(new.text or ""))

    async def append(self, new: NewVersion, head: str = "", section: str = "") -> DocumentVersion:
        """Append a version that has `new.text` behind the newest text, on a line of its own.

        Where there is none, `head` stands before it. With a `section` it goes below that heading.
        """
        return await self._write(lambda tx: stored.append(tx, new, head, section), len(new.text or ""))

    async def undo(self, new: NewVersion, version: int | None = None) -> DocumentVersion:
        """Append a version with the text (or the absence) before the newest; `new.text` is not looked at.

        It says of its words where they came from then; who took them back is `new.by`.
        Raises `ConflictError` DOCUMENT_CHANGED unless the newest is number `version` (None: whichever it is),
        `NotFoundError` DOCUMENT_MISSING for what never was.
        """
        return await self._write(lambda tx: stored.undo(tx, new, version))

    async def get(self, place: Place) -> Document | None:
        """Return the newest version, None if there is none or it is a deletion."""
        return stored.get(self._reader, place)

    async def last(self) -> int:
        """Return a number that grows with each new version of any document, and with nothing else."""
        return self._last.get(None, lambda: int(self._reader.execute("SELECT ifnull(max(no), 0) FROM documents").get))

    async def at(self, place: Place, version: int) -> Document | None:
        """Return one version, None for a number that is not in the line."""
        return stored.at(self._reader, place, version)

    async def before(self, place: Place, version: int) -> Document | None:
        """Return the version before one, None if there is none, or none any more."""
        return stored.before(self._reader, place, version)

    async def thin(self) -> int:
        """Delete a bounded number of old versions, or let them take less space; return how many (0: all done).

        Of each document there stay some dozens of the newest, the last of each day and later of each month, the first
        since it is there, the newest of each origin with and without a person behind it, those that requests for
        approval have written with the ones before them, those that pending requests build on, that chunks are of, and
        that a turn may write again.
        """
        return await self._write(versions.thin)

    async def once(self, place: Place, key: str) -> DocumentVersion | None:
        """Return the version that was written under a key; as long as a turn that wrote it has not ended, it stays."""
        return stored.once(self._reader, place, key)

    async def history(self, place: Place, *, before: int | None = None, limit: int = 100) -> list[DocumentVersion]:
        """Return versions, the newest first, beginning below number `before`."""
        if limit == 1 and before is None:  # a turn asks for those of six documents, most of which nobody has
            return [*self._newest.get(place, lambda: self._versions(place, None, 1))]
        return self._versions(place, before, limit)

    def _versions(self, place: Place, before: int | None, limit: int) -> list[DocumentVersion]:
        bindings = (*key_of(place), 2**62 if before is None else before, limit)
        return VERSIONS.find(self._reader, f"{AT} AND version < ? ORDER BY version DESC LIMIT ?", bindings)

    async def find(
        self, layer: Layer, owner: str, *, prefix: str = "", after: str = "", limit: int = 100
    ) -> list[DocumentVersion]:
        """Return the newest versions of an owner's living documents in order of name, beginning after `after`."""
        return VERSIONS.find(
            self._reader,
            "no IN (SELECT no FROM living_documents WHERE layer = ? AND owner = ? AND name >= ? AND name < ?"
            " AND name > ? ORDER BY name LIMIT ?) ORDER BY name",
            (str(layer), owner, prefix, prefix + _LAST, after, limit),
        )

    async def begun(self, layer: Layer, owner: str, name: str = "") -> dict[str, int]:
        """Return since when there are an owner's living documents, in wall ms by name; all, or the one of a name."""
        rows = self._reader.execute(
            "SELECT d.name, min(d.created_at) FROM living_documents l JOIN documents d USING (layer, owner, name)"
            " WHERE l.layer = ?1 AND l.owner = ?2 AND (?3 = '' OR l.name = ?3) AND d.version >"
            " (SELECT ifnull(max(gone.version), 0) FROM documents gone WHERE gone.layer = l.layer"
            " AND gone.owner = l.owner AND gone.name = l.name AND gone.hash = '') GROUP BY d.name",
            (str(layer), owner, name),
        )
        return {str(found): int(at_ms) for found, at_ms in rows}

    def search(self, scopes: Sequence[tuple[Layer, str]], words: Sequence[str], limit: int = 10) -> list[Document]:
        """Return living documents of these (layer, owner) with any of the words, in any form, the best first.

        At most `DOCUMENT_SEARCH_MAX`. Blocks for long over many or long documents: call it in a thread then.
        """
        terms = list(dict.fromkeys(term for word in words for term in _TERM.findall(word)))
        if not terms or not scopes:
            return []
        # Within the index the owner is a word like others; whose a document is at last decides the table.
        among = f"scope : ({any_of(scope_word(*scope) for scope in scopes)})"
        match = f"{among} AND {{name text}} : ({any_of(terms[:DOCUMENT_SEARCH_WORDS_MAX])})"
        owned = " OR ".join(["(layer = ? AND owner = ?)"] * len(scopes))
        owners = [str(part) for scope in scopes for part in scope]
        with self._readers.lent() as db:
            rows = db.execute(
                f"SELECT {COLUMNS}, {WHOLE} FROM documents d JOIN (SELECT t.rowid AS found,"
                " bm25(documents_text, 0, 2, 1) AS score FROM documents_text t JOIN living_documents l ON"
                f" l.no = t.rowid WHERE documents_text MATCH ?1 AND ({owned}) ORDER BY score, l.name, l.layer LIMIT ?)"
                " ON no = found ORDER BY score, name, layer",
                (match, *owners, min(limit, DOCUMENT_SEARCH_MAX)),
            ).fetchall()
        return [*map(document, rows)]

    async def totals(self, layer: Layer, owner: str) -> DocumentTotals:
        """Return how many living documents an owner has, and their size."""
        return stored.totals(self._reader, layer, owner)

    async def owners(self, *, after: tuple[str, str] = ("", ""), limit: int = 100) -> list[tuple[Layer, str]]:
        """Return who has living documents, in order, beginning after `after`."""
        rows = self._reader.execute(
            "SELECT DISTINCT layer, owner FROM living_documents WHERE (layer, owner) > (?, ?)"
            " ORDER BY layer, owner LIMIT ?",
            (*after, limit),
        )
        return [(Layer(layer), str(owner)) for layer, owner in rows]
