"""Files: what people attach, and tool results too long for a prompt. They expire like other finished rows."""

import apsw

from daycare.base.errors import InvalidError
from daycare.base.limits import FILE_MAX_BYTES
from daycare.base.messages import File, Origin
from daycare.store.sqlite.writer import Tx, Writer


class Files:
    """See `contract.FileStore`."""

    def __init__(self, writer: Writer, reader: apsw.Connection) -> None:
        self._write = writer.write
        self._reader = reader

    async def put(self, key: str, user: str, origin: Origin, name: str, media_type: str, data: bytes) -> File:
        """Keep a file, or find the user's one with this key."""
        if len(data) > FILE_MAX_BYTES:
            what = f"keeping {name}: {len(data)} bytes, at most {FILE_MAX_BYTES}"
            raise InvalidError("FILE_TOO_LARGE", what, hint="send a part of it")

        def run(tx: Tx) -> File:
            tx.run(
                "INSERT INTO files (key, user, origin, name, media_type, data, created_at) VALUES (?, ?, ?, ?, ?, ?, ?)"
                " ON CONFLICT DO NOTHING",
                (key, user, str(origin), name, media_type, data, tx.now),
            )
            row = tx.one("SELECT id, name, media_type, length(data) FROM files WHERE user = ? AND key = ?", (user, key))
            assert row is not None
            return File(id=row[0], name=row[1], media_type=row[2], size=row[3])

        return await self._write(run, len(data))

    async def get(self, file_id: int, user: str) -> File | None:
        """Return what is known of a user's file."""
        row = self._reader.execute(
            "SELECT id, name, media_type, length(data) FROM files WHERE id = ? AND user = ?", (file_id, user)
        ).fetchone()
        return None if row is None else File(id=row[0], name=row[1], media_type=row[2], size=row[3])

    async def read(self, file_id: int, user: str) -> bytes | None:
        """Return the bytes of a user's file; None if there is none (any more)."""
        row = self._reader.execute("SELECT data FROM files WHERE id = ? AND user = ?", (file_id, user)).fetchone()
        return None if row is None else bytes(row[0])
