"""The gate before calls that outlast their turn: after others' words were read, a person is asked first.

Jobs, agents, tasks, signals, subscriptions, reminders, helpers that go on: whoever gets one made or ended has the
daemon act for them later, when nobody looks. What people say themselves opens the gate; what they forward, attach or
quote, what a tool or another agent brought, and what was remembered of it does not.

The request holds the call as it was to be made. The person's yes begins a turn of the agent in which exactly that call
is made, once, before the model says anything (`ApprovalRows.calls`).
"""

from typing import Final

from daycare.agent.provenance import Provenance
from daycare.base.messages import ToolCall
from daycare.features.approvals.records import Approval, ApprovalState, CallAction
from daycare.features.approvals.rows import ApprovalRows
from daycare.features.approvals.service import ApprovalAsk, ApprovalsService
from daycare.store.records import Agent, Turn, User
from daycare.store.sqlite.store import Store

KIND: Final = "call"


class ApprovalGate:
    """Asks."""

    def __init__(self, store: Store, provenance: Provenance, service: ApprovalsService) -> None:
        self._store = store
        self._rows = store.of(ApprovalRows)
        self._provenance = provenance
        self._service = service

    async def ask(
        self,
        agent: Agent,
        user: User,
        turn: Turn,
        step: int,
        call: ToolCall,
        *,
        always: bool = False,
        shown: CallAction | None = None,
        reason: str = "",
    ) -> str:
        """Return what the model reads in place of a result, or "" where the call may be made.

        `always`: a person is asked also where nothing of others was read. `shown` is the call as it is asked for, if
        that is to be bound or shown in another way.
        """
        _, rows, steps = await self._store.turns.load(turn.turn)
        made = [each.call_id for each in steps if each.kind == "tool" and each.step < step]
        if call in await self._rows.calls(agent, rows) and call.id not in made:
            return ""
        read = await self._provenance.of(agent, user, turn, step)
        if not read.others and not always:
            return ""
        it = await self._service.request(
            agent,
            ApprovalAsk(
                kind=KIND,
                action=shown or CallAction(tool=call.name, arguments=call.arguments),
                turn=turn.turn,
                step=step,
                reason=reason,
                provenance=read.provenance,
                trace=turn.trace,
                session=turn.session,
            ),
        )
        return _told(it, call.name, others=bool(read.others))


def _told(it: Approval, tool: str, *, others: bool) -> str:
    if it.state is not ApprovalState.PENDING:
        return f"request {it.no} is {it.state}; a call that was approved is made in a turn of its own"
    why = ", as words of others were read before" if others else ""
    return (
        f"proposed, request {it.no}: {tool} is not done yet{why}. A person decides,"
        " perhaps much later; it is done as soon as they say yes. Go on without it, do not ask again, and do not say"
        " that it is done."
    )
