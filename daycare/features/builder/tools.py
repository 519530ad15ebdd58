"""The tools of a builder: what there is to build with, a trial, and the proposal. Nobody else has them."""

from collections.abc import Sequence
from typing import Annotated, Any, Final

import msgspec

from daycare.agent.blocks import one_line
from daycare.base.budget import LIFTED, as_written, split_name
from daycare.base.errors import ConflictError
from daycare.base.messages import ToolCall
from daycare.base.path import Path
from daycare.base.tool import READS, Sourced
from daycare.features.agents.templates import names, template
from daycare.features.approvals.gate import ApprovalGate
from daycare.features.approvals.records import AGENT_PROPOSE, CallAction
from daycare.features.approvals.rows import APPROVED_CALL, ApprovalRows
from daycare.features.builder.checking import needs
from daycare.features.builder.records import BUILDER, AgentProposal, AgentTrial
from daycare.features.builder.service import PARTS, TRY, Builder, base_of
from daycare.features.builder.trial import Trials
from daycare.plugin import StructTool, ToolContext
from daycare.store.records import Agent, User

_TOOL_CHARS: Final = 110
_LINE_CHARS: Final = 160
_REASON_MAX_CHARS: Final = 200


class AgentParts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """List what there is to build with: tools, skills, conversations, personalities, templates, what may be spent, and
    the user's agents. With a name: that agent as it is, or that template."""

    name: Annotated[str, msgspec.Meta(max_length=64)] = ""


class BuilderTools:
    """Makes them."""

    def __init__(self, builder: Builder, trials: Trials, gate: ApprovalGate) -> None:
        self._builder = builder
        self._trials = trials
        self._gate = gate

    def tools(self) -> Sequence[StructTool[Any]]:
        """Return the tools."""
        return (
            StructTool(PARTS, AgentParts, self._parts, idempotent=True, **READS),
            StructTool(TRY, AgentTrial, self._try, idempotent=True, **READS),
            StructTool(AGENT_PROPOSE, AgentProposal, self._propose, idempotent=True, **READS),
        )

    # -- what there is -------------------------------------------------------------------------------------------------

    async def _parts(self, context: ToolContext, it: AgentParts) -> Sourced:
        user = await self._builder.person(context.user)
        if not it.name:
            return Sourced("\n".join(await self._listed(user)), ())
        agent, now = await self._builder.at(user.id, it.name)
        if agent is not None:
            return Sourced(now.text, ())
        of = template(it.name)
        documents = "\n\n".join(f"== {name} ==\n{text.strip()}" for name, text in of.documents.items())
        jobs = "".join(f"\nschedule: {job.when}: {job.text}" for job in of.jobs)
        needed = ", ".join(of.needs) or "none"
        return Sourced(f"template {of.name}: {of.description}\ntools it counts on: {needed}{jobs}\n\n{documents}", ())

    async def _listed(self, user: User) -> list[str]:
        checks = self._builder.checks
        path = str(Path.agent(user.id, "new"))
        may = [name for name in checks.ceiling(user, path) if not checks.denied(path, name)]
        specs = {spec.name: spec for spec in checks.catalogue.known()}
        agents = [each for each in await checks.directory.all_of(user.id) if each.kind == "agent"]
        skills = await checks.skills.offered(await self._own(user))
        conversations = [each.rpartition("/")[2] for each in await checks.conversations(user)]
        lines = ["Tools:", *(f"- {name}: {one_line(specs[name].description, _TOOL_CHARS)}" for name in may)]
        lines += ["Tools that are not there, each until:"]
        lines += [f"- {name}: {what}" for name, what in needs().items() if name not in may]
        lines += [f"Skills of all agents: {_names([each.name for each in skills])}"]
        lines += [f"Conversations: {_names(conversations)}"]
        lines += [f"Templates: {_names([f'{each} ({template(each).description})' for each in names()])}"]
        lines += [f"Time zone: {user.zone}. May choose models: {'yes' if user.operator else 'no'}"]
        lines += [f"May be spent: {_names(await self._spendable(user, path))}"]
        lines += ["Agents:", *(f"- {_line(each)}" for each in agents if not each.path.endswith(f"/{BUILDER}"))]
        return lines

    async def _own(self, user: User) -> Agent:
        return await self._builder.checks.directory.at(str(Path.agent(user.id, BUILDER)))

    async def _spendable(self, user: User, path: str) -> list[str]:
        found = []
        for scope in await self._builder.checks.budgets.scopes(path, user):
            for name, limit in scope.limits.items():
                period, measure = split_name(name)
                found += [f"{as_written(measure, limit)} a {period} at {scope.path}"] if limit != LIFTED else []
        return found

    # -- trying and proposing ------------------------------------------------------------------------------------------

    async def _try(self, context: ToolContext, it: AgentTrial) -> Sourced:
        maker = await self._builder.checks.directory.at(context.path)
        user = await self._builder.person(maker.user)
        named = it if it.reason else msgspec.structs.replace(it, reason="a trial")
        agent, _, wanted = await self._builder.check(maker, named)
        told = await self._trials.run(maker, user, it, agent, wanted, context.turn, context.trace)
        file = await context.write(f"trial-{it.name}.md", "text/markdown", told.encode())
        await context.attach(file.id)  # so that the person reads it word for word
        return Sourced(told, ())

    async def _propose(self, context: ToolContext, it: AgentProposal) -> str:
        maker = await self._builder.checks.directory.at(context.path)
        turn, _, steps = await self._builder.store.turns.load(context.turn)
        [call] = [ToolCall(each.call_id, each.name, each.arguments) for each in steps if each.step == context.step]
        if await self._gate.approved(maker, turn, context.step, call):
            request = await self._builder.store.of(ApprovalRows).get(int(call.id.removeprefix(APPROVED_CALL)))
            assert request is not None
            return await self._builder.make(maker, it, request)
        agent, now, wanted = await self._builder.check(maker, it)
        if agent is not None and now == wanted:
            raise ConflictError("PROPOSAL_POINTLESS", f"proposing {it.name}: it is just so", hint=f"{PARTS} shows it")
        bound = msgspec.structs.replace(it, base=base_of(agent, now))
        action = CallAction(
            tool=AGENT_PROPOSE,
            arguments=msgspec.to_builtins(bound),
            where=now.path,
            old=now.text if agent else None,
            new=wanted.text,
        )
        user = await self._builder.person(maker.user)
        because = it.reason[:_REASON_MAX_CHARS]
        return await self._gate.ask(maker, user, turn, context.step, call, because, shown=action)


def _line(agent: Agent) -> str:
    about = one_line(agent.config.description, _LINE_CHARS)
    return f"{agent.path.rpartition('/')[2]}{about and f': {about}'}"


def _names(found: Sequence[str]) -> str:
    return ", ".join(found) or "none"
