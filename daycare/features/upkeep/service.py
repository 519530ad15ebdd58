"""Upkeep: the daemon's own agent `/system/gc`, and the end of helpers nobody needs any more."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import trio
from msgspec.structs import replace

from daycare.actors.directory import Directory
from daycare.actors.router import Router
from daycare.agent.behaviours import BehaviourPart
from daycare.base.clock import Clock
from daycare.base.durations import about
from daycare.base.errors import BrokenError, DaycareError, StoreAwayError
from daycare.base.health import Finding
from daycare.base.ids import new_trace_id
from daycare.base.limits import CHILD_IDLE_S, WAKE_PAGE_AGENTS
from daycare.base.messages import Envelope, Origin, dismissal
from daycare.base.path import Path
from daycare.feature import Feature
from daycare.features.upkeep.gc import GC, Gc, Sweep
from daycare.features.upkeep.horizon import Horizon
from daycare.settings import Live
from daycare.store.retry import with_retry
from daycare.store.sqlite.store import Store
from daycare.store.worker import Worker

EXPIRE_EVERY_S: Final = 3_600.0
CHILD_LOOK_S: Final = 60.0
GC_FIRST_S: Final = 60.0  # after a start, which has other work

_LATE: Final = 3  # rounds that may be missing before something is wrong


class Upkeep(Feature):
    """All of it, in small bites, so that messages go first.

    `sweeps` delete what is kept no longer, by what that is: a bounded number of rows each time, and return how many.
    """

    name = "upkeep"

    def __init__(
        self,
        store: Store,
        directory: Directory,
        router: Router,
        clock: Clock,
        live: Live,
        sweeps: Mapping[str, Sweep],
    ) -> None:
        self.store = store
        self.directory = directory
        self.router = router
        self.clock = clock
        self._live = live
        ours: dict[str, Sweep] = {
            "messages, events and files": lambda now_ms: store.ledger.expire(self._before(now_ms), now_ms),
            "rows of agents that have ended": lambda now_ms: store.upkeep.expire_agents(self._before(now_ms)),
            "turns of the daemon's own agents": lambda now_ms: store.upkeep.expire_system(self._before(now_ms)),
        }
        self.horizon = Horizon(clock, store.upkeep.newest_ms())
        self._started_at = clock.now_ms()
        self._gc = Gc(store, {**sweeps, **ours}, clock, self.horizon)

    def _before(self, now_ms: int) -> int:
        return now_ms - self._live.now.store.keep_ms

    def background(self) -> Mapping[str, Callable[[], Awaitable[None]]]:
        """Return what keeps up until cancelled, by name."""
        return {"idle helpers": Worker(self._dismiss_idle).run, "cleanup": self._wake_gc}

    def behaviours(self) -> Mapping[str, BehaviourPart]:
        """Return the agent that deletes."""
        return {GC: self._gc}

    async def findings(self) -> Sequence[Finding]:
        """Return whether rounds are made, and whether the clock is to be trusted."""
        try:
            rounds = await self._rounds()
        except (StoreAwayError, BrokenError) as error:
            rounds = Finding(name="upkeep", ok=False, text=error.message)
        return rounds, self.horizon.finding()

    async def _rounds(self) -> Finding:
        agent = await self.store.agents.at(GC)
        kept = await self.store.behaviours.kept(agent.id) if agent is not None else None
        at_ms = kept.at_ms if kept is not None else 0
        now_ms = self.clock.now_ms()
        late_s = (now_ms - max(at_ms, self._started_at)) / 1000
        text = f"{GC} made its last round {about((now_ms - at_ms) / 1000)} ago" if at_ms else "no round yet"
        return Finding(name="upkeep", ok=late_s < _LATE * EXPIRE_EVERY_S, text=text, watched=True)

    async def _wake_gc(self) -> None:
        await with_retry(partial(self.directory.create, Path.parse(GC, ()), origin=Origin.SYSTEM))
        await trio.sleep(GC_FIRST_S)
        again = False
        while True:
            now_ms = self.clock.now_ms()
            message = Envelope(
                to=GC,
                user="system",
                origin=Origin.SYSTEM,
                sender="system",
                key=f"gc:{now_ms // round(EXPIRE_EVERY_S * 1000)}",  # once an hour, however often it is started anew
                text="hourly cleanup",
                trace=new_trace_id(),
            )
            with suppress(DaycareError):  # the disk refuses: nothing is lost by expiring later
                gc = self.directory.new(Path.system("gc"), origin=Origin.SYSTEM)
                receipt = await self.router.post(message, gc)
                if receipt.duplicate and again:  # this hour was before: the clock was set back
                    await self.router.post(replace(message, key=f"gc:{now_ms}"), gc)
            again = True
            await trio.sleep(EXPIRE_EVERY_S)

    async def _dismiss_idle(self) -> float:
        await trio.sleep(CHILD_LOOK_S)  # also before the first look: a start has more to do
        now_ms = self.clock.now_ms()
        before = now_ms - int(CHILD_IDLE_S * 1000)
        for agent_id, turn in await self.store.agents.idle_children(before, now_ms, WAKE_PAGE_AGENTS):
            with suppress(DaycareError):  # it died meanwhile, or the store refuses: the next look finds it
                agent = await self.directory.get(agent_id)
                message = dismissal(
                    agent.path,
                    agent_id,
                    agent.user,
                    key=f"dismiss:{turn}",
                    reason=f"idle for {CHILD_IDLE_S:g} s",
                    trace=new_trace_id(),
                    quiet=True,  # it has answered all: a last word would cost its parent a turn
                )
                await self.router.post(message)
        return 0.0
