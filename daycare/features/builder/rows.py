"""A proposal that a person has approved, made in one transaction: all of it, or nothing."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from daycare.base.cron import CronSpec
from daycare.base.documents import Attribution, Layer, NewVersion, Place
from daycare.base.errors import ConflictError
from daycare.base.limits import LASTING_AGENTS_MAX
from daycare.features.budgets import rows as budgets
from daycare.features.budgets.records import BudgetRow
from daycare.features.cron import rows as cron
from daycare.features.cron.model import CronJob, NewCronJob
from daycare.features.memory.documents import stored
from daycare.store.records import Agent, AgentConfig, NewAgent
from daycare.store.sqlite.agents import configure, create_permanent, must_get
from daycare.store.sqlite.rows import Rows
from daycare.store.sqlite.writer import Tx


class NewDocument(NamedTuple):
    """A text, and the hash of what stood there when that was looked at, "" for nothing."""

    text: str
    base_hash: str


class ChangedJob(NamedTuple):
    """A job as it was looked at, and as it is to be."""

    job: CronJob
    spec: CronSpec
    next_at: int | None


class BuildPlan(NamedTuple):
    """What is to be done. The agent is made, or has now the settings `before` and gets `config`.

    `answering` are conversations as they were looked at, each with the settings it is to have.
    """

    agent: NewAgent | Agent
    config: AgentConfig
    documents: Mapping[str, NewDocument]
    by: Attribution
    added: Sequence[NewCronJob] = ()
    changed: Sequence[ChangedJob] = ()
    removed: Sequence[CronJob] = ()
    budget: BudgetRow | None = None
    answering: Sequence[tuple[Agent, AgentConfig]] = ()


class BuiltRows(Rows):
    """Makes it."""

    async def make(self, plan: BuildPlan) -> Agent:
        """Do all of a plan; raises what each part of it may, and `ConflictError` AGENT_CHANGED if it is out of date."""
        return await self._write(lambda tx: _make(tx, plan), sum(len(each.text) for each in plan.documents.values()))


def _make(tx: Tx, plan: BuildPlan) -> Agent:
    if isinstance(plan.agent, Agent):
        agent = _configured(tx, plan.agent, plan.config, plan.by.author)
    else:
        agent = create_permanent(tx, plan.agent, LASTING_AGENTS_MAX)
    for name, document in plan.documents.items():
        place = Place(Layer.AGENT, agent.id, name)
        stored.write(
            tx,
            NewVersion(place=place, user=agent.user, by=plan.by, text=document.text, base_hash=document.base_hash),
        )
    for job in plan.removed:
        cron.remove(tx, job.no, "its agent does not need it any more")
    for each in plan.changed:
        cron.change(tx, each.job.no, each.job.revision, each.spec, each.next_at)
    for new in plan.added:
        cron.add(tx, new)
    if plan.budget is not None:
        budgets.put(tx, plan.budget)
    for conversation, config in plan.answering:
        _configured(tx, conversation, config, plan.by.author)
    return agent


def _configured(tx: Tx, seen: Agent, config: AgentConfig, by: str) -> Agent:
    now = must_get(tx, seen.id)
    if now.config != seen.config or now.state == "dead":
        raise ConflictError("AGENT_CHANGED", f"changing {now.path}: it was changed meanwhile", hint="propose it again")
    return configure(tx, seen.id, config, by)
