"""What is wrong with a proposal: all of it at once, each with what to do, so that a model can mend it in one go.

A person may give what their own agents may have, and no more: tools, conversations, budgets and schedules are looked at
as they are now, when something is proposed and again when it is made.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path as File
from typing import Final

import msgspec

from daycare.actors.directory import Directory
from daycare.actors.permission_checks import PermissionChecks
from daycare.agent import tokens
from daycare.agent.prompt import PROMPT_IDENTITY_MAX_TOKENS
from daycare.base.budget import LIFTED, read_limits
from daycare.base.cron import CronSpec
from daycare.base.errors import DaycareError, InvalidError
from daycare.base.likeness import nearest_name
from daycare.base.messages import Origin
from daycare.base.path import Kind, Path
from daycare.base.permission import SPAWN, TOOL, Decision
from daycare.features.budgets.service import Budgets
from daycare.features.builder.records import BUILDER, AgentProposal, BuiltAgent, ProposedJob
from daycare.features.cron.jobs import CronControls
from daycare.features.skills.service import Skills
from daycare.features.skills.tools import SKILL
from daycare.inference.pool import Pool
from daycare.rules.permissions import Party
from daycare.rules.skill_text import flaws
from daycare.store.records import Agent, AgentConfig, User
from daycare.store.sqlite.people import PeopleStore
from daycare.tools.catalogue import Catalogue

DESCRIPTION_MAX_CHARS: Final = 200  # a line of a list
INSTRUCTIONS_MAX_CHARS: Final = 20_000  # as of `agent_create`
SKILLS_MAX: Final = 10  # in one proposal: each is to be read by a person
JOBS_MAX: Final = 10  # of one agent
_NO_CONFIG: Final = AgentConfig()
_NOWHERE: Final = "an id of nobody"


@cache
def needs() -> dict[str, str]:
    """Return the tools that are there once something is set up, by name, each with what that is."""
    return msgspec.toml.decode(File(__file__).with_name("needs.toml").read_bytes(), type=dict[str, str])


@dataclass(frozen=True)
class ProposalChecks:
    """Finds it. `check` raises for settings that name what there is not."""

    people: PeopleStore
    directory: Directory
    permissions: PermissionChecks
    catalogue: Catalogue
    budgets: Budgets
    pool: Pool
    cron: CronControls
    skills: Skills
    check: Callable[[AgentConfig], None]

    async def problems(
        self, maker: Agent, user: User, it: AgentProposal, there: Agent | None, now: BuiltAgent
    ) -> list[str]:
        """Return all that keeps the builder `maker` of a user from making this; `there` is the agent as it is now."""
        found = [*_flaws(it, there), *_long(it)]
        if it.name == BUILDER:
            found.append(f"name: {BUILDER} builds agents, and is not built itself; choose another name")
        if told := await _refused(self._spawn(maker, now.path)):
            found.append(f"name: {told}")
        for field, check in (
            ("personality", self._settings(it)),
            ("model", self._model(it, user)),
            ("connector", self._connector(it, user)),
        ):
            if told := await _refused(check):
                found.append(f"{field}: {told}")
        found += [f"tools: {told}" for told in self._tools(it, user, there, now)]
        found += [f"skills: {told}" for told in await self._skills(it, user, there, now)]
        found += [f"schedule: {told}" for told in await self._jobs(it, maker, user, now)]
        found += [f"budget: {told}" for told in await self._budget(it, user, now)]
        return found

    def ceiling(self, user: User, path: str, there: Agent | None = None) -> list[str]:
        """Return the tools that a person may give to their agent at a path, but for what rules say of it."""
        config = msgspec.structs.replace(there.config if there else AgentConfig(), tools=None)
        return [spec.name for spec in self.catalogue.specs(proposed(user, path, config))]

    def denied(self, path: str, tool: str, config: AgentConfig = _NO_CONFIG) -> str:
        """Return the rule that keeps an agent at a path from a tool, whatever it has now; "" if none does."""
        at = self.directory.parse(path)
        verdict = self.permissions.rules.decide([Party(at, config.permissions)], f"{TOOL}{tool}", at)
        return verdict.reason if verdict.decision is Decision.DENY else ""

    # -- field by field ------------------------------------------------------------------------------------------------

    async def _spawn(self, maker: Agent, path: str) -> None:
        await self.permissions.check(maker.path, SPAWN, path, can_ask=True)

    async def _settings(self, it: AgentProposal) -> None:
        self.check(AgentConfig(personality=it.personality or ""))

    async def _model(self, it: AgentProposal, user: User) -> None:
        if it.model:
            if not user.operator:
                raise _wrong(f"{it.model}: only an operator chooses models; leave it out")
            await self.pool.plan(None, it.model)

    async def _connector(self, it: AgentProposal, user: User) -> None:
        if it.connector:
            there = [path.rpartition("/")[2] for path in await self.conversations(user)]
            if it.connector not in there:
                raise _wrong(f"{user.id} has no conversation at {it.connector}; there are: {_listed(there)}")

    async def conversations(self, user: User) -> list[str]:
        """Return the paths of a user's own conversations."""
        return [each.path for each in await self.directory.all_of(user.id) if each.kind == Kind.CONNECTOR]

    def _tools(self, it: AgentProposal, user: User, there: Agent | None, now: BuiltAgent) -> list[str]:
        may, known = self.ceiling(user, now.path, there), [spec.name for spec in self.catalogue.known()]
        had = now.config.tools
        found = []
        for name in dict.fromkeys(it.tools or ()):
            if name not in may:
                near = nearest_name(name, may)
                why = f": it is there once {needs()[name]}" if name in needs() else ""
                if name in known:
                    found.append(f"{name} is not for {user.id} to give{why}; leave it out")
                else:
                    found.append(f"there is no {name}{why or (f'; did you mean {near[0]}?' if near else '')}")
            elif rule := self.denied(now.path, name, now.config):
                found.append(f"{name} is not for {user.id} to give: {rule}; leave it out")
            elif there is not None and had is not None and name not in had and not user.operator:
                found.append(f"{name}: only an operator gives an agent more than it has; leave it out, or make another")
        return found

    async def _skills(self, it: AgentProposal, user: User, there: Agent | None, now: BuiltAgent) -> list[str]:
        agent = there or proposed(user, now.path, now.config)
        known = {each.name for each in await self.skills.offered(agent)} if it.skills else set()
        tools = now.config.tools if it.tools is None else it.tools
        found = (
            [f"it needs the tool {SKILL} to read any"] if it.skills and tools is not None and SKILL not in tools else []
        )
        for each in it.skills or ():
            if not each.instructions and each.name not in known:
                found.append(f"there is no {each.name}: give its instructions; there are: {_listed(sorted(known))}")
            elif each.instructions:
                found += [f"{each.name} {flaw}" for flaw in flaws(each.text, each.name)]
        return found

    async def _jobs(self, it: AgentProposal, maker: Agent, user: User, now: BuiltAgent) -> list[str]:
        found = []
        known = {each.name for each in now.jobs}
        for each in it.schedule or ():
            told = await _refused(self._job(each, maker, user, now, is_new=each.name not in known))
            if told:
                found.append(f"{each.name or 'a job without a name'}: {told}")
        return found

    async def _job(self, it: ProposedJob, maker: Agent, user: User, now: BuiltAgent, *, is_new: bool) -> None:
        path = str(Path.cron(user.id, it.name))
        if is_new and await self.cron.rows.at(path) is not None:
            raise _wrong("there is another job of this name; choose another")
        await self.cron.check(path, spec_of(it, now.path), user.id, user.zone, maker.path, born=now.path)

    async def _budget(self, it: AgentProposal, user: User, now: BuiltAgent) -> list[str]:
        if it.budget is None:
            return []
        if not await self.budgets.may_change(user.id, now.path):
            return [f"somebody else has set what {now.path} may use; leave it out"]
        found = []
        bounds: dict[str, tuple[int, str]] = {}
        for scope in await self.budgets.scopes(now.path, user):
            for name, limit in scope.limits.items():
                if limit != LIFTED and scope.path != now.path and limit < bounds.get(name, (limit + 1, ""))[0]:
                    bounds[name] = (limit, scope.path)
        for text in it.budget:
            try:
                limits = read_limits([text])
            except DaycareError as error:
                found.append(str(error))
                continue
            for name, limit in limits.items():
                most, whose = bounds.get(name, (limit, ""))
                if limit > most:
                    found.append(f"{text} is more than {whose} may use; name less")
        return found


