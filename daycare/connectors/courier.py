"""The courier: one task per pushing connector that brings its outbox rows out, in order per address."""

from collections.abc import Awaitable, Callable, Mapping

import trio

from daycare.base.clock import Clock
from daycare.base.limits import COURIER_PAGE, COURIER_SENDS_MAX
from daycare.plugin import Connector
from daycare.store.contract import Store
from daycare.store.records import OutboxRow

Deliver = Callable[[OutboxRow], Awaitable[float | None]]


class Courier:
    """Calls `deliver` for each waiting row of each connector that pushes.

    Rows for one person go out one after another, in order; a row that has to wait holds back that person's later ones
    only. `deliver` returns the seconds until the next try of the same row, or None when it is finished with it.
    """

    def __init__(self, store: Store, connectors: Mapping[str, Connector], deliver: Deliver, clock: Clock) -> None:
        self._store = store
        self._deliver = deliver
        self._clock = clock
        self._news = {name: trio.Event() for name, connector in connectors.items() if not connector.pull}

    def wake(self, connectors: set[str]) -> None:
        """Look again: these connectors have new rows. Called after each commit."""
        for name in connectors & self._news.keys():
            self._news[name].set()

    async def run(self) -> None:
        """Deliver until cancelled."""
        async with trio.open_nursery() as nursery:
            for name in self._news:
                nursery.start_soon(self._serve, name)

    async def _serve(self, name: str) -> None:
        busy: set[tuple[str, str | None]] = set()
        sends = trio.CapacityLimiter(COURIER_SENDS_MAX)
        async with trio.open_nursery() as nursery:
            while True:
                self._news[name] = trio.Event()  # before looking
                after = 0
                while page := await self._store.outbox.waiting(name, after=after, limit=COURIER_PAGE):
                    after = page[-1].seq
                    for row in page:
                        address = (row.user, row.target)
                        if address not in busy:
                            busy.add(address)
                            nursery.start_soon(self._bring, name, row, busy, sends)
                await self._news[name].wait()

    async def _bring(
        self, name: str, row: OutboxRow, busy: set[tuple[str, str | None]], sends: trio.CapacityLimiter
    ) -> None:
        """Bring one row, trying again until it is finished with; then let the next of this address go."""
        await trio.sleep(max(0.0, (row.retry_at - self._clock.now_ms()) / 1000))
        async with sends:
            retry_s = await self._deliver(row)
        while retry_s is not None:
            await trio.sleep(retry_s)
            again = await self._store.outbox.get(row.seq)
            if again is None or again.state not in ("waiting", "sending"):
                break
            async with sends:
                retry_s = await self._deliver(again)
        busy.discard((row.user, row.target))
        self._news[name].set()
