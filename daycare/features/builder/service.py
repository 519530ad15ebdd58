"""The builder: an agent for each person with whom they make agents by talking, and what becomes of its proposals.

It is an ordinary agent with a fixed prompt and tools of its own. It makes nothing: it proposes, and what a person has
approved, exactly that and once, is made by the call that they have approved.
"""

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path as File
from typing import Final

import trio
from msgspec.structs import replace

from daycare.base.budget import LIFTED, read_limits
from daycare.base.documents import Attribution, Layer, Place, digest
from daycare.base.errors import ConflictError, DaycareError, InvalidError, NotFoundError
from daycare.base.limits import LASTING_AGENTS_MAX
from daycare.base.messages import Message, Origin
from daycare.base.path import Kind, Path
from daycare.features.agents.templates import names
from daycare.features.approvals.records import AGENT_PROPOSE, Approval
from daycare.features.budgets.records import BudgetRow
from daycare.features.builder.checking import ProposalChecks, spec_of
from daycare.features.builder.records import BUILDER, AgentProposal, BuiltAgent, ProposedJob
from daycare.features.builder.rows import BuildPlan, BuiltRows, ChangedJob, NewDocument
from daycare.features.cron.model import CronJob, NewCronJob
from daycare.features.memory.documents.rows import DocumentRows
from daycare.rules.document_paths import SOUL, STYLE
from daycare.settings import OFFLINE
from daycare.store.records import Agent, AgentConfig, NewAgent, User
from daycare.store.records_bounds import bound_by
from daycare.store.sqlite.store import Store

PARTS: Final = "agent_parts"
TRY: Final = "agent_try"
TOOLS: Final = (PARTS, TRY, AGENT_PROPOSE)

_ABOUT: Final = "makes and changes your agents, by talking"
_JOBS_MAX: Final = 1_000
_DOCUMENTS_MAX: Final = 1_000


@cache
def prompt() -> str:
    """Return what the builder is told to be."""
    return File(__file__).with_name("prompt.md").read_text()


