"""Documents: versions that are added behind the newest, which are a table of their own, with their words in an index.

`write`, `append` and `undo` work inside of any open transaction: what decides about a change carries it out with that.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

import apsw
import msgspec
from msgspec.structs import replace

from daycare.base.documents import DAILY, Attribution, DocumentVersion, Layer, NewVersion, Place, check_text, digest
from daycare.base.errors import ConflictError, NotFoundError
from daycare.base.limits import (
    DOCUMENT_SEARCH_MAX,
    DOCUMENT_SEARCH_WORDS_MAX,
)
from daycare.base.messages import Origin
from daycare.base.sections import added
from daycare.store.records_documents import Document, DocumentTotals, check_attribution, check_room
from daycare.store.sqlite import document_versions
from daycare.store.sqlite.document_versions import WHOLE
from daycare.store.sqlite.readers import Readers
from daycare.store.sqlite.sql import Select, insert_into
from daycare.store.sqlite.writer import Tx, Writer

_COLUMNS: Final = (
    "layer, owner, name, version, user, origin, author, approver, reason, provenance, hash, base_hash, size, created_at"
)
_AT: Final = "layer = ? AND owner = ? AND name = ?"
_IS_LIVING: Final = "no = (SELECT no FROM living_documents WHERE layer = ? AND owner = ? AND name = ?)"
_LAST = "\U0010ffff"
_TERM = re.compile(r"[^\W_]+")  # what the index takes for a word
_sources = msgspec.json.Decoder(tuple[str, ...]).decode


class DocumentStore:
    """Documents by place (layer, owner, name), each a line of versions whose numbers rise, deletions included.

    What changes one raises `ConflictError` DOCUMENT_CHANGED when its newest version is not the one that `base_hash`
    names; the message tells the hash it has now. `InvalidError` DOCUMENT_TOO_LARGE past `DOCUMENT_MAX_BYTES`,
    DOCUMENT_TEXT or DOCUMENT_ATTRIBUTION for what cannot be kept; `BusyError` DOCUMENTS_FULL past `DOCUMENTS_MAX`
    living ones of one (layer, owner), of an agent's daily logs (`daily/...`) past `DAILY_LOGS_MAX`. Idempotent on
    (place, `new.key`), if there is a key: a repeat returns the first version.
    """

    def __init__(self, writer: Writer, reader: apsw.Connection, readers: Readers) -> None:
        self._write = writer.write
        self._reader = reader
        self._readers = readers

    async def write(self, new: NewVersion) -> DocumentVersion:
        """Append a version. The text that is there already makes none: the newest is returned, whatever the base.

        Raises `NotFoundError` DOCUMENT_MISSING for the deletion of what is not there.
        """
        return await self._write(lambda tx: write(tx, new), len(new.text or ""))

    async def append(self, new: NewVersion, head: str = "", section: str = "") -> DocumentVersion:
        """Append a version that has `new.text` behind the newest text, on a line of its own.

        Where there is none, `head` stands before it. With a `section` it goes below that heading.
        """
        return await self._write(lambda tx: append(tx, new, head, section), len(new.text or ""))

    async def undo(self, new: NewVersion, version: int | None = None) -> DocumentVersion:
        """Append a version with the text (or the absence) before the newest; `new.text` is not looked at.

        It says of its words where they came from then; who took them back is `new.by`.
        Raises `ConflictError` DOCUMENT_CHANGED unless the newest is number `version` (None: whichever it is),
        `NotFoundError` DOCUMENT_MISSING for what never was.
        """
        return await self._write(lambda tx: undo(tx, new, version))

    async def get(self, place: Place) -> Document | None:
        """Return the newest version, None if there is none or it is a deletion."""
        return get(self._reader, place)

    async def last(self) -> int:
        """Return a number that grows with each new version of any document, and with nothing else."""
        return int(self._reader.execute("SELECT ifnull(max(no), 0) FROM documents").get)

    async def at(self, place: Place, version: int) -> Document | None:
        """Return one version, None for a number that is not in the line."""
        return _at(self._reader, place, version)

    async def before(self, place: Place, version: int) -> Document | None:
        """Return the version before one, None if there is none, or none any more."""
        return _before(self._reader, place, version)

    async def thin(self) -> int:
        """Delete a bounded number of old versions, or let them take less space; return how many (0: all done).

        Of each document there stay some dozens of the newest, the last of each day and later of each month, the newest
        of each origin with and without a person behind it, those that requests for approval have written with
        the ones before them, those that pending requests build on, that chunks are of, and that a turn may write again.
        """
        return await self._write(document_versions.thin)

    async def once(self, place: Place, key: str) -> DocumentVersion | None:
        """Return the version that was written under a key; as long as a turn that wrote it has not ended, it stays."""
        return _once(self._reader, place, key)

    async def history(self, place: Place, *, before: int | None = None, limit: int = 100) -> list[DocumentVersion]:
        """Return versions, the newest first, beginning below number `before`."""
        bindings = (*_key(place), 2**62 if before is None else before, limit)
        return _VERSIONS.find(self._reader, f"{_AT} AND version < ? ORDER BY version DESC LIMIT ?", bindings)

    async def find(
        self, layer: Layer, owner: str, *, prefix: str = "", after: str = "", limit: int = 100
    ) -> list[DocumentVersion]:
        """Return the newest versions of an owner's living documents in order of name, beginning after `after`."""
        return _VERSIONS.find(
            self._reader,
            "no IN (SELECT no FROM living_documents WHERE layer = ? AND owner = ? AND name >= ? AND name < ?"
            " AND name > ? ORDER BY name LIMIT ?) ORDER BY name",
            (str(layer), owner, prefix, prefix + _LAST, after, limit),
        )

    def search(self, scopes: Sequence[tuple[Layer, str]], words: Sequence[str], limit: int = 10) -> list[Document]:
        """Return living documents of these (layer, owner) with any of the words, in any form, the best first.

        At most `DOCUMENT_SEARCH_MAX`. Blocks for long over many or long documents: call it in a thread then.
        """
        terms = list(dict.fromkeys(term for word in words for term in _TERM.findall(word)))
        if not terms or not scopes:
            return []
        # Within the index the owner is a word like others; whose a document is at last decides the table.
        among = f"scope : ({_any(_scope(*scope) for scope in scopes)})"
        match = f"{among} AND {{name text}} : ({_any(terms[:DOCUMENT_SEARCH_WORDS_MAX])})"
        owned = " OR ".join(["(layer = ? AND owner = ?)"] * len(scopes))
        owners = [str(part) for scope in scopes for part in scope]
        with self._readers.lent() as db:
            rows = db.execute(
                f"SELECT {_COLUMNS}, {WHOLE} FROM documents d JOIN (SELECT t.rowid AS found,"
                " bm25(documents_text, 0, 2, 1) AS score FROM documents_text t JOIN living_documents l ON"
                f" l.no = t.rowid WHERE documents_text MATCH ? AND ({owned}) ORDER BY score, l.name, l.layer LIMIT ?)"
                " ON no = found ORDER BY score, name, layer",
                (match, *owners, min(limit, DOCUMENT_SEARCH_MAX)),
            ).fetchall()
        return [*map(_document, rows)]

    async def totals(self, layer: Layer, owner: str) -> DocumentTotals:
        """Return how many living documents an owner has, and their size."""
        return _totals(self._reader, layer, owner)

    async def owners(self, *, after: tuple[str, str] = ("", ""), limit: int = 100) -> list[tuple[Layer, str]]:
        """Return who has living documents, in order, beginning after `after`."""
        rows = self._reader.execute(
            "SELECT DISTINCT layer, owner FROM living_documents WHERE (layer, owner) > (?, ?)"
            " ORDER BY layer, owner LIMIT ?",
            (*after, limit),
        )
        return [(Layer(layer), str(owner)) for layer, owner in rows]


