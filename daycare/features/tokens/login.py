"""How a browser is logged in and out, what it is told of itself, and tickets."""

from html import escape
from typing import Annotated, Final
from urllib.parse import parse_qs

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daycare.api.browsers import LOGIN, cookie, csrf_of
from daycare.api.callers import May, anybody, caller_of, everybody
from daycare.api.described import MediaBody, described
from daycare.api.documents import RequestDocument, answer, query
from daycare.api.errors import UnauthorizedError
from daycare.api.tickets import TICKET_S
from daycare.features.tokens.service import BROWSER_DAYS, ApiTokens

_DAY_S: Final = 86_400
_GUARDED: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "Referrer-Policy": "same-origin",  # with none at all a browser would not say of which origin its form is
    "X-Content-Type-Options": "nosniff",
}
# A preview of the link reads this page, and posts nothing: so the code is good until a person presses the button.
_PAGE: Final = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>daycare</title>
{body}</html>
"""
_FORM: Final = """<form method="post" action="{login}"><input type="hidden" name="code" value="{code}">
<button autofocus>Log this browser in</button></form>"""
_NO_CODE: Final = """<p>This browser is not logged in. <code>daycare web</code> on the daemon's machine prints a link
that does it.</p>"""


class TicketQuery(RequestDocument, frozen=True, kw_only=True):
    """The `route` that a ticket is for, its path; without one it is for streams, WebSockets and files."""

    route: Annotated[str, msgspec.Meta(max_length=1_000)] = ""


class LoginQuery(RequestDocument, frozen=True, kw_only=True):
    """The code of a link."""

    code: str = ""


class LoginRoutes:
    """`/v1/login`, `/v1/logout`, `/v1/session` and `/v1/tickets`."""

    def __init__(self, tokens: ApiTokens) -> None:
        self._tokens = tokens

    def routes(self) -> list[Route]:
        """Return the routes of this file."""
        return [
            Route(LOGIN, self.ask),
            Route(LOGIN, self.log_in, methods=["POST"]),
            Route("/v1/logout", self.log_out, methods=["POST"]),
            Route("/v1/session", self.session),
            Route("/v1/tickets", self.ticket, methods=["POST"]),
        ]

    @anybody
    @described({200: MediaBody("text/html")}, query=LoginQuery)
    async def ask(self, request: Request) -> Response:
        """Show the page on which a link of `daycare web` is confirmed."""
        code = query(request, LoginQuery).code
        page = _FORM.format(login=LOGIN, code=escape(code)) if code else _NO_CODE
        return Response(_PAGE.format(body=page), headers=_GUARDED, media_type="text/html")

    @anybody
    @described({303: None}, body=MediaBody("application/x-www-form-urlencoded"))
    async def log_in(self, request: Request) -> Response:
        """Log a browser in with the code of a link; its cookie is set, and it goes on to `/`."""
        [code, *_] = parse_qs((await request.body()).decode("utf-8", "replace")).get("code", [""])
        found = await self._tokens.log_in(code)
        if found is None:
            late = UnauthorizedError(
                "LOGIN_CODE", "logging in: this link was used, or is older than five minutes", hint="daycare web"
            )
            raise caller_of(request).wrong(late)
        peer = request.scope.get("state", {}).get("peer")
        secure = peer is not None and peer.secure
        response = Response(status_code=303, headers={**_GUARDED, "Location": "/"})
        response.headers["Set-Cookie"] = cookie(found[1], BROWSER_DAYS * _DAY_S, secure=secure)
        return response

    @everybody
    @described({204: None})
    async def log_out(self, request: Request) -> Response:
        """Log a browser out: its cookie opens nothing any more."""
        caller = caller_of(request)
        if caller.session:
            await self._tokens.revoke(caller.name)
        return Response(status_code=204, headers={"Set-Cookie": cookie("", 0, secure=False)})

    @everybody
    @described({200: {"name": str, "user": str, "may": May, "paths": str, "csrf?": str}})
    async def session(self, request: Request) -> Response:
        """Tell who calls; a browser also what its changes have to carry as X-Daycare-CSRF."""
        caller = caller_of(request)
        told = {"name": caller.name, "user": caller.user, "may": caller.may, "paths": caller.paths}
        response = answer(told | ({"csrf": csrf_of(caller.session)} if caller.session else {}))
        response.headers["Cache-Control"] = "no-store"
        return response

    @everybody
    @described({201: {"ticket": str, "expires_in_s": float}}, query=TicketQuery)
    async def ticket(self, request: Request) -> Response:
        """Make a ticket, for where no header can be sent: `?ticket=` of streams, WebSockets and downloads."""
        made = self._tokens.ticket(caller_of(request), query(request, TicketQuery).route)
        response = answer({"ticket": made, "expires_in_s": TICKET_S}, 201)
        response.headers["Cache-Control"] = "no-store"
        return response
