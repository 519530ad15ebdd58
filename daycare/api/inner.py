"""A call of the API from within a request, in the name of whoever has sent that: so nothing is permitted twice."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

import msgspec
from starlette.requests import Request
from starlette.types import Message

from daycare.api.callers import caller_of

_REFUSED: Final = 400  # and above

_decode = msgspec.json.Decoder().decode


class InnerAnswer(NamedTuple):
    """What the API answers: its status, and the document."""

    status: int
    document: Any

    @property
    def refused(self) -> bool:
        """Whether it is an error, whose `error` says why."""
        return self.status >= _REFUSED


async def inner_call(
    request: Request, method: str, path: str, query: Mapping[str, Any], body: Any = None
) -> InnerAnswer:
    """Make a call; fields of the query that are None are left out. It ends when whoever waits for `request` leaves."""
    asked = urlencode({name: _spelled(value) for name, value in query.items() if value is not None})
    given = [msgspec.json.encode(body) if body is not None else b""]
    status, found = 0, bytearray()

    async def receive() -> Message:
        if given:
            return {"type": "http.request", "body": given.pop(), "more_body": False}
        return await request.receive()

    async def send(message: Message) -> None:
        nonlocal status
        status = message.get("status", status)
        found.extend(message.get("body", b""))

    scope = {**request.scope, "method": method, "path": path, "raw_path": path.encode(), "query_string": asked.encode()}
    scope |= {"headers": [], "path_params": {}, "state": {"caller": caller_of(request)}}
    await request.app(scope, receive, send)
    return InnerAnswer(status, _decode(bytes(found)) if found else None)


def _spelled(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
