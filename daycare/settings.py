"""What can be set: the sections of `config.toml`, with their defaults, and what is in force now."""

from collections.abc import Callable
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec
from msgspec import Meta

from daycare.base.api_settings import ApiSection as ApiSection
from daycare.base.consent import ApprovalsSection
from daycare.base.cron import CronSection as CronSection
from daycare.base.files_settings import FilesSection as FilesSection
from daycare.base.limits import AWAKE_IDLE_S, DONE_KEEP_S, IMAGES_MAX_BYTES, SHUTDOWN_GRACE_S, TURNS_MAX_RUNNING
from daycare.base.mcp_settings import McpServer as McpServer
from daycare.base.memory_settings import MemorySection
from daycare.base.permission import Rule
from daycare.base.voice_settings import VoiceSection as VoiceSection
from daycare.base.workspace import ShellSection as ShellSection
from daycare.base.workspace import WorkspacesSection as WorkspacesSection

OFFLINE: Final = "offline"

T = TypeVar("T")


class DaemonSection(msgspec.Struct, frozen=True, kw_only=True):
    """`[daemon]`: the process."""

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_max_mb: Annotated[int, Meta(ge=1, le=10_000)] = 20
    log_format: Literal["pretty", "json"] = "pretty"
    shutdown_grace_s: Annotated[float, Meta(ge=0, le=600)] = SHUTDOWN_GRACE_S
    turns_max_running: Annotated[int, Meta(ge=1, le=1_024)] = TURNS_MAX_RUNNING
    idle_s: Annotated[float, Meta(ge=0, le=86_400)] = AWAKE_IDLE_S
    breaker: bool = True


class StoreSection(msgspec.Struct, frozen=True, kw_only=True):
    """`[store]`: where messages lie, and for how long once they are done."""

    location: str = "daycare.db"
    keep_days: Annotated[int, Meta(ge=1, le=3_650)] = round(DONE_KEEP_S / 86_400)

    @property
    def keep_ms(self) -> int:
        """How long what is done is kept."""
        return self.keep_days * 86_400_000


class NodeSection(msgspec.Struct, frozen=True, kw_only=True):
    """`[node]`: that this daemon is one of several which work on the database of `[store] location`.

    `name` is its own, empty for a daemon that works alone; `address` is shown to people, the machine's name if empty.
    Others take over from a node that was away for `lease_s`.
    """

    name: Annotated[str, Meta(pattern=r"^([a-z0-9][a-z0-9-]{0,31})?$")] = ""
    address: Annotated[str, Meta(pattern=r"^[A-Za-z0-9.:-]{0,200}$")] = ""
    lease_s: Annotated[float, Meta(ge=1, le=60)] = 10.0


class AgentSection(msgspec.Struct, frozen=True, kw_only=True):
    """`[agent]`: what agents have in common. `operator` is a user id, empty for the only operator there is."""

    name: Annotated[str, Meta(min_length=1, max_length=64)] = "daycare"
    tone: Annotated[str, Meta(max_length=500)] = "friendly"
    personality: str = "default"
    operator: str = ""
    policy: Literal["steer", "followup", "collect", "interrupt"] = "steer"


class AgentsSection(msgspec.Struct, frozen=True, kw_only=True):
    """`[agents]`: `default` names the permanent agent that answers where nobody was chosen, for people who have one."""

    default: str = ""


class ModelsSection(msgspec.Struct, frozen=True, kw_only=True):
    """`[models]`: PROVIDER/MODEL for each role; None takes the default one. `fallbacks` are asked in their place."""

    default: str = "offline/rules"
    user: str | None = None
    subagent: str | None = None
    memory: str | None = None
    memory_search: str | None = msgspec.field(default=None, name="memorySearch")
    task: str | None = None
    fallbacks: tuple[str, ...] = ()

    def by_role(self) -> dict[str, str]:
        """Return what is set, by the role's name as in the file."""
        found: dict[str, str | None] = msgspec.to_builtins(self)
        return {role: model for role, model in found.items() if isinstance(model, str)}


