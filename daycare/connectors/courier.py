"""The courier: one task per pushing connector that brings its outbox rows out, in order for each user."""

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import trio

from daycare.actors.linking import Linking
from daycare.base.clock import Clock, wait_s
from daycare.base.error_boundary import origin_of, reason_of
from daycare.base.errors import DaycareError, StoreAwayError
from daycare.base.limits import RETRY_MAX_S, STORE_RETRY_S
from daycare.observe import log
from daycare.observe.keeper import Keeper
from daycare.plugin import Connector
from daycare.store.records import Commit, OutboxRow
from daycare.store.retry import with_retry
from daycare.store.sqlite.store import Store
from daycare.store.worker import IDLE_S, Worker

COURIER_PAGE: Final = 64  # outbox rows read at a time
COURIER_SENDS_MAX: Final = 16  # replies of one connector on their way at the same time
COURIER_QUIET_S: Final = 5.0  # for replies on their way to arrive, before their connection is made again

Deliver = Callable[[OutboxRow], Awaitable[float | None]]


class Courier:
    """Calls `deliver` for each waiting row of each connector that pushes.

    Rows for one person go out one after another, in order; a row that has to wait holds back that person's later ones
    only. `deliver` returns the seconds until the next try of the same row, or None when it is finished with it.
    """

    def __init__(
        self,
        store: Store,
        connectors: Mapping[str, Connector],
        deliver: Deliver,
        clock: Clock,
        keeper: Keeper,
        linking: Linking | None = None,
    ) -> None:
        self._store = store
        self._linking = linking or Linking(store.share)
        self._keeper = keeper
        self._deliver = deliver
        self._clock = clock
        self._connectors = connectors
        self._tasks: trio.Nursery | None = None
        self._served: dict[str, trio.CancelScope] = {}
        self._sends: dict[str, trio.CapacityLimiter] = {}
        self._workers: dict[str, Worker] = {}
        self.connect()
        self.gate: Callable[[str], Awaitable[None]] | None = None  # returns when a connector may be used

    def committed(self, commit: Commit) -> None:
        """Look again where a commit made new rows."""
        for name in commit.connectors & self._workers.keys():
            self._workers[name].wake()

    async def run(self) -> None:
        """Deliver until cancelled."""
        self._served.clear()
        async with trio.open_nursery() as self._tasks:
            self.connect()
            await trio.sleep_forever()

    def connect(self) -> None:
        """Serve the connectors there are now, and none that has gone."""
        pushing = {name for name, connector in self._connectors.items() if not connector.pull}
        for name in self._served.keys() - pushing:
            self._served.pop(name).cancel()
        if self._tasks is not None:
            for name in sorted(pushing - self._served.keys()):
                self._served[name] = trio.CancelScope()
                self._tasks.start_soon(self._serve_while, name, self._served[name])

    @asynccontextmanager
    async def quiet(self, names: Collection[str]) -> AsyncIterator[None]:
        """Send nothing over these connectors within the block; what is on its way has a moment to arrive."""
        taken: list[tuple[trio.CapacityLimiter, object]] = []
        try:
            with trio.move_on_after(COURIER_QUIET_S):
                for sends in [self._sends[name] for name in names if name in self._sends]:
                    for _ in range(COURIER_SENDS_MAX):
                        mine = object()
                        await sends.acquire_on_behalf_of(mine)
                        taken.append((sends, mine))
            yield
        finally:
            for sends, mine in taken:
                sends.release_on_behalf_of(mine)

    async def _serve_while(self, name: str, scope: trio.CancelScope) -> None:
        with scope:
            serve = partial(self._linking.while_had, name, partial(self._serve, name))
            await self._keeper.keep(f"delivery over {name}", serve)

    async def _serve(self, name: str) -> None:
        queues: dict[str, deque[int]] = {}  # by user: where they are is looked up when a reply goes out
        sends = self._sends[name] = trio.CapacityLimiter(COURIER_SENDS_MAX)
        if self.gate is not None:
            await self.gate(name)
        after = 0  # every row up to here is in a queue or done; a revived one gets a number of its own
        async with trio.open_nursery() as nursery:

            async def look() -> float:
                nonlocal after
                while page := await self._store.outbox.waiting(name, after=after, limit=COURIER_PAGE):
                    after = page[-1].seq
                    for row in page:
                        if row.user not in queues:
                            queues[row.user] = deque()
                            nursery.start_soon(self._bring, row.user, queues, sends)
                        queues[row.user].append(row.seq)
                return IDLE_S

            self._workers[name] = Worker(look)
            await self._workers[name].run()

    async def _bring(self, user: str, queues: dict[str, deque[int]], sends: trio.CapacityLimiter) -> None:
        """Bring what waits for one user, each row until it is finished with, and only then the next."""
        queue = queues[user]
        again_s: float | None = None
        while queue:
            if again_s is not None:
                await trio.sleep(again_s)
            row = await self._row(queue[0])  # as it is now: it may have waited here for long
            if row is None or row.state not in ("waiting", "sending"):
                again_s = None
                queue.popleft()
                continue
            if again_s is None:
                await trio.sleep(wait_s(self._clock, row.retry_at, RETRY_MAX_S))
            async with sends:
                again_s = await self._try(row)
            if again_s is None:
                queue.popleft()
        del queues[user]  # no await since it was seen empty

    async def _try(self, row: OutboxRow) -> float | None:
        """Deliver a row; nothing that goes wrong with it concerns anybody else's."""
        if not self._linking.has(row.connector):
            return STORE_RETRY_S  # another node does by now, or this one is about to find out
        try:
            return await self._deliver(row)
        except StoreAwayError:
            return STORE_RETRY_S
        except Exception as defect:  # noqa: BLE001 - one row that nobody can deliver must not hold back all others
            code = defect.code if isinstance(defect, DaycareError) else "DELIVERY_CRASHED"
            reason, (name, where) = f"delivering reply {row.seq}: {reason_of(defect)}", origin_of(defect)
            log.logger().error("delivery.crashed", outbox=row.seq, error=name, where=where)
            await with_retry(lambda: self._store.outbox.give_up(row.seq, code, reason))
            return None

    async def _row(self, seq: int) -> OutboxRow | None:
        return await with_retry(lambda: self._store.outbox.get(seq))
