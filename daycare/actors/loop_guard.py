"""The loop guard: messages between agents that only beget messages are stopped, and their owner is told once.

Each message from agent to agent names the agents by whose turns it came about (`Envelope.via`), so a chain ends after
`HOPS_MAX` of them, also over a restart; and two agents write each other `PAIR_PER_MINUTE` messages a minute at most.
The longer a chain, the slower it gets on, so that it takes no time from others before it is stopped.
What goes beyond stops its chain: nothing more with the same trace is sent between agents for `STORM_QUIET_S`, and what
of it waits already becomes dead letters without a call of a model. What people write is not looked at.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final

import trio

from daycare.base.bounded import Bounded
from daycare.base.clock import Clock
from daycare.base.errors import BusyError, ConflictError, NotFoundError
from daycare.base.events import LoopStopped
from daycare.base.limits import HOPS_MAX
from daycare.base.messages import Envelope, EnvelopeKind, Origin
from daycare.base.scope import user_in
from daycare.observe.bus import Bus
from daycare.store.records import InboxRow

HOPS_AT_ONCE: Final = 4  # after so many each further message of a chain waits, longer and longer: models are slower ...
HOP_PAUSE_S: Final = 0.25  # ... and a loop of fast ones leaves the machine to others
HOP_PAUSE_MAX_S: Final = 5.0
PAIR_PER_MINUTE: Final = 30  # messages between two agents, both ways together: one every two seconds is a storm
PAIRS_MAX: Final = 4_096  # pairs of agents whose last messages are remembered, some 2 MB at most
STORM_QUIET_S: Final = 600.0  # for which nothing more of a stopped chain of messages is sent: its turns have ended then
STORMS_MAX: Final = 1_024  # stopped chains remembered at a time

SENDER: Final = "/system/storms"
DAILY: Final = "SUBAGENTS_DAILY_MAX"

Post = Callable[[Envelope], Awaitable[object]]
Tell = Callable[..., Awaitable[None]]


class LoopGuard:
    """Watches what agents send each other. Pairs and stopped chains are in memory: a restart forgets them.

    `post` commits the notice to the agent at which a chain began; `tell(user, text, topic=, path=)` reaches its owner.
    """

    def __init__(self, post: Post, tell: Tell, bus: Bus, clock: Clock) -> None:
        self._post = post
        self._tell = tell
        self._bus = bus
        self._clock = clock
        self._stopped: Bounded[str, tuple[float, str]] = Bounded(STORMS_MAX)  # until when and why, by trace
        self._pairs: Bounded[tuple[str, str], deque[float]] = Bounded(PAIRS_MAX)

    async def admit(self, envelope: Envelope) -> None:
        """Count a message that an agent is about to send; one without `to` is the task of a helper to be.

        Waits for a while when the chain is long already.
        Raises `ConflictError` STORM_STOPPED, or HOPS_MAX, or `BusyError` PAIR_RATE, which stop the chain.
        """
        if reason := self.stopped(envelope.trace):
            raise ConflictError(
                "STORM_STOPPED",
                f"sending to {envelope.to or 'a helper'}: this exchange was stopped: {reason}",
                hint="send no more messages; tell the user what is done and what is not",
            )
        if len(envelope.via) > HOPS_MAX:
            reason = f"it went through {HOPS_MAX} turns of agents without a person, the last {_last(envelope.via)}"
            await self.stop(envelope, reason)
            raise ConflictError("HOPS_MAX", f"sending to {envelope.to or 'a helper'}: {reason}", hint=_ENOUGH)
        if envelope.to and not self._in_pace(envelope):
            reason = f"{envelope.sender} and {envelope.to} wrote each other over {PAIR_PER_MINUTE} messages a minute"
            await self.stop(envelope, reason)
            raise BusyError("PAIR_RATE", f"sending to {envelope.to}: {reason}", hint=_ENOUGH, retry_after_s=60.0)
        if (beyond := len(envelope.via) - HOPS_AT_ONCE) > 0:
            await trio.sleep(min(beyond * HOP_PAUSE_S, HOP_PAUSE_MAX_S))

    def stopped(self, trace: str) -> str:
        """Return why nothing more of a chain is to be sent, "" if it goes on."""
        until, reason = self._stopped.get(trace, (0.0, ""))
        return reason if until > trio.current_time() else ""

    def reason_against(self, rows: Sequence[InboxRow]) -> str:
        """Return why rows are not worth a turn: all of them are messages of a chain that was stopped; else ""."""
        reasons = [
            self.stopped(row.envelope.trace)
            if row.envelope.origin is Origin.AGENT and row.envelope.kind is EnvelopeKind.TEXT
            else ""
            for row in rows
        ]
        return reasons[0] if all(reasons) else ""

    async def stop(self, envelope: Envelope, reason: str) -> None:
        """Stop the chain of a message; the agent at which it began finds a note, and its owner is told."""
        self._stopped[envelope.trace] = (trio.current_time() + STORM_QUIET_S, reason)
        root = envelope.via[0] if envelope.via else envelope.sender
        user = user_in(root, envelope.user)
        self._bus.publish(
            LoopStopped(
                at_ms=self._clock.now_ms(),
                path=root,
                user=user,
                trace=envelope.trace,
                sender=envelope.sender,
                to=envelope.to,
                hops=len(envelope.via),
                reason=reason,
            )
        )
        text = (
            f"An exchange of messages between agents that began with {root} was stopped: {reason}. For"
            f" {STORM_QUIET_S / 60:g} minutes nothing more of it is sent; what waited is among the dead letters."
        )
        note = Envelope(
            to=root,
            user=user,
            origin=Origin.SYSTEM,
            sender=SENDER,
            key=f"storm:{envelope.trace}:{self._clock.now_ms()}",
            text=text,
            trace=envelope.trace,
            kind=EnvelopeKind.NOTE,  # a turn of the model could begin it all again
            via=envelope.via,
            origins=(),
        )
        with suppress(NotFoundError):  # it has died meanwhile
            await self._post(note)
        await self._tell(
            user, f"{text} `daycare trace` and `daycare dead list` show more.", topic=f"storm:{root}", path=root
        )

    def _in_pace(self, envelope: Envelope) -> bool:
        """Count a message between two agents, whichever writes; False when there were too many lately."""
        pair = (min(envelope.sender, envelope.to), max(envelope.sender, envelope.to))
        now = trio.current_time()
        times = self._pairs.touch(pair, deque())
        while times and times[0] <= now - 60.0:
            times.popleft()
        if len(times) >= PAIR_PER_MINUTE:
            return False
        times.append(now)
        return True


_ENOUGH: Final = "this looks like agents keeping each other busy: send no more, and tell the user the result"


def _last(via: Sequence[str]) -> str:
    return " -> ".join(via[-4:])
