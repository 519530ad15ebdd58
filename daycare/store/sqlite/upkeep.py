"""Upkeep of the file: what belonged to the dead is deleted in small bites, space is given back, and how things are."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import apsw

from daycare.base.errors import BrokenError, UnavailableError
from daycare.store.records_upkeep import Space, UnreadMessage, Vitals
from daycare.store.sqlite.database import count, counted
from daycare.store.sqlite.facts import AgentExpires, Bite, TurnsExpire
from daycare.store.sqlite.rows import Rows, tables_of
from daycare.store.sqlite.sql import fetch
from daycare.store.sqlite.writer import Tx, Writer

_BITE_ROWS: Final = 500  # deleted in one transaction: a memory costs 0.1 ms, a document of 100 KB some ms
_TURNS: Final = 200  # among them: four tables, and conversations may be long
_AGENTS: Final = 64  # dead ones looked at in one bite: a few of them may have to wait for newer rows
_LOOKED_AT: Final = 10_000  # newest rows of a table that are looked through for a report, some 3 ms
_WAITING_FEW: Final = 1_000  # messages, looked at in some 2 ms
_SHOWN: Final = 5  # of a list in a report

_DEAD: Final = (
    "SELECT id, path FROM agents a WHERE state = 'dead' AND ended_at < ? AND NOT EXISTS"
    " (SELECT 1 FROM agents c WHERE c.parent = a.id AND c.state <> 'dead') AND NOT EXISTS"
    " (SELECT 1 FROM approvals p WHERE p.agent_id = a.id AND p.state = 'pending') ORDER BY ended_at LIMIT ?"
)
_OWN: Final = (  # tables with rows of an agent by its id, and what may be deleted of them
    ("summaries", "agent_id = ?1"),
    ("waits", "agent_id = ?1"),
    ("timers", "agent_id = ?1"),
    ("sessions", "agent_id = ?1"),
    ("behaviour_states", "agent_id = ?1"),
)
_LEFT: Final = (  # ... and at last
    ("outbox", "path = ?2 AND state < 2 AND agent_id = ?1 AND seq < (SELECT max(seq) FROM outbox)"),
    ("dead_letters", "agent_id = ?1 AND created_at < ?3 AND no < (SELECT max(no) FROM dead_letters)"),
)
_COMMITTED: Final = (("inbox", "seq", "created_at"), ("turns", "turn", "started_at"), ("events", "no", "at"))
_KEYS: Final = {"outbox": "seq", "dead_letters": "no"}
_OF_TURNS: Final = ("steps", "history", "forgotten_turns", "turns")


def _newest_ms(reader: apsw.Connection, table: str, key: str, at: str) -> int:
    """Return when the newest row was written, 0 if there is none, or none that can be read: that must not end a start.

    By number and not by time: a row of a moment in which the clock was ahead counts until the next is written.
    """
    try:
        return count(reader, f"SELECT coalesce((SELECT {at} FROM {table} ORDER BY {key} DESC LIMIT 1), 0)")
    except (BrokenError, UnavailableError):
        return 0


class UpkeepStore:
    """Deletion of what belonged to the dead, the size of the store, and how things in it are."""

    def __init__(self, writer: Writer, reader: apsw.Connection, rows: Sequence[type[Rows]] = ()) -> None:
        self._writer = writer
        self._reader = reader
        self._expiry = _Expiry(rows)
        self._newest_ms = max(_newest_ms(reader, *where) for where in _COMMITTED)

    def newest_ms(self) -> int:
        """Return when the newest row was committed before the store was opened (wall ms), 0 for an empty one."""
        return self._newest_ms

    async def expire_agents(self, before_ms: int) -> int:
        """Delete a bounded number of rows of agents that died before `before_ms`; return how many (0: all done).

        All that was an agent's own goes: history, journal, summaries, documents with what was kept of them in memory,
        its log of what was said, undelivered replies, dead letters, rights, state, and at last its own row. What was
        learned from its log is its person's and stays; so does what has a time of its own, such as money spent. An
        agent with a child that lives stays, and so does the newest row of each kind until there is a newer one.
        """
        return await self._writer.write(lambda tx: self._expiry.agents(tx, before_ms))

    async def expire_system(self, before_ms: int) -> int:
        """Delete a bounded number of turns of the daemon's own agents that ended before `before_ms`; return how many.

        Nobody reads on in their conversations.
        """

        return await self._writer.write(lambda tx: self._expiry.system(tx, before_ms))

    async def space(self) -> Space:
        """Return how large the store is."""
        page, free = (count(self._reader, f"PRAGMA {name}") for name in ("page_size", "freelist_count"))
        shrinks = count(self._reader, "PRAGMA auto_vacuum") == _INCREMENTAL
        return Space(count(self._reader, "PRAGMA page_count") * page, free * page, shrinks)

    async def shrink(self, max_bytes: int) -> int:
        """Give back some of the space that is free, where the store can; return how many bytes."""

        def run(tx: Tx) -> int:
            page = count(tx.db, "PRAGMA page_size")
            before = count(tx.db, "PRAGMA freelist_count")
            if count(tx.db, "PRAGMA auto_vacuum") != _INCREMENTAL or not before:
                return 0
            tx.db.execute(f"PRAGMA incremental_vacuum({max(1, max_bytes // page)})").fetchall()
            return (before - count(tx.db, "PRAGMA freelist_count")) * page

        return await self._writer.write(run)

    async def rewrite(self) -> None:
        """Write the store anew without what is free; nothing else is written meanwhile.

        Raises `UnavailableError` VACUUM_NO_ROOM where the disk has not enough room for a second copy.
        """
        if file := self._reader.filename:
            space = await self.space()
            _refuse_no_room(Path(file).parent, space.bytes - space.free_bytes)
        await self._writer.alone(_rewrite)

    async def vitals(self, since_ms: int) -> Vitals:
        """Return how things are, of what happened only that since `since_ms`."""
        db = self._reader
        parked = fetch(db, "SELECT path FROM agents WHERE state = 'parked' ORDER BY path LIMIT ?", (_SHOWN,))
        runs = "(SELECT * FROM cron_runs ORDER BY no DESC LIMIT ?1)"
        failed = f"FROM {runs} WHERE state = 'failed' AND ended_at >= ?2"
        stopped = "event LIKE '%\"budget.exhausted\"%'"
        recent = (_LOOKED_AT, since_ms)
        return Vitals(
            parked=tuple(path for (path,) in parked),
            failed=tuple((path, reason) for path, reason in fetch(db, f"SELECT path, reason {failed} LIMIT 5", recent)),
            failures=count(db, f"SELECT count(*) {failed}", recent),
            missed=count(
                db,
                f"SELECT coalesce(sum(count), 0) FROM {runs} WHERE state = 'missed' AND created_at >= ?2",
                recent,
            ),
            letters=counted(db, "dead.waiting"),
            new_letters=count(
                db, "SELECT count(*) FROM dead_letters WHERE replayed_at IS NULL AND created_at >= ?", (since_ms,)
            ),
            stops=count(
                db,
                "SELECT count(*) FROM (SELECT at, event FROM events ORDER BY no DESC LIMIT ?1)"
                f" WHERE at >= ?2 AND {stopped}",
                recent,
            ),
        )

    async def oldest_unread(self) -> UnreadMessage | None:
        """Return the message that has waited longest for a living agent."""
        # By the index of what waits, which has it by agent; where much waits, the oldest is soon found by its number.
        few = self._writer.memory.unread <= _WAITING_FEW
        rows = fetch(
            self._reader,
            f"SELECT i.path, i.created_at FROM inbox i {'INDEXED BY inbox_waiting' if few else 'NOT INDEXED'}"
            " CROSS JOIN agents a ON a.id = i.agent_id AND a.state = 'living' AND a.kind <> 'system'"
            " WHERE i.state = 0 ORDER BY i.seq LIMIT 1",
        )
        return UnreadMessage(*rows[0]) if rows else None


_INCREMENTAL: Final = 2


def _refuse_no_room(home: Path, used: int) -> None:
    """Raise `UnavailableError` VACUUM_NO_ROOM where a copy, or then its pages in the log of commits, has no room.

    SQLite writes the copy where temporary files go, which may be another disk than the database's.
    """
    needed: dict[object, tuple[Path, int]] = {}
    for folder in (home, _temporary()):
        first, so_far = needed.get(_disk(folder), (folder, 0))
        needed[_disk(folder)] = (first, so_far + used)
    for folder, size in needed.values():
        free = shutil.disk_usage(folder).free
        if free < size:
            raise UnavailableError(
                "VACUUM_NO_ROOM",
                f"rewriting the database: it needs {_mb(size)} of the disk of {folder} for a while, {_mb(free)} are"
                " free",
                hint="free some space there, or set SQLITE_TMPDIR to a folder elsewhere for temporary files; without"
                " this the space inside of the file is used for new rows all the same",
            )


def _disk(folder: Path) -> object:
    return folder.stat().st_dev


def _temporary() -> Path:
    """Return the folder in which SQLite makes temporary files: the first of these that it may use."""
    named = (os.environ.get("SQLITE_TMPDIR"), os.environ.get("TMPDIR"), "/var/tmp", "/usr/tmp", "/tmp")  # noqa: S108
    return next((Path(it) for it in named if it and Path(it).is_dir() and os.access(it, os.W_OK | os.X_OK)), Path())


def _rewrite(db: apsw.Connection) -> None:
    """Write the file anew, from now on with a list of which pages may be given back."""
    db.execute("PRAGMA auto_vacuum = INCREMENTAL").fetchall()
    db.execute("VACUUM").fetchall()


def _mb(size: int) -> str:
    return f"{max(size, 1) / 1_000_000:,.0f} MB"


# -- the dead ----------------------------------------------------------------------------------------------------------


class _Expiry:
    """Deletes rows of the dead, those of capabilities as they declare it."""

    def __init__(self, rows: Sequence[type[Rows]]) -> None:
        tables = tables_of(rows)
        self._done = " AND ".join([each.is_done for each in rows if each.is_done] or ["TRUE"])
        own = [(table.name, table.own) for table in tables if table.own and not table.apart]
        self._own = (*_OWN, *own, *_LEFT)
        self._apart = [(table.name, table.own) for table in tables if table.own and table.apart]

    def agents(self, tx: Tx, before_ms: int) -> int:
        """Delete some of what agents had that died before; return how many rows."""
        deleted = 0
        for agent_id, path in fetch(tx.db, _DEAD, (before_ms, _AGENTS)):
            deleted += self._delete_own(tx, agent_id, path, before_ms)
            if deleted >= _BITE_ROWS:
                break
        return deleted

    def system(self, tx: Tx, before_ms: int) -> int:
        """Delete some turns of the daemon's own agents that ended before; return how many rows."""
        rows = fetch(
            tx.db,
            "SELECT t.turn FROM agents a JOIN turns t ON t.agent_id = a.id JOIN history h ON h.turn = t.turn"
            f" WHERE a.user = 'system' AND a.kind = 'system' AND h.ended_at < ? AND {self._done} AND t.turn <"
            " (SELECT max(turn) FROM turns) LIMIT ?",
            (before_ms, _BITE_ROWS),
        )
        return _delete_turns(tx, [turn for (turn,) in rows])

    def _delete_own(self, tx: Tx, agent_id: str, path: str, before_ms: int) -> int:
        """Delete some of what an agent had, and itself when nothing is left; return how many rows."""
        before = tx.db.total_changes()
        bite = Bite(_BITE_ROWS)
        tx.tell(TurnsExpire(agent_id, bite))
        newest = "SELECT max(turn) FROM turns"
        turns = fetch(
            tx.db,
            f"SELECT turn FROM turns t WHERE agent_id = ? AND turn < ({newest}) AND {self._done} LIMIT ?",
            (agent_id, _TURNS),
        )
        bite.rows += _delete_turns(tx, [turn for (turn,) in turns])
        tx.tell(AgentExpires(agent_id, bite))
        if bite.rows >= _BITE_ROWS or bite.more or len(turns) == _TURNS:
            return max(bite.rows, 1)
        for table, which in self._own:
            key = _KEYS.get(table)
            where = which if key is None else f"{key} IN (SELECT {key} FROM {table} WHERE {which} LIMIT {_BITE_ROWS})"
            bindings = (agent_id, path, before_ms)[: 3 if "?3" in where else 2 if "?2" in where else 1]
            tx.run(f"DELETE FROM {table} WHERE {where}", bindings)
            bite.rows += (many := tx.db.changes())
            if many and table == "dead_letters":
                tx.memory.count_letters(tx.db)
        if not self._is_anywhere(tx, agent_id):
            tx.run("DELETE FROM agents WHERE id = ?", (agent_id,))
            tx.commit.agents.add(agent_id)
            bite.rows += 1
        return bite.rows if tx.db.total_changes() > before else 0

    def _is_anywhere(self, tx: Tx, agent_id: str) -> bool:
        """Return whether rows are left that are an agent's own."""
        for table, which in (("turns", "agent_id = ?1"), ("dead_letters", "agent_id = ?1"), *self._apart):
            if tx.one(f"SELECT 1 FROM {table} WHERE {which} LIMIT 1", (agent_id,)) is not None:
                return True
        return False


def _delete_turns(tx: Tx, turns: list[int]) -> int:
    """Delete turns with all that was said and done in them."""
    deleted = 0
    for table in _OF_TURNS if turns else ():
        tx.db.executemany(f"DELETE FROM {table} WHERE turn = ?", [(turn,) for turn in turns])
        deleted += len(turns)
    return deleted
