"""The chat commands `/context`, which shows where the tokens of a prompt go, and `/compact`, which makes room."""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from daycare.actors.lifecycle import Activation
from daycare.agent.commands import Command, CommandAnswer, Commands
from daycare.agent.compaction import CompactionJob
from daycare.agent.context import ALL, Contexts
from daycare.agent.context_view import ContextView
from daycare.agent.sections import Prompts
from daycare.agent.tokens import TokenBudget
from daycare.base.limits import COMPACTIONS_MAX
from daycare.inference.names import ModelChoice
from daycare.plugin import ToolSpec
from daycare.store.records import Agent, InboxRow, User

_KEEP_TURNS = 2  # what was just said stays as it is
_PRICED_TURNS = 10_000  # the newest, so that the sum is bounded


class ContextCommands:
    """Answers the two commands."""

    def __init__(self, contexts: Contexts, prompts: Prompts, specs: Callable[[Agent], Sequence[ToolSpec]]) -> None:
        self._contexts = contexts
        self._prompts = prompts
        self._specs = specs

    def add_to(self, commands: Commands) -> None:
        """Register them."""
        commands.add("context", Command("show how full my memory of this conversation is", self._show))
        what = "sum up the older part of this conversation [what to keep]"
        commands.add("compact", Command(what, self._compact, waits=True))

    async def _show(self, agent: Agent, lane: Activation, row: InboxRow, rest: str) -> CommandAnswer:
        _, plan, budget, view = await self._look(agent)
        ratio = self._ratio(agent, plan)
        summary = await self._contexts.store.summaries.latest(agent.id, agent.session)
        system = view.fixed_tokens - view.tools_tokens
        history = sum(view.turn_tokens)
        lines = [f"Context of {agent.path} with {plan[0]}, in tokens (estimated):"]
        for name, count, note in (
            ("system", system * ratio, ""),
            ("tools", view.tools_tokens * ratio, str(len(view.request.tools))),
            ("summary", view.summary_tokens * ratio, f"up to turn {summary.through}" if summary else "none yet"),
            ("history", history * ratio, f"{_turns(len(view.turns))}{'' if view.whole else ', older ones left out'}"),
            ("this turn", max(budget.total - view.total * ratio, 0), "free"),
            ("answer", budget.room, "kept free"),
            ("reserve", budget.reserve, "kept free"),
            ("window", budget.window, f"compacted from {budget.compact_at:,} on"),
        ):
            lines.append(f"{name:<9} {round(count):>9,}  {note}".rstrip())
        micros = await self._contexts.store.summaries.spent(agent.id, agent.session, _PRICED_TURNS)
        if micros:
            lines.append(f"This conversation has cost ${micros / 1_000_000:.4f} so far.")
        return CommandAnswer("\n".join(lines))

    async def _compact(self, agent: Agent, lane: Activation, row: InboxRow, rest: str) -> CommandAnswer:
        user, plan, budget, view = await self._look(agent)
        ratio = self._ratio(agent, plan)
        if not view.turns:
            return CommandAnswer("There is nothing to compact yet.")
        kept = view.turn_tokens[-_KEEP_TURNS:]
        while kept and sum(kept) * ratio > budget.keep:
            kept.pop(0)
        before = view.turns[-len(kept)].turn if kept else ALL
        job = CompactionJob(
            agent=agent,
            turn=view.turns[-1].turn,  # the newest: a command is of no turn
            user=user,
            session=agent.session,
            plan=plan,
            budget=budget,
            ratio=ratio,
            trace=row.envelope.trace,
            focus=rest,
        )
        turns = 0
        for _ in range(COMPACTIONS_MAX):
            summary = await self._contexts.compactor.compact(job, before)
            if summary is None:
                break
            turns += summary.turns
        if not turns:
            return CommandAnswer("There is nothing to compact: a summary and the newest turns are all there is.")
        _, _, _, after = await self._look(agent)
        return CommandAnswer(
            f"Compacted {_turns(turns)}: {round(view.total * ratio):,} tokens before, {round(after.total * ratio):,} "
            "now. Nothing is lost: the turns are kept, I read their summary."
        )

    def _ratio(self, agent: Agent, plan: Sequence[ModelChoice]) -> float:
        return self._contexts.token_ratios.of(agent.id, str(plan[0])).ratio

    async def _look(self, agent: Agent) -> tuple[User, Sequence[ModelChoice], TokenBudget, ContextView]:
        """Return the conversation as the next prompt would begin."""
        store, pool = self._contexts.store, self._contexts.pool
        user = await store.people.get(agent.user) or User(id=agent.user, name=agent.user)
        plan = await pool.plan(agent.role, agent.config.model or None)
        budget = self._contexts.budget(agent, plan)

        request = replace((await self._prompts.of(agent, user, agent.session)).request, tools=tuple(self._specs(agent)))
        return user, plan, budget, await self._contexts.view(agent, user, agent.session, plan, budget, request)


def _turns(number: int) -> str:
    return f"{number} turn{'' if number == 1 else 's'}"
