"""When a memory tool may act by itself and when it asks a person, as `[approvals]` in config.toml says it."""

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from daycare.base.likeness import nearest_name
from daycare.base.messages import Origin
from daycare.base.toml_positions import Key


class Consent(StrEnum):
    """What a call needs: nothing, one yes in this conversation, or a yes of its own. The stricter stands behind."""

    AUTO = "auto"
    SESSION = "session"
    ALWAYS = "always"


READS: Final = ("memory_read", "memory_list", "memory_search")
CHANGES: Final = ("memory_write", "memory_append", "memory_delete")
LOG: Final = "memory_append_daily"
IDENTITY: Final = "identity_propose"
PROPOSING: Final = (*CHANGES, LOG, IDENTITY)  # they ask by themselves, and show what would change
TOOLS: Final = (*READS, *PROPOSING)
FIXED: Final = {**dict.fromkeys(READS, Consent.AUTO), IDENTITY: Consent.ALWAYS}  # of tools that nobody can set
APPROVALS_SENDER: Final = "/system/approvals"  # tells an agent how its requests were decided: no outside words
REQUEST: Final = "memory"  # the kind of a request to change a document that a person's own words led to
IDENTITY_DOCUMENTS: Final = ("SOUL.md", "STYLE.md", "IDENTITY.md", "USER.md")

_PLACES: Final = ("MEMORY.md", "knowledge", "skills", "daily", "workspace", "project", "shared")
_is_agents: Final = re.compile(r"(/[a-z0-9][a-z0-9_-]*)+").fullmatch
_is_document: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[a-z0-9][a-z0-9._-]*)*").fullmatch


class ApprovalRule(msgspec.Struct, frozen=True, kw_only=True):
    """`[approvals.NAME]`: what holds for a part; the first that fits counts.

    `agents` is an agent's path and all below it, `documents` a document or a folder, `origins` where one of the turn's
    texts came from; what is left out fits all.
    """

    policy: Consent
    tools: tuple[str, ...] = CHANGES
    agents: str = ""
    documents: str = ""
    origins: tuple[Origin, ...] = ()


class ApprovalsSection(msgspec.Struct, frozen=True, kw_only=True):
    """`[approvals]`: the policy of each memory tool. `rules` are the `[approvals.NAME]` sections, in their order.

    `unattended`: whether jobs and tasks ask a person for a call that needs a yes, or are refused it.
    """

    memory_write: Consent = Consent.ALWAYS
    memory_append: Consent = Consent.ALWAYS
    memory_delete: Consent = Consent.ALWAYS
    memory_append_daily: Consent = Consent.AUTO
    unattended: Literal["ask", "deny"] = "ask"
    rules: Mapping[str, ApprovalRule] = {}

    def of(self, tool: str) -> Consent:
        """Return what a tool needs where no rule fits."""
        found: Consent = FIXED.get(tool) or getattr(self, tool)
        return found


def chosen(section: ApprovalsSection, policy: Consent | None) -> ApprovalsSection:
    """Return the settings for an agent whose person has chosen a policy for all changes of documents, if they have.

    What a rule says stays where it is stricter.
    """
    if policy is None:
        return section
    strictness = list(Consent)
    rules = {
        name: rule
        if strictness.index(rule.policy) >= strictness.index(policy)
        else replace(rule, tools=tuple(tool for tool in rule.tools if tool not in CHANGES))
        for name, rule in section.rules.items()
    }
    return replace(section, rules=rules, memory_write=policy, memory_append=policy, memory_delete=policy)


def flaws(section: ApprovalsSection) -> Iterator[tuple[Key, str]]:
    """Return what is wrong in the rules, by key: what only the owner's yes may change is not to be set."""
    for name, rule in section.rules.items():
        yield from _rule_flaws(("approvals", name), rule)


def unfit(tool: str, policy: str) -> str:
    """Return why a tool cannot have a policy, "" if it can."""
    if FIXED.get(tool, policy) == policy:
        return ""
    if tool == IDENTITY:
        return "is always asked for: who an agent is changes by the owner's yes alone"
    return "is never asked for, as it only reads; [tools] takes a tool away"


def _rule_flaws(at: Key, rule: ApprovalRule) -> Iterator[tuple[Key, str]]:
    for tool in rule.tools:
        if tool not in TOOLS:
            near = nearest_name(tool, TOOLS)
            yield (*at, "tools"), f"{tool} is no memory tool" + (f"; did you mean `{near[0]}`?" if near else "")
        elif wrong := unfit(tool, rule.policy):
            yield (*at, "tools"), f"{tool} {wrong}"
    if rule.agents and not _is_agents(rule.agents):
        yield (*at, "agents"), 'expected the path of an agent, such as "/ann/telegram", or the beginning of one'
    if rule.policy is Consent.ALWAYS:
        return
    if rule.documents:
        yield from _document_flaws((*at, "documents"), rule.documents)
    outside = [origin for origin in rule.origins if origin is not Origin.PERSON]
    if outside and any(tool in CHANGES for tool in rule.tools):
        yield (*at, "origins"), f'what builds on words from {outside[0]} is always asked for: only "person" can be set'


def _document_flaws(key: Key, path: str) -> Iterator[tuple[Key, str]]:
    first, *rest = path.removesuffix("/").split("/")
    if first in IDENTITY_DOCUMENTS or (rest and rest[-1] in IDENTITY_DOCUMENTS):
        yield key, "identity is always asked for"
    elif first == "global":
        yield key, "what concerns everybody is always asked for"
    elif first not in _PLACES or not _is_document(path.removesuffix("/")):
        yield key, f"expected a document or a folder, beginning with one of {', '.join(_PLACES)}"
