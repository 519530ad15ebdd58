"""That nothing of what was deleted can be read in the files.

SQLite overwrites what it deletes, but for three things. An index of words only notes that some are gone: its segments
are merged. The log of commits has the pages as they were: it is emptied. And what is moved from one page to another
while a tree grows stays behind in the unused middle of the old page: these places are searched, and if anything is
there, the file is written anew, which takes some seconds for each GB.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

import apsw
import trio

from daycare.base.errors import BusyError
from daycare.store.sqlite.database import checkpoint, count, describing
from daycare.store.sqlite.sql import fetch
from daycare.store.sqlite.stems import stemmer
from daycare.store.sqlite.writer import Tx, Writer

FORGET_WAIT_S: Final = 30.0  # for readers of the file, before old pages can be overwritten

_INDEXES: Final = (
    "SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE VIRTUAL TABLE % USING fts5 (%'"
    " ORDER BY name DESC"
)
_MERGED_PAGES: Final = 256  # of an index with one commit, some 20 ms: other commits go between
_RETRY_MIN_S, _RETRY_MAX_S = 0.05, 1.0
_READ_BYTES: Final = 1024 * 1024
_HEADER_BYTES: Final = 100  # of the file, before its first page
_LEAVES: Final = {10: 8, 13: 8, 2: 12, 5: 12}  # kind of a tree's page -> how long its header is
_PIECE_MIN_BYTES: Final = 12  # shorter ones are found everywhere
_PIECE_BYTES: Final = 24
_STEM_MIN_CHARS: Final = 8  # a common word is shorter ...
_CODE_MIN_CHARS: Final = 5  # ... but one with digits in it may be a password
_STEM_BYTES: Final = 6  # of its end: the index leaves out beginnings that two words share
_PIECES_MAX: Final = 1_000  # looked for, half of them ends of words
_BETWEEN: Final = re.compile(rb'["\\\x00-\x1f]+')  # what JSON writes in another way than a column


def begin(tx: Tx, user: str) -> None:
    """Note, with the deletion itself, that the files are to be cleaned."""
    tx.run("INSERT INTO forgetting (user, origin, at_ms) VALUES (?, 'person', ?)", (user, tx.now))


def recover(db: apsw.Connection) -> None:
    """Clean the files if that was interrupted. To be called before anybody else reads them."""
    if db.execute("SELECT 1 FROM forgetting").fetchone() is not None:
        for index in _indexes(db):
            db.execute(f"INSERT INTO {index} ({index}) VALUES ('optimize')")
        db.execute("VACUUM")
        db.execute("DELETE FROM forgetting")
        checkpoint(db)


async def clean(writer: Writer, reader: apsw.Connection, pieces: list[bytes]) -> None:
    """Return when the files hold none of the pieces in a place that nobody uses. Raises `BusyError`.

    Also of what earlier tries that were given up were about; as that is not known any more, the file is written anew.
    """
    tries = count(reader, "SELECT count(*) FROM forgetting")
    last = count(reader, "SELECT coalesce(max(no), 0) FROM forgetting")
    if not tries:
        return
    if writer.leaves_pages:
        await merge(writer, reader)
    if writer.leaves_pages and reader.filename:
        await _overwrite(writer)
        if tries > 1 or not pieces or await _shown(writer, reader, pieces):
            await writer.alone(_rewrite)
            await _overwrite(writer)
    await writer.write(lambda tx: tx.run("DELETE FROM forgetting WHERE no <= ?", (last,)))


async def merge(writer: Writer, reader: apsw.Connection) -> None:
    """Let the indexes of words of a file hold nothing of what is gone. Each is written once, with others' commits."""
    for index in _indexes(reader):
        await _merge(writer, index)


def _indexes(db: apsw.Connection) -> list[str]:
    """Return the indexes of words."""
    return [str(name) for (name,) in fetch(db, _INDEXES)]


async def _shown(writer: Writer, reader: apsw.Connection, pieces: list[bytes]) -> bool:
    if writer.inline:
        return _shows(reader.filename, reader.open_vfs, pieces)
    return await trio.to_thread.run_sync(_shows, reader.filename, reader.open_vfs, pieces)


