"""The log as a route."""

from pathlib import Path
from typing import Final

import trio
from starlette.routing import Route

from daycare.api.described import described
from daycare.api.operations import route
from daycare.features.logs.operations import LogPart, ReadLog
from daycare.features.logs.reading import log_end, read_log

LOG_LOOK_S: Final = 0.5  # how often a waiting reader's file is looked at


class LogRoutes:
    """`/v1/log`. `closing` ends what waits."""

    def __init__(self, file: Path, closing: trio.Event) -> None:
        self._file = file
        self._closing = closing

    def routes(self) -> list[Route]:
        """Return the route of the log."""
        return [route(ReadLog, self.read)]

    @described({200: LogPart})
    async def read(self, wish: ReadLog) -> LogPart:
        """Read it; who waits is answered once something that fits was written, or in time."""
        with trio.move_on_after(wish.wait_s):
            while wish.wait_s and not self._closing.is_set():
                if log_end(self._file) != wish.after:
                    found = await trio.to_thread.run_sync(read_log, self._file, wish)
                    if found.lines:
                        return found
                await trio.sleep(LOG_LOOK_S)
        return await trio.to_thread.run_sync(read_log, self._file, wish)
