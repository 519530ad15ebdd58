"""What people and agents do with signals: send them, now or later, and say which ones an agent is to get."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from daycare.actors.directory import Directory
from daycare.base import signal
from daycare.base.clock import Clock
from daycare.base.errors import ForbiddenError, InvalidError, NotFoundError
from daycare.base.ids import new_trace_id
from daycare.base.limits import KEY_MAX_CHARS, SIGNAL_AFTER_MAX_S, SIGNAL_DATA_MAX_BYTES
from daycare.base.messages import Envelope, Origin
from daycare.base.path import Kind
from daycare.plugin import ToolContext
from daycare.store.contract import Store
from daycare.store.records import Agent
from daycare.store.records_signals import NewSignal, Signal, Subscription
from daycare.store.sqlite.signals import SignalRows

SUBSCRIBERS: Final = (Kind.CONNECTOR, Kind.SUBUSER, Kind.AGENT, Kind.APP, Kind.CRON)  # those that last


@dataclass(frozen=True)
class SignalControls:
    """Does it. `count` counts what an agent sends as if it were a message, and raises when it is a storm."""

    store: Store
    directory: Directory
    clock: Clock
    count: Callable[[Envelope], Awaitable[None]]

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
        return await self.store.of(SignalRows).send(new)

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
        return await self.store.of(SignalRows).send(new)

    async def subscribe(
        self, path: str, pattern: str, *, silent: bool = False, origin: Origin = Origin.PERSON
    ) -> Subscription:
        """Let an agent have its user's signals that a pattern names; `silent`: as notes, without a turn.

        Raises `InvalidError`, `NotFoundError`, `ForbiddenError` for kinds that end by themselves, `BusyError`.
        """
        signal.check_pattern(pattern)
        agent = await self._agent(path)
        if agent.kind not in SUBSCRIBERS:
            raise ForbiddenError(
                "SIGNAL_SUBSCRIBER",
                f"subscribing {path}: a {agent.kind} does not last",
                hint="subscribe the agent that people talk with, or a lasting one",
            )
        return await self.store.of(SignalRows).subscribe(agent, pattern, silent=silent, origin=origin)

    async def unsubscribe(self, path: str, pattern: str) -> None:
        """Let an agent have no more of them. Raises `NotFoundError` if it had none."""
        agent = await self._agent(path)
        if not await self.store.of(SignalRows).unsubscribe(agent.id, pattern):
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
