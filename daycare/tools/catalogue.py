"""The catalogue: which tools there are, and which of them an agent may use."""

from collections.abc import Callable, Collection, Iterable
from typing import Final

from daycare.base.path import PEOPLES, Kind
from daycare.base.tool import comes_and_goes, ready
from daycare.plugin import Tool, ToolSpec
from daycare.settings import Live
from daycare.store.records import Agent

TASKS_ONLY: Final = "task_progress"
REACT: Final = "react"
_PEOPLES_ONLY: Final = "memory_ask"  # a helper searches itself: it would wait for one that does the same


class Catalogue:
    """Knows every tool. Agents of a role that `[tools]` names use its tools only.

    `reacts` says whether an agent can put an emoji at a message. `own` are the names of the daemon's own tools, and of
    those that say that they read nothing outside: their results are a stranger's words only where they tell so.
    """

    def __init__(self, live: Live, reacts: Callable[[Agent], bool]) -> None:
        self._tools: dict[str, Tool] = {}
        self._roles = live.made(lambda settings: settings.tools.by_role())
        self._reacts = reacts
        self._offered: dict[str, Callable[[Agent, str], bool]] = {}
        self._seldom: set[str] = set()  # the names of those that come and go
        self.own: set[str] = set()

    def add(
        self, tools: Iterable[Tool], *, own: bool = False, offered: Callable[[Agent, str], bool] | None = None
    ) -> None:
        """Know these tools, too. `offered` tells which agents have one of a name; else all that may use it."""
        added = {tool.spec.name: tool for tool in tools}
        self._tools |= added
        self._seldom = {name for name, tool in self._tools.items() if comes_and_goes(tool)}
        if offered is not None:
            self._offered |= dict.fromkeys(added, offered)
        trusted = {name for name, tool in added.items() if own or not tool.spec.reads_outside}
        self.own |= trusted  # in place: who trusts them has this very set

    def remove(self, tools: Iterable[Tool]) -> None:
        """Know these tools no more."""
        for tool in tools:
            self._tools.pop(tool.spec.name, None)
            self._seldom.discard(tool.spec.name)
            self._offered.pop(tool.spec.name, None)
            self.own.discard(tool.spec.name)

    def get(self, name: str) -> Tool | None:
        """Return a tool."""
        return self._tools.get(name)

    def spec(self, name: str) -> ToolSpec | None:
        """Return how models see a tool."""
        tool = self._tools.get(name)
        return tool.spec if tool is not None else None

    def known(self) -> list[ToolSpec]:
        """Return all tools there are."""
        return [tool.spec for tool in self._tools.values()]

    def specs(self, agent: Agent) -> tuple[ToolSpec, ...]:
        """Return the tools an agent may use: what its role may, and of these what it was given."""
        of_role = self._of_role(agent)
        return tuple([tool.spec for name, tool in self._tools.items() if self._is_of(agent, of_role, name, tool)])

    def offers(self, agent: Agent, name: str) -> bool:
        """Return whether a tool is one of those."""
        tool = self._tools.get(name)
        return tool is not None and self._is_of(agent, self._of_role(agent), name, tool)

    def _of_role(self, agent: Agent) -> Collection[str] | None:
        return self._roles().get(agent.role or "default")

    def _is_of(self, agent: Agent, of_role: Collection[str] | None, name: str, tool: Tool) -> bool:
        own = agent.config.tools
        return (
            (own is None or name in own)
            and (of_role is None or name in of_role)
            and (name != _PEOPLES_ONLY or agent.kind in PEOPLES)
            and (name != REACT or self._reacts(agent))
            and (name != TASKS_ONLY or agent.kind == Kind.TASK)
            and (name not in self._offered or self._offered[name](agent, name))
            and (name not in self._seldom or ready(tool))
        )
