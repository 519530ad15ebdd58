"""What the routes work with; filled in by the composition root."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from daycare.actors.directory import Directory
from daycare.actors.router import Posted, Router
from daycare.actors.supervisor import Supervisor
from daycare.agent.attachments import AttachedFiles
from daycare.agent.behaviours import Behaviours
from daycare.base.clock import Clock
from daycare.base.path import Path
from daycare.feature import Feature
from daycare.observe.bus import Bus
from daycare.observe.spans import JoinedTrace
from daycare.plugin import Inbound
from daycare.settings import Live
from daycare.store.records import Agent, AgentConfig, Receipt
from daycare.store.sqlite.store import Store


def _any_config(_: AgentConfig) -> None:
    """No check."""


def _no_trace(_: JoinedTrace) -> None:
    """Nobody traces."""


class Hearts(Protocol):
    """What the page of an agent shows of its heartbeat, and what its settings may say of it."""

    async def check(self, path: str, kind: str, user: str, config: AgentConfig) -> None:
        """Refuse settings with a heartbeat that an agent may not have."""

    async def told(self, agent: Agent) -> dict[str, Any] | None:
        """Return what people see of an agent's heartbeat; None if it has none."""


class Create(Protocol):
    """What makes agents and apps."""

    async def __call__(self, path: Path, config: AgentConfig, documents: Mapping[str, str], *, by: str) -> Agent:
        """Create one with documents for the person `by`. Raises `ConflictError` AGENT_EXISTS."""
        ...


@dataclass(frozen=True)
class Services:
    """What routes work with that are no capability's own; those of capabilities are brought by `features`.

    `accept` takes a message in, `accept_all` one for each agent of its sender; `owner` is the operator's user id;
    `check` raises for settings of an agent that name what there is not; `join` lets a message that comes next belong to
    a trace from outside.
    """

    store: Store
    directory: Directory
    router: Router
    supervisor: Supervisor
    bus: Bus
    clock: Clock
    accept: Callable[[Inbound], Awaitable[Receipt]]
    accept_all: Callable[[Inbound], Awaitable[list[Posted]]]
    owner: str
    live: Live
    heartbeats: Hearts
    create: Create
    behaviours: Behaviours
    files: AttachedFiles
    features: Sequence[Feature] = ()
    check: Callable[[AgentConfig], None] = field(default=_any_config)
    join: Callable[[JoinedTrace], None] = field(default=_no_trace)
