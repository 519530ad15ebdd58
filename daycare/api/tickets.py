"""Tickets: what stands in a URL where no header can be sent, as browsers open streams, WebSockets and downloads.

It is good once and for a moment, so that nobody can use it whom a log or a history tells it.
"""

from typing import Final
from urllib.parse import parse_qsl, urlencode

from starlette.types import Scope

TICKET_S: Final = 30.0

_NAME: Final = "ticket"
_STREAMS: Final = ("/v1/events", "/v1/ws")
_DOWNLOADS: Final = ("/v1/files/",)
_BOUND: Final = ("/v1/exports/", "/v1/backups/")  # all that somebody has: only by a ticket that was made for just that


def taken(scope: Scope) -> str:
    """Take the ticket out of the URL of a request that may come with one, and return it; "" for none."""
    if scope["type"] == "http" and scope["method"] != "GET":
        return ""
    if scope["path"] not in _STREAMS and not scope["path"].startswith((*_DOWNLOADS, *_BOUND)):
        return ""
    query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    scope["query_string"] = urlencode([each for each in query if each[0] != _NAME]).encode("ascii")
    return next((value for name, value in query if name == _NAME), "")


def opens(route: str, path: str) -> bool:
    """Return whether a ticket that was made for a route, "" for any, is good for a path that comes with one."""
    return route == path or (not route and not path.startswith(_BOUND))
