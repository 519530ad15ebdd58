"""The prompt of a turn: what plugins add to its messages, what is recalled for it, and the sections before them."""

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from daycare.actors.permission_checks import PermissionChecks
from daycare.agent.client_context import client_section
from daycare.agent.hooks import Hooks
from daycare.agent.kinds import messages_of
from daycare.agent.recall import NOTHING, Recalls
from daycare.agent.sections import Prompts, with_program
from daycare.agent.steps import Prompting, TurnPrompt
from daycare.base.permission import READ_MEMORY, Decision
from daycare.store.records import Agent, InboxRow, Turn, User


@dataclass(frozen=True)
class Prompter:
    """Makes prompts."""

    permissions: PermissionChecks
    recaller: Recalls
    prompts: Prompts
    hooks: Hooks

    async def of(self, agent: Agent, user: User, turn: Turn, rows: Sequence[InboxRow]) -> Prompting:
        """Return what makes the prompt of a turn over its messages, again where it is steered by later ones."""
        told = await self.hooks.before(agent, turn, messages_of(rows))

        async def prompting(rows: Sequence[InboxRow]) -> TurnPrompt:
            may = (await self.permissions.may(agent.path, READ_MEMORY, agent.path)).decision is Decision.ALLOW
            recalled = await self.recaller.of(agent, user, turn, rows) if may else NOTHING
            made = await self.prompts.of(agent, user, turn.session, recalled.blocks, recalled.excerpts)
            made = with_program(made, client_section(rows, made.base.mark), recalled.blocks)
            return TurnPrompt(replace(made.request, messages=told), recalled, made.base)

        return prompting
