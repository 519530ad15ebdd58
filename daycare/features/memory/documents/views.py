"""Documents that are made when they are read: what an agent is told to do and who else there is, and its tools."""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from daycare.base.path import Kind
from daycare.plugin import ToolSpec
from daycare.store.records import Agent

_HELPERS: Final = frozenset((Kind.SUB, Kind.SEARCH, Kind.MEMORY))  # they come and go with the work of one agent
_DESCRIPTION_MAX_CHARS: Final = 300


def agents_view(agent: Agent, agents: Iterable[Agent]) -> str:
    """Return `AGENTS.md`: the agent's instructions, and its user's other agents with what they are for."""
    others = sorted((each.path, _about(each)) for each in agents if each.id != agent.id and each.kind not in _HELPERS)
    return "\n".join(
        (
            "# Agents",
            "",
            "## Instructions",
            "",
            agent.config.system_prompt.strip() or "None of its own.",
            "",
            "## Other agents of this user",
            "",
            *([f"- {path}{about}" for path, about in others] or ["None."]),
            "",
        )
    )


def tools_view(specs: Sequence[ToolSpec]) -> str:
    """Return `tools.json`: the tools that an agent may use, as its model sees them."""
    tools = [{"name": spec.name, "description": spec.description, "schema": spec.schema} for spec in specs]
    return msgspec.json.format(msgspec.json.encode({"tools": tools}), indent=2).decode() + "\n"


def _about(agent: Agent) -> str:
    words = " ".join(f"{agent.config.name}: {agent.config.description}".split()).strip(": ")
    shown = "".join(char if char.isprintable() else " " for char in words)[:_DESCRIPTION_MAX_CHARS]
    return f" ({shown})" if shown else ""
