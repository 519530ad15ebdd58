"""Files: what people attach, and tool results too long for a prompt. They expire like other finished rows.

Their bytes stand in the row, or in a bucket that the row names: they are put there before the row is committed.
"""

from typing import Final, NamedTuple

import apsw
import trio

from daycare.base.errors import DaycareError, InvalidError, UnavailableError
from daycare.base.limits import FILE_MAX_BYTES
from daycare.base.messages import File, Origin
from daycare.observe import log
from daycare.store.bucket import FileBucket, PlacedObject
from daycare.store.sqlite.database import describing
from daycare.store.sqlite.readers import Readers
from daycare.store.sqlite.writer import Tx, Writer

_AT_ONCE_BYTES: Final = 64 * 1024  # read in the loop's thread; a thread of its own costs as much


class FileBytes(NamedTuple):
    """What a file has: bytes, or an object in a bucket, or neither while its platform has them, where `remote` says."""

    data: bytes | None = None
    placed: PlacedObject | None = None
    remote: str | None = None


class Files:
    """Bytes beside the conversations; whose they are decides who reads them."""

    def __init__(self, writer: Writer, reader: apsw.Connection, readers: Readers) -> None:
        self._writer = writer
        self._write = writer.write
        self._inline = writer.inline
        self._reader = reader
        self._readers = readers
        self._bucket: FileBucket | None = None

    def use(self, bucket: FileBucket, *, puts: bool) -> None:
        """Read from a bucket what lies there; `puts`: new files go there, and those that cannot are carried later."""
        self._bucket = bucket
        self._writer.memory.to_bucket = puts

    async def put(self, key: str, user: str, origin: Origin, name: str, media_type: str, data: bytes) -> File:
        """Keep a file; idempotent on (user, key): a repeat returns the first. Raises `InvalidError` FILE_TOO_LARGE."""
        if len(data) > FILE_MAX_BYTES:
            what = f"keeping {name}: {len(data)} bytes, at most {FILE_MAX_BYTES}"
            raise InvalidError("FILE_TOO_LARGE", what, hint="send a part of it")
        if self._writer.memory.to_bucket and (known := await self.find(key, user)) is not None:
            return known
        content, size = await self._placed(data)
        return await self._write(lambda tx: insert(tx, key, user, origin, name, media_type, len(data), content), size)

    async def announce(
        self, key: str, user: str, origin: Origin, name: str, media_type: str, size: int, remote: str
    ) -> File:
        """Note a file that stays with its platform for now; idempotent on (user, key). `remote` says where it is."""
        content = FileBytes(remote=remote)
        return await self._write(lambda tx: insert(tx, key, user, origin, name, media_type, size, content))

    async def fill(self, file_id: int, user: str, data: bytes) -> None:
        """Keep the bytes of an announced file; idempotent. Raises `InvalidError` FILE_TOO_LARGE."""
        if len(data) > FILE_MAX_BYTES:
            what = f"keeping file {file_id}: {len(data)} bytes, at most {FILE_MAX_BYTES}"
            raise InvalidError("FILE_TOO_LARGE", what, hint="send a part of it")
        content, size = await self._placed(data)

        def run(tx: Tx) -> None:
            tx.run(
                "UPDATE files SET data = ?, size = ?, object = ?, sha256 = ?, remote = NULL"
                " WHERE id = ? AND user = ? AND data IS NULL AND object IS NULL",
                (content.data, len(data), *_named(tx, content), file_id, user),
            )
            if content.placed is not None and not tx.db.changes():
                let_go(tx, content.placed)

        await self._write(run, size)

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
        """Return bytes of a user's file, of which no others are read; None as `get`, and for one still elsewhere.

        Raises what the bucket says that has them.
        """
        found: bytes | PlacedObject | None
        if self._inline or length <= _AT_ONCE_BYTES:
            found = _read(self._reader, file_id, user, offset, length)
        else:

            def apart() -> bytes | PlacedObject | None:
                with self._readers.lent() as db:
                    return _read(db, file_id, user, offset, length)

            found = await trio.to_thread.run_sync(apart)
        return await self.read_placed(found, offset, length) if isinstance(found, PlacedObject) else found

    async def read_placed(self, it: PlacedObject, offset: int = 0, length: int = FILE_MAX_BYTES) -> bytes:
        """Return bytes of a file that lies in the bucket; raises what that says."""
        if self._bucket is None:
            raise UnavailableError(
                "BUCKET_NONE", "reading a file: it lies in a bucket, and no bucket is set", hint="[files.s3] bucket"
            )
        return await self._bucket.read(it, offset, length)

    async def remote(self, file_id: int, user: str) -> str | None:
        """Return where a user's file is as long as its bytes are not here, else None."""
        row = self._reader.execute(
            "SELECT remote FROM files WHERE id = ? AND user = ? AND data IS NULL AND object IS NULL", (file_id, user)
        ).fetchone()
        return None if row is None else str(row[0])

    async def _placed(self, data: bytes) -> tuple[FileBytes, int]:
        """Put bytes where they belong; return what their row has, and how large that makes it.

        Those that the bucket does not take stay in the row until it does: nobody has to send them again.
        """
        if self._bucket is not None and self._writer.memory.to_bucket and data:
            try:
                return FileBytes(placed=await self._bucket.put(data)), 0
            except DaycareError as error:
                log.logger().warning("file.kept_here", code=error.code, reason=error.message)
        return FileBytes(data), len(data)