def pieces_of(db: apsw.Connection, shreds: Iterable[str | bytes]) -> list[bytes]:
    """Return what to look for: pieces of texts as columns and JSON have them, ends of rare words, pieces of blobs."""
    stems = stemmer(db)
    found: dict[bytes, None] = {}
    ends: dict[bytes, None] = {}
    for shred in shreds:
        if isinstance(shred, bytes):
            found |= _pieces(shred)
            continue
        for piece in _BETWEEN.split(shred.encode()):
            found |= _pieces(piece)
        ends |= {stem.encode()[-_STEM_BYTES:]: None for stem in stems(shred) if _is_rare(stem)}
    return [*list(found)[: _PIECES_MAX // 2], *list(ends)[: _PIECES_MAX // 2]]


def _pieces(data: bytes) -> dict[bytes, None]:
    """Return the beginning, the middle and the end of something, nothing of what is short."""
    if len(data) < _PIECE_MIN_BYTES:
        return {}
    middle = max(0, (len(data) - _PIECE_BYTES) // 2)
    return dict.fromkeys((data[:_PIECE_BYTES], data[middle : middle + _PIECE_BYTES], data[-_PIECE_BYTES:]))


def _is_rare(stem: str) -> bool:
    has_digits = any(char.isdigit() for char in stem)
    return len(stem) >= (_CODE_MIN_CHARS if has_digits else _STEM_MIN_CHARS)


async def _merge(writer: Writer, index: str) -> None:
    """Merge all segments that an index has now; those that are added meanwhile know nothing of what is gone."""
    pages = -_MERGED_PAGES  # less than none: all are to be merged, and it begins

    def merge(tx: Tx) -> int:
        before = tx.db.total_changes()
        tx.run(f"INSERT INTO {index} ({index}, rank) VALUES ('merge', ?)", (pages,))
        return tx.db.total_changes() - before

    while await writer.write(merge) >= 2:  # else there was nothing more to do, as its documentation says
        pages = _MERGED_PAGES


async def _overwrite(writer: Writer) -> None:
    """Let the log of commits be empty: its pages are in the file then."""
    began = trio.current_time()
    pause_s = _RETRY_MIN_S
    while not await writer.alone(checkpoint):
        if trio.current_time() - began > FORGET_WAIT_S:
            raise BusyError(
                "FORGET_UNFINISHED",
                "overwriting what was forgotten: something reads the database without a pause, so old pages remain",
                hint="it is forgotten everywhere else; end the backup or program that reads, and forget it again",
                retry_after_s=FORGET_WAIT_S,
            )
        await trio.sleep(pause_s)
        pause_s = min(2 * pause_s, _RETRY_MAX_S)


def _rewrite(db: apsw.Connection) -> None:
    db.execute("VACUUM")


def _shows(location: str, vfs: str, pieces: list[bytes]) -> bool:
    """Return whether any piece is in an unused place of the file."""
    return any(piece in unused for unused in _unused(location, vfs) for piece in pieces)


def _unused(location: str, vfs: str) -> Iterator[bytes]:
    """Yield what pages of trees have between their list of cells and the cells; other pages are used or empty.

    The file is read by SQLite's own means: closing it by another would give up the locks of the whole process.
    """
    with describing(location):
        flags = apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY
        file = apsw.VFSFile(vfs, location, [flags, 0])
        try:
            size = file.xFileSize()
            page_bytes = int.from_bytes(file.xRead(_HEADER_BYTES, 0)[16:18], "big")
            page_bytes = 65_536 if page_bytes == 1 else page_bytes
            for start in range(0, size, _READ_BYTES):
                block = file.xRead(min(_READ_BYTES, size - start), start)
                yield b"\0".join(
                    _gap(block[at : at + page_bytes], _HEADER_BYTES if start + at == 0 else 0)
                    for at in range(0, len(block), page_bytes)
                )
        finally:
            file.xClose()


def _gap(page: bytes, at: int) -> bytes:
    header = _LEAVES.get(page[at])
    if header is None:
        return b""
    cells = int.from_bytes(page[at + 3 : at + 5], "big")
    content = int.from_bytes(page[at + 5 : at + 7], "big") or 65_536
    return page[at + header + 2 * cells : content].strip(b"\0")
