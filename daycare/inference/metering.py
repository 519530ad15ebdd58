"""Metering: what a call of a model may cost is reserved before it is made, and what it did cost is charged with it.

Every call of a model goes through a `Meter`, and is in the books before whoever made it goes on: nothing that fails
later can lose it. What holds the limits and the books is handed in as a `BudgetGate`.
"""

from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, Self

import msgspec
import trio
from msgspec.structs import replace

from daycare.base.errors import DaycareError, ForbiddenError, InvalidError
from daycare.base.messages import Message, Usage
from daycare.inference.catalog import ModelFacts
from daycare.inference.names import ModelChoice
from daycare.plugin import Completion, InferRequest

if TYPE_CHECKING:
    from daycare.store.records import Agent, Spend

_NOT_SENT: Final = ("ConnectError", "ConnectTimeout")  # what our own client and httpx, which plugins use, say of it
# Refusals before the first word that no provider charges for, besides those that blame the request or the key.
_REFUSALS: Final = frozenset({"RATE_LIMITED", "PROVIDER_FAILED"})


class Payer(msgspec.Struct, frozen=True, kw_only=True):
    """Whose call it is: it counts for `path` and all above it. `background`: nobody waits for it. `turn` 0: of none.

    `ratio` is by how much prompts of these are longer, in the provider's count, than our estimate.
    """

    path: str
    user: str = ""
    agent_id: str = ""
    trace: str = ""
    turn: int = 0
    background: bool = False
    ratio: float = 1.0

    @classmethod
    def of(cls, agent: "Agent", turn: int, trace: str = "", *, background: bool = False, ratio: float = 1.0) -> "Payer":
        """Return who pays for an agent's calls in a turn."""
        return cls(
            path=agent.path,
            user=agent.user,
            agent_id=agent.id,
            trace=trace,
            turn=turn,
            background=background,
            ratio=ratio,
        )


INSTALLATION: Final = Payer(path="/system/daycare", background=True)  # of whom nothing more is known


class Bill(msgspec.Struct, frozen=True, kw_only=True):
    """What a call took. `usage` is the provider's count, or ours if it has none; `priced` False: its price is unknown.

    Charging it settles `reservation`, 0 if none was needed.
    """

    usage: Usage = Usage()
    cost_micros: int = 0
    priced: bool = True
    wall_ms: int = 0
    reservation: int = 0


class CallGrant(NamedTuple):
    """What a gate allows: the number of a committed reservation, 0 if no limit binds this call.

    `output_tokens` is what the answer may have where the budget has no room for more, else None.
    """

    reservation: int = 0
    output_tokens: int | None = None


class BudgetGate(Protocol):
    """What decides whether a call may be made."""

    async def reserve(
        self, payer: Payer, choice: ModelChoice, facts: ModelFacts, request: InferRequest, ends_at: float
    ) -> CallGrant:
        """Return what is allowed.

        Waits for room while calls that run have reserved what is left, until `ends_at` on trio's clock at most. Raises
        `BudgetError` when a budget is used up, `AwayError` when no room came.
        """
        ...

    async def release(self, reservation: int) -> None:
        """The call surely cost nothing."""

    async def strand(self, reservation: int) -> None:
        """Nobody knows how the call ended: it counts in full."""

    def counted(self, choice: ModelChoice, request: InferRequest, completion: Completion) -> Usage:
        """Return an estimate of what a call took whose provider counts nothing."""
        ...

    def spend(self, payer: Payer, choice: ModelChoice, bill: Bill) -> "Spend | None":
        """Return what charging a call that was answered writes, None for one that is free."""
        ...

    async def settle(self, payer: Payer, choice: ModelChoice, bill: Bill) -> None:
        """Charge a call that was answered; returns once that is committed, also when its caller is cancelled."""