def _read(db: apsw.Connection, file_id: int, user: str, offset: int, length: int) -> bytes | PlacedObject | None:
    """Read a portion without what stands before and behind it; of one in a bucket, where that is."""
    found = db.execute(
        "SELECT length(data), object, size, sha256 FROM files WHERE id = ? AND user = ?"
        " AND (data IS NOT NULL OR object IS NOT NULL)",
        (file_id, user),
    )
    size, name, whole, sha256 = next(found, (None, None, 0, ""))
    if size is None and name is not None:
        found.close()
        return PlacedObject(name, whole, sha256)
    data = None if size is None else b""
    if size is not None and offset < size:  # the statement is still open, so the file stays as it is in SQLite
        with describing(db.filename), db.blob_open("main", "files", "data", file_id, False) as blob:
            blob.seek(offset)
            data = part = bytes(blob.read(min(length, size - offset)))
        if len(part) < min(length, size - offset):  # it was carried into a bucket between the two, or forgotten
            return _read(db, file_id, user, offset, length)
    found.close()
    return data


def insert(
    tx: Tx, key: str, user: str, origin: Origin, name: str, media_type: str, size: int, content: FileBytes
) -> File:
    """Keep a file, or find the one with its key."""
    tx.run(
        "INSERT INTO files (key, user, origin, name, media_type, size, data, object, sha256, remote, created_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (user, key) DO UPDATE SET remote = excluded.remote"
        " WHERE data IS NULL AND object IS NULL AND excluded.remote IS NOT NULL",  # where it was said to be last
        (key, user, str(origin), name, media_type, size, content.data, *_named(tx, content), content.remote, tx.now),
    )
    row = tx.one("SELECT id, name, media_type, size, object FROM files WHERE user = ? AND key = ?", (user, key))
    assert row is not None
    if content.placed is not None and row[4] != content.placed.name:
        let_go(tx, content.placed)
    return File(id=row[0], name=row[1], media_type=row[2], size=row[3])


def let_go(tx: Tx, placed: PlacedObject) -> None:
    """Have an object removed that no row has come to name."""
    tx.run("INSERT INTO gone_objects (object) VALUES (?) ON CONFLICT (object) DO NOTHING", (placed.name,))


def _named(tx: Tx, content: FileBytes) -> tuple[str | None, str | None]:
    """Return what a row says of its object; bytes that are here because the bucket was away are to be carried there."""
    if content.placed is not None:
        return content.placed.name, content.placed.sha256
    return to_carry(tx, content.data), None


def to_carry(tx: Tx, data: bytes | None) -> str | None:
    """Return what stands in `object` of a row with bytes of its own."""
    return "" if data and tx.memory.to_bucket else None
