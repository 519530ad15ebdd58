"""What people and agents do with signals: send them, subscribe to them; and what sends each to who wants it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from daycare.actors.directory import Directory
from daycare.actors.router import Router
from daycare.base import signal
from daycare.base.causes import Signalled
from daycare.base.clock import Clock, wait_s
from daycare.base.errors import ForbiddenError, InvalidError, NotFoundError
from daycare.base.events import SignalFired
from daycare.base.ids import new_trace_id
from daycare.base.limits import KEY_MAX_CHARS, SIGNAL_AFTER_MAX_S
from daycare.base.messages import Envelope, EnvelopeKind, Origin
from daycare.base.path import FOREGROUND, Kind
from daycare.base.permission import MESSAGE
from daycare.features.signals.records import NewSignal, PlannedDelivery, Signal, SignalNews, SignalSubscription
from daycare.features.signals.rows import SignalRows
from daycare.observe.about import about_row
from daycare.observe.bus import Bus
from daycare.observe.keeper import SetAside
from daycare.plugin import ToolContext
from daycare.settings import Live
from daycare.store.records import Agent, Commit
from daycare.store.sqlite.store import Store
from daycare.store.worker import Worker

SIGNAL_DATA_MAX_BYTES: Final = 16 * 1024  # of UTF-8: an event's details; what is longer is a document's or a file's
SIGNALS_PAGE: Final = 64  # due ones looked at in one go
SIGNALS_LOOK_S: Final = 60.0  # between two looks at the wall clock, which may be set meanwhile

May = Callable[[str, str, str], Awaitable[object]]
_NOT_PERSONS: Final = (Origin.SYSTEM, Origin.WEBHOOK)
SUBSCRIBERS: Final = (Kind.CONNECTOR, Kind.SUBUSER, Kind.AGENT, Kind.APP, Kind.CRON)  # those that last


@dataclass(frozen=True)
class SignalControls:
    """Does it. `count` counts what an agent sends as if it were a message, and raises when it is a storm."""

    store: Store
    directory: Directory
    clock: Clock
    count: Callable[[Envelope], Awaitable[None]]

    @property
    def rows(self) -> SignalRows:
        """Where signals are kept."""
        return self.store.of(SignalRows)

    async def send(
        self, user: str, type_: str, data: str = "", *, call: str, repeat: str = "", after_s: float = 0.0
    ) -> Signal:
        """Send a signal for a person, once for each `call`; with `repeat` it replaces the one that still waits.

        Raises `InvalidError` for what is no type, `NotFoundError` for no user, `BusyError` when too many wait.
        """
        self._check(type_, data, repeat, after_s)
        if await self.store.people.get(user) is None:
            raise NotFoundError("USER_UNKNOWN", f"sending {type_}: no user {user}", hint="daycare users list")
        new = NewSignal(
            user=user,
            origin=Origin.PERSON,
            type=type_,
            data=data,
            trace=new_trace_id(),
            key=repeat,
            call=f"{user}:{call}",
            due_at=self.clock.now_ms() + round(after_s * 1000),
        )
        return await self.rows.send(new)

    async def send_for(
        self, context: ToolContext, type_: str, data: str = "", *, repeat: str = "", after_s: float = 0.0
    ) -> Signal:
        """Send a signal for an agent, once for each call of its tool. What led to its turn leads to the signal, too."""
        self._check(type_, data, repeat, after_s)
        sender = await self.directory.at(context.path)
        call = f"{sender.id}:{context.turn}:{context.step}:{context.call_id}"
        via = context.chains.via
        message = Envelope(
            to="",
            user=sender.user,
            origin=Origin.AGENT,
            sender=sender.path,
            key="signal",
            text=data,
            trace=context.trace,
            via=via,
        )
        await self.count(message)
        new = NewSignal(
            user=sender.user,
            origin=Origin.AGENT,
            type=type_,
            data=data,
            sender=sender.path,
            sender_id=sender.id,
            trace=context.trace,
            via=via,
            key=repeat,
            call=call,
            due_at=self.clock.now_ms() + round(after_s * 1000),
        )
        return await self.rows.send(new)

    async def subscribe(
        self, path: str, pattern: str, *, silent: bool = False, origin: Origin = Origin.PERSON
    ) -> SignalSubscription:
        """Let an agent have its user's signals that a pattern names; `silent`: as notes, without a turn.

        Raises `InvalidError`, `NotFoundError`, `ForbiddenError` for kinds that end by themselves, `BusyError`.
        """
        signal.check_pattern(pattern)
        agent = await self._agent(path)
        if agent.kind not in SUBSCRIBERS:
            raise ForbiddenError(
                "SIGNAL_SUBSCRIBER",
                f"subscribing {path}: a {agent.kind} does not last",
                hint="subscribe the agent that people talk with, or a permanent one",
            )
        return await self.rows.subscribe(agent, pattern, silent=silent, origin=origin)

    async def unsubscribe(self, path: str, pattern: str) -> None:
        """Let an agent have no more of them. Raises `NotFoundError` if it had none."""
        agent = await self._agent(path)
        if not await self.rows.unsubscribe(agent.id, pattern):
            raise NotFoundError(
                "SUBSCRIPTION_UNKNOWN",
                f"unsubscribing {path} from {pattern[:80]}: it has no such subscription",
                hint="daycare signals list",
            )

    async def zone(self, user: str) -> str:
        """Return the time zone a user lives in."""
        person = await self.store.people.get(user)
        return person.zone if person is not None else "UTC"

    async def _agent(self, path: str) -> Agent:
        agent = await self.directory.find(path)  # before parsing: it may be a connector's that is gone
        if agent is None:
            self.directory.parse(path)
            agent = await self.directory.at(path)
        return agent

    def _check(self, type_: str, data: str, repeat: str, after_s: float) -> None:
        signal.check_type(type_)
        if len(data.encode()) > SIGNAL_DATA_MAX_BYTES:
            raise InvalidError(
                "SIGNAL_DATA",
                f"sending {type_}: {len(data.encode())} bytes of data, {SIGNAL_DATA_MAX_BYTES} at most",
                hint="put it into a document or a file, and name that",
            )
        if len(repeat) > KEY_MAX_CHARS:
            raise InvalidError("SIGNAL_REPEAT", f"sending {type_}: a repeat key of over {KEY_MAX_CHARS} characters")
        if not 0 <= after_s <= SIGNAL_AFTER_MAX_S:
            raise InvalidError(
                "SIGNAL_AFTER", f"sending {type_} in {after_s:g} s: expected 0 to {SIGNAL_AFTER_MAX_S:g} seconds"
            )


class Firing:
    """Sends each signal that is due to all agents of its user that want it.

    A signal is a committed row before anybody hears of it, and all its messages are posted with the commit that ends
    it: a crash in between loses and doubles nothing. `may(subject, action, object)` raises what keeps it from an agent.
    """

    def __init__(
        self, store: Store, directory: Directory, router: Router, may: May, bus: Bus, clock: Clock, live: Live
    ) -> None:
        self._rows = store.of(SignalRows)
        self._directory = directory
        self._router = router
        self._may = may
        self._bus = bus
        self._clock = clock
        self._live = live
        self.worker = Worker(self._look)

    def committed(self, commit: Commit) -> None:
        """Look again if a signal waits. Called after the commit."""
        if commit.news_of(SignalNews) is not None:
            self.worker.wake()

    async def _look(self) -> float:
        due = await self._rows.due(self._clock.now_ms(), SIGNALS_PAGE)
        for each in due:
            with SetAside(self._bus, self._clock, "signals", f"signal {each.no}") as tried:
                await self._fire(each)
            if tried.failed:
                await self._rows.fire(each.no, [])
        if due:
            return 0.0
        next_due = await self._rows.next_due()
        return SIGNALS_LOOK_S if next_due is None else wait_s(self._clock, next_due, SIGNALS_LOOK_S)

    async def expire(self, now_ms: int) -> int:
        """Delete a bounded number of signals that ended long ago; return how many."""
        return await self._rows.expire(now_ms - self._live.now.store.keep_ms)

    async def _fire(self, it: Signal) -> None:
        planned = [await self._plan(it, to) for to in await self._wanted(it)]
        fired, sent = await self._rows.fire(it.no, planned)
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

    async def _wanted(self, it: Signal) -> list[SignalSubscription]:
        """Return who of the signal's user wants it: each agent once, and never the one that it comes from."""
        found: dict[str, SignalSubscription] = {}
        for each in await self._rows.subscriptions(user=it.user):
            if not signal.fits(each.pattern, it.type) or it.sender_id == each.agent_id or it.sender == each.path:
                continue
            known = found.get(each.agent_id)
            if known is None or (known.silent and not each.silent):
                found[each.agent_id] = each
        return list(found.values())

    async def _plan(self, it: Signal, to: SignalSubscription) -> PlannedDelivery:
        if to.dead:
            return PlannedDelivery(subscription=to, code="AGENT_DEAD", reason="it is dead")
        try:
            agent = await self._directory.get(to.agent_id)
        except NotFoundError:  # its row was deleted just now
            return PlannedDelivery(subscription=to, code="AGENT_DEAD", reason="it is dead")
        if agent.user != it.user:
            return PlannedDelivery(subscription=to, code="OTHER_USER", reason="it belongs to another user")
        if it.sender_id:
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
        origin=it.origin if it.origin in _NOT_PERSONS else Origin.AGENT,  # a program's words are no person's
        sender=it.sender or signal.SENDER,
        key=f"signal:{it.no}",
        text=it.data,
        trace=it.trace,
        kind=EnvelopeKind.NOTE if silent else EnvelopeKind.NOTICE,
        via=it.via,
        cause=Signalled(it.type, told=agent.kind in FOREGROUND),
        origins=() if it.sender_id else None,  # the daemon's, or an agent's that had a yes where it needed one
    )
