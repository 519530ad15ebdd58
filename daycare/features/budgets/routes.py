"""Budgets: what paths may spend, and what was spent."""

from datetime import date
from typing import Annotated, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daycare.api.callers import Caller, caller_of, persons
from daycare.api.described import MediaBody, described
from daycare.api.documents import Limit, PathQuery, RequestDocument, answer, body, query
from daycare.base.budget import EVERYTHING, Period, read_amount, read_limits
from daycare.base.errors import InvalidError
from daycare.base.limits import PATH_MAX_CHARS, SPEND_DAYS_MAX
from daycare.features.budgets.controls import BudgetControls, BudgetView, SpentToday
from daycare.features.budgets.overview import OVERVIEW_GROUPS_MAX, SpendOverview, csv_of, overview, without_names
from daycare.features.budgets.records import Spent
from daycare.features.budgets.rows_overview import By

PATHS_MAX: Final = 300  # in one look at today ...
PATHS_MAX_CHARS: Final = 12_000  # ... which have to fit into the head of a request

_Path = Annotated[str, msgspec.Meta(max_length=PATH_MAX_CHARS)]


class NewLimits(RequestDocument, frozen=True, kw_only=True):
    """Limits of a path by name, `day.usd`, in whole units: millionths of a dollar, milliseconds. -1 lifts a default.

    `amounts` are such as people write them: `2usd a day`, `100k tokens a month`.
    """

    path: _Path
    limits: dict[str, Annotated[int, msgspec.Meta(ge=-1, le=10**15)]] = msgspec.field(default_factory=dict)
    amounts: Annotated[tuple[Annotated[str, msgspec.Meta(max_length=100)], ...], msgspec.Meta(max_length=8)] = ()


class BudgetsQuery(RequestDocument, frozen=True, kw_only=True):
    """Which budgets, in the order of their paths, from behind `after` on; all of them without a limit."""

    after: _Path = ""
    limit: Limit | None = None


class More(RequestDocument, frozen=True, kw_only=True):
    """What to add to a limit for this day or month: `2usd`, `100k tokens`."""

    path: _Path
    amount: Annotated[str, msgspec.Meta(max_length=100)]
    period: Period = "day"


class Days(RequestDocument, frozen=True, kw_only=True):
    """So many days up to today, at and below a path."""

    path: _Path = EVERYTHING
    days: Annotated[int, msgspec.Meta(ge=1, le=SPEND_DAYS_MAX)] = 7


class TodayQuery(RequestDocument, frozen=True, kw_only=True):
    """Paths with a comma between them; those that are not somebody's are left out."""

    paths: Annotated[str, msgspec.Meta(max_length=PATHS_MAX_CHARS)]


class Sums(Days, frozen=True, kw_only=True):
    """So many days up to the day `until`, today without it, with the `groups` that cost most and all others as one."""

    by: By = "model"
    until: Annotated[str, msgspec.Meta(pattern=r"^(\d{4}-\d{2}-\d{2})?$")] = ""
    groups: Annotated[int, msgspec.Meta(ge=1, le=OVERVIEW_GROUPS_MAX)] = 20


