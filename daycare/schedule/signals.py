"""Signals, wired: what sends each to all agents of its user that want it, and what lets hearts beat.

A signal is a committed row before anybody hears of it, and all its messages are posted with the commit that ends it: a
crash in between loses and doubles nothing.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from daycare.actors.directory import Directory
from daycare.actors.router import Router
from daycare.agent.budgets import Budgets
from daycare.agent.heartbeat_controls import HeartbeatControls
from daycare.agent.signal_controls import SignalControls
from daycare.agent.signal_tools import SignalTools
from daycare.base import signal
from daycare.base.causes import Signalled
from daycare.base.clock import Clock, wait_s
from daycare.base.errors import ForbiddenError, InvalidError, NotFoundError
from daycare.base.events import SignalFired
from daycare.base.limits import SIGNALS_LOOK_S, SIGNALS_PAGE
from daycare.base.messages import Envelope, EnvelopeKind, Origin
from daycare.base.path import FOREGROUND
from daycare.base.permission import MESSAGE
from daycare.feature import Feature
from daycare.features.memory.documents.service import Documents
from daycare.observe.about import about_row
from daycare.observe.bus import Bus
from daycare.observe.keeper import SetAside
from daycare.plugin import StructTool
from daycare.schedule.heartbeats import Heartbeats
from daycare.settings import Live
from daycare.store.contract import Store
from daycare.store.records import Agent, Commit
from daycare.store.records_signals import PlannedDelivery, Signal, SignalNews, Subscription
from daycare.store.sqlite.signals import SignalRows
from daycare.store.worker import Worker

May = Callable[[str, str, str], Awaitable[object]]


class Signals(Feature):
    """All of it. `may(subject, action, object)` raises what keeps a signal from an agent."""

    name = "signals"

    def __init__(
        self,
        store: Store,
        directory: Directory,
        router: Router,
        may: May,
        budgets: Budgets,
        documents: Callable[[], Documents],
        bus: Bus,
        clock: Clock,
        live: Live,
    ) -> None:
        self.controls = SignalControls(store, directory, clock, router.count)
        self.heartbeats = HeartbeatControls(store, budgets, clock)
        self._hearts = Heartbeats(store, router, self.heartbeats, documents, clock)
        self._store = store
        self._directory = directory
        self._router = router
        self._may = may
        self._bus = bus
        self._clock = clock
        self._live = live
        self.worker = Worker(self._look)

    def tools(self) -> Sequence[StructTool[Any]]:
        """Return the tools by which agents send and get signals."""
        return SignalTools(self.controls).tools()

    def committed(self, commit: Commit) -> None:
        """Look again if a signal waits. Called after the commit."""
        if commit.news_of(SignalNews) is not None:
            self.worker.wake()

    def background(self) -> Mapping[str, Callable[[], Awaitable[None]]]:
        """Return what fires signals, and what lets hearts beat, until cancelled, by name."""
        return {"signals": self.worker.run, "heartbeats": self._hearts.worker.run}

    def sweeps(self) -> Mapping[str, Callable[[int], Awaitable[int]]]:
        """Return what ends old signals."""
        return {"signals": self.expire}

    async def _look(self) -> float:
        due = await self._store.of(SignalRows).due(self._clock.now_ms(), SIGNALS_PAGE)
        for each in due:
            with SetAside(self._bus, self._clock, "signals", f"signal {each.no}") as tried:
                await self._fire(each)
            if tried.failed:
                await self._store.of(SignalRows).fire(each.no, [])
        if due:
            return 0.0
        next_due = await self._store.of(SignalRows).next_due()
        return SIGNALS_LOOK_S if next_due is None else wait_s(self._clock, next_due, SIGNALS_LOOK_S)

    async def expire(self, now_ms: int) -> int:
        """Delete a bounded number of signals that ended long ago; return how many."""
        return await self._store.of(SignalRows).expire(now_ms - self._live.now.store.keep_ms)

    async def _fire(self, it: Signal) -> None:
        planned = [await self._plan(it, to) for to in await self._wanted(it)]
        fired, sent = await self._store.of(SignalRows).fire(it.no, planned)
        for envelope, receipt in sent:
            self._router.announce(envelope, receipt)
        if fired.state == "fired":
            refused = sum(not each.seq for each in fired.deliveries)
            self._bus.publish(
                SignalFired(
                    **about_row(self._clock, fired),
                    signal=fired.no,
                    type=fired.type,
                    sent=len(sent),
                    refused=refused,
                )
            )

    async def _wanted(self, it: Signal) -> list[Subscription]:
        """Return who of the signal's user wants it: each agent once, and never the one that it comes from."""
        found: dict[str, Subscription] = {}
        for each in await self._store.of(SignalRows).subscriptions(user=it.user):
            if not signal.fits(each.pattern, it.type) or it.sender_id == each.agent_id or it.sender == each.path:
                continue
            known = found.get(each.agent_id)
            if known is None or (known.silent and not each.silent):
                found[each.agent_id] = each
        return list(found.values())

    async def _plan(self, it: Signal, to: Subscription) -> PlannedDelivery:
        if to.dead:
            return PlannedDelivery(subscription=to, code="AGENT_DEAD", reason="it is dead")
        try:
            agent = await self._directory.get(to.agent_id)
        except NotFoundError:  # its row was deleted just now
            return PlannedDelivery(subscription=to, code="AGENT_DEAD", reason="it is dead")
        if agent.user != it.user:
            return PlannedDelivery(subscription=to, code="OTHER_USER", reason="it belongs to another user")
        if it.sender:
            try:
                await self._may(it.sender, MESSAGE, agent.path)
            except (ForbiddenError, InvalidError, NotFoundError) as refused:
                return PlannedDelivery(subscription=to, code=refused.code, reason=refused.message)
        return PlannedDelivery(subscription=to, envelope=_message(it, agent, silent=to.silent))


def _message(it: Signal, agent: Agent, *, silent: bool) -> Envelope:
    return Envelope(
        to=agent.path,
        agent_id=agent.id,
        user=agent.user,
        origin=Origin.SYSTEM if it.origin is Origin.SYSTEM else Origin.AGENT,  # a program's words are no person's
        sender=it.sender or signal.SENDER,
        key=f"signal:{it.no}",
        text=it.data,
        trace=it.trace,
        kind=EnvelopeKind.NOTE if silent else EnvelopeKind.NOTICE,
        via=it.via,
        cause=Signalled(it.type, told=agent.kind in FOREGROUND),
        origins=() if it.sender_id else None,  # the daemon's, or an agent's that had a yes where it needed one
    )
