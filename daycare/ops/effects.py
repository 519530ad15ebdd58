"""What becomes of each key of config.toml that is changed while the daemon runs.

Each is named here, once: a new key is told of as one that needs a restart until somebody has decided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from daycare.agent.notify import quiet_hours
from daycare.observe import log
from daycare.rules.permissions import Rules
from daycare.settings import Config
from daycare.store.records import Policy

if TYPE_CHECKING:
    from daycare.daemon import Daemon

Take = Callable[["Daemon", Config], None]


class Effect(StrEnum):
    """When a changed key counts."""

    AT_ONCE = "at once"
    PLUGIN = "its plugin starts anew"
    RESTART = "after a restart"


class Leaf(NamedTuple):
    """A key with its value. `kind` is the key with NAME for what people name themselves: what is between is one."""

    key: str
    kind: str
    value: Any


@dataclass(frozen=True)
class Part:
    """Keys that count at once, and how they are handed to who goes by them; `take` None: they are read at each use."""

    keys: tuple[str, ...]
    take: Take | None = None


def leaves(section: msgspec.Struct, at: str = "") -> Iterator[Leaf]:
    """Yield every key of settings."""
    for field in msgspec.structs.fields(section):
        value, key = getattr(section, field.name), f"{at}{field.encode_name}"
        if isinstance(value, msgspec.Struct):
            yield from leaves(value, f"{key}.")
        elif key in ("providers", "cron", "plugins.settings"):
            first = key.partition(".")[0]
            yield from (Leaf(f"{first}.{name}", f"{first}.NAME", inner) for name, inner in value.items())
        elif key == "approvals.rules":  # their order counts, too
            yield Leaf("approvals.NAME", "approvals.NAME", tuple(value.items()))
        else:
            yield Leaf(key, key, value)


def changed(before: Config, after: Config) -> list[Leaf]:
    """Return the keys whose values are not the same, with the new ones; what is gone has None."""
    was = {leaf.key: leaf for leaf in leaves(before)}
    now = {leaf.key: leaf for leaf in leaves(after)}
    gone = [leaf._replace(value=None) for key, leaf in was.items() if key not in now]
    return [leaf for key, leaf in now.items() if key not in was or was[key].value != leaf.value] + gone


def effect(kind: str) -> Effect:
    """Return when a key counts, given as a leaf's `kind`."""
    if kind in _AT_ONCE:
        return Effect.AT_ONCE
    return Effect.PLUGIN if kind in PLUGINS else Effect.RESTART


# -- who takes what ----------------------------------------------------------------------------------------------------


def _log(_: Daemon, config: Config) -> None:
    log.adjust(config.daemon.log_level, config.daemon.log_max_mb)


def _turns(daemon: Daemon, config: Config) -> None:
    daemon.supervisor.room.total_tokens = config.daemon.turns_max_running
    daemon.supervisor.idle_s = config.daemon.idle_s
    daemon.supervisor.policy = Policy(config.agent.policy)


def _keep(daemon: Daemon, config: Config) -> None:
    days = config.store.keep_days
    daemon.clockwork.schedule.keep_days = daemon.tasks.keep_days = daemon.signals.keep_days = days
    daemon.lasting.controls.keep_days = daemon.upkeep.keep_days = days


def _persona(daemon: Daemon, config: Config) -> None:
    daemon.persona.be(config.agent.name, config.agent.tone)
    daemon.prompts.personality = config.agent.personality
    daemon.prompts.drop()


def _default_agent(daemon: Daemon, config: Config) -> None:
    daemon.flow.arrivals.default_agent = config.agents.default


def _rights(daemon: Daemon, config: Config) -> None:
    daemon.permits.rules = Rules(config.rules, config.tools.by_role())
    daemon.runner.allow(config.tools.by_role())


def _memory(daemon: Daemon, config: Config) -> None:
    daemon.recollections.apply(config.memory)
    daemon.curation.section, daemon.curation.keep_days = config.memory.ingestion, config.memory.keep_days
    daemon.curation.worker.wake()
    daemon.prompts.documents = config.memory.documents
    daemon.prompts.drop()


def _approvals(daemon: Daemon, config: Config) -> None:
    daemon.remembering.section = daemon.approving.section = config.approvals


def _budgets(daemon: Daemon, config: Config) -> None:
    daemon.budgets.apply(config.budgets)


def _cron(daemon: Daemon, config: Config) -> None:
    daemon.clockwork.sources.apply(config.cron)


def _notify(daemon: Daemon, config: Config) -> None:
    daemon.notifier.quiet = quiet_hours(config.notify.quiet)


def _backup(daemon: Daemon, config: Config) -> None:
    daemon.upkeep.backups.apply(config)


def _of(section: str, *keys: str) -> tuple[str, ...]:
    return tuple(f"{section}.{key}" for key in keys)


_ROLES: Final = ("default", "user", "subagent", "memory", "memorySearch", "task")
MODELS: Final = (*_of("models", *_ROLES, "fallbacks"), "providers.NAME")  # the pool gets them all together
PLUGINS: Final = ("plugins.NAME",)
PARTS: Final = (
    Part(_of("daemon", "log_level", "log_max_mb"), _log),
    Part(("daemon.shutdown_grace_s",)),
    Part(("daemon.turns_max_running", "daemon.idle_s", "agent.policy"), _turns),
    Part(("store.keep_days",), _keep),
    Part(_of("agent", "name", "tone", "personality"), _persona),
    Part(("agents.default",), _default_agent),
    Part(MODELS),
    Part((*_of("tools", *_ROLES), "rules"), _rights),
    Part(
        (
            "memory.keep_days",
            *_of("memory.ingestion", "daily_logs", "entities", "facts", "background", "every_turns", "idle_minutes"),
            *_of(
                "memory.retrieval",
                "enabled",
                "max_results",
                "max_tokens",
                "deadline_ms",
                "min_score",
                "recall_for",
                "merge",
            ),
            *_of("memory.retrieval", "include_entities", "include_facts", "include_logs"),
            *_of("memory.retrieval.weights", "logs", "facts", "entities", "recency", "text", "vector"),
            *_of("memory.documents", "identity", "chat_max_tokens", "chat_top", "min_similarity"),
        ),
        _memory,
    ),
    Part(_of("approvals", "memory_write", "memory_append", "memory_delete", "memory_append_daily", "NAME"), _approvals),
    Part(_of("budgets", "person", "group", "operator", "everything"), _budgets),
    Part(("cron.NAME",), _cron),
    Part(("notify.quiet",), _notify),
    Part(_of("backup", "every", "keep", "folder", "passphrase_file"), _backup),
)
AFTER_RESTART: Final = (
    "daemon.breaker",  # it judges starts
    "daemon.log_format",
    "store.location",
    "agent.operator",
    *_of("plugins", "load", "disable"),
    *_of("memory", "embedder", "model_dir"),  # all vectors are another model's then
    "metrics.listen",
    *_of("tracing", "endpoint", "ratio"),
)
_AT_ONCE: Final = frozenset(key for part in PARTS for key in part.keys)