class ModelSection(msgspec.Struct, frozen=True, kw_only=True):
    """`models.MODEL` of a provider: what is known better of a model. Prices are for a million tokens."""

    context_tokens: Annotated[int, Meta(ge=1_000, le=100_000_000)] | None = msgspec.field(default=None, name="context")
    output_tokens: Annotated[int, Meta(ge=16, le=100_000_000)] | None = msgspec.field(default=None, name="output")
    images: bool | None = None
    audio: bool | None = None
    image_max_bytes: Annotated[int, Meta(ge=1_000, le=IMAGES_MAX_BYTES)] | None = None
    input_usd: Annotated[float, Meta(ge=0, le=100_000)] | None = None
    cached_usd: Annotated[float, Meta(ge=0, le=100_000)] | None = None
    cache_write_usd: Annotated[float, Meta(ge=0, le=100_000)] | None = None
    output_usd: Annotated[float, Meta(ge=0, le=100_000)] | None = None

    def known(self) -> dict[str, Any]:
        """Return what is set, by the field's name."""
        return {name: value for name, value in msgspec.structs.asdict(self).items() if value is not None}


class ToolsSection(msgspec.Struct, frozen=True, kw_only=True):
    """`[tools]`: the only tools that agents of a role may use, None for all; `default` is for agents without a role.

    `shown_max_tokens`: where an agent's tools take more of a prompt, those of a group are shown when it asks for them.
    """

    shown_max_tokens: Annotated[int, Meta(ge=0, le=1_000_000)] = 1_500
    default: tuple[str, ...] | None = None
    user: tuple[str, ...] | None = None
    subagent: tuple[str, ...] | None = None
    memory: tuple[str, ...] | None = None
    memory_search: tuple[str, ...] | None = msgspec.field(default=None, name="memorySearch")
    task: tuple[str, ...] | None = None

    def by_role(self) -> dict[str, tuple[str, ...]]:
        """Return what is set, by the role's name as in the file."""
        found: dict[str, tuple[str, ...] | int | None] = msgspec.to_builtins(self)
        return {role: names for role, names in found.items() if isinstance(names, tuple)}


class ProviderSection(msgspec.Struct, frozen=True, kw_only=True):
    """`[providers.NAME]`: where models are. `options` are the section's other keys, which its kind understands.

    `key` names a stored secret; in a loaded `Config` it is never empty but NAME.
    """

    kind: Annotated[str, Meta(min_length=1)] = "openai"
    base_url: str = ""
    key: str = ""
    models: dict[str, ModelSection] = {}
    options: dict[str, Any] = {}


class PluginsSection(msgspec.Struct, frozen=True, kw_only=True):
    """`[plugins]`: `load` adds plugins that are not installed as such, `disable` leaves installed ones out.

    `settings` are the `[plugins.NAME]` sections, which their plugins understand: see `plugin_settings`.
    """

    load: tuple[str, ...] = ()
    disable: tuple[str, ...] = ()
    settings: dict[str, dict[str, Any]] = {}


class BudgetsSection(msgspec.Struct, frozen=True, kw_only=True):
    """`[budgets]`: what people start with, as `2usd a day`: who is no operator, groups, operators, the installation."""

    person: tuple[str, ...] = ("2usd a day", "1m tokens a day")
    group: tuple[str, ...] = ("1usd a day", "500k tokens a day")
    operator: tuple[str, ...] = ("20usd a day",)
    everything: tuple[str, ...] = ()


class NotifySection(msgspec.Struct, frozen=True, kw_only=True):
    """`[notify]`: when the daemon itself may speak up. `quiet` is such as `22:00-07:00`, in each person's zone."""

    quiet: Annotated[str, Meta(pattern=r"^(\d\d:\d\d-\d\d:\d\d)?$")] = ""