class Open:
    """A gate that lets everything through and keeps no books, for pools without budgets."""

    async def reserve(
        self, payer: Payer, choice: ModelChoice, facts: ModelFacts, request: InferRequest, ends_at: float
    ) -> CallGrant:
        """Let it through."""
        return CallGrant()

    async def release(self, reservation: int) -> None:
        """There is none."""

    async def strand(self, reservation: int) -> None:
        """There is none."""

    def counted(self, choice: ModelChoice, request: InferRequest, completion: Completion) -> Usage:
        """Believe the provider."""
        return completion.usage

    def spend(self, payer: Payer, choice: ModelChoice, bill: Bill) -> "Spend | None":
        """Nothing is written."""
        return None

    async def settle(self, payer: Payer, choice: ModelChoice, bill: Bill) -> None:
        """Nobody wants to know."""


class Meter:
    """One call: an `async with` block reserves before it and charges it if it was `answered`, however the block ends.

    Of a call that was not, what surely was free is given back. `reserved` tells whether the call could be made at all,
    `alive` is set once the model said something, `bill` is there once the call was answered. Whoever commits `spend`
    together with what came of it sets `paid`: then the call is in the books, or was not made, as that is.
    """

    def __init__(
        self,
        gate: BudgetGate,
        payer: Payer,
        choice: ModelChoice,
        facts: ModelFacts,
        request: InferRequest,
        ends_at: float,
    ) -> None:
        self._gate = gate
        self._asked = (payer, choice, facts, request, ends_at)
        self._choice = choice
        self._facts = facts
        self.request = request  # as it is to be made: its answer may have to be shorter
        self._reservation = 0
        self._began = 0.0
        self.reserved = False
        self.alive = False
        self.paid = False
        self.bill: Bill | None = None

    async def __aenter__(self) -> Self:
        self._reservation, room = await self._gate.reserve(*self._asked)
        if room is not None:
            self.request = replace(self.request, max_output_tokens=room)
        self.reserved = True
        self._began = trio.current_time()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.paid:
            return
        if self.bill is not None:
            payer, choice, *_ = self._asked
            await self._gate.settle(payer, choice, self.bill)
            return
        if error is None or not self._reservation:
            return
        # A short write also when it was cancelled. Where the disk refuses, what is reserved goes on counting in full.
        with trio.CancelScope(shield=True), suppress(DaycareError):
            if _was_free(error, alive=self.alive):
                await self._gate.release(self._reservation)
            else:
                await self._gate.strand(self._reservation)

    @property
    def spend(self) -> "Spend | None":
        """What charging the call writes, None if that is nothing."""
        payer, choice, *_ = self._asked
        return None if self.bill is None else self._gate.spend(payer, choice, self.bill)

    def read(self) -> None:
        """Know that the call has taken what was asked, and nothing was written."""
        self.answered(Completion(message=Message("assistant", ()), finish="stop"))

    @property
    def took_ms(self) -> int:
        """How long the call has taken until now."""
        return round(1000 * (trio.current_time() - self._began))

    def answered(self, completion: Completion) -> None:
        """Know what the call took: the whole reply is there."""
        usage = completion.usage
        if not (usage.input_tokens or usage.output_tokens):
            usage = self._gate.counted(self._choice, self.request, completion)
        self.bill = Bill(
            usage=usage,
            cost_micros=self._facts.cost_micros(usage),
            priced=self._facts.priced,
            wall_ms=self.took_ms,
            reservation=self._reservation,
        )


def _was_free(error: BaseException, *, alive: bool) -> bool:
    """Return whether a provider surely charges nothing for a call that ended so."""
    if alive or not isinstance(error, DaycareError):
        return False
    if error.code == "PROVIDER_UNREACHABLE":  # nobody took the connection; or it broke, perhaps with the request sent
        return error.__cause__ is None or type(error.__cause__).__name__ in _NOT_SENT
    return isinstance(error, InvalidError | ForbiddenError) or error.code in _REFUSALS
