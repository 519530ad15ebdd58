"""Tasks: start them, see how far they are, wait for them, cancel them."""

import secrets
from typing import Annotated, Any

import msgspec
import trio
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daycare.api.documents import Document, Limit, Number, PathQuery, answer, body, query
from daycare.api.services import Services
from daycare.api.wanted import while_wanted
from daycare.base.limits import API_WAIT_MAX_S, KEY_MAX_CHARS
from daycare.base.path import Path
from daycare.base.task import TaskSpec
from daycare.store.records_tasks import Task
from daycare.store.sqlite.tasks import TaskRows

_Wait = Annotated[float, msgspec.Meta(ge=0, le=API_WAIT_MAX_S)]


class TasksQuery(Document, frozen=True, kw_only=True):
    """Whose tasks, newest first, beginning below number `before`; everybody's without. `open`: which have not ended."""

    user: str | None = None
    open: bool = False
    before: Number | None = None
    limit: Limit = 100


class TaskBody(Document, frozen=True, kw_only=True):
    """A task to start; `user` is whose (default: the operator), `deliver` where its answer goes. A repeat with its key

    starts it once.
    """

    spec: TaskSpec
    id: str = ""
    user: str = ""
    deliver: str = ""
    key: Annotated[str, msgspec.Meta(max_length=KEY_MAX_CHARS)] = ""


class TaskQuery(PathQuery, frozen=True, kw_only=True):
    """One task. With `wait_s` answered when it has ended, or has other progress than of the time `progress`."""

    wait_s: _Wait = 0.0
    progress: Number | None = None


class Tasks:
    """`/v1/tasks`."""

    def __init__(self, services: Services, closing: trio.Event) -> None:
        self._controls = services.tasks
        self._store = services.store
        self._owner = services.owner
        self._closing = closing

    def routes(self) -> list[Route]:
        """Return the routes of this file."""
        return [
            Route("/v1/tasks", self.find),
            Route("/v1/tasks", self.start, methods=["POST"]),
            Route("/v1/tasks/task", self.show),
            Route("/v1/tasks/cancel", self.cancel, methods=["POST"]),
        ]

    async def find(self, request: Request) -> Response:
        """List tasks."""
        wish = query(request, TasksQuery)
        found = await self._store.of(TaskRows).find(
            user=wish.user, is_open=wish.open, before=wish.before, limit=wish.limit
        )
        return answer({"tasks": [_view(task) for task in found]})

    async def start(self, request: Request) -> Response:
        """Start a task."""
        wish = await body(request, TaskBody)
        key = f"api:{wish.key or secrets.token_hex(8)}"
        user = wish.user or self._owner
        task = await self._controls.start(user, wish.spec, key=key, name=wish.id, deliver=wish.deliver)
        return answer(_view(task), 201)

    async def show(self, request: Request) -> Response:
        """Show one task, at once or when there is news of it."""
        wish = query(request, TaskQuery)
        task = await self._controls.at(self._resolved(wish.path))
        if wish.wait_s:
            async with while_wanted(self._closing, request.receive):
                task = await self._controls.wait(task, wish.wait_s, progress=wish.progress)
        return answer(_view(task))

    async def cancel(self, request: Request) -> Response:
        """Cancel a task."""
        path = self._resolved(query(request, PathQuery).path)
        return answer(_view(await self._controls.cancel(path)), 202)

    def _resolved(self, text: str) -> str:
        """Return the path that is meant: a bare name is that of a task of the operator's."""
        return text if text.startswith("/") else str(Path.task(self._owner, text))


def _view(task: Task) -> dict[str, Any]:
    view: dict[str, Any] = msgspec.to_builtins(task)
    return view | {"id": task.id, "ended": task.ended_at is not None}
