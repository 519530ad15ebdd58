"""Which pages there are, and how one is served."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daycare.api.callers import deciders, persons
from daycare.api.documents import RequestDocument, answer, body
from daycare.base.limits import DOCUMENT_MAX_BYTES
from daycare.features.dashboard.pages import (
    agent,
    agents,
    approvals,
    costs,
    flow,
    job,
    memory,
    people,
    start,
    system,
    trace,
    work,
)
from daycare.features.dashboard.visit import PageRefusedError, Visit

Load = Callable[[Visit], Awaitable[dict[str, Any]]]

_KEPT_S: Final = 365 * 24 * 3600  # of a file whose address changes with it
_TYPES: Final = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


class PreviewBody(RequestDocument, frozen=True, kw_only=True):
    """A text that somebody writes."""

    text: Annotated[str, msgspec.Meta(max_length=DOCUMENT_MAX_BYTES)]


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
    "message.accepted,turn.started,turn.delta,tool.started,tool.finished,turn.finished,turn.failed,turn.waiting,"
    "model.failed,reply.sent,dead.lettered,agent.changed,agent.died,agent.parked,approval.requested,document.changed,"
    "skill.changed,approval.decided"
)
_JOB: Final = "cron.due,cron.ran,cron.missed,cron.failed,cron.changed"
_SPENT: Final = "model.called,budget.warned,budget.exhausted,budget.changed"

_FLOW: Final = "message.accepted,reply.sent,turn.failed,dead.lettered"
_TRACE: Final = (
    "message.accepted,turn.started,tool.started,tool.finished,turn.waiting,turn.finished,turn.failed,reply.sent,"
    "dead.lettered"
)

PAGES: Final = (
    PageKind("/", "agents.html", agents.listed, "/v1/agents", "Agents", _AGENTS),
    PageKind("/new-agent", "new_agent.html", agents.new, "/v1/agents/choices"),
    PageKind("/agents/{path:path}", "agent.html", agent.one, "/v1/agent", "", _TALK),
    PageKind("/flow", "flow.html", flow.drawn, "/v1/traffic", "Flow", _FLOW),
    PageKind("/trace", "trace.html", trace.found, "/v1/traces", "", _TRACE),
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
    PageKind("/work", "work.html", work.listed, "/v1/cron", "Work"),  # each of its tabs says what changes it
    PageKind("/work/cron/{path:path}", "job.html", job.shown, "/v1/cron/job", "", _JOB),
    PageKind("/costs", "costs.html", costs.shown, "/v1/spend/sums", "Costs", _SPENT),
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
        preview = Route("/preview", self.preview, methods=["POST"], include_in_schema=False)
        return [*pages, preview, Route("/static/{name}", self.static, include_in_schema=False)]

    @persons
    async def preview(self, request: Request) -> Response:
        """Return how a text will look, with the same cleaning as on every page."""
        from daycare.features.dashboard import rendering

        return answer({"html": str(rendering.markdown((await body(request, PreviewBody)).text))})

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
        live = values.get("live", kind.live) if visit.may_see("/v1/events") else ""
        shown = [each for each in PAGES if each.title and visit.may_see(each.needs)]
        text, headers = await rendering.page(
            template,
            {
                "watch": "",
                **values,
                "pages": shown,
                "here": kind.path,
                "live": live,
                "switch": visit.may_see("/v1/agents"),
                **visit.signed,
            },
        )
        return Response(text, status, headers=headers, media_type="text/html")

    return serve
