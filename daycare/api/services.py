"""What the routes work with; filled in by the composition root."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from daycare.actors.directory import Directory
from daycare.actors.permits import Permits
from daycare.actors.router import Posted, Router
from daycare.actors.supervisor import Supervisor
from daycare.agent.behaviours import Behaviours
from daycare.agent.budget_controls import BudgetControls
from daycare.agent.newcomers import Newcomers
from daycare.approvals.desk import Desk
from daycare.backups.engine import Backups
from daycare.base.clock import Clock
from daycare.base.connector import Connector
from daycare.base.errors import ConflictError
from daycare.base.health import Finding
from daycare.base.messages import File
from daycare.exports.engine import Exports
from daycare.feature import Feature
from daycare.inference.pool import Pool
from daycare.observe.bus import Bus
from daycare.observe.spans import Joined
from daycare.plugin import Inbound
from daycare.settings import Live
from daycare.store.contract import Store
from daycare.store.records import Agent, AgentConfig, Receipt
from daycare.store.vault import Vault


def _any_config(_: AgentConfig) -> None:
    """No check."""


async def _no_plugins() -> list[dict[str, Any]]:
    return []


async def _no_file() -> object:
    raise ConflictError("RELOAD_STOPPING", "reloading config.toml: nobody goes by it")


async def _no_metrics() -> str:
    return ""


def _no_trace(_: Joined) -> None:
    """Nobody traces."""


class Hearts(Protocol):
    """What the page of an agent shows of its heartbeat, and what its settings may say of it."""

    async def check(self, path: str, kind: str, user: str, config: AgentConfig) -> None:
        """Refuse settings with a heartbeat that an agent may not have."""

    async def told(self, agent: Agent) -> dict[str, Any] | None:
        """Return what people see of an agent's heartbeat; None if it has none."""


@dataclass(frozen=True)
class Services:
    """The parts of a running daemon that the API shows and moves.

    `desk` is that of approvals; `accept` takes a message in, `accept_all` one for each agent of its sender; `status`
    returns the whole answer of `GET /v1/status`; `stop` asks for an orderly end (True: and a fresh start of the
    program); `owner` is the operator's user id; `health` looks at how everything is; `mode` is `run`, `chat` or `tool`;
    `read_file` returns a file of a user; `plugins` tells of each plugin what `GET /v1/plugins` shows; `check` raises
    for settings of an agent that name what there is not. `connectors` are all there are, by name. `live` has the
    settings in force; `reload` takes config.toml anew and returns what came of it. `features` bring routes of their
    own. `metrics` is Prometheus's text; `join` lets a message that comes next belong to a trace from outside.
    """

    store: Store
    directory: Directory
    router: Router
    supervisor: Supervisor
    bus: Bus
    pool: Pool
    clock: Clock
    vault: Vault
    desk: Desk
    permits: Permits
    accept: Callable[[Inbound], Awaitable[Receipt]]
    accept_all: Callable[[Inbound], Awaitable[list[Posted]]]
    status: Callable[[], Awaitable[Mapping[str, Any]]]
    stop: Callable[[bool, str], None]
    owner: str
    mode: str
    live: Live
    exports: Exports
    backups: Backups
    heartbeats: Hearts
    budgets: BudgetControls
    newcomers: Newcomers
    behaviours: Behaviours
    health: Callable[[], Awaitable[Sequence[Finding]]]
    read_file: Callable[[int, str], Awaitable[tuple[File, bytes] | None]]
    features: Sequence[Feature] = ()
    connectors: Mapping[str, Connector] = field(default_factory=dict)
    plugins: Callable[[], Awaitable[list[dict[str, Any]]]] = field(default=_no_plugins)
    check: Callable[[AgentConfig], None] = field(default=_any_config)
    reload: Callable[[], Awaitable[object]] = field(default=_no_file)
    metrics: Callable[[], Awaitable[str]] = field(default=_no_metrics)
    join: Callable[[Joined], None] = field(default=_no_trace)
