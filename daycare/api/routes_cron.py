"""Scheduled jobs: which there are, when they are due, what became of each time; and changes of them."""

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daycare.agent.cron_controls import CronControls
from daycare.api.documents import Document, Limit, Number, PathQuery, answer, body, query
from daycare.base.cron import CronSpec, Value
from daycare.base.path import Path
from daycare.store.contract import Store
from daycare.store.records_cron import CronJob

_NEXT = 5  # due times that a job's page shows


class CronQuery(Document, frozen=True, kw_only=True):
    """Whose jobs; everybody's without."""

    user: str | None = None


class CronBody(Document, frozen=True, kw_only=True):
    """A job to add; `user` is whose (default: the operator)."""

    id: str
    spec: CronSpec
    user: str = ""


class RunBody(Document, frozen=True, kw_only=True):
    """Other values of parameters, for this run only."""

    parameters: dict[str, Value] = msgspec.field(default_factory=dict)


class RunsQuery(Document, frozen=True, kw_only=True):
    """Entries of the ledger, newest first, beginning below number `before`."""

    user: str | None = None
    path: str | None = None
    before: Number | None = None
    limit: Limit = 100


class Cron:
    """`/v1/cron`."""

    def __init__(self, controls: CronControls, store: Store, owner: str) -> None:
        self._controls = controls
        self._store = store
        self._owner = owner

    def routes(self) -> list[Route]:
        """Return the routes of this file."""
        return [
            Route("/v1/cron", self.find),
            Route("/v1/cron", self.add, methods=["POST"]),
            Route("/v1/cron/job", self.show),
            Route("/v1/cron/job", self.change, methods=["PATCH"]),
            Route("/v1/cron/job", self.remove, methods=["DELETE"]),
            Route("/v1/cron/pause", self.pause, methods=["POST"]),
            Route("/v1/cron/resume", self.resume, methods=["POST"]),
            Route("/v1/cron/run", self.run, methods=["POST"]),
            Route("/v1/cron/runs", self.runs),
        ]

    async def find(self, request: Request) -> Response:
        """List jobs, and what cannot be kept as it is written."""
        wish = query(request, CronQuery)
        await self._controls.refresh()  # also where no schedule runs
        jobs = [await self._view(job, 1) for job in await self._controls.find(wish.user)]
        return answer({"jobs": jobs, "problems": [self._problem(each) for each in self._controls.problems]})

    async def add(self, request: Request) -> Response:
        """Add a job."""
        wish = await body(request, CronBody)
        job = await self._controls.add(wish.user or self._owner, wish.id, wish.spec, source="cli")
        return answer(await self._view(job, _NEXT), 201)

    def _path(self, request: Request) -> str:
        """Return the path that is meant: a bare name is that of a job of the operator's."""
        return self._resolved(query(request, PathQuery).path)

    def _resolved(self, text: str) -> str:
        return text if text.startswith("/") else str(Path.cron(self._owner, text))

    async def show(self, request: Request) -> Response:
        """Show one job."""
        return answer(await self._view(await self._controls.at(self._path(request)), _NEXT))

    async def change(self, request: Request) -> Response:
        """Change the fields that are given; null sets one back to its default."""
        job = await self._controls.change(self._path(request), await body(request, dict[str, Any]))
        return answer(await self._view(job, _NEXT))

    async def remove(self, request: Request) -> Response:
        """Remove a job."""
        job = await self._controls.remove(self._path(request))
        return answer({"removed": job.path})

    async def pause(self, request: Request) -> Response:
        """Pause a job."""
        return await self._pause(request, paused=True)

    async def resume(self, request: Request) -> Response:
        """Let a paused job go on."""
        return await self._pause(request, paused=False)

    async def _pause(self, request: Request, *, paused: bool) -> Response:
        job = await self._controls.pause(self._path(request), paused=paused)
        return answer(await self._view(job, _NEXT))

    async def run(self, request: Request) -> Response:
        """Let a job run now."""
        wish = await body(request, RunBody)
        return answer(await self._controls.run(self._path(request), wish.parameters), 202)

    async def runs(self, request: Request) -> Response:
        """List entries of the ledger."""
        wish = query(request, RunsQuery)
        path = None if wish.path is None else self._resolved(wish.path)
        found = await self._store.cron.runs(user=wish.user, path=path, before=wish.before, limit=wish.limit)
        return answer({"runs": found})

    async def _view(self, job: CronJob, count: int) -> dict[str, Any]:
        view: dict[str, Any] = msgspec.to_builtins(job)
        return view | {"id": job.id, "next": await self._controls.next_of(job, count)}

    def _problem(self, problem: Any) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.to_builtins(problem)
        return found
