"""What a store takes and hands out of signals and heartbeats. Times are wall-clock milliseconds, UTC."""

from typing import Literal

import msgspec

from daycare.base.messages import Envelope, Origin

SignalState = Literal["waiting", "fired", "replaced"]


class NewSignal(msgspec.Struct, frozen=True, kw_only=True):
    """A signal to be sent at `due_at`. `call` names what sends it: a repeat finds the first.

    With a repeat `key` it replaces the one that still waits under the same user, type and key.
    """

    user: str
    origin: Origin
    type: str
    call: str
    trace: str
    due_at: int
    data: str = ""
    sender: str = ""
    sender_id: str = ""
    via: tuple[str, ...] = ()
    key: str = ""


class SignalDelivery(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of a signal with one agent: the number of its inbox row, or why there is none."""

    path: str
    agent_id: str
    seq: int = 0
    code: str = ""
    reason: str = ""


class Signal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A signal. `sender` is empty for a person's, webhook:NAME for what one brought.

    `ended_at` is when it was fired or replaced.
    """

    no: int
    user: str
    origin: Origin
    type: str
    data: str
    sender: str
    sender_id: str
    trace: str
    via: tuple[str, ...]
    key: str
    state: SignalState
    created_at: int
    due_at: int
    ended_at: int | None
    deliveries: tuple[SignalDelivery, ...] = ()

    @property
    def path(self) -> str:
        """The agent it comes from, for whoever tells of it."""
        return self.sender

    @property
    def agent_id(self) -> str:
        """Its incarnation."""
        return self.sender_id


class SignalSubscription(msgspec.Struct, frozen=True, kw_only=True):
    """That an agent wants signals of its user. `silent`: as notes in its conversation, without a turn."""

    no: int
    agent_id: str
    path: str
    user: str
    origin: Origin
    pattern: str
    silent: bool
    created_at: int
    dead: bool = False


class PlannedDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """That a subscription is to get a signal: its message, or why it gets none."""

    subscription: SignalSubscription
    envelope: Envelope | None = None
    code: str = ""
    reason: str = ""


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """How an agent's heartbeat stands. `busy`: it works, or something waits for it; `worked_at`: it last did."""

    agent_id: str
    every_s: float
    since: int
    beats: int
    beat_at: int | None
    busy: bool
    worked_at: int | None

    def next_at(self, now_ms: int) -> int:
        """Return when its heart may beat next, if nothing comes in between. What lies ahead of the clock is no past."""
        known = (self.since, self.beat_at, self.worked_at)
        last = max((at for at in known if at is not None and at <= now_ms), default=now_ms)
        return last + int(self.every_s * 1000)


class SignalNews(msgspec.Struct):
    """A commit has made signals that wait."""
