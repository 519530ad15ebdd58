"""Tasks: what people and agents do with them, and what tells those who asked when one has not ended well."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from daycare.feature import Core, Feature

if TYPE_CHECKING:
    import trio
    from starlette.routing import Route

    from daycare.agent.commands import Commands
    from daycare.agent.deliveries import Deliveries
    from daycare.plugin import StructTool
    from daycare.store.records import Commit


class Tasks(Feature):
    """All of it. Tasks are kept for `[store] keep_days` after their end."""

    name = "tasks"
    roles: ClassVar = {"tasks": ""}  # each node sees to its own users

    def __init__(self, core: Core, deliveries: "Deliveries") -> None:
        from daycare.features.tasks.service import TaskControls, TaskEnds

        store, directory, router, bus, clock, live, may, owner = core
        self.controls = TaskControls(store, directory, router, clock, may)
        self.ends = TaskEnds(store, deliveries, self.controls.changed, bus, clock, live)
        self._connectors = deliveries.connectors
        self._owner = owner

    def tools(self) -> "Sequence[StructTool[Any]]":
        """Return the tools by which agents start tasks, and tell how far they are."""
        from daycare.features.tasks.faces import TaskTools

        return TaskTools(self.controls).tools()

    def add_to(self, commands: "Commands") -> None:
        """Register the chat command."""
        from daycare.features.tasks.faces import TaskCommands

        TaskCommands(self.controls, self._connectors).add_to(commands)

    def routes(self, closing: "trio.Event") -> "Sequence[Route]":
        """Return `/v1/tasks`."""
        from daycare.features.tasks.faces import TaskRoutes

        return TaskRoutes(self.controls, self._owner, closing).routes()

    def background(self) -> Mapping[str, Callable[[], Awaitable[None]]]:
        """Return what settles tasks that have ended."""
        return {"tasks": self.ends.worker.run}

    def sweeps(self) -> Mapping[str, Callable[[int], Awaitable[int]]]:
        """Return what ends old tasks."""
        return {"tasks": self.ends.expire}

    def committed(self, commit: "Commit") -> None:
        """Something was committed that may concern tasks."""
        self.ends.committed(commit)
