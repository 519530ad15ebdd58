"""Whether a change of memory needs a person's yes: decided from settings and stored facts, never by a model."""

from collections.abc import Set
from typing import NamedTuple

from daycare.base.consent import CHANGES, IDENTITY, ApprovalRule, ApprovalsSection, Consent
from daycare.base.messages import Origin


class Need(NamedTuple):
    """What a call needs, and for which documents it was said: empty for all."""

    consent: Consent
    documents: str = ""


def needed(
    section: ApprovalsSection, tool: str, agent: str, document: str, origins: Set[Origin], *, direct: bool
) -> Need:
    """Return what a call of a tool needs.

    `document` is the document with its layer (`shared/knowledge/tea.md`; the agent's own without), `origins` are those
    of all that the turn has read. `direct`: a person speaks to their own agent, and nothing else was read. Where that
    is not so, a change is always asked for, whatever the settings say; identity always is.
    """
    if tool == IDENTITY:
        return Need(Consent.ALWAYS)
    rule = next((rule for rule in section.rules.values() if _fits(rule, tool, agent, document, origins)), None)
    found = Need(section.of(tool)) if rule is None else Need(rule.policy, rule.documents.removesuffix("/"))
    if not direct and (tool in CHANGES or found.consent is Consent.SESSION):
        return Need(Consent.ALWAYS)
    return found


def within(path: str, subtree: str) -> bool:
    """Return whether a path is this one or below it; below the empty one is everything."""
    return not subtree or path == subtree or path.startswith(f"{subtree}/")


def _fits(rule: ApprovalRule, tool: str, agent: str, document: str, origins: Set[Origin]) -> bool:
    return (
        tool in rule.tools
        and within(agent, rule.agents)
        and within(document, rule.documents.removesuffix("/"))
        and (not rule.origins or not origins.isdisjoint(rule.origins))
    )
