"""What can be said of an agent that is to be built, and what is there of one that is."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta, field
from msgspec.structs import replace

from daycare.base.budget import as_written, split_name
from daycare.rules.document_paths import SOUL, STYLE
from daycare.rules.skill_text import skill_text
from daycare.store.records import AgentConfig

BUILDER: Final = "builder"  # the name of whom people build agents with

_SKILLS: Final = "skills/"

Said = Annotated[str | None, Meta(description="Left out: as it is")]


class ProposedJob(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Something the agent is told at a time that comes again."""

    name: str
    cron: Annotated[str, Meta(description='Five fields, such as "30 7 * * MON-FRI"')]
    text: Annotated[str, Meta(description="What it is told then, complete in itself")]
    zone: Annotated[str, Meta(description="IANA zone; the user's without it")] = ""


class ProposedSkill(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Instructions for a kind of task. Without them: a skill that is there for all agents of the user."""

    name: Annotated[str, Meta(description="Such as weekly-report; a-z, 0-9 and -")]
    description: str = ""
    instructions: str = ""

    @property
    def document(self) -> str:
        """The name of the document that has it."""
        return f"{_SKILLS}{self.name}.md"

    @property
    def text(self) -> str:
        """What that document says."""
        return skill_text(self.name, " ".join(self.description.split()), self.instructions)


class AgentProposal(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Propose a permanent agent of the user, or changes of one that is there, whole: a person sees all of it as a
    difference and decides once; you are told later. What is left out stays as it is, or is empty. If anything is wrong
    you are told all that is, and nobody is asked."""

    name: Annotated[str, Meta(description="Such as scribe: a-z, 0-9, - and _")]
    reason: Annotated[str, Meta(description="Why, in a sentence for the person who decides")] = ""
    description: Annotated[str | None, Meta(description="What it is for, in a line")] = None
    soul: Annotated[str | None, Meta(description="SOUL.md: who it is and what it never does; short")] = None
    style: Annotated[str | None, Meta(description="STYLE.md: how it writes, in a few lines")] = None
    instructions: Annotated[str | None, Meta(description="How it does its work, where SOUL.md does not say it")] = None
    personality: Said = None
    model: Annotated[str | None, Meta(description="PROVIDER/MODEL, for operators only")] = None
    tools: Annotated[tuple[str, ...] | None, Meta(description="All that it may use; a new one needs them")] = None
    skills: Annotated[tuple[ProposedSkill, ...] | None, Meta(description="To be added, or replaced by name")] = None
    schedule: Annotated[tuple[ProposedJob, ...] | None, Meta(description="All of it; [] for none")] = None
    connector: Annotated[
        str | None, Meta(description="In which of the user's conversations it answers, such as telegram; empty: none")
    ] = None
    budget: Annotated[tuple[str, ...] | None, Meta(description='All of it, such as "1usd a day"; [] for none')] = None
    base: Annotated[str, Meta(description="Leave it out")] = ""


class AgentTrial(AgentProposal, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Try an agent as you would propose it: what it answers to one message. Nothing comes of it: no tool is used, and
    nothing is kept. Show the person the answer word for word."""

    message: Annotated[str, Meta(description="What a person could say to it first")]


class BuiltAgent(msgspec.Struct, frozen=True, kw_only=True):
    """All that can be proposed of an agent, as it is or would be.

    `documents` are its own, by name: SOUL.md, STYLE.md and skills. `jobs` are those that it is the target of;
    `conversations` the connectors in whose conversations it answers; `limits` those that were set for it.
    """

    path: str
    config: AgentConfig = AgentConfig()
    documents: dict[str, str] = field(default_factory=dict)
    jobs: tuple[ProposedJob, ...] = ()
    conversations: tuple[str, ...] = ()
    limits: dict[str, int] = field(default_factory=dict)

    def changed(self, wanted: AgentProposal, limits: dict[str, int] | None) -> "BuiltAgent":
        """Return it as somebody wants it; `limits` is what the proposal's budget says."""
        said = {
            "description": wanted.description,
            "system_prompt": wanted.instructions,
            "personality": wanted.personality,
            "model": wanted.model,
            "tools": None if wanted.tools is None else tuple(dict.fromkeys(wanted.tools)),
        }
        documents = self.documents | {
            name: _ended(text) for name, text in ((SOUL, wanted.soul), (STYLE, wanted.style)) if text is not None
        }
        documents |= {each.document: each.text for each in wanted.skills or () if each.instructions}
        jobs = self.jobs if wanted.schedule is None else wanted.schedule
        answers = self.conversations if wanted.connector is None else tuple(filter(None, (wanted.connector,)))
        return BuiltAgent(
            path=self.path,
            config=replace(self.config, **{name: value for name, value in said.items() if value is not None}),
            documents=documents,
            jobs=tuple(sorted(jobs, key=lambda job: job.name)),
            conversations=answers,
            limits=self.limits if limits is None else limits,
        )

    @property
    def text(self) -> str:
        """All of it as a person reads it, a line for each thing, so that a difference shows just what changes."""
        config = self.config
        lines = [f"address: {self.path}"]
        lines += [f"description: {config.description}"] if config.description else []
        lines += [f"personality: {config.personality}"] if config.personality else []
        lines += [f"model: {config.model}"] if config.model else []
        lines += [f"answers in: {each}" for each in self.conversations]
        lines += [f"budget: {_amount(name, limit)}" for name, limit in sorted(self.limits.items())]
        lines += ["tools: all that its user's agents have"] if config.tools is None else []
        lines += ["tools: none"] if config.tools == () else []
        lines += [f"tool: {name}" for name in config.tools or ()]
        lines += [f"schedule {job.name}: {job.cron}{job.zone and f' ({job.zone})'}: {job.text}" for job in self.jobs]
        if config.system_prompt:
            lines += ["", "== Instructions ==", config.system_prompt.strip()]
        for name, text in sorted(self.documents.items()):
            lines += ["", f"== {name} ==", text.strip()]
        return "\n".join(lines) + "\n"


def _ended(text: str) -> str:
    return f"{text.strip()}\n"


def _amount(name: str, limit: int) -> str:
    period, measure = split_name(name)
    return f"{as_written(measure, limit)} a {period}"
