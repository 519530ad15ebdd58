"""How the daemon is: what `GET /v1/status` shows."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from daycare import __version__
from daycare.actors.lifecycle import Life
from daycare.actors.supervisor import Supervisor
from daycare.base.limits import STRANGERS_MAX
from daycare.base.pairing import is_out
from daycare.feature import Feature
from daycare.features.budgets.rows import BudgetRows
from daycare.inference.pool import Pool
from daycare.ops.run import Run
from daycare.plugins.extensions import Extensions
from daycare.settings import Live
from daycare.store.sqlite.store import Store


@dataclass(frozen=True)
class Overview:
    """Looks at the kernel, and asks `features` for theirs."""

    run: Run
    store: Store
    live: Live
    supervisor: Supervisor
    pool: Pool
    extensions: Extensions
    features: Sequence[Feature]

    async def status(self) -> Mapping[str, Any]:
        """Return the whole of it."""
        run, store = self.run, self.store
        lives = [lane.life for lane in self.supervisor.awake.values()]
        counts = await store.agents.count()
        strangers = await store.strangers.find(STRANGERS_MAX)
        return {
            "version": __version__,
            "pid": os.getpid(),
            "home": str(run.home.path),
            "mode": run.mode,
            "working": self.extensions.runs,
            "started_at": run.started_at,
            "user": run.owner,
            "stopping": run.stop.event.is_set(),
            "agents": {
                "living": counts.get("living", 0),
                "parked": counts.get("parked", 0),
                "dead": counts.get("dead", 0),
                "awake": len(lives),
                "in_turn": lives.count(Life.IN_TURN),
            },
            "inbox_waiting": (await store.inbox.counts())["waiting"],
            "outbox_waiting": await store.outbox.count(),
            "dead_letters": await store.dead.count(),
            "models": self.live.now.models.by_role(),
            "providers": self.pool.configured,
            "strangers": sum(
                not each.denied and is_out(each.code_until, each.tries, run.now_ms()) for each in strangers
            ),
            "spent": await store.of(BudgetRows).total(),
            **({"node": node} if (node := await store.share.status()) is not None else {}),
            **{feature.name: status for feature in self.features if (status := await feature.status())},
        }
