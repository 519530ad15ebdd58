"""Scheduled jobs: what people and agents do with them, where they are written down, and what runs them."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from daycare.feature import Core, Feature

if TYPE_CHECKING:
    import trio
    from starlette.routing import Route

    from daycare.agent.commands import Commands
    from daycare.plugin import StructTool
    from daycare.store.records import Commit


class Cron(Feature):
    """All of it. `tell(user, text, topic, path)` lets a person know of something; `folder` has the files of jobs."""

    name = "cron"
    roles: ClassVar = {"schedule": ""}  # each node sees to its own users

    def __init__(self, core: Core, tell: Callable[[str, str, str, str], Awaitable[None]], folder: Path) -> None:
        from daycare.features.cron import jobs
        from daycare.features.cron.service import Schedule

        store, directory, router, bus, clock, live, may, owner = core
        self._owner = owner
        self.controls = jobs.CronControls(store, directory, clock, may)
        self.sources = jobs.CronSources(store, directory, self.controls, bus, clock, folder, live, owner)
        self.controls.refresh = self.sources.read
        self.schedule = Schedule(store, directory, router, bus, clock, live, self.sources.read, tell)

    def tools(self) -> "Sequence[StructTool[Any]]":
        """Return the tools by which agents schedule."""
        from daycare.features.cron.faces import CronTools

        return CronTools(self.controls).tools()

    def add_to(self, commands: "Commands") -> None:
        """Register the chat command."""
        from daycare.features.cron.faces import CronCommands

        CronCommands(self.controls).add_to(commands)

    def routes(self, closing: "trio.Event") -> "Sequence[Route]":
        """Return `/v1/cron`."""
        from daycare.features.cron.faces import CronOperations

        return CronOperations(self.controls, self._owner).routes()

    def background(self) -> Mapping[str, Callable[[], Awaitable[None]]]:
        """Return what runs the jobs, and what reads their files again."""
        return self.schedule.background()

    def sweeps(self) -> Mapping[str, Callable[[int], Awaitable[int]]]:
        """Return what ends old runs."""
        return {"runs of scheduled jobs": self.schedule.expire}

    def committed(self, commit: "Commit") -> None:
        """Something was committed that may concern the schedule."""
        self.schedule.committed(commit)

    async def status(self) -> Mapping[str, Any]:
        """Return what `GET /v1/status` shows of it."""
        return await self.controls.status()
