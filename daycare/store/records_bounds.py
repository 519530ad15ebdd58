"""What narrows an agent, as settings that another one is to be bound by as well."""

from msgspec.structs import replace

from daycare.base.consent import Consent
from daycare.base.permission import Permissions
from daycare.store.records import AgentConfig


def bound_by(config: AgentConfig, bounds: AgentConfig, *, tools: bool = True) -> AgentConfig:
    """Return settings so that they bind as `bounds` does, too; without `tools` those stay as they are."""
    own, others = config.tools, bounds.tools if tools else None
    both = own if others is None else others if own is None else tuple(name for name in own if name in others)
    rules = tuple(dict.fromkeys((*config.permissions.rules, *bounds.permissions.rules)))
    asked = config.approvals
    if bounds.approvals in (Consent.SESSION, Consent.ALWAYS):  # `auto` is a right of one alone
        asked = max(filter(None, (asked, bounds.approvals)), key=list(Consent).index)
    return replace(config, tools=both, permissions=Permissions(rules=rules), approvals=asked)
