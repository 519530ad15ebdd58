"""What narrows an agent, handed on to what it brings about beside itself: tasks, scheduled jobs, permanent agents."""

from msgspec.structs import replace

from daycare.actors.directory import Directory
from daycare.base.consent import Consent
from daycare.base.workspace import wider
from daycare.store.records import Agent, AgentConfig
from daycare.store.records_bounds import bound_by


async def bounds_of(directory: Directory, agent: Agent) -> AgentConfig:
    """Return settings that bind as those of an agent and of all above it do, with its workspace and no other."""
    bounds = replace(
        bound_by(AgentConfig(), agent.config), workspace=agent.config.workspace, access=agent.config.access
    )
    while agent.parent is not None:
        agent = await directory.get(agent.parent)
        bounds = bound_by(bounds, agent.config)
    return bounds


def is_as_bound(config: AgentConfig, bounds: AgentConfig) -> bool:
    """Return whether settings bind an agent at least as `bounds` would, also in what it does with files."""
    tools = bounds.tools is None or (config.tools is not None and set(config.tools) <= set(bounds.tools))
    asked = bounds.approvals is None or config.approvals in (bounds.approvals, Consent.ALWAYS)
    files = not config.workspace or (config.workspace == bounds.workspace and not wider(config.access, bounds.access))
    return tools and asked and files and set(config.permissions.rules) >= set(bounds.permissions.rules)
