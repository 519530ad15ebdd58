"""Which parts of a daemon the API shows and moves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daycare.api.services import Services
from daycare.exports.engine import Exports

if TYPE_CHECKING:
    from daycare.daemon import Daemon


def services(daemon: Daemon) -> Services:
    """Return them, for a daemon whose parts are all made."""
    store, clock, owner = daemon.store, daemon.clock, daemon.owner
    return Services(
        store=store,
        directory=daemon.directory,
        router=daemon.router,
        supervisor=daemon.supervisor,
        bus=daemon.bus,
        pool=daemon.pool,
        clock=clock,
        vault=daemon.vault,
        desk=daemon.approvals,
        permits=daemon.permits,
        accept=daemon.flow.accept,
        accept_all=daemon.flow.accept_all,
        status=daemon.status,
        stop=daemon.stop.ask,
        exports=Exports(
            store,
            daemon.directory,
            daemon.prompts.check,
            clock,
            daemon.home.path,
            f"direct:{owner}",
            rules=lambda: daemon.permits.rules,
            approvals=lambda: daemon.live.now.approvals,
            spending=daemon.budgets.forget,
        ),
        backups=daemon.upkeep.backups,
        heartbeats=daemon.signals.heartbeats,
        budgets=daemon.spending,
        newcomers=daemon.newcomers,
        behaviours=daemon.behaviours,
        health=daemon.upkeep.health.report,
        metrics=daemon.observation.metrics,
        join=daemon.observation.join,
        read_file=daemon.file,
        connectors=daemon.connectors,
        plugins=daemon.extensions.report,
        check=daemon.prompts.check,
        owner=owner,
        features=daemon.features,
        mode=daemon.mode,
        live=daemon.live,
        reload=daemon.reloading.reload,
    )