def proposed(user: User, path: str, config: AgentConfig) -> Agent:
    """Return an agent as it would be, living nowhere: for what asks about one before it is there."""
    return Agent(
        id=_NOWHERE,
        path=path,
        kind=Kind.AGENT,
        role="user",
        user=user.id,
        origin=Origin.PERSON,
        parent=None,
        state="living",
        config=config,
        incarnation=0,
        session=0,
        created_at=0,
    )


def spec_of(it: ProposedJob, target: str) -> CronSpec:
    """Return a job as it is kept."""
    return CronSpec(cron=it.cron, zone=it.zone, prompt=it.text, target=target)


async def _refused(checking: Awaitable[None]) -> str:
    """Return what a check raises, with its hint; "" if it passes."""
    try:
        await checking
    except DaycareError as error:
        return f"{error.message}{error.hint and f' ({error.hint})'}"
    return ""


def _flaws(it: AgentProposal, there: Agent | None) -> Iterator[str]:
    if not it.reason.strip():
        yield "reason: say in a sentence why, for the person who decides"
    if there is None and not (it.soul or "").strip() and not (it.instructions or "").strip():
        yield "soul: a new agent needs words that say who it is"
    if there is None and it.tools is None:
        yield "tools: name those that it is to have, [] for none"
    for field, items in (("skills", it.skills), ("schedule", it.schedule)):
        names = [each.name for each in items or ()]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            yield f"{field}: {', '.join(twice)} stands there twice"


def _long(it: AgentProposal) -> Iterator[str]:
    for field, text, most in (
        ("description", it.description, DESCRIPTION_MAX_CHARS),
        ("instructions", it.instructions, INSTRUCTIONS_MAX_CHARS),
    ):
        if text is not None and len(text) > most:
            yield f"{field}: it has {len(text)} characters, at most {most}"
    if it.description is not None and "\n" in it.description:
        yield "description: it is one line"
    for field, words in (("soul", it.soul), ("style", it.style)):
        if words is not None and (size := tokens.of_text(words)) > PROMPT_IDENTITY_MAX_TOKENS:
            yield f"{field}: it has about {size} tokens, at most {PROMPT_IDENTITY_MAX_TOKENS} stand in a prompt"
        if words is not None and not words.strip():
            yield f"{field}: it says nothing; leave it out"
    for field, items, most in (("skills", it.skills, SKILLS_MAX), ("schedule", it.schedule, JOBS_MAX)):
        if items is not None and len(items) > most:
            yield f"{field}: {len(items)} at once, at most {most}"


def _wrong(what: str) -> InvalidError:
    return InvalidError("PROPOSAL_FLAWED", what)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"
