"""Files: what people attach, and tool results too long for a prompt. They expire like other finished rows."""

from typing import Final

import apsw
import trio

from daycare.base.errors import InvalidError
from daycare.base.limits import FILE_MAX_BYTES
from daycare.base.messages import File, Origin
from daycare.store.sqlite.database import describing
from daycare.store.sqlite.readers import Readers
from daycare.store.sqlite.writer import Tx, Writer

_AT_ONCE_BYTES: Final = 64 * 1024  # read in the loop's thread; a thread of its own costs as much


class Files:
    """Bytes beside the conversations; whose they are decides who reads them."""

    def __init__(self, writer: Writer, reader: apsw.Connection, readers: Readers) -> None:
        self._write = writer.write
        self._inline = writer.inline
        self._reader = reader
        self._readers = readers

    async def put(self, key: str, user: str, origin: Origin, name: str, media_type: str, data: bytes) -> File:
        """Keep a file; idempotent on (user, key): a repeat returns the first. Raises `InvalidError` FILE_TOO_LARGE."""
        if len(data) > FILE_MAX_BYTES:
            what = f"keeping {name}: {len(data)} bytes, at most {FILE_MAX_BYTES}"
            raise InvalidError("FILE_TOO_LARGE", what, hint="send a part of it")

        return await self._write(
            lambda tx: insert(tx, key, user, origin, name, media_type, len(data), data, None), len(data)
        )

    async def announce(
        self, key: str, user: str, origin: Origin, name: str, media_type: str, size: int, remote: str
    ) -> File:
        """Note a file that stays with its platform for now; idempotent on (user, key). `remote` says where it is."""
        return await self._write(lambda tx: insert(tx, key, user, origin, name, media_type, size, None, remote))

    async def fill(self, file_id: int, user: str, data: bytes) -> None:
        """Keep the bytes of an announced file; idempotent. Raises `InvalidError` FILE_TOO_LARGE."""
        if len(data) > FILE_MAX_BYTES:
            what = f"keeping file {file_id}: {len(data)} bytes, at most {FILE_MAX_BYTES}"
            raise InvalidError("FILE_TOO_LARGE", what, hint="send a part of it")
        await self._write(
            lambda tx: tx.run(
                "UPDATE files SET data = ?, size = ?, remote = NULL WHERE id = ? AND user = ? AND data IS NULL",
                (data, len(data), file_id, user),
            ),
            len(data),
        )

    async def get(self, file_id: int, user: str) -> File | None:
        """Return what is known of a user's file, None for another's, an unknown or an expired one."""
        row = self._reader.execute(
            "SELECT id, name, media_type, size FROM files WHERE id = ? AND user = ?", (file_id, user)
        ).fetchone()
        return None if row is None else File(id=row[0], name=row[1], media_type=row[2], size=row[3])

    async def find(self, key: str, user: str) -> File | None:
        """Return what is known of a user's file by the key that it was put with; None as `get`."""
        row = self._reader.execute("SELECT id FROM files WHERE user = ? AND key = ?", (user, key)).fetchone()
        return None if row is None else await self.get(row[0], user)

    async def read(self, file_id: int, user: str, offset: int = 0, length: int = FILE_MAX_BYTES) -> bytes | None:
        """Return bytes of a user's file, of which no others are read; None as `get`, and for one still elsewhere."""
        if self._inline or length <= _AT_ONCE_BYTES:
            return _read(self._reader, file_id, user, offset, length)

        def apart() -> bytes | None:
            with self._readers.lent() as db:
                return _read(db, file_id, user, offset, length)

        return await trio.to_thread.run_sync(apart)

    async def remote(self, file_id: int, user: str) -> str | None:
        """Return where a user's file is as long as its bytes are not here, else None."""
        row = self._reader.execute(
            "SELECT remote FROM files WHERE id = ? AND user = ? AND data IS NULL", (file_id, user)
        ).fetchone()
        return None if row is None else str(row[0])


def _read(db: apsw.Connection, file_id: int, user: str, offset: int, length: int) -> bytes | None:
    """Read a portion without what stands before and behind it."""
    found = db.execute("SELECT length(data) FROM files WHERE id = ? AND user = ? AND data IS NOT NULL", (file_id, user))
    size = next((row[0] for row in found), None)
    data = None if size is None else b""
    if size is not None and offset < size:  # the statement is still open, so the file stays as it is
        with describing(db.filename), db.blob_open("main", "files", "data", file_id, False) as blob:
            blob.seek(offset)
            data = bytes(blob.read(min(length, size - offset)))
    found.close()
    return data


def insert(
    tx: Tx,
    key: str,
    user: str,
    origin: Origin,
    name: str,
    media_type: str,
    size: int,
    data: bytes | None,
    remote: str | None,
) -> File:
    """Keep a file, or find the one with its key."""
    tx.run(
        "INSERT INTO files (key, user, origin, name, media_type, size, data, remote, created_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (user, key) DO UPDATE SET remote = excluded.remote"
        " WHERE data IS NULL AND excluded.remote IS NOT NULL",  # where it was said to be last
        (key, user, str(origin), name, media_type, size, data, remote, tx.now),
    )
    row = tx.one("SELECT id, name, media_type, size FROM files WHERE user = ? AND key = ?", (user, key))
    assert row is not None
    return File(id=row[0], name=row[1], media_type=row[2], size=row[3])
