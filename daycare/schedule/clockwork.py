"""Scheduled jobs, wired: what people and agents do with them, where they are written down, and what runs them."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from daycare.actors.directory import Directory
from daycare.actors.router import Router
from daycare.agent.commands import Commands
from daycare.agent.cron_commands import CronCommands
from daycare.agent.cron_controls import CronControls, May
from daycare.agent.cron_tools import CronTools
from daycare.base.clock import Clock
from daycare.feature import Feature
from daycare.observe.bus import Bus
from daycare.plugin import StructTool
from daycare.schedule.cron import Schedule
from daycare.schedule.cron_sources import CronSources
from daycare.settings import Live
from daycare.store.contract import Store
from daycare.store.records import Commit
from daycare.store.records_cron import CronNews

if TYPE_CHECKING:
    from starlette.routing import Route


class Clockwork(Feature):
    """All of it. `may(subject, action, object)` raises what keeps an agent from scheduling something.

    `tell(user, text, topic, path)` lets a person know of something.
    """

    name = "cron"

    def __init__(
        self,
        store: Store,
        directory: Directory,
        router: Router,
        bus: Bus,
        clock: Clock,
        may: May,
        tell: Callable[[str, str, str, str], Awaitable[None]],
        *,
        folder: Path,
        live: Live,
        owner: str,
    ) -> None:
        self._store = store
        self._owner = owner
        self.controls = CronControls(store, directory, clock, may)
        self.sources = CronSources(store, directory, self.controls, bus, clock, folder, live, owner)
        self.controls.refresh = self.sources.read
        self.schedule = Schedule(store, directory, router, bus, clock, live, self.sources.read, tell)

    def tools(self) -> list[StructTool[Any]]:
        """Return the tools by which agents schedule."""
        return list(CronTools(self.controls).tools())

    def add_to(self, commands: Commands) -> None:
        """Register the chat command."""
        CronCommands(self.controls).add_to(commands)

    def routes(self) -> "Sequence[Route]":
        """Return `/v1/cron`."""
        from daycare.api.routes_cron import Cron

        return Cron(self.controls, self._store, self._owner).routes()

    def background(self) -> Mapping[str, Callable[[], Awaitable[None]]]:
        """Return what runs the jobs, and what reads their files again."""
        return self.schedule.background()

    def sweeps(self) -> Mapping[str, Callable[[int], Awaitable[int]]]:
        """Return what ends old runs."""
        return {"runs of scheduled jobs": self.schedule.expire}

    def committed(self, commit: Commit) -> None:
        """Something was committed that may concern the schedule."""
        news = commit.news_of(CronNews)
        if news is not None:
            if news.changed:
                self.schedule.changed()
            self.schedule.announce(news.runs)

    async def status(self) -> Mapping[str, Any]:
        """Return what `GET /v1/status` shows of it."""
        jobs = await self._store.cron.count()
        return {
            "jobs": jobs.jobs,
            "paused": jobs.paused,
            "running": jobs.running,
            "next_at": jobs.next_at,
            "problems": [str(problem) for problem in self.controls.problems],
        }
