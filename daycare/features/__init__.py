"""Capabilities, each in a folder of its own; what they keep in the store is listed here, in the order of its followers.

Nothing is imported before it is asked for: a command of one capability needs no other, and no daemon.
"""

import hashlib
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from daycare.base.clock import Clock
    from daycare.settings import NodeSection
    from daycare.store.sqlite.engine import Open
    from daycare.store.sqlite.rows import Rows
    from daycare.store.sqlite.store import Store
    from daycare.store.vault import Vault


def rows() -> "Sequence[type[Rows]]":
    """Return what all capabilities keep. Exports are read from what the others do, and keep nothing of their own.

    A scheduled run may be a task, and asks how that ended: so cron is behind tasks. Budgets are last: what somebody's
    calls have reserved counts in full once all else of theirs has ended.
    """
    from daycare.features.agents.rows import FurnishedAgents
    from daycare.features.approvals.rows import ApprovalRows
    from daycare.features.budgets.rows import BudgetRows
    from daycare.features.builder.rows import BuiltRows
    from daycare.features.cron.rows import CronRows
    from daycare.features.files.rows import BucketRows
    from daycare.features.history.prompt_rows import PromptRows
    from daycare.features.history.rows import HistoryRows
    from daycare.features.hooks.rows import HookRows
    from daycare.features.mcp.rows import McpToolRows
    from daycare.features.memory.documents.rows import DocumentRows
    from daycare.features.memory.store.rows import MemoryRows
    from daycare.features.openai.rows import ExchangeRows
    from daycare.features.roster.rows import RosterRows
    from daycare.features.signals.rows import HeartbeatRows, SignalRows
    from daycare.features.skills.rows import SkillApprovalRows
    from daycare.features.tasks.rows import TaskRows
    from daycare.features.tokens.rows import TokenRows
    from daycare.features.traffic.rows import TrafficRows
    from daycare.features.traffic.rows_trace import TracedRows
    from daycare.features.voice.rows import VoiceRows
    from daycare.features.workspaces.rows import FileChangeRows

    return (
        TokenRows,
        HookRows,
        HistoryRows,
        RosterRows,
        FurnishedAgents,
        BuiltRows,
        PromptRows,
        TrafficRows,
        TracedRows,
        ExchangeRows,
        MemoryRows,
        DocumentRows,
        FileChangeRows,
        SkillApprovalRows,
        McpToolRows,
        VoiceRows,
        BucketRows,
        SignalRows,
        HeartbeatRows,
        TaskRows,
        ApprovalRows,
        CronRows,
        BudgetRows,
    )


def open_store(
    location: str,
    clock: "Clock | None" = None,
    *,
    inline: bool = False,
    vfs: str | None = None,
    node: "tuple[NodeSection, Vault, str] | None" = None,
) -> "AbstractAsyncContextManager[Store]":
    """Open a store with the tables of all capabilities; see `store.open_store`.

    `node` is what makes it one of several nodes: its section, the vault, and what all settings come to.
    """
    from daycare.store.sqlite import store

    return store.open_store(location, clock, rows(), inline=inline, vfs=vfs, engine=_engine(location, node))


def _engine(location: str, node: "tuple[NodeSection, Vault, str] | None") -> "Open | None":
    """Return what opens a location, None for a file."""
    from daycare.base.store_location import is_server, not_installed

    if not is_server(location):
        return None
    try:
        from daycare.store.postgres.engine import open_engine
    except ImportError as error:
        raise not_installed(location, error) from None
    if node is None or not node[0].name:
        return open_engine
    from daycare.store.postgres.members import NodeIdentity
    from daycare.store.postgres.shared_engine import open_shared
    from daycare.store.postgres.writer import host_name

    section, vault, settings = node
    identity = NodeIdentity(
        section.name,
        section.address or host_name(),
        round(section.lease_s * 1000),
        hashlib.sha256(vault.derived("nodes")).hexdigest()[:16],
        settings,
    )
    return partial(open_shared, identity)
