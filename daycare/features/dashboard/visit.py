"""Somebody looks at a page. What it shows is asked of the API in their name, so that nothing is permitted twice."""

from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import msgspec
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Message

from daycare.api.browsers import csrf_of
from daycare.api.callers import admits, caller_of

_OK: Final = 400  # and above: refused

_decode = msgspec.json.Decoder().decode


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
        path = route.format_map(query)
        asked = {
            name: _spelled(value) for name, value in query.items() if value is not None and f"{{{name}}}" not in route
        }
        status, found = 0, bytearray()

        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            found.extend(message.get("body", b""))

        scope = {**self._request.scope, "method": "GET", "path": path, "raw_path": path.encode()}
        scope |= {
            "query_string": urlencode(asked).encode(),
            "headers": [],
            "path_params": {},
            "state": {"caller": self.caller},
        }
        await self._request.app(scope, receive, send)
        answer = _decode(bytes(found))
        if status >= _OK:
            raise PageRefusedError(status, answer["error"])
        return answer

    async def get_if_seen(self, route: str, **query: Any) -> Any:
        """Return what the API answers, None if it answers others only."""
        return await self.get(route, **query) if self.may_see(route) else None


def _spelled(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
