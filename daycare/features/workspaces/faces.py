"""Workspaces over the API: what is in them, what was changed, and taking that back."""

from starlette.routing import Route

from daycare.api.described import described
from daycare.api.operations import route
from daycare.base.errors import NotFoundError
from daycare.features.workspaces.operations import (
    FileChanges,
    FileHistory,
    ListedFile,
    ListedFiles,
    ListFiles,
    UndoFile,
)
from daycare.features.workspaces.records import FileChange
from daycare.features.workspaces.service import Workspaces
from daycare.store.records import Agent


class WorkspaceRoutes:
    """`/v1/agent/files` and what is below it."""

    def __init__(self, workspaces: Workspaces) -> None:
        self._workspaces = workspaces

    def routes(self) -> list[Route]:
        """Return them."""
        return [route(ListFiles, self.find), route(FileHistory, self.history), route(UndoFile, self.undo)]

    @described({200: ListedFiles})
    async def find(self, wish: ListFiles) -> ListedFiles:
        """List files."""
        agent = await self._agent(wish.path)
        found, whole = await self._workspaces.entries(agent, wish.folder, deep=wish.deep)
        return ListedFiles(
            folder=str(self._workspaces.places.of(agent.config).path),
            access=self._workspaces.places.access(agent),
            files=tuple(ListedFile(path=each.path, kind=each.kind, size=each.size) for each in found),
            whole=whole,
        )

    @described({200: FileChanges})
    async def history(self, wish: FileHistory) -> FileChanges:
        """List changes."""
        return FileChanges(changes=tuple(await self._workspaces.history(await self._agent(wish.path), wish.limit)))

    @described({200: FileChange}, refuses=(409,))
    async def undo(self, wish: UndoFile) -> FileChange:
        """Take one back."""
        return await self._workspaces.undo(await self._agent(wish.path), wish.change)

    async def _agent(self, path: str) -> Agent:
        agent = await self._workspaces.directory.at(path)
        if not agent.config.workspace:
            raise NotFoundError(
                "WORKSPACE_NONE",
                f"looking into the workspace of {path}: it has none",
                hint=f"daycare agents set {path} workspace=notes",
            )
        return agent