@dataclass
class Builder:
    """Opens it, reads agents as proposals see them, and makes what was approved."""

    store: Store
    checks: ProposalChecks
    _opening: trio.Lock = field(default_factory=trio.Lock)

    # -- the builder itself --------------------------------------------------------------------------------------------

    async def open(self, user: str) -> Agent:
        """Return a person's builder, made now if there is none.

        Raises `NotFoundError` USER_UNKNOWN, `ConflictError` BUILDER_TAKEN where another agent has its name.
        """
        await self.person(user)
        path = Path.agent(user, BUILDER)
        async with self._opening:
            there = await self.checks.directory.find(str(path))
            if there is None:
                config = AgentConfig(description=_ABOUT, system_prompt=prompt(), tools=TOOLS)
                new = self.checks.directory.new(path, origin=Origin.PERSON, config=config)
                return await self.store.agents.create_permanent(new, LASTING_AGENTS_MAX)
            if not is_builder(there):
                raise ConflictError(
                    "BUILDER_TAKEN",
                    f"opening {path}: another agent has this name",
                    hint=f"daycare clone {path} under another name, and end this one",
                )
            wanted = replace(there.config, system_prompt=prompt(), tools=TOOLS)
            return await self.store.agents.configure(there.id, wanted)

    async def lacking(self, user: str) -> str:
        """Return why nothing can be built by talking now, for people to read; "" if it can."""
        there = await self.checks.directory.find(str(Path.agent(user, BUILDER)))
        try:
            plan = await self.checks.pool.plan("user", there.config.model or None if there else None)
        except DaycareError as error:
            return f"Building by talking needs a language model: {error}. {_TEMPLATES}"
        if plan[0].provider == OFFLINE:
            return f"Building by talking needs a language model, and there is none yet: daycare models. {_TEMPLATES}"
        return ""

    async def said(self, user: str, limit: int) -> list[Message]:
        """Return the last messages of a person's conversation with their builder, the oldest first."""
        there = await self.checks.directory.find(str(Path.agent(user, BUILDER)))
        found = await self.store.turns.history(there.id, there.session, limit) if there else []
        return found[-limit:]

    async def person(self, user: str) -> User:
        """Return a user. Raises `NotFoundError` USER_UNKNOWN."""
        found = await self.checks.people.get(user)
        if found is None:
            raise NotFoundError("USER_UNKNOWN", f"building for {user}: no such user", hint="daycare users list")
        return found

    # -- agents as proposals see them ----------------------------------------------------------------------------------

    async def at(self, user: str, name: str) -> tuple[Agent | None, BuiltAgent]:
        """Return a user's agent of a name, None if there is none, and all of it that can be proposed."""
        path = str(Path.agent(user, name))
        agent = await self.checks.directory.find(path)
        if agent is None:
            return None, BuiltAgent(path=path)
        documents = await self._documents(agent.id)
        row = (await self.checks.budgets.rows()).get(path)
        limits = {name: limit for name, limit in (row.limits if row else {}).items() if limit != LIFTED}
        return agent, BuiltAgent(
            path=path,
            config=agent.config,
            documents=documents,
            jobs=tuple(sorted(map(_as_proposed, await self._jobs(user, path)), key=lambda job: job.name)),
            conversations=tuple(each.path.rpartition("/")[2] for each in await self._answering(agent)),
            limits=limits,
        )

    async def _documents(self, agent_id: str) -> dict[str, str]:
        rows = self.store.of(DocumentRows)
        skills = await rows.find(Layer.AGENT, agent_id, prefix="skills/", limit=_DOCUMENTS_MAX)
        places = [Place(Layer.AGENT, agent_id, name) for name in (SOUL, STYLE)]
        found = {place.name: await rows.get(place) for place in (*places, *(each.place for each in skills))}
        return {name: each.text for name, each in found.items() if each and each.text is not None}

    async def wanted(self, user: str, it: AgentProposal) -> tuple[Agent | None, BuiltAgent, BuiltAgent]:
        """Return the agent that a proposal is about, if it is there, as it is and as it would be."""
        agent, now = await self.at(user, it.name)
        limits = None if it.budget is None else read_limits(it.budget)
        return agent, now, now.changed(it, limits)

    async def check(self, maker: Agent, it: AgentProposal) -> tuple[Agent | None, BuiltAgent, BuiltAgent]:
        """Return what `wanted` does. Raises `InvalidError` PROPOSAL_FLAWED that names all that is wrong."""
        user = await self.person(maker.user)
        try:
            agent, now = await self.at(maker.user, it.name)
        except InvalidError as error:  # it is no name, so nothing else can be looked at
            raise _flawed(it.name, [f"name: {error.message}"]) from None
        if problems := await self.checks.problems(maker, user, it, agent, now):
            raise _flawed(it.name, problems)
        return await self.wanted(maker.user, it)

    # -- making one ----------------------------------------------------------------------------------------------------

    async def make(self, maker: Agent, it: AgentProposal, request: Approval) -> str:
        """Make what a person has approved, and return what came of it; a repeat changes nothing.

        Raises as `check`, and `ConflictError` AGENT_CHANGED where the agent is not as it was shown.
        """
        agent, now, wanted = await self.check(maker, it)
        if now == wanted and agent is not None:
            return f"{now.path} is as it was approved"
        if it.base != base_of(agent, now):
            raise ConflictError(
                "AGENT_CHANGED", f"making {now.path}: it was changed meanwhile, and nothing was done", hint=_AGAIN
            )
        plan = await self._plan(maker, agent, now, wanted, request)
        made = await self.store.of(BuiltRows).make(plan)
        return f"{made.path} is {'changed' if agent else 'there'}, as it was approved; /use {it.name} lets it answer"

    async def _plan(
        self, maker: Agent, agent: Agent | None, now: BuiltAgent, wanted: BuiltAgent, request: Approval
    ) -> BuildPlan:
        user = await self.person(maker.user)
        path = wanted.path
        documents = {
            name: NewDocument(text, digest(now.documents.get(name)))
            for name, text in wanted.documents.items()
            if now.documents.get(name) != text
        }
        by = Attribution(
            origin=Origin.AGENT,
            author=maker.path,
            approver=request.decided_by,
            reason=request.reason,
            provenance=request.provenance,
        )
        jobs = {job.id: job for job in await self._jobs(maker.user, path)}
        old = {each.name: each for each in now.jobs}
        clock = self.checks.cron.clock
        plan = BuildPlan(
            agent=agent or self._new(maker, wanted, request),
            config=wanted.config,
            documents=documents,
            by=by,
            removed=[jobs[name] for name in old.keys() - {each.name for each in wanted.jobs}],
            budget=await self._budget(user, now, wanted),
            answering=await self._answers(user, wanted),
        )
        added, changed = [], []
        for each in wanted.jobs:
            if each.name not in old:
                spec = spec_of(each, path)
                added.append(
                    NewCronJob(
                        path=str(Path.cron(user.id, each.name)),
                        user=user.id,
                        source="agent",
                        source_ref=maker.path,
                        spec=spec,
                        next_at=spec.first(user.zone, clock.now_ms()),
                        key=f"{BUILDER}:{request.no}:{each.name}",
                        bounds=await self.checks.cron.bounds(maker.path),
                    )
                )
            elif each != old[each.name]:
                job = jobs[each.name]
                spec = replace(job.spec, cron=each.cron, at="", zone=each.zone, prompt=each.text)
                changed.append(ChangedJob(job, spec, spec.first(user.zone, clock.now_ms())))
        return plan._replace(added=added, changed=changed)

    def _new(self, maker: Agent, wanted: BuiltAgent, request: Approval) -> NewAgent:
        # What narrows the builder narrows what it makes; the tools are those that a person has read.
        config = bound_by(wanted.config, maker.config, tools=False)
        new = self.checks.directory.new(self.checks.directory.parse(wanted.path), origin=Origin.PERSON, config=config)
        return replace(new, born=f"{BUILDER}:{request.no}", by=maker.path, trace=request.trace)

    async def _budget(self, user: User, now: BuiltAgent, wanted: BuiltAgent) -> BudgetRow | None:
        if wanted.limits == now.limits:
            return None
        row = (await self.checks.budgets.rows()).get(now.path) or BudgetRow(path=now.path)
        lifted = {name: limit for name, limit in row.limits.items() if limit == LIFTED}
        return replace(row, limits=lifted | wanted.limits, set_by=user.id)

    async def _answers(self, user: User, wanted: BuiltAgent) -> list[tuple[Agent, AgentConfig]]:
        name = wanted.path.rpartition("/")[2]
        found = []
        for path in await self.checks.conversations(user):
            conversation = await self.checks.directory.at(path)
            here = path.rpartition("/")[2] in wanted.conversations
            if here != (conversation.config.answers == name):
                found.append((conversation, replace(conversation.config, answers=name if here else "")))
        return found

    async def _answering(self, agent: Agent) -> list[Agent]:
        name = agent.path.rpartition("/")[2]
        found = await self.checks.directory.all_of(agent.user)
        return [each for each in found if each.kind == Kind.CONNECTOR and each.config.answers == name]

    async def _jobs(self, user: str, path: str) -> list[CronJob]:
        found = await self.checks.cron.find(user, limit=_JOBS_MAX)
        return [job for job in found if job.spec.target == path and job.source in ("cli", "agent") and job.spec.cron]


def is_builder(agent: Agent) -> bool:
    """Return whether an agent is a builder: it was given the tool that proposes agents, by name."""
    return agent.config.tools is not None and AGENT_PROPOSE in agent.config.tools


def base_of(agent: Agent | None, now: BuiltAgent) -> str:
    """Return what a proposal is bound to: a hash of the agent as it was shown, "" where there was none."""
    return digest(now.text) if agent else ""


def _as_proposed(job: CronJob) -> ProposedJob:
    return ProposedJob(name=job.id, cron=job.spec.cron, text=job.spec.prompt, zone=job.spec.zone)


def _flawed(name: str, problems: list[str]) -> InvalidError:
    listed = "\n".join(f"{number}. {each}" for number, each in enumerate(problems, 1))
    many = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    return InvalidError("PROPOSAL_FLAWED", f"proposing {name}: {many}, and nobody was asked:\n{listed}", hint=_MEND)


_AGAIN: Final = "look at it with agent_parts and propose it again"
_MEND: Final = f"mend all of them and call it again; {PARTS} lists what there is"
_TEMPLATES: Final = f"Templates need none, /agents new NAME makes an agent of one: {', '.join(names())}"
