"""The gate before calls: a person says yes first to what a rule wants it for, and after others' words to what acts.

Jobs, agents, tasks, signals, messages, reminders, pages that are asked for: whoever gets a call made has the daemon act
for them, elsewhere or later, with what it knows of its person. What people say themselves opens the gate; what they
forward, attach or quote, what a tool or another agent brought, and what was remembered of it does not.

The request holds the call as it was to be made. The person's yes begins a turn of the agent in which exactly that call
is made, once, before the model says anything (`ApprovalRows.claim`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from daycare.agent.prompt import is_helper
from daycare.agent.provenance import Provenance
from daycare.base.messages import ToolCall
from daycare.base.tool import ToolSpec
from daycare.features.approvals.records import Approval, ApprovalState, CallAction
from daycare.features.approvals.rows import APPROVED_CALL, ApprovalRows
from daycare.features.approvals.service import ApprovalAsk, ApprovalsService
from daycare.features.approvals.unattended import is_unattended
from daycare.settings import Live
from daycare.store.records import Agent, InboxRow, Turn, User
from daycare.store.sqlite.store import Store

KIND: Final = "call"


@dataclass(frozen=True)
class ApprovalGate:
    """A `Gate` of the runner. `specs` are the tools an agent may use."""

    store: Store
    provenance: Provenance
    service: ApprovalsService
    specs: Callable[[Agent], Sequence[ToolSpec]]
    live: Live

    async def claim(self, agent: Agent, turn: Turn, rows: Sequence[InboxRow]) -> list[ToolCall]:
        """Return the calls that a turn is there to make; no other turn makes them from now on."""
        return await self.store.of(ApprovalRows).claim(agent, turn.turn, rows)

    async def approved(self, agent: Agent, turn: Turn, step: int, call: ToolCall) -> bool:
        """Return whether this call is one of those, and was not made yet."""
        if not call.id.startswith(APPROVED_CALL):
            return False
        _, rows, steps = await self.store.turns.load(turn.turn)
        made = [each.call_id for each in steps if each.kind == "tool" and each.step < step]
        return call.id not in made and call in await self.store.of(ApprovalRows).calls(agent, turn.turn, rows)

    async def ask(
        self,
        agent: Agent,
        user: User,
        turn: Turn,
        step: int,
        call: ToolCall,
        because: str,
        *,
        shown: CallAction | None = None,
    ) -> str:
        """Return what the model reads in place of a result, or "" where the call may be made.

        `shown` is the call as it is asked for, if that is to be bound or shown in another way.
        """
        read = await self.provenance.of(agent, user, turn, step)
        if not because and not (read.others and await self._has_secrets(agent, user, turn, call)):
            return ""
        wanted = shown or CallAction(tool=call.name, arguments=call.arguments)
        action = replace(wanted, others=bool(read.others))
        if await self.service.is_granted(agent, action, turn.session):
            return ""
        if self.live.now.approvals.unattended == "deny" and await is_unattended(self.store, agent, turn.turn):
            return (
                f"{call.name} is not permitted: a person would have to say yes, and nobody is asked for what runs by"
                ' itself ([approvals] unattended = "deny"). Go on without it.'
            )
        it = await self.service.request(
            agent,
            ApprovalAsk(
                kind=KIND,
                action=action,
                turn=turn.turn,
                step=step,
                reason=because,
                provenance=read.provenance,
                trace=turn.trace,
                session=turn.session,
            ),
        )
        return _told(it, call.name, because)

    async def _has_secrets(self, agent: Agent, user: User, turn: Turn, call: ToolCall) -> bool:
        """Return whether a call could give away what is private.

        Only looking something up may be harmless: for a helper, which is told its task and nothing of people, as long
        as that is no other's words and none of its tools reads what is private.
        """
        specs = self.specs(agent)
        looks_up = any(spec.name == call.name and spec.reads_outside for spec in specs)
        if not (looks_up and is_helper(agent)) or any(spec.reads_private for spec in specs):
            return True
        _, rows, _ = await self.store.turns.load(turn.turn)
        told = self.provenance.of_turn(rows, ()) + await self.provenance.before(agent, user, turn, ())
        return bool(told.others)


def _told(it: Approval, tool: str, because: str) -> str:
    if it.state is not ApprovalState.PENDING:
        return f"request {it.no} is {it.state}; a call that was approved is made in a turn of its own"
    why = f"it needs a person's yes ({because})" if because else "words of others were read before"
    return (
        f"proposed, request {it.no}: {tool} is not done yet, as {why}. A person decides,"
        " perhaps much later; it is done as soon as they say yes. Go on without it, do not ask again, and do not say"
        " that it is done."
    )