def write(tx: Tx, new: NewVersion) -> DocumentVersion:
    """Append a version, inside of an open transaction."""
    if first := _once(tx.db, new.place, new.key):
        return first
    there = get(tx.db, new.place)
    newest = there.version if there else _newest(tx.db, new.place)
    return _put(tx, new, newest, there.text if there else None, new.text)


def append(tx: Tx, new: NewVersion, head: str = "", section: str = "") -> DocumentVersion:
    """Append a version with more text, inside of an open transaction."""
    if first := _once(tx.db, new.place, new.key):
        return first
    before = get(tx.db, new.place)
    old = before.text if before else None
    text = head if before is None else before.text or ""
    newest = before.version if before else _newest(tx.db, new.place)
    return _put(tx, new, newest, old, added(text, new.text or "", section))


def undo(tx: Tx, new: NewVersion, version: int | None = None) -> DocumentVersion:
    """Append a version with the text before the newest, inside of an open transaction."""
    if first := _once(tx.db, new.place, new.key):
        return first
    newest = _newest(tx.db, new.place)
    if newest is None:
        raise _missing(new.place, "undoing a change of")
    if version not in (None, newest.version):
        what = f"undoing version {version} of {new.place}: the newest is {newest.version}"
        raise ConflictError("DOCUMENT_CHANGED", f"{what}, its hash is now {newest.hash or 'empty'}", hint=_LOOK)
    there = get(tx.db, new.place)
    old = there.text if there else None
    before = _before(tx.db, new.place, newest.version)
    if before is None or before.text is None:
        return _put(tx, new, newest, old, None)
    if digest(before.text) != before.version.hash:
        raise ConflictError("DOCUMENT_FORGOTTEN", f"undoing a change of {new.place}: what it said before was forgotten")
    words = before.version.by  # whoever takes them back, they come from where they came from
    by = replace(new.by, origin=words.origin, provenance=words.provenance)
    return _put(tx, replace(new, by=by), newest, old, before.text)


