"""Timers: what is posted to an agent at a time, such as a reminder."""

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daycare.api.callers import caller_of, persons
from daycare.api.described import With, described
from daycare.api.documents import Limit, Number, RequestDocument, answer, query, segment
from daycare.api.services import Services
from daycare.base.messages import Lane
from daycare.store.records import Timer

_SHOWN = With(Timer, {"path": str, "deadline": bool})


class TimersQuery(RequestDocument, frozen=True, kw_only=True):
    """Whose timers, soonest first; everybody's without. To go on behind a page: its last `due_at` and `no`."""

    path: str | None = None
    user: str | None = None
    after_due: Number = 0
    after: Number = 0
    limit: Limit = 100


class TimerRoutes:
    """`/v1/timers`."""

    def __init__(self, services: Services) -> None:
        self._timers = services.store.timers
        self._directory = services.directory

    def routes(self) -> list[Route]:
        """Return the routes of this file."""
        return [Route("/v1/timers", self.find), Route("/v1/timers/{no}", self.cancel, methods=["DELETE"])]

    @persons
    @described({200: {"timers": [_SHOWN]}}, query=TimersQuery)
    async def find(self, request: Request) -> Response:
        """List timers that have not fired. Those with `deadline` end a wait or a task, the others are messages."""
        wish, caller = query(request, TimersQuery), caller_of(request)
        if wish.path is not None:
            caller.check_path(wish.path)
        agent_id = None if wish.path is None else (await self._directory.at(wish.path)).id
        behind = wish.after_due, wish.after
        found = await self._timers.find(agent_id, wish.limit, user=caller.whose(wish.user), behind=behind)
        return answer({"timers": [_view(timer) for timer in found if caller.sees(timer.envelope.to)]})

    @described({200: {"cancelled": _SHOWN}}, segments={"no": Number}, refuses=(409,))
    async def cancel(self, request: Request) -> Response:
        """Cancel a reminder; a deadline is refused."""
        return answer({"cancelled": _view(await self._timers.cancel(segment(request, "no", Number)))})


def _view(timer: Timer) -> dict[str, Any]:
    view: dict[str, Any] = msgspec.to_builtins(timer)
    return view | {"path": timer.envelope.to, "deadline": timer.envelope.lane is Lane.CONTROL}
