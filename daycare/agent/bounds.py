"""What narrows an agent, handed on to what it brings about beside itself: tasks, scheduled jobs, permanent agents."""

from daycare.actors.directory import Directory
from daycare.base.consent import Consent
from daycare.store.records import Agent, AgentConfig
from daycare.store.records_bounds import bound_by


async def bounds_of(directory: Directory, agent: Agent) -> AgentConfig:
    """Return settings that bind as those of an agent and of all above it do."""
    bounds = bound_by(AgentConfig(), agent.config)
    while agent.parent is not None:
        agent = await directory.get(agent.parent)
        bounds = bound_by(bounds, agent.config)
    return bounds


def is_as_bound(config: AgentConfig, bounds: AgentConfig) -> bool:
    """Return whether settings bind an agent at least as `bounds` would."""
    tools = bounds.tools is None or (config.tools is not None and set(config.tools) <= set(bounds.tools))
    asked = bounds.approvals is None or config.approvals in (bounds.approvals, Consent.ALWAYS)
    return tools and asked and set(config.permissions.rules) >= set(bounds.permissions.rules)