class BackupSection(msgspec.Struct, frozen=True, kw_only=True):
    """`[backup]`: backups that the daemon makes by itself, such as `every = "24h"` or `"7d"`.

    `folder` is empty for `backups` in the home. With `passphrase_file` they are encrypted.
    """

    every: Annotated[str, Meta(pattern=r"^(off|[1-9]\d{0,3}[hd])$")] = "off"
    keep: Annotated[int, Meta(ge=1, le=1_000)] = 7
    folder: str = ""
    passphrase_file: str = ""

    @property
    def every_ms(self) -> int:
        """The interval, 0 for none."""
        if self.every == "off":
            return 0
        return int(self.every[:-1]) * (3_600_000 if self.every[-1] == "h" else 86_400_000)


class MetricsSection(msgspec.Struct, frozen=True, kw_only=True):
    """`[metrics]`: a loopback address such as "127.0.0.1:9464" that Prometheus may ask, empty for none."""

    listen: str = ""


class CredentialsSection(msgspec.Struct, frozen=True, kw_only=True):
    """`[credentials]`: where services check what is to be stored; without encryption only on this machine."""

    slack_url: Annotated[
        str, Meta(pattern=r"^(https://[^\s/@]+|http://(localhost|127\.0\.0\.1|\[::1\])(:\d+)?)(/\S*)?$")
    ] = "https://slack.com/api"


class TracingSection(msgspec.Struct, frozen=True, kw_only=True):
    """`[tracing]`: the collector that gets spans (OTLP over HTTP), empty for none, and the share of traces it gets."""

    endpoint: str = ""
    ratio: Annotated[float, Meta(ge=0, le=1)] = 1.0


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """All settings; `Config()` are the defaults. `providers` always has one called `offline`."""

    daemon: DaemonSection = DaemonSection()
    store: StoreSection = StoreSection()
    node: NodeSection = NodeSection()
    agent: AgentSection = AgentSection()
    agents: AgentsSection = AgentsSection()
    models: ModelsSection = ModelsSection()
    tools: ToolsSection = ToolsSection()
    providers: dict[str, ProviderSection] = msgspec.field(default_factory=lambda: with_offline({}))
    plugins: PluginsSection = PluginsSection()
    memory: MemorySection = MemorySection()
    approvals: ApprovalsSection = ApprovalsSection()
    rules: tuple[Rule, ...] = ()
    budgets: BudgetsSection = BudgetsSection()
    notify: NotifySection = NotifySection()
    backup: BackupSection = BackupSection()
    cron: dict[str, CronSection] = msgspec.field(default_factory=dict)
    metrics: MetricsSection = MetricsSection()
    api: ApiSection = ApiSection()
    credentials: CredentialsSection = CredentialsSection()
    tracing: TracingSection = TracingSection()
    workspaces: WorkspacesSection = WorkspacesSection()
    shell: ShellSection = ShellSection()
    voice: VoiceSection = VoiceSection()
    files: FilesSection = FilesSection()
    mcp: dict[str, McpServer] = msgspec.field(default_factory=dict)


def with_offline(providers: dict[str, ProviderSection]) -> dict[str, ProviderSection]:
    """Return providers with the one that is always there."""
    return {OFFLINE: ProviderSection(kind=OFFLINE, key=OFFLINE)} | providers


class Live:
    """The settings in force. Each part reads `now` when it needs a value and keeps no copy, so that none is stale."""

    def __init__(self, now: Config | None = None) -> None:
        self.now = Config() if now is None else now
        self._watched: list[tuple[Callable[[Config], object], Callable[[], None]]] = []

    def watch(self, value: Callable[[Config], object], do: Callable[[], None]) -> None:
        """Call `do` after `value` of the settings has changed: for what has to act before it reads it again."""
        self._watched.append((value, do))

    def made(self, make: Callable[[Config], T]) -> Callable[[], T]:
        """Return a function that gives what `make` makes of the settings in force; made once while they last."""
        last: tuple[Config, T] | None = None

        def get() -> T:
            nonlocal last
            if last is None or last[0] is not self.now:
                last = self.now, make(self.now)
            return last[1]

        return get

    def take(self, config: Config) -> None:
        """Put other settings in force."""
        before, self.now = self.now, config
        for value, do in self._watched:
            if value(before) != value(config):
                do()
