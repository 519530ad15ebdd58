"""Documents as the open transaction sees them: versions that are added behind the newest, and their words in an index.

`write`, `append` and `undo` work inside of any open transaction: what decides about a change carries it out with that.
"""

from collections.abc import Iterable
from typing import Any, Final

import apsw
import msgspec
from msgspec.structs import replace

from daycare.base.documents import (
    DAILY,
    Attribution,
    DocumentVersion,
    Layer,
    NewVersion,
    Place,
    check_attribution,
    check_text,
    digest,
)
from daycare.base.errors import ConflictError, NotFoundError
from daycare.base.events import DocumentChanged
from daycare.base.messages import Origin
from daycare.base.sections import added
from daycare.features.memory.documents import versions
from daycare.features.memory.documents.records import Document, DocumentTotals, check_room
from daycare.features.memory.documents.versions import WHOLE
from daycare.store.sqlite.sql import Select, insert_into
from daycare.store.sqlite.writer import Tx

COLUMNS: Final = (
    "layer, owner, name, version, user, origin, author, approver, reason, provenance, hash, base_hash, size, created_at"
)
AT: Final = "layer = ? AND owner = ? AND name = ?"
IS_LIVING: Final = "no = (SELECT no FROM living_documents WHERE layer = ? AND owner = ? AND name = ?)"
_sources = msgspec.json.Decoder(tuple[str, ...]).decode


def write(tx: Tx, new: NewVersion) -> DocumentVersion:
    """Append a version, inside of an open transaction."""
    if first := once(tx.db, new.place, new.key):
        return first
    there = get(tx.db, new.place)
    newest = there.version if there else _newest(tx.db, new.place)
    return _put(tx, new, newest, there.text if there else None, new.text)


def append(tx: Tx, new: NewVersion, head: str = "", section: str = "") -> DocumentVersion:
    """Append a version with more text, inside of an open transaction."""
    if first := once(tx.db, new.place, new.key):
        return first
    there = get(tx.db, new.place)
    old = there.text if there else None
    text = head if there is None else there.text or ""
    newest = there.version if there else _newest(tx.db, new.place)
    return _put(tx, new, newest, old, added(text, new.text or "", section))


def undo(tx: Tx, new: NewVersion, version: int | None = None) -> DocumentVersion:
    """Append a version with the text before the newest, inside of an open transaction."""
    if first := once(tx.db, new.place, new.key):
        return first
    newest = _newest(tx.db, new.place)
    if newest is None:
        raise _missing(new.place, "undoing a change of")
    if version not in (None, newest.version):
        what = f"undoing version {version} of {new.place}: the newest is {newest.version}"
        raise ConflictError("DOCUMENT_CHANGED", f"{what}, its hash is now {newest.hash or 'empty'}", hint=_LOOK)
    there = get(tx.db, new.place)
    old = there.text if there else None
    earlier = before(tx.db, new.place, newest.version)
    if earlier is None or earlier.text is None:
        return _put(tx, new, newest, old, None)
    if digest(earlier.text) != earlier.version.hash:
        raise ConflictError("DOCUMENT_FORGOTTEN", f"undoing a change of {new.place}: what it said before was forgotten")
    words = earlier.version.by  # whoever takes them back, they come from where they came from
    by = replace(new.by, origin=words.origin, provenance=words.provenance)
    return _put(tx, replace(new, by=by), newest, old, earlier.text)


def get(db: apsw.Connection, place: Place) -> Document | None:
    """Return the newest version, unless it is a deletion."""
    return DOCUMENTS.one(db, IS_LIVING, key_of(place))


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
        check_room(place, totals(tx.db, place.layer, place.owner))
    version = 1 if newest is None else newest.version + 1
    tail = bool(old) and text is not None and text.startswith(old or "")
    tx.run(
        insert_into("documents", (*COLUMNS.split(", "), "key", "scope", "text", "tail")),
        (
            *key_of(place),
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
            scope_word(place.layer, place.owner),
            text[len(old or "") :] if tail and text is not None else text,
            tail,
        ),
    )
    _index(tx, new, tx.db.last_insert_rowid(), size, old, text)
    versions.grown(tx, key_of(place), new.user, str(new.by.origin), version)
    tx.commit.documents = True
    _tell(tx, new, version, deleted=text is None)
    written = _newest(tx.db, place)
    assert written is not None
    return written


