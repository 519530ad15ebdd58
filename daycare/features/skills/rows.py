"""Approvals of skills in the store."""

from collections.abc import Sequence
from typing import Any, ClassVar, Final

import msgspec

from daycare.features.skills.records import SkillApproval, SkillPlace
from daycare.store.sqlite.rows import PURGED_PATH, Rows, Table
from daycare.store.sqlite.sql import Select, insert_into, marks
from daycare.store.sqlite.writer import Tx

APPROVALS_KEPT_MAX: Final = 20  # of one skill: earlier ones it has hardly gone back to

_SCOPE: Final = "('/' || scope)"  # as a path
_KEY: Final = "no, hash, scope, name, place, user, by, "
_COLUMNS: Final = f"{_KEY}text, files, created_at"
_SHORT: Final = f"{_KEY}'' AS text, '{{}}' AS files, created_at"
_NEW: Final = ("hash", "scope", "name", "place", "user", "by", "text", "files", "created_at", "origin")
_EXPIRE: Final = (
    "DELETE FROM skill_approvals WHERE no IN (SELECT no FROM skill_approvals WHERE scope = ? AND place = ? AND name = ?"
    " ORDER BY no DESC LIMIT -1 OFFSET ?)"
)


class SkillApprovalRows(Rows):
    """A row stands for one content of one skill, whoever may approve it."""

    tables: ClassVar = (
        Table(
            "skill_approvals",
            why="folders of skills stay here, and a yes to one elsewhere is said there",
            whose=f"user IN (SELECT id FROM purged_users) OR {PURGED_PATH.format(_SCOPE)}",
            number="no",
        ),
    )

    async def add(self, new: SkillApproval) -> SkillApproval:
        """Add an approval; a repeat returns the first."""

        def run(tx: Tx) -> SkillApproval:
            key = (new.scope, new.place, new.name, new.hash)
            where = "scope = ? AND place = ? AND name = ? AND hash = ?"
            if found := _APPROVALS.one(tx.db, where, key):
                return found
            fields = {name: getattr(new, name, None) for name in _NEW}
            fields |= {"files": msgspec.json.encode(new.files).decode(), "created_at": tx.now, "origin": "person"}
            tx.run(insert_into("skill_approvals", _NEW), tuple(fields[name] for name in _NEW))
            tx.run(_EXPIRE, (new.scope, new.place, new.name, APPROVALS_KEPT_MAX))
            [made] = _APPROVALS.find(tx.db, where, key)
            return made

        return await self._write(run, len(new.text))

    async def find(self, scopes: Sequence[str]) -> list[SkillApproval]:
        """Return all approvals of some scopes, the newest first, without their texts."""
        return _BRIEF.find(self._reader, f"scope IN ({marks(scopes)}) ORDER BY no DESC", tuple(scopes))

    async def newest(self, scope: str, place: SkillPlace, name: str) -> SkillApproval | None:
        """Return the newest approval of a skill."""
        return _APPROVALS.one(
            self._reader, "scope = ? AND place = ? AND name = ? ORDER BY no DESC LIMIT 1", (scope, place, name)
        )

    async def remove(self, scope: str, place: SkillPlace, name: str) -> int:
        """Remove the approvals of a skill; return how many there were."""

        def run(tx: Tx) -> int:
            tx.run("DELETE FROM skill_approvals WHERE scope = ? AND place = ? AND name = ?", (scope, place, name))
            return tx.db.changes()

        return await self._write(run)


def _approval(row: tuple[Any, ...]) -> SkillApproval:
    fields = dict(zip(_COLUMNS.replace(",", "").split(), row, strict=True))
    files = msgspec.json.decode(fields["files"], type=dict[str, str])
    return SkillApproval(**fields | {"files": files, "place": SkillPlace(fields["place"])})


_APPROVALS: Final = Select(_COLUMNS, "skill_approvals", _approval)
_BRIEF: Final = Select(_SHORT, "skill_approvals", _approval)
