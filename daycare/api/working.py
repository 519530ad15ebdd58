"""The answer of something that takes a while: lines of progress, and last one of what it came to."""

from collections.abc import Awaitable, Callable
from typing import Any, Final, Generic, TypeVar

import msgspec
import trio
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from daycare.api.errors import error_response
from daycare.api.wanted import while_wanted
from daycare.base.errors import DaycareError, UnavailableError

EXPORT_PROGRESS_S: Final = 1.0  # between two signs of life

LINES: Final = "application/x-ndjson"

P = TypeVar("P")
_encode = msgspec.json.Encoder().encode


class Working(Response, Generic[P]):
    """What `work` comes to, with how far it is, which it writes into `progress`.

    What fails before the first line is answered with its status. Whoever goes away ends it.
    """

    def __init__(self, work: Callable[[P], Awaitable[object]], progress: P, closing: trio.Event) -> None:
        super().__init__(media_type=LINES)
        del self.headers["content-length"]  # nobody knows it yet
        self._work = work
        self._progress = progress
        self._closing = closing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Work, and tell."""
        done = trio.Event()
        last: object = UnavailableError("DAEMON_STOPPING", "the daemon stops: nothing was changed")
        begun = False

        async def run() -> None:
            nonlocal last
            try:
                last = await self._work(self._progress)
            except DaycareError as error:
                last = error
            done.set()

        async with while_wanted(self._closing, receive), trio.open_nursery() as nursery:
            nursery.start_soon(run)
            while not done.is_set():
                with trio.move_on_after(EXPORT_PROGRESS_S):
                    await done.wait()
                if not done.is_set():
                    await self._line(send, {"progress": self._progress}, begin=not begun)
                    begun = True
        if isinstance(last, DaycareError) and not begun:
            await error_response(last, scope["path"])(scope, receive, send)
            return
        await self._line(send, _told(last), begin=not begun)
        await send({"type": "http.response.body", "body": b""})

    async def _line(self, send: Send, document: Any, *, begin: bool) -> None:
        if begin:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": _encode(document) + b"\n", "more_body": True})


def _told(last: object) -> dict[str, Any]:
    if isinstance(last, DaycareError):
        error = {"code": last.code, "message": last.message, "hint": last.hint, "retry_after_s": last.retry_after_s}
        return {"error": error, "status": last.http_status}
    return {"report": last}
