"""Upkeep: helpers nobody has needed for a while and requests nobody decided end, and old rows are deleted."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

import trio

from daycare.actors.directory import Directory
from daycare.actors.router import Router
from daycare.base.clock import Clock
from daycare.base.errors import BusyError, DaycareError, UnavailableError
from daycare.base.ids import new_trace_id
from daycare.base.limits import CHILD_IDLE_S, CHILD_LOOK_S, EXPIRE_EVERY_S, WAKE_PAGE_AGENTS
from daycare.base.messages import Envelope, EnvelopeKind, Lane, Origin
from daycare.store.contract import Store

_DAY_MS = 86_400_000


@dataclass(frozen=True)
class Upkeep:
    """Does it, in small bites, so that messages go first.

    `expire_approvals` ends a bounded number of requests whose time is over, and returns how many.
    """

    store: Store
    directory: Directory
    router: Router
    clock: Clock
    keep_days: int
    expire_approvals: Callable[[], Awaitable[int]]

    async def run(self) -> None:
        """Look now and then, until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._dismiss_idle)
            nursery.start_soon(self._expire)

    async def _dismiss_idle(self) -> None:
        while True:
            await trio.sleep(CHILD_LOOK_S)
            before = self.clock.now_ms() - int(CHILD_IDLE_S * 1000)
            for agent_id, turn in await self.store.agents.idle_children(before, WAKE_PAGE_AGENTS):
                agent = await self.directory.get(agent_id)
                dismissal = Envelope(
                    to=agent.path,
                    agent_id=agent_id,
                    user=agent.user,
                    origin=Origin.SYSTEM,
                    sender="system",
                    key=f"dismiss:{turn}",
                    text=f"idle for {CHILD_IDLE_S:g} s",
                    trace=new_trace_id(),
                    kind=EnvelopeKind.DISMISS,
                    lane=Lane.CONTROL,
                    meta={"quiet": "1"},  # it has answered all: a last word would cost its parent a turn
                )
                with suppress(DaycareError):  # it died meanwhile, or the store refuses: the next look finds it
                    await self.router.post(dismissal)

    async def _expire(self) -> None:
        while True:
            before = self.clock.now_ms() - self.keep_days * _DAY_MS
            try:
                await self._expire_all(before)
            except (UnavailableError, BusyError):
                pass  # the disk refuses: nothing is lost by expiring later
            await trio.sleep(EXPIRE_EVERY_S)

    async def _expire_all(self, before_ms: int) -> None:
        ended = 1
        while ended:
            ended = await self.expire_approvals()
            await trio.sleep(1.0)
        deleted = 1
        while deleted:
            deleted = await self.store.ledger.expire(before_ms)
            await trio.sleep(1.0)
