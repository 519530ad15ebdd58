"""What becomes of each key of config.toml that is changed while the daemon runs.

Each is named here, once: a new key is told of as one that needs a restart until somebody has decided.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Any, Final, NamedTuple

import msgspec

from daycare.base.files_settings import S3Section
from daycare.base.voice_settings import HearingSection, SpeakingSection
from daycare.settings import Config


class Effect(StrEnum):
    """When a changed key counts."""

    AT_ONCE = "at once"
    PLUGIN = "its plugin restarts"
    RESTART = "after a restart"


class Leaf(NamedTuple):
    """A key with its value. `kind` is the key with NAME for what people name themselves: what is between is one."""

    key: str
    kind: str
    value: Any


def leaves(section: msgspec.Struct, at: str = "") -> Iterator[Leaf]:
    """Yield every key of settings."""
    for field in msgspec.structs.fields(section):
        value, key = getattr(section, field.name), f"{at}{field.encode_name}"
        if isinstance(value, msgspec.Struct):
            yield from leaves(value, f"{key}.")
        elif key in ("providers", "cron", "mcp", "plugins.settings"):
            first = key.partition(".")[0]
            yield from (Leaf(f"{first}.{name}", f"{first}.NAME", inner) for name, inner in value.items())
        elif key == "approvals.rules":  # their order counts, too
            yield Leaf("approvals.NAME", "approvals.NAME", tuple(value.items()))
        else:
            yield Leaf(key, key, value)


def changed(before: Config, after: Config) -> list[Leaf]:
    """Return the keys whose values are not the same, with the new ones; what is gone has None."""
    if msgspec.msgpack.encode(before) == msgspec.msgpack.encode(after):
        return []  # as at each start, where the file is read a second time
    was = {leaf.key: leaf for leaf in leaves(before)}
    now = {leaf.key: leaf for leaf in leaves(after)}
    gone = [leaf._replace(value=None) for key, leaf in was.items() if key not in now]
    return [leaf for key, leaf in now.items() if key not in was or was[key].value != leaf.value] + gone


def effect(kind: str) -> Effect:
    """Return when a key counts, given as a leaf's `kind`."""
    if kind in AT_ONCE:
        return Effect.AT_ONCE
    return Effect.PLUGIN if kind in PLUGINS else Effect.RESTART


# -- when each counts --------------------------------------------------------------------------------------------------


def _of(section: str, *keys: str) -> tuple[str, ...]:
    return tuple(f"{section}.{key}" for key in keys)


_ROLES: Final = ("default", "user", "subagent", "memory", "memorySearch", "task")
MODELS: Final = (*_of("models", *_ROLES, "fallbacks"), "providers.NAME")  # the pool gets them all together
PLUGINS: Final = ("plugins.NAME",)
AT_ONCE: Final = (
    *_of("daemon", "log_level", "log_max_mb", "shutdown_grace_s", "turns_max_running", "idle_s"),
    "store.keep_days",
    *_of("agent", "name", "tone", "personality", "policy"),
    "agents.default",
    *MODELS,
    *_of("tools", "shown_max_tokens", *_ROLES),
    "rules",
    "memory.keep_days",
    *_of("memory.ingestion", "daily_logs", "entities", "facts", "background", "every_turns", "idle_minutes"),
    *_of("memory.retrieval", "enabled", "max_results", "max_tokens", "deadline_ms", "min_score", "recall_for", "merge"),
    *_of("memory.retrieval", "include_entities", "include_facts", "include_logs"),
    *_of("memory.retrieval.weights", "logs", "facts", "entities", "recency", "text", "vector"),
    *_of("memory.documents", "identity", "chat_max_tokens", "chat_top", "min_similarity"),
    *_of("approvals", "memory_write", "memory_append", "memory_delete", "memory_append_daily", "unattended", "NAME"),
    *_of("budgets", "person", "group", "operator", "everything"),
    "cron.NAME",
    "notify.quiet",
    *_of("backup", "every", "keep", "folder", "passphrase_file"),
    *_of("api", "listen", "hosts", "origins", "cert", "key", "trusted_proxies", "insecure"),
    "credentials.slack_url",
    "workspaces.roots",
    "mcp.NAME",
    *_of("voice.hearing", *HearingSection.__struct_fields__),
    *_of("voice.speaking", *SpeakingSection.__struct_fields__),
    *_of(
        "shell",
        "enabled",
        "readable",
        "hosts",
        "background",
        "background_minutes",
        "seconds",
        "processes",
        "memory_mb",
        "tmp_mb",
        "disk_mb",
    ),
)
AFTER_RESTART: Final = (
    "daemon.breaker",  # it judges starts
    "daemon.log_format",
    "store.location",
    *_of("node", "name", "address", "lease_s"),
    "agent.operator",
    *_of("plugins", "load", "disable"),
    *_of("memory", "embedder", "model_dir"),  # all vectors are another model's then
    *_of("memory", "backend", "redis.url", "redis.key", "redis.prefix", "redis.timeout_ms"),  # another copy then
    *_of("files", "backend", *(f"s3.{name}" for name in S3Section.__struct_fields__)),
    "metrics.listen",
    *_of("tracing", "endpoint", "ratio"),
)
