"""Changes of files in the store, with what stood there before; the last of each workspace."""

from typing import Any, ClassVar, Final

from daycare.features.workspaces.records import FileChange
from daycare.store.sqlite.rows import Rows, Table
from daycare.store.sqlite.sql import Select, insert_into
from daycare.store.sqlite.writer import Tx

CHANGES_KEPT_MAX: Final = 200  # of a workspace
CHANGES_KEPT_MAX_BYTES: Final = 32 * 1024 * 1024  # of what stood there before, of a workspace

_COLUMNS: Final = (
    "no, key, agent_id, path, user, folder, file, before_hash, after_hash, size, clean, created_at, undone_at"
)
_NEW: Final = (*_COLUMNS.replace(",", "").split()[1:-1], "origin", "before")
_EXPIRE_CHANGES: Final = (
    "DELETE FROM file_changes WHERE no IN (SELECT no FROM (SELECT no, row_number() OVER newest AS place,"
    " sum(coalesce(length(before), 0)) OVER newest AS bytes FROM file_changes WHERE folder = ?"
    " WINDOW newest AS (ORDER BY no DESC)) WHERE place > ? OR bytes > ?)"
)


class FileChangeRows(Rows):
    """They are added before the file is changed: what a crash leaves can be told by its content."""

    tables: ClassVar = (
        Table(
            "file_changes",
            called="changes of files",
            why="the files are on this machine",
            what="changes of files in workspaces",
            query="SELECT count(*) FROM file_changes WHERE agent_id IN (SELECT id FROM exported)",
            number="no",
            own="agent_id = ?1",
        ),
    )

    async def add(self, change: FileChange, before: bytes | None) -> FileChange:
        """Add a change, once for its key: a repeat returns the first. The oldest go past the bounds."""

        def run(tx: Tx) -> FileChange:
            if found := _CHANGES.one(tx.db, "key = ?", (change.key,)):
                return found
            fields = {name: getattr(change, name) for name in _NEW[:-2]}
            fields |= {"created_at": tx.now, "origin": "agent", "before": before}
            tx.run(insert_into("file_changes", _NEW), tuple(fields[name] for name in _NEW))
            tx.run(_EXPIRE_CHANGES, (change.folder, CHANGES_KEPT_MAX, CHANGES_KEPT_MAX_BYTES))
            [made] = _CHANGES.find(tx.db, "key = ?", (change.key,))
            return made

        return await self._write(run, len(before or b""))

    async def get(self, no: int) -> FileChange | None:
        """Return a change."""
        return _CHANGES.one(self._reader, "no = ?", (no,))

    async def by_key(self, key: str) -> FileChange | None:
        """Return the change that a call has made."""
        return _CHANGES.one(self._reader, "key = ?", (key,))

    async def before(self, no: int) -> bytes | None:
        """Return what stood in the file before a change."""
        row = self._reader.execute("SELECT before FROM file_changes WHERE no = ?", (no,)).fetchone()
        return None if row is None or row[0] is None else bytes(row[0])

    async def find(self, folder: str, limit: int) -> list[FileChange]:
        """Return changes in a workspace, the newest first."""
        return _CHANGES.find(self._reader, "folder = ? ORDER BY no DESC LIMIT ?", (folder, limit))

    async def is_own(self, folder: str, file: str, mark: str) -> bool:
        """Return whether agents have written exactly this content, none of whom had read words of others."""
        row = self._reader.execute(
            "SELECT min(clean) FROM file_changes WHERE folder = ? AND file = ? AND after_hash = ?", (folder, file, mark)
        ).fetchone()
        return bool(row and row[0])

    async def undone(self, no: int) -> None:
        """Note that a change was taken back."""
        await self._write(lambda tx: tx.run("UPDATE file_changes SET undone_at = ? WHERE no = ?", (tx.now, no)))


def _change(row: tuple[Any, ...]) -> FileChange:
    fields = dict(zip(_COLUMNS.replace(",", "").split(), row, strict=True))
    return FileChange(**fields | {"clean": bool(fields["clean"])})


_CHANGES: Final = Select(_COLUMNS, "file_changes", _change)
