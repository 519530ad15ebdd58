"""What an agent does with permanent agents of its own user, as tools: create, change, list, and ask to end one."""

from collections.abc import Sequence
from typing import Annotated, Any, Final

import msgspec

from daycare.agent.blocks import one_line
from daycare.base.errors import InvalidError
from daycare.base.messages import Choice, Origin
from daycare.base.scope import scope_of
from daycare.base.tool import ACTS, READS, STAYS
from daycare.features.agents.controls import PermanentAgents
from daycare.features.agents.rights import WantedSettings
from daycare.features.agents.templates import names
from daycare.plugin import StructTool, ToolContext
from daycare.store.records import Agent

_LINE_CHARS: Final = 160

_TEMPLATE: Final = "Words that come along; prompt adds to them. Without one, prompt is needed"

AgentName = Annotated[str, msgspec.Meta(description="Its name, such as scribe: a-z, 0-9, - and _")]
Prompt = Annotated[str, msgspec.Meta(max_length=20_000, description="Who it is and how it works, in full")]
About = Annotated[str, msgspec.Meta(max_length=200, description="What it is for, in a line")]
Model = Annotated[str, msgspec.Meta(max_length=200, description="PROVIDER/MODEL; default: the installation's")]
Manner = Annotated[str, msgspec.Meta(max_length=64, description="A personality's name; default: the installation's")]


class AgentCreate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Create a permanent agent of the user, /USER/agent/NAME, with instructions of its own; it may do no more than you.
    The user talks with it by /use NAME, you by send_message or ask. For a single piece of work use spawn or
    task_start."""

    name: AgentName
    prompt: Prompt = ""
    template: Annotated[str, msgspec.Meta(extra_json_schema={"enum": ["", *names()]}, description=_TEMPLATE)] = ""
    description: About = ""
    model: Model = ""
    personality: Manner = ""


class AgentEdit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Change a permanent agent that an agent has made; what is left out stays as it is."""

    name: AgentName
    prompt: Prompt | None = None
    description: About | None = None
    model: Model | None = None
    personality: Manner | None = None


class AgentList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """List the user's permanent agents: what each is for, its model, and who made it."""


class AgentDelete(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Ask the user to end a permanent agent that is not needed any more. Your answer comes with a button for that; it
    lives until the user presses it."""

    name: AgentName


class PermanentAgentTools:
    """Makes these tools."""

    def __init__(self, agents: PermanentAgents) -> None:
        self._agents = agents

    def tools(self) -> Sequence[StructTool[Any]]:
        """Return the tools."""
        return (
            StructTool("agent_create", AgentCreate, self._create, idempotent=True, group="agents", **ACTS),
            StructTool("agent_edit", AgentEdit, self._edit, idempotent=True, group="agents", **ACTS),
            StructTool("agent_list", AgentList, self._list, idempotent=True, group="agents", **READS),
            StructTool("agent_delete", AgentDelete, self._delete, idempotent=True, group="agents", **STAYS),
        )

    async def _create(self, context: ToolContext, it: AgentCreate) -> str:
        if not it.prompt and not it.template:
            raise InvalidError("AGENT_PROMPT", f"creating {it.name}: say who it is", hint="prompt, or template")
        wanted = WantedSettings(
            template=it.template,
            prompt=it.prompt,
            description=it.description,
            model=it.model,
            personality=it.personality,
        )
        agent = await self._agents.create_for(context, it.name, wanted)
        if scope_of(context.path) != scope_of(agent.path):  # a sub-user's, who have one conversation
            return f"created {agent.path}; write to it by send_message or ask"
        return f"created {agent.path}; the user talks with it by /use {it.name}"

    async def _edit(self, context: ToolContext, it: AgentEdit) -> str:
        wanted = WantedSettings(
            prompt=it.prompt, description=it.description, model=it.model, personality=it.personality
        )
        agent = await self._agents.change_for(context, it.name, wanted)
        return f"{agent.path} is changed"

    async def _list(self, context: ToolContext, it: AgentList) -> str:
        return "\n".join(line_of(agent) for agent in await self._agents.find(context.user)) or "there are none"

    async def _delete(self, context: ToolContext, it: AgentDelete) -> str:
        agent = await self._agents.to_end_for(context, it.name)
        context.offer([Choice(f"End {it.name}", f"/agents rm {it.name}")])  # which asks once more, in our own words
        return (
            f"{agent.path} lives on. Only the user can end it: by the button that comes with your answer, or with"
            f" /agents rm {it.name}. Say so; it can be taken back for a while."
        )


def line_of(agent: Agent) -> str:
    """Return a permanent agent on one line: its name, what it is for, its model, and who made it."""
    config = agent.config
    about = f": {one_line(config.description, _LINE_CHARS)}" if config.description else ""
    more = [f"model {config.model}"] if config.model else []
    more += ["made by an agent"] if agent.origin is Origin.AGENT else []
    more += [agent.state] if agent.state != "living" else []
    notes = f" ({', '.join(more)})" if more else ""
    return f"{agent.path.rsplit('/', 1)[-1]}{notes}{about}"
