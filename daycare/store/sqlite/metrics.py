"""What the store tells of itself in numbers: a few bounded queries, in a thread, that give up when they take long."""

import time
from collections.abc import Sequence
from typing import Final

import apsw
import trio

from daycare.store.records_metrics import Queue, StoreMetrics
from daycare.store.sqlite.agents import counts_of_agents
from daycare.store.sqlite.database import count, counted
from daycare.store.sqlite.readers import Readers
from daycare.store.sqlite.rows import Rows
from daycare.store.sqlite.sql import fetch
from daycare.store.sqlite.writer import Writer

_DEADLINE_S: Final = 2.0
_STEPS: Final = 5_000  # of SQLite's machine between two looks at the time
_ROWS_MAX: Final = 20_000  # of one queue


class StoreMetricsReader:
    """How much of everything there is."""

    def __init__(self, writer: Writer, readers: Readers, rows: Sequence[type[Rows]]) -> None:
        self._readers = readers
        self._rows = rows  # of capabilities
        self._inline = writer.inline
        self._limiter = trio.CapacityLimiter(1)

    async def measures(self) -> StoreMetrics:
        """Count, within a bound of time. Raises `UnavailableError` STORE_LATE."""
        if self._inline:
            return self._measured()
        return await trio.to_thread.run_sync(self._measured, limiter=self._limiter)

    def _measured(self) -> StoreMetrics:
        ends_at = time.monotonic() + _DEADLINE_S
        with self._readers.lent() as db:
            db.set_progress_handler(lambda: time.monotonic() > ends_at, _STEPS)
            try:
                return _measures(db, self._rows)
            finally:
                db.set_progress_handler(None)


def _measures(db: apsw.Connection, rows: Sequence[type[Rows]]) -> StoreMetrics:
    page = count(db, "PRAGMA page_size")
    return StoreMetrics(
        inbox=_queues(db, "kind", "inbox WHERE state = 0"),
        outbox=_queues(db, "connector", "outbox WHERE state < 2"),
        agents=counts_of_agents(db),
        dead_letters=counted(db, "dead.waiting"),
        approvals=counted(db, "approvals.pending"),
        cron_jobs=counted(db, "cron.jobs"),
        cron_next_at=count(db, "SELECT coalesce(min(next_at), 0) FROM cron_jobs WHERE next_at IS NOT NULL"),
        bytes=count(db, "PRAGMA page_count") * page,
        free_bytes=count(db, "PRAGMA freelist_count") * page,
        **{name: number for each in rows for name, number in each.measured(db).items()},
    )


def _queues(db: apsw.Connection, by: str, rows: str) -> dict[str, Queue]:
    found = fetch(
        db,
        f"SELECT {by}, count(*), min(created_at) FROM (SELECT {by}, created_at FROM {rows} LIMIT {_ROWS_MAX})"
        f" GROUP BY {by}",
    )
    return {str(name): Queue(depth, oldest) for name, depth, oldest in found}
