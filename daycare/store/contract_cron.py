"""What every store promises of scheduled jobs: each time one is due is handled once, and the ledger says how."""

from collections.abc import Collection, Sequence
from typing import Any, Protocol

from daycare.base.cron import CronSpec
from daycare.store.records_cron import (
    CronAnswer,
    CronConflict,
    CronCount,
    CronFiring,
    CronJob,
    CronPost,
    CronRun,
    NewCronJob,
    Source,
)


class CronStore(Protocol):
    """Scheduled jobs and their ledger.

    The ledger has one row for each (job, due time), for ever as long as it is kept. The end of a run is written in the
    transaction that ends its message (a turn, a dead letter), wherever that happens: with what it cost, and with the
    reply that carries its answer. A failed run waits for another attempt as often as its job says. A job that is to be
    deleted after its run goes in that transaction, too.
    """

    async def add(self, new: NewCronJob) -> CronJob:
        """Keep a job; a repeat of its `key` returns the first.

        Raises `ConflictError` CRON_EXISTS for a path that is taken, `BusyError` CRON_JOBS_MAX at so many of its user.
        """
        ...

    async def reconcile(
        self, source: Source, wanted: Sequence[NewCronJob], keep: Collection[str]
    ) -> list[CronConflict]:
        """Let the jobs of a source be those that are `wanted`, all or nothing, and return which could not be kept.

        Others of it are removed unless their `source_ref` is in `keep`. An unchanged one stays untouched, so that what
        it missed is not forgotten.
        """
        ...

    async def change(self, no: int, revision: int, spec: CronSpec, next_at: int | None) -> CronJob:
        """Replace how a job is written. Raises `ConflictError` CRON_CHANGED if it is of another revision by now."""
        ...

    async def pause(self, no: int, paused: bool, next_at: int | None) -> CronJob:
        """Pause a job, or let it go on; idempotent. What waits to be posted of a paused one is skipped."""
        ...

    async def remove(self, no: int, reason: str) -> None:
        """Remove a job and what waits of it; idempotent. Its own agent is an orphan then."""
        ...

    async def find(self, user: str | None = None, limit: int = 1000, after: str = "") -> list[CronJob]:
        """Return jobs that are not removed in order of path, each with its newest run and whether one is going on.

        They begin after the path `after`.
        """
        ...

    async def count(self) -> CronCount:
        """Return how many jobs there are that are not removed; it costs the same however many."""

    async def at(self, path: str) -> CronJob | None:
        """Return the job at a path that is not removed."""
        ...

    async def by_key(self, key: str) -> CronJob | None:
        """Return the job that a call has made, removed or not."""
        ...

    async def get(self, no: int) -> CronJob | None:
        """Return a job, removed or not."""
        ...

    async def due(self, now_ms: int, limit: int) -> list[CronJob]:
        """Return jobs that are due by `now_ms`, soonest first."""
        ...

    async def next_due(self) -> int | None:
        """Return the earliest time at which a job is due."""
        ...

    async def fire(self, firings: Sequence[CronFiring]) -> list[CronRun]:
        """Record due times, post what is to be posted and move the jobs on, all or nothing; return the new rows.

        A job that was changed meanwhile is left as it is, a time that is in the ledger already is passed over. What a
        running one of the same job stands in the way of is `skipped`, by the job's `overlap`; what the inbox refuses is
        `failed`. Of many missed ones some have their own row, the others share one.
        """
        ...

    async def waiting(self, now_ms: int, limit: int) -> list[CronRun]:
        """Return runs that wait to be posted and whose time has come, soonest first, late ones behind all others."""
        ...

    async def next_post(self) -> int | None:
        """Return the earliest time at which a run that waits is to be posted."""
        ...

    async def post(self, no: int, post: CronPost) -> CronRun | None:
        """Post a waiting run; None if it waits no more. `overlap` and a full inbox as for `fire`."""
        ...

    async def by_hand(self, job: CronJob, now_ms: int, parameters: dict[str, Any]) -> CronRun:
        """Add a run that somebody asked for, to be posted at once. Raises `ConflictError` if the job is removed."""
        ...

    async def was_ahead(self, now_ms: int) -> bool:
        """Return whether jobs were decided on, or runs recorded, at a later time than this: the clock was set back."""
        ...

    async def ahead(self, now_ms: int, *, after: int, limit: int) -> list[CronJob]:
        """Return jobs whose next time was decided on later than this, in order of number, from behind `after` on."""
        ...

    async def rewind(self, now_ms: int, sooner: Sequence[tuple[int, int, int]]) -> None:
        """The clock was set back: take back what was missed in a future that is to come again.

        `sooner` are (number, revision, time) of jobs that are due earlier than they were said to be.
        """
        ...

    async def runs(
        self,
        *,
        user: str | None = None,
        path: str | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> list[CronRun]:
        """Return entries of the ledger, newest first, beginning below number `before`, with their delivery."""
        ...

    async def run(self, no: int) -> CronRun | None:
        """Return one entry."""
        ...

    async def last_answer(self, job: int) -> CronAnswer | None:
        """Return what the newest run said that said something."""
        ...

    async def orphans(self, limit: int) -> list[tuple[str, str, str]]:
        """Return (id, path, user) of living agents of kind cron whose job was removed."""
        ...

    async def expire(self, before_ms: int, limit: int) -> int:
        """Delete a bounded number of entries that ended before `before_ms`, or are beyond those kept of a job."""
        ...
