"""What narrows an agent, handed on to what it brings about beside itself: tasks, scheduled jobs, lasting agents."""

from daycare.actors.directory import Directory
from daycare.base.consent import Consent
from daycare.base.permission import Permissions
from daycare.store.records import Agent, AgentConfig


async def rules_of(directory: Directory, agent: Agent) -> Permissions:
    """Return the rules among an agent's own settings and those of all above it."""
    rules = list(agent.config.permissions.rules)
    while agent.parent is not None:
        agent = await directory.get(agent.parent)
        rules += agent.config.permissions.rules
    return Permissions(rules=tuple(dict.fromkeys(rules)))


def is_as_bound(config: AgentConfig, bounds: AgentConfig) -> bool:
    """Return whether settings bind an agent at least as `bounds` would."""
    tools = bounds.tools is None or (config.tools is not None and set(config.tools) <= set(bounds.tools))
    asked = bounds.approvals is None or config.approvals in (bounds.approvals, Consent.ALWAYS)
    return tools and asked and set(config.permissions.rules) >= set(bounds.permissions.rules)
