"""How the daemon is: what `GET /v1/status` shows."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from daycare import __version__
from daycare.actors.lifecycle import Life
from daycare.actors.supervisor import Supervisor
from daycare.base.clock import Clock
from daycare.base.limits import STRANGERS_MAX
from daycare.base.pairing import is_out
from daycare.connectors.host import Host
from daycare.feature import Feature
from daycare.inference.pool import Pool
from daycare.ops.announcing import Announcer
from daycare.ops.reloading import Reloading
from daycare.plugin import Connector
from daycare.plugins.extensions import Extensions
from daycare.schedule.upkeep import Upkeep
from daycare.settings import Live
from daycare.store.home import Home
from daycare.store.sqlite.store import SqliteStore


class Parts(Protocol):
    """What is looked at of a daemon, which is wired on a floor with this."""

    home: Home
    live: Live
    store: SqliteStore
    clock: Clock
    mode: str
    owner: str
    started_at: int
    announcer: Announcer
    working: bool
    supervisor: Supervisor
    pool: Pool
    host: Host
    extensions: Extensions
    connectors: dict[str, Connector]
    features: Sequence[Feature]
    upkeep: Upkeep
    reloading: Reloading


async def overview(daemon: Parts, *, stopping: bool) -> Mapping[str, Any]:
    """Return the whole of it."""
    lives = [lane.life for lane in daemon.supervisor.awake.values()]
    counts = await daemon.store.agents.count()
    return {
        "version": __version__,
        "pid": os.getpid(),
        "home": str(daemon.home.path),
        "mode": daemon.mode,
        "working": daemon.working,
        "started_at": daemon.started_at,
        "user": daemon.owner,
        "stopping": stopping,
        "agents": {
            "living": counts.get("living", 0),
            "parked": counts.get("parked", 0),
            "dead": counts.get("dead", 0),
            "awake": len(lives),
            "in_turn": lives.count(Life.IN_TURN),
        },
        "inbox_waiting": (await daemon.store.inbox.counts())["waiting"],
        "outbox_waiting": await daemon.store.outbox.count(),
        "dead_letters": await daemon.store.dead.count(),
        "store": {
            "location": daemon.store.location,
            "bytes": await daemon.store.ledger.size_bytes(),
            "trouble": daemon.announcer.trouble,
            "lost": str(daemon.store.lost) if daemon.store.lost is not None else None,
        },
        "models": daemon.live.now.models.by_role(),
        "providers": daemon.pool.configured,
        "connectors": daemon.host.status(daemon.connectors, {} if daemon.working else daemon.extensions.at_rest()),
        "config": daemon.reloading.status(),
        "strangers": sum(
            not each.denied and is_out(each.code_until, each.tries, daemon.clock.now_ms())
            for each in await daemon.store.strangers.find(STRANGERS_MAX)
        ),
        **{feature.name: status for feature in daemon.features if (status := await feature.status())},
        "backup": await daemon.upkeep.backups.status(),
        "spent": await daemon.store.ledger.spent(),
    }
