"""History as routes: turns page by page, and the prompts of a turn. Persons read their own."""

from typing import Annotated

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daycare.actors.directory import Directory
from daycare.api.callers import caller_of, persons
from daycare.api.described import described
from daycare.api.documents import Number, PathQuery, RequestDocument, answer, query, segment
from daycare.base.errors import NotFoundError
from daycare.base.scope import is_subusers
from daycare.features.history.prompt_records import ShownToModel
from daycare.features.history.prompts import PromptHistory, unknown
from daycare.features.history.records import HistoryPage
from daycare.features.history.rows import HistoryRows
from daycare.store.sqlite.store import Store

_NEWEST = 2**62


class HistoryQuery(PathQuery, frozen=True, kw_only=True):
    """A page of an agent's turns: the newest below `before`; with `ended` also of one that has ended at this path."""

    ended: bool = False
    before: Number = _NEWEST
    limit: Annotated[int, msgspec.Meta(ge=1, le=200)] = 20


class PromptQuery(RequestDocument, frozen=True, kw_only=True):
    """Which call of a model in a turn, counted from 1; the last one without it."""

    call: Annotated[int, msgspec.Meta(ge=1, le=10_000)] | None = None


class HistoryRoutes:
    """`/v1/history` and `/v1/turns`."""

    def __init__(self, store: Store, directory: Directory, prompts: PromptHistory) -> None:
        self._rows = store.of(HistoryRows)
        self._directory = directory
        self._prompts = prompts

    def routes(self) -> list[Route]:
        """Return the routes of this file."""
        return [Route("/v1/history", self.history), Route("/v1/turns/{turn}/prompt", self.prompt)]

    @persons
    @described({200: HistoryPage}, query=HistoryQuery)
    async def history(self, request: Request) -> Response:
        """Read what was said with an agent, over all its sessions, the newest turn first."""
        wish, caller = query(request, HistoryQuery), caller_of(request)
        caller.check_path(wish.path)
        agent = await (self._directory.last if wish.ended else self._directory.at)(wish.path)
        if caller.own_only and is_subusers(agent.path):
            raise NotFoundError("AGENT_UNKNOWN", f"looking up {wish.path}: no such agent", hint="daycare agents")
        return answer(await self._rows.page(agent.id, before=wish.before, limit=wish.limit))

    @persons
    @described({200: ShownToModel}, query=PromptQuery, segments={"turn": Number})
    async def prompt(self, request: Request) -> Response:
        """Show what a model was shown in a turn: by section, with the tools, the conversation and what was left out."""
        number = segment(request, "turn", Number)
        wish, caller = query(request, PromptQuery), caller_of(request)
        turn = await self._prompts.turn(number)
        try:
            caller.check_path(turn.path)
        except NotFoundError:
            raise unknown(number) from None  # as if there were none: numbers of turns tell nothing of others
        if caller.own_only and is_subusers(turn.path):
            raise unknown(number)
        return answer(await self._prompts.of(turn, wish.call))
