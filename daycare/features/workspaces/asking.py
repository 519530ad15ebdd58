"""When an agent's change of a file, or a command of it, needs a person's yes: the agent is limited, or has read others.

What a person decides on is bound: the exact arguments, with the version of the file that they were made for.
"""

from typing import Any, Final

from daycare.base.errors import InvalidError
from daycare.base.messages import ToolCall
from daycare.features.approvals.gate import ApprovalGate
from daycare.features.approvals.records import CallAction
from daycare.features.workspaces.folder import mark_of
from daycare.features.workspaces.rows import FileChangeRows
from daycare.plugin import ToolContext
from daycare.store.records import Agent, User
from daycare.store.sqlite.store import Store

ASKED_MAX_CHARS: Final = 60_000  # of a text in a request: nobody reads more


class ChangeAsking:
    """Asks by the gate of approvals."""

    def __init__(self, store: Store, gate: ApprovalGate) -> None:
        self._store = store
        self._gate = gate

    async def ask(
        self,
        context: ToolContext,
        agent: Agent,
        what: str,
        arguments: dict[str, Any],
        *,
        always: bool,
        old: str | None = None,
        new: str | None = None,
    ) -> str:
        """Return what the model reads in place of a result, or "" where the call may be made now.

        `always`: also where nothing of others was read. Raises `InvalidError` FILE_LONG for what nobody would read.
        """
        turn, _, steps = await self._store.turns.load(context.turn)
        [call] = [ToolCall(each.call_id, each.name, each.arguments) for each in steps if each.step == context.step]
        user = await self._store.people.get(agent.user) or User(id=agent.user, name=agent.user)
        shown = CallAction(tool=call.name, arguments=arguments, where=what, old=old, new=new)
        if max(len(old or ""), len(new or "")) > ASKED_MAX_CHARS:
            shown = CallAction(tool=call.name, arguments=arguments)
        if len(shown.text) > ASKED_MAX_CHARS:
            raise InvalidError(
                "FILE_LONG", f"asking to change {what}: more than {ASKED_MAX_CHARS} characters", hint="smaller changes"
            )
        if await self._gate.approved(agent, turn, context.step, call):
            return ""
        because = f"it changes {what}, and this agent has limited access"[:200] if always else ""
        return await self._gate.ask(agent, user, turn, context.step, call, because, shown=shown)

    async def was_made(self, context: ToolContext, now: bytes | None) -> bool:
        """Return whether this very call has made a file what it is now, before a crash."""
        change = await self._store.of(FileChangeRows).by_key(self.key(context))
        return change is not None and change.after_hash == mark_of(now)

    def key(self, context: ToolContext) -> str:
        """Return what names the call."""
        return f"{context.turn}:{context.step}"