class BudgetRoutes:
    """`/v1/budgets`, `/v1/budget`, `/v1/spend` and `/v1/spend/today`."""

    def __init__(self, controls: BudgetControls, owner: str) -> None:
        self._controls = controls
        self._owner = owner

    def routes(self) -> list[Route]:
        """Return the routes of this file."""
        return [
            Route("/v1/budgets", self.find),
            Route("/v1/budget", self.explain),
            Route("/v1/budget", self.put, methods=["PUT"]),
            Route("/v1/budget", self.remove, methods=["DELETE"]),
            Route("/v1/budget/raise", self.allow_more, methods=["POST"]),
            Route("/v1/spend", self.spent),
            Route("/v1/spend/today", self.today),
            Route("/v1/spend/sums", self.sums),
            Route("/v1/spend/csv", self.table),
        ]

    @described({200: {"budgets": list[BudgetView]}}, query=BudgetsQuery)
    async def find(self, request: Request) -> Response:
        """List the budgets of the installation, of everybody, and of all paths for which something was set."""
        wish = query(request, BudgetsQuery)
        return answer({"budgets": await self._controls.listed(wish.after, wish.limit)})

    @persons
    @described({200: {"budgets": list[BudgetView]}}, query=PathQuery)
    async def explain(self, request: Request) -> Response:
        """Return all budgets that bind what is done at a path, the nearest first: a person sees those of their own."""
        wish, caller = query(request, PathQuery), caller_of(request)
        caller.check_path(wish.path)
        budgets = await self._controls.explained(wish.path)
        return answer({"budgets": [each for each in budgets if caller.sees(each.path)]})

    @described({200: BudgetView}, body=NewLimits)
    async def put(self, request: Request) -> Response:
        """Set some limits of a path."""
        wish = await body(request, NewLimits)
        limits = {**wish.limits, **read_limits(wish.amounts)}
        if not limits:
            raise InvalidError("BUDGET_INVALID", f"set a budget of {wish.path}: there is no limit", hint="2usd a day")
        return answer(await self._controls.put(wish.path, limits, by=self._owner))

    @described({200: {"removed": bool}}, query=PathQuery)
    async def remove(self, request: Request) -> Response:
        """Forget what was set for a path, so that the default holds."""
        wish = query(request, PathQuery)
        return answer({"removed": await self._controls.remove(wish.path)})

    @described({200: {"budget": BudgetView, "replayed": int}}, body=More, refuses=(409,))
    async def allow_more(self, request: Request) -> Response:
        """Raise a limit for this day or month; what was given up for want of it is queued again."""
        wish = await body(request, More)
        view, replayed = await self._controls.allow_more(
            wish.path, *read_amount(wish.amount), wish.period, by=self._owner
        )
        return answer({"budget": view, "replayed": replayed})

    @persons
    @described({200: {"spent": dict[str, SpentToday]}}, query=TodayQuery)
    async def today(self, request: Request) -> Response:
        """Return what was spent today at and below each of some paths, and the limit of the day that each has."""
        caller = caller_of(request)
        wish = query(request, TodayQuery)
        paths = [path for path in wish.paths.split(",")[:PATHS_MAX] if path and caller.sees(path)]
        return answer({"spent": await self._controls.spent_today(paths)})

    @persons
    @described({200: {"today": str, "days": int, "spent": list[Spent]}}, query=Days)
    async def spent(self, request: Request) -> Response:
        """Return what was spent by day, path and model, newest first."""
        wish, caller = query(request, Days), caller_of(request)
        path = _own(caller, wish.path)
        found = [each for each in await self._controls.spent(wish.days, path) if caller.sees(each.path)]
        return answer({"today": await self._controls.today(path), "days": wish.days, "spent": found})

    @persons
    @described({200: SpendOverview}, query=Sums)
    async def sums(self, request: Request) -> Response:
        """Return what was spent day by day, summed by model, by agent, or by who asked for it."""
        wish, caller = query(request, Sums), caller_of(request)
        if wish.until:
            _check_day(wish.until)
        path = _own(caller, wish.path)
        found = await overview(self._controls, wish.by, wish.days, path=path, until=wish.until, groups=wish.groups)
        return answer(found if wish.by == "model" else without_names(found, caller.sees))

    @described({200: MediaBody("text/csv")}, query=Days)
    async def table(self, request: Request) -> Response:
        """Return what was spent by day, path and model as a table for a spreadsheet, newest first."""
        wish = query(request, Days)
        text = csv_of(await self._controls.spent(wish.days, wish.path))
        name = f"daycare-spend-{await self._controls.today(wish.path)}-{wish.days}-days.csv"
        headers = {"Content-Disposition": f'attachment; filename="{name}"', "X-Content-Type-Options": "nosniff"}
        return Response(text, headers=headers, media_type="text/csv")


def _own(caller: Caller, path: str) -> str:
    """Return the path whose costs are asked for: of who sees only their own, and names none, all of these."""
    if caller.own_only and path == EVERYTHING:
        path = caller.paths.removesuffix("/**") or f"/{caller.user}"
    caller.check_path(path)
    return path


def _check_day(day: str) -> None:
    try:
        date.fromisoformat(day)
    except ValueError as error:
        raise InvalidError("SPEND_DAYS", f"looking up to {day}: {error}", hint="a day such as 2026-11-21") from None