def _tell(tx: Tx, new: NewVersion, version: int, *, deleted: bool) -> None:
    place = new.place
    path = f"/{place.owner}" if place.owner else ""
    if place.layer is Layer.AGENT:
        path = str((tx.one("SELECT path FROM agents WHERE id = ?", (place.owner,)) or ("",))[0])
    tx.commit.events.append(
        DocumentChanged(
            at_ms=tx.now,
            path=path,
            user=new.user,
            agent_id=place.owner if place.layer is Layer.AGENT else "",
            document=place.name,
            layer=str(place.layer),
            version=version,
            author=new.by.author,
            deleted=deleted,
        )
    )


def _index(tx: Tx, new: NewVersion, no: int, size: int, old: str | None, text: str | None) -> None:
    """Let what is living and what is found be the newest version."""
    key = key_of(new.place)
    living = tx.one(
        f"SELECT no, scope, name FROM documents WHERE {IS_LIVING}",
        key,
    )
    if living is not None:  # the index keeps no texts: it is told which words go
        tx.run(
            "INSERT INTO documents_text (documents_text, rowid, scope, name, text) VALUES ('delete', ?, ?, ?, ?)",
            (*living, old),
        )
    if text is None:
        tx.run(f"DELETE FROM living_documents WHERE {AT}", key)
        return
    tx.run(
        "INSERT INTO documents_text (rowid, scope, name, text) VALUES (?, ?, ?, ?)",
        (no, scope_word(new.place.layer, new.place.owner), new.place.name, text),
    )
    tx.run(
        "INSERT INTO living_documents (layer, owner, name, user, origin, no, size) VALUES (?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT DO UPDATE SET user = excluded.user, origin = excluded.origin, no = excluded.no,"
        " size = excluded.size",
        (*key, new.user, str(new.by.origin), no, size),
    )


def totals(db: apsw.Connection, layer: Layer, owner: str) -> DocumentTotals:
    """Return how many living documents an owner has, and their size."""
    rows = db.execute(
        "SELECT layer = ? AND substr(name, 1, ?) = ? AS daily, count(*), sum(size) FROM living_documents"
        " WHERE layer = ? AND owner = ? GROUP BY daily",
        (str(Layer.AGENT), len(DAILY), DAILY, str(layer), owner),
    )
    found: dict[Any, tuple[Any, Any]] = {daily: (count, size) for daily, count, size in rows}
    (documents, size), (logs, logs_size) = found.get(0, (0, 0)), found.get(1, (0, 0))
    return DocumentTotals(documents=documents, bytes=size, daily_logs=logs, daily_bytes=logs_size)


def once(db: apsw.Connection, place: Place, key: str) -> DocumentVersion | None:
    """Return the version that was written under a key."""
    if not key:
        return None
    return VERSIONS.one(db, f"{AT} AND key = ?", (*key_of(place), key))


def _newest(db: apsw.Connection, place: Place) -> DocumentVersion | None:
    return VERSIONS.one(db, f"{AT} ORDER BY version DESC LIMIT 1", key_of(place))


def at(db: apsw.Connection, place: Place, version: int) -> Document | None:
    """Return one version."""
    return DOCUMENTS.one(db, f"{AT} AND version = ?", (*key_of(place), version))


def before(db: apsw.Connection, place: Place, version: int) -> Document | None:
    """Return the version before one."""
    return DOCUMENTS.one(db, f"{AT} AND version < ? ORDER BY version DESC LIMIT 1", (*key_of(place), version))


def _missing(place: Place, doing: str) -> NotFoundError:
    return NotFoundError("DOCUMENT_MISSING", f"{doing} {place}: it is not there", hint="daycare memory list")


def key_of(place: Place) -> tuple[str, str, str]:
    """Return a place as rows have it."""
    return str(place.layer), place.owner, place.name


def scope_word(layer: Layer, owner: str) -> str:
    """Return an owner as one word; the digit at its end keeps the stemmer away from it."""
    return f"{layer}{owner.encode().hex()}0"


def any_of(words: Iterable[str]) -> str:
    """Return what finds any of these words."""
    return " OR ".join(f'"{word}"' for word in words)


def document(row: tuple[Any, ...]) -> Document:
    """Return the struct of a row: a version, and its text."""
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


VERSIONS: Final = Select(COLUMNS, "documents", _version)
DOCUMENTS: Final = Select(f"{COLUMNS}, {WHOLE}", "documents d", document)
