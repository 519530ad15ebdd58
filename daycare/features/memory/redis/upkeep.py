"""Keeping the copy in Redis up to date beside the daemon's work, and saying how it is."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

import trio

from daycare.base.errors import DaycareError, UnavailableError
from daycare.base.health import Finding
from daycare.features.memory.redis.copier import MemoryCopier
from daycare.features.memory.redis.index import RedisIndex
from daycare.features.memory.redis.server import EVICTING, RedisServer
from daycare.features.memory.store.rows import MemoryRows
from daycare.store.worker import Worker

LOOK_S: Final = 5.0  # at least so often: other nodes commit, too, and a server that went away is to be missed
RETRY_MAX_S: Final = 60.0  # between two tries to reach a server that is away
_PAUSE_FOLD: Final = 2  # of what a round took, before the next: a share of the machine is left for others
_GATHER_S: Final = 0.02  # of the commits of one moment


class RedisMemory:
    """The copy of memories in Redis. `model` says of which embedder vectors are searched, "" for none.

    `on_trouble` hears of the first failure, and with None when the server answers again.
    """

    def __init__(
        self,
        server: RedisServer,
        rows: MemoryRows,
        model: Callable[[], Awaitable[str]],
        on_trouble: Callable[[DaycareError | None], None],
    ) -> None:
        self.index = RedisIndex(server, rows)
        self.worker = Worker(self._look, _GATHER_S)
        self._server = server
        self._model = model
        self._known_model = ""
        self._copier = MemoryCopier(server, rows, lambda: self._known_model)
        self._on_trouble = on_trouble
        self._trouble: DaycareError | None = None
        self._retry_s = LOOK_S
        self._carries = False

    async def _look(self) -> float:
        """Carry over what waits; return in how many seconds to look again."""
        with suppress(DaycareError):  # until it is known, vectors wait, and what was said does not
            self._known_model = await self._model()
        began = trio.current_time()
        try:
            more = await trio.to_thread.run_sync(self._copier.round)
        except UnavailableError as error:
            if error.code != "REDIS_AWAY":
                raise  # it is the store that is away
            self._note(error)
            await trio.sleep(self._retry_s)
            self._retry_s = min(2 * self._retry_s, RETRY_MAX_S)
            return 0.0
        self._note(None)
        self._retry_s = LOOK_S
        await trio.sleep(min(_PAUSE_FOLD * (trio.current_time() - began), LOOK_S))
        return 0.0 if more else LOOK_S

    async def run(self) -> None:
        """Keep it up to date until cancelled; of several nodes one does."""
        self._carries = True
        try:
            await self.worker.run()
        finally:
            self._carries = False
            self._server.close()

    def _note(self, error: DaycareError | None) -> None:
        if (error is None) == (self._trouble is None):
            return
        self._trouble = error
        self._on_trouble(error)

    def status(self) -> dict[str, Any]:
        """Return what `GET /v1/status` shows of it; how much waits knows the node that carries it over."""
        trouble = self._server.trouble
        return {
            "server": self._server.shown,
            "waiting": self._copier.waiting if self._carries else None,
            "policy": self._copier.policy,
            "trouble": trouble.message if trouble is not None else "",
        }

    def finding(self) -> Finding:
        """Return how it is, for `daycare health`."""
        waiting = self._copier.waiting
        trouble = self._server.trouble
        if trouble is None and self._copier.policy.startswith(EVICTING):
            text = f"Redis at {self._server.shown} throws memories away when it is full ({self._copier.policy})"
            return Finding(name="memory", ok=False, text=text, watched=True, hint="maxmemory-policy noeviction")
        if trouble is None:
            text = f"searched in Redis at {self._server.shown}"
            if waiting:
                text += f"; {waiting} memories are still to be carried there"
            return Finding(name="memory", ok=True, text=text, watched=True)
        text = (
            f"nothing is recalled: {trouble.message}. What is said meanwhile is kept here and carried over later;"
            " what is forgotten meanwhile lies there until then"
        )
        return Finding(name="memory", ok=False, text=text, watched=True, hint="daycare doctor")
