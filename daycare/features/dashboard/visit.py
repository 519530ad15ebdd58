"""Somebody looks at a page. What it shows is asked of the API in their name, so that nothing is permitted twice."""

from typing import Any
from urllib.parse import urlencode, urlsplit

from starlette.requests import Request
from starlette.routing import Route

from daycare.api.browsers import csrf_of
from daycare.api.callers import admits, caller_of
from daycare.api.inner import inner_call


class PageRefusedError(Exception):
    """The API has refused; `status` and what it says are for whoever looks."""

    def __init__(self, status: int, error: dict[str, Any]) -> None:
        super().__init__(error["message"])
        self.status = status
        self.error = error


class Visit:
    """One look at one page."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self.caller = caller_of(request)
        self.query = request.query_params

    @property
    def signed(self) -> dict[str, Any]:
        """Who looks, and what changes from their browser carry."""
        return {"caller": self.caller, "csrf": csrf_of(self.caller.session) if self.caller.session else ""}

    def here(self, **other: Any) -> str:
        """Return the query of this page with some values put in place of others."""
        return "?" + urlencode({**self.query, **other})

    @property
    def came_from(self) -> str:
        """The path of the page that led here, empty if there is none."""
        return urlsplit(self._request.headers.get("referer", "")).path

    def segment(self, name: str) -> str:
        """Return a part of the page's path."""
        return str(self._request.path_params[name])

    def may_see(self, route: str) -> bool:
        """Return whether a route of the API answers whoever looks."""
        return any(
            each.path == route and "GET" in (each.methods or ()) and admits(self.caller, "GET", each.endpoint)
            for each in self._request.app.routes
            if isinstance(each, Route)
        )

    async def get(self, route: str, **query: Any) -> Any:
        """Return what the API answers; fields that are None are left out. Raises `PageRefusedError`.

        Fields that the route names in braces are put there.
        """
        asked = {name: value for name, value in query.items() if f"{{{name}}}" not in route}
        answer = await inner_call(self._request, "GET", route.format_map(query), asked)
        if answer.refused:
            raise PageRefusedError(answer.status, answer.document["error"])
        return answer.document

    async def get_if_seen(self, route: str, **query: Any) -> Any:
        """Return what the API answers, None if it answers others only."""
        return await self.get(route, **query) if self.may_see(route) else None