def get(db: apsw.Connection, place: Place) -> Document | None:
    """Return the newest version, unless it is a deletion."""
    return _DOCUMENTS.one(db, _IS_LIVING, _key(place))


_LOOK = "read it again, and repeat the change on what it says now"


def _put(tx: Tx, new: NewVersion, newest: DocumentVersion | None, old: str | None, text: str | None) -> DocumentVersion:
    """Write a version behind the newest, whose text is `old`."""
    place = new.place
    check_attribution(new.by, str(place))
    size = 0 if text is None else check_text(text, str(place))
    there = "" if newest is None else newest.hash
    if text is None and not there:
        raise _missing(place, "deleting")
    hash_ = digest(text)
    if newest is not None and hash_ == there:
        return newest
    if new.base_hash not in (None, there):
        what = f"writing {place}: it was changed meanwhile, its hash is now {there or 'empty, as it is not there'}"
        raise ConflictError("DOCUMENT_CHANGED", what, hint=_LOOK)
    if not there:
        check_room(place, _totals(tx.db, place.layer, place.owner))
    version = 1 if newest is None else newest.version + 1
    tail = bool(old) and text is not None and text.startswith(old or "")
    tx.run(
        insert_into("documents", (*_COLUMNS.split(", "), "key", "scope", "text", "tail")),
        (
            *_key(place),
            version,
            new.user,
            str(new.by.origin),
            new.by.author,
            new.by.approver,
            new.by.reason,
            msgspec.json.encode(new.by.provenance).decode(),
            hash_,
            there,
            size,
            tx.now,
            new.key,
            _scope(place.layer, place.owner),
            text[len(old or "") :] if tail and text is not None else text,
            tail,
        ),
    )
    _index(tx, new, tx.db.last_insert_rowid(), size, old, text)
    document_versions.grown(tx, _key(place), new.user, str(new.by.origin), version)
    tx.commit.documents = True
    written = _newest(tx.db, place)
    assert written is not None
    return written


