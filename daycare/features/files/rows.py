"""Files in a bucket, as the store has them: which are there, which are to be carried, which objects go."""

import secrets
from collections.abc import Sequence
from typing import ClassVar, Final, NamedTuple

import apsw
import msgspec
import trio

from daycare.store.bucket import PlacedObject
from daycare.store.sqlite.copies import BUCKET_PLACE
from daycare.store.sqlite.database import counted
from daycare.store.sqlite.files import let_go
from daycare.store.sqlite.rows import Rows, Table
from daycare.store.sqlite.sql import fetch, marks
from daycare.store.sqlite.writer import Tx

_PLACE_BYTES: Final = 8


class KeptFile(NamedTuple):
    """A file whose bytes stand in its row, of so many."""

    id: int
    size: int


class PlacedFile(NamedTuple):
    """A file whose bytes lie in the bucket."""

    id: int
    placed: PlacedObject


class FileCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How many files lie in the bucket, how many are to be carried there, how many objects are to be removed."""

    placed: int
    waiting: int
    gone: int


class BucketRows(Rows):
    """Reads and writes what the store has of a bucket."""

    tables: ClassVar[tuple[Table, ...]] = (
        Table("gone_objects", why="objects that are to be removed from the bucket of this installation"),
    )

    async def place(self) -> str:
        """Return below which name this store puts its objects: its own, until it is put back from a copy."""

        def run(tx: Tx) -> str:
            tx.run(
                "INSERT INTO connector_memory (connector, name, value, at) VALUES (?, ?, ?, ?)"
                " ON CONFLICT (connector, name) DO NOTHING",
                (*BUCKET_PLACE, secrets.token_hex(_PLACE_BYTES), tx.now),
            )
            row = tx.one("SELECT value FROM connector_memory WHERE connector = ? AND name = ?", BUCKET_PLACE)
            assert row is not None
            return str(row[0])

        return await self._write(run)

    async def counts(self) -> FileCounts:
        """Return how many there are of each."""
        return FileCounts(
            placed=counted(self._reader, "files.placed"),
            waiting=counted(self._reader, "files.waiting"),
            gone=counted(self._reader, "files.gone"),
        )

    async def kept(self, after: int, limit: int, *, waiting: bool) -> list[KeptFile]:
        """Return files behind `after` whose bytes are here: those that are `waiting` to be carried, or all."""
        which = "object = ''" if waiting else "(object IS NULL OR object = '') AND data IS NOT NULL AND size > 0"
        sql = f"SELECT id, size FROM files WHERE {which} AND id > ? ORDER BY id LIMIT ?"
        return [KeptFile(*row) for row in fetch(self._reader, sql, (after, limit))]

    async def placed(self, after: int, limit: int) -> list[PlacedFile]:
        """Return files behind `after` whose bytes are in the bucket."""
        sql = "SELECT id, object, size, sha256 FROM files WHERE object <> '' AND id > ? ORDER BY id LIMIT ?"
        return [PlacedFile(row[0], PlacedObject(*row[1:])) for row in fetch(self._reader, sql, (after, limit))]

    async def data(self, file_id: int) -> bytes:
        """Return the bytes of a file that are here, none if they are not any more."""

        def read(db: apsw.Connection) -> bytes:
            row = db.execute("SELECT data FROM files WHERE id = ?", (file_id,)).fetchone()
            return bytes(row[0]) if row is not None and row[0] is not None else b""

        def apart() -> bytes:
            with self._readers.lent() as db:
                return read(db)

        return read(self._reader) if self._writer.inline else await trio.to_thread.run_sync(apart)

    async def carried(self, file_id: int, placed: PlacedObject) -> bool:
        """Let a file lie in the bucket; return whether it still has the bytes that were put there."""

        def run(tx: Tx) -> bool:
            tx.run(
                "UPDATE files SET object = ?1, sha256 = ?2, data = NULL"
                " WHERE id = ?3 AND size = ?4 AND length(data) = ?4",
                (placed.name, placed.sha256, file_id, placed.size),
            )
            if not tx.db.changes():
                let_go(tx, placed)
                return False
            return True

        return await self._write(run)

    async def brought(self, file_id: int, placed: PlacedObject, data: bytes) -> bool:
        """Let a file have its bytes here again; return whether it still lay in the bucket."""

        def run(tx: Tx) -> bool:
            tx.run(
                "UPDATE files SET data = ?, object = NULL, sha256 = NULL WHERE id = ? AND object = ?",
                (data, file_id, placed.name),
            )
            return bool(tx.db.changes())

        return await self._write(run, len(data))

    async def gone(self, limit: int) -> list[str]:
        """Return objects that are to be removed, and that no file has."""
        sql = (
            "SELECT object FROM gone_objects g WHERE NOT EXISTS (SELECT 1 FROM files f WHERE f.object = g.object)"
            " ORDER BY object LIMIT ?"
        )
        return [str(name) for (name,) in fetch(self._reader, sql, (limit,))]

    async def named(self, names: Sequence[str]) -> set[str]:
        """Return those of some objects that a file has."""
        sql = f"SELECT object FROM files WHERE object IN ({marks(names)})"
        return {str(name) for (name,) in fetch(self._reader, sql, tuple(names))}

    async def removed(self, names: Sequence[str]) -> None:
        """Note that objects are there no more."""

        def run(tx: Tx) -> None:
            for name in names:
                tx.run("DELETE FROM gone_objects WHERE object = ?", (name,))

        if names:
            await self._write(run)

    async def let_go(self, names: Sequence[str]) -> int:
        """Have those of some objects removed that no file has; return how many were not to be removed yet."""
        listed = marks(names)
        sql = (
            f"SELECT object FROM files WHERE object IN ({listed})"
            f" UNION SELECT object FROM gone_objects WHERE object IN ({listed})"
        )
        known = {str(name) for (name,) in fetch(self._reader, sql, (*names, *names))}
        left = [name for name in names if name not in known]

        def run(tx: Tx) -> int:
            many = 0
            for name in left:
                tx.run(
                    "INSERT INTO gone_objects (object) SELECT ?1 WHERE NOT EXISTS"
                    " (SELECT 1 FROM files WHERE object = ?1) ON CONFLICT (object) DO NOTHING",
                    (name,),
                )
                many += tx.db.changes()
            return many

        return await self._write(run) if left else 0
