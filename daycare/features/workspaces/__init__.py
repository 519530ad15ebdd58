"""Workspaces: folders on the operator's machine whose files an agent may read and change."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from daycare.base.health import Finding
from daycare.base.workspace import Access
from daycare.feature import Core, Feature

if TYPE_CHECKING:
    import trio
    from starlette.routing import Route

    from daycare.features.approvals.gate import ApprovalGate
    from daycare.plugin import StructTool
    from daycare.store.records import Agent


class WorkspacesFeature(Feature):
    """All of it. `home` is the daemon's own folder, `gate` asks people."""

    name = "workspaces"

    def __init__(self, core: Core, home: Path, gate: "ApprovalGate") -> None:
        from daycare.features.workspaces.asking import ChangeAsking
        from daycare.features.workspaces.places import WorkspacePlaces
        from daycare.features.workspaces.service import Workspaces

        self.places = WorkspacePlaces(home, core.live)
        self.asking = ChangeAsking(core.store, gate)
        self.workspaces = Workspaces(core.store, core.directory, self.places, core.bus, core.clock)

    def tools(self) -> "Sequence[StructTool[Any]]":
        """Return the file tools."""
        from daycare.features.workspaces.tools import FileTools

        return FileTools(self.workspaces, self.asking).tools()

    def offers(self, agent: "Agent", tool: str) -> bool:
        """Return whether an agent has a workspace."""
        return self.places.access(agent) is not Access.NONE

    def routes(self, closing: "trio.Event") -> "Sequence[Route]":
        """Return `/v1/agent/files` and what is below it."""
        from daycare.features.workspaces.faces import WorkspaceRoutes

        return WorkspaceRoutes(self.workspaces).routes()

    async def findings(self) -> Sequence[Finding]:
        """Return why there are no file tools here, if there are none."""
        from daycare.features.workspaces.beneath import why_not

        return [Finding(name="workspaces", ok=False, text=f"no file tools: {why}")] if (why := why_not()) else []
