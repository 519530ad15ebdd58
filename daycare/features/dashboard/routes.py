"""Which pages there are, and how one is served."""

from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daycare.api.callers import deciders
from daycare.features.dashboard.pages import agent, agents, approvals, costs, memory, people, start, system, work
from daycare.features.dashboard.visit import PageRefusedError, Visit

Load = Callable[[Visit], Awaitable[dict[str, Any]]]

_KEPT_S: Final = 365 * 24 * 3600  # of a file whose address changes with it
_TYPES: Final = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


class PageKind(NamedTuple):
    """A page: where it is, what it is drawn with, what it shows, and a route of the API that whoever sees it may call.

    `title` is its name in the navigation, empty if it is not there. Events of the kinds in `live` change it.
    """

    path: str
    template: str
    load: Load
    needs: str
    title: str = ""
    live: str = ""


_AGENTS: Final = (
    "agent.woke,agent.slept,agent.parked,agent.died,agent.created,agent.restored,agent.changed,"
    "turn.started,turn.finished,turn.failed"
)
_TALK: Final = (
    "message.accepted,turn.started,turn.delta,tool.started,tool.finished,turn.finished,turn.failed,reply.sent,"
    "agent.changed,agent.died,agent.parked,approval.requested"
)
_WORK: Final = (
    "cron.due,cron.ran,cron.missed,cron.failed,task.started,task.progress,task.ended,dead.lettered,signal.fired"
)

PAGES: Final = (
    PageKind("/", "agents.html", agents.listed, "/v1/agents", "Agents", _AGENTS),
    PageKind("/new-agent", "new_agent.html", agents.new, "/v1/agents/choices"),
    PageKind("/agents/{path:path}", "agent.html", agent.one, "/v1/agent", "", _TALK),
    PageKind(
        "/approvals",
        "approvals.html",
        approvals.listed,
        "/v1/approvals",
        "Approvals",
        "approval.requested,approval.decided",
    ),
    PageKind(
        "/memory", "memory.html", memory.searched, "/v1/memories/search", "Memory", "memory.learned,memory.forgotten"
    ),
    PageKind("/work", "work.html", work.listed, "/v1/cron", "Work", _WORK),
    PageKind("/costs", "costs.html", costs.shown, "/v1/spend", "Costs", "model.called,budget.warned,budget.exhausted"),
    PageKind("/people", "people.html", people.listed, "/v1/users", "People", "stranger.knocked"),
    PageKind(
        "/system",
        "system.html",
        system.shown,
        "/v1/health",
        "System",
        "connector.health,config.reloaded,config.refused,store.trouble",
    ),
    PageKind("/start", "start.html", start.shown, "/v1/setup", "", "config.reloaded,turn.finished"),
)


class DashboardRoutes:
    """The pages."""

    def routes(self) -> list[Route]:
        """Return the routes of the dashboard."""
        pages = [Route(kind.path, _serving(kind), name=kind.template, include_in_schema=False) for kind in PAGES]
        return [*pages, Route("/static/{name}", self.static, include_in_schema=False)]

    @deciders
    async def static(self, request: Request) -> Response:
        """Return a file that pages are drawn with."""
        from daycare.features.dashboard import rendering

        name = request.path_params["name"]
        found = rendering.static(name)
        if found is None:
            raise HTTPException(404)
        headers = {"Cache-Control": f"private, max-age={_KEPT_S}, immutable", "X-Content-Type-Options": "nosniff"}
        return Response(found, media_type=_TYPES[name.rpartition(".")[2]], headers=headers)


def _serving(kind: PageKind) -> Callable[[Request], Awaitable[Response]]:
    @deciders
    async def serve(request: Request) -> Response:
        """Show a page of the dashboard."""
        from daycare.features.dashboard import rendering  # what it takes is loaded when somebody looks

        visit = Visit(request)
        status, template = 200, kind.template
        try:
            if kind.path == "/" and await start.is_wanted(visit):
                return Response(status_code=303, headers={"Location": "/start", "Cache-Control": "no-store"})
            values = await kind.load(visit)
        except PageRefusedError as error:
            status, template, values = error.status, "error.html", {"title": "Not there", "error": error.error}
        live = kind.live if visit.may_see("/v1/events") else ""
        shown = [each for each in PAGES if each.title and visit.may_see(each.needs)]
        text, headers = rendering.page(
            template,
            {"watch": "", **values, "pages": shown, "here": kind.path, "live": live, **visit.signed},
        )
        return Response(text, status, headers=headers, media_type="text/html")

    return serve