def _index(tx: Tx, new: NewVersion, no: int, size: int, old: str | None, text: str | None) -> None:
    """Let what is living and what is found be the newest version."""
    key = _key(new.place)
    living = tx.one(
        f"SELECT no, scope, name FROM documents WHERE {_IS_LIVING}",
        key,
    )
    if living is not None:  # the index keeps no texts: it is told which words go
        tx.run(
            "INSERT INTO documents_text (documents_text, rowid, scope, name, text) VALUES ('delete', ?, ?, ?, ?)",
            (*living, old),
        )
    if text is None:
        tx.run(f"DELETE FROM living_documents WHERE {_AT}", key)
        return
    tx.run(
        "INSERT INTO documents_text (rowid, scope, name, text) VALUES (?, ?, ?, ?)",
        (no, _scope(new.place.layer, new.place.owner), new.place.name, text),
    )
    tx.run(
        "INSERT INTO living_documents (layer, owner, name, user, origin, no, size) VALUES (?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT DO UPDATE SET user = excluded.user, origin = excluded.origin, no = excluded.no,"
        " size = excluded.size",
        (*key, new.user, str(new.by.origin), no, size),
    )


def _totals(db: apsw.Connection, layer: Layer, owner: str) -> DocumentTotals:
    rows = db.execute(
        "SELECT layer = ? AND substr(name, 1, ?) = ? AS daily, count(*), sum(size) FROM living_documents"
        " WHERE layer = ? AND owner = ? GROUP BY daily",
        (str(Layer.AGENT), len(DAILY), DAILY, str(layer), owner),
    )
    found: dict[Any, tuple[Any, Any]] = {daily: (count, size) for daily, count, size in rows}
    (documents, size), (logs, logs_size) = found.get(0, (0, 0)), found.get(1, (0, 0))
    return DocumentTotals(documents=documents, bytes=size, daily_logs=logs, daily_bytes=logs_size)


def _once(db: apsw.Connection, place: Place, key: str) -> DocumentVersion | None:
    if not key:
        return None
    return _VERSIONS.one(db, f"{_AT} AND key = ?", (*_key(place), key))


def _newest(db: apsw.Connection, place: Place) -> DocumentVersion | None:
    return _VERSIONS.one(db, f"{_AT} ORDER BY version DESC LIMIT 1", _key(place))


def _at(db: apsw.Connection, place: Place, version: int) -> Document | None:
    return _DOCUMENTS.one(db, f"{_AT} AND version = ?", (*_key(place), version))


def _before(db: apsw.Connection, place: Place, version: int) -> Document | None:
    return _DOCUMENTS.one(db, f"{_AT} AND version < ? ORDER BY version DESC LIMIT 1", (*_key(place), version))


def _missing(place: Place, doing: str) -> NotFoundError:
    return NotFoundError("DOCUMENT_MISSING", f"{doing} {place}: it is not there", hint="daycare memory list")


def _key(place: Place) -> tuple[str, str, str]:
    return str(place.layer), place.owner, place.name


def _scope(layer: Layer, owner: str) -> str:
    """Return an owner as one word; the digit at its end keeps the stemmer away from it."""
    return f"{layer}{owner.encode().hex()}0"


def _any(words: Iterable[str]) -> str:
    return " OR ".join(f'"{word}"' for word in words)


def _document(row: tuple[Any, ...]) -> Document:
    return Document(version=_version(row[:-1]), text=row[-1])


def _version(row: tuple[Any, ...]) -> DocumentVersion:
    layer, owner, name, version, user, origin, author, approver, reason, provenance, hash_, base, size, at_ms = row
    return DocumentVersion(
        place=Place(Layer(layer), owner, name),
        version=version,
        user=user,
        by=Attribution(
            origin=Origin(origin), author=author, approver=approver, reason=reason, provenance=_sources(provenance)
        ),
        hash=hash_,
        base_hash=base,
        size=size,
        created_at=at_ms,
    )


_VERSIONS: Final = Select(_COLUMNS, "documents", _version)
_DOCUMENTS: Final = Select(f"{_COLUMNS}, {WHOLE}", "documents d", _document)
