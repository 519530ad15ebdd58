"""Tools of servers that speak the Model Context Protocol: `[mcp.NAME]`; nothing of it runs without one."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar

from daycare.base.health import Finding
from daycare.feature import Core, Feature

if TYPE_CHECKING:
    import trio
    from starlette.routing import Route

    from daycare.features.approvals.service import ApprovalsService
    from daycare.features.mcp.records import ShownServer
    from daycare.features.mcp.service import McpServers, Warn
    from daycare.store.records import Commit
    from daycare.store.rotation import Keyring
    from daycare.tools.catalogue import Catalogue


_SERVICE = "daycare.features.mcp.service"


class McpFeature(Feature):
    """All of it. `folder` has a folder for each server, `keyring` has their secrets, `warn` tells the operator."""

    name = "mcp"
    roles: ClassVar = {"MCP servers": ""}

    def __init__(
        self,
        core: Core,
        approvals: "ApprovalsService",
        catalogue: "Catalogue",
        folder: Path,
        keyring: "Keyring",
        warn: "Warn",
    ) -> None:
        import trio  # the command line imports this file, and not that

        self._core = core
        self._approvals = approvals
        self._parts = approvals, catalogue, folder, keyring, warn
        self._servers: McpServers | None = None
        self._named = trio.Event()
        self._making = Lock()
        core.live.watch(lambda settings: settings.mcp, lambda: self._named.set())

    @property
    def servers(self) -> "McpServers":
        """What keeps the servers: made when somebody asks for it, as most daemons have none; routes ask in a thread."""
        from daycare.features.mcp.service import McpServers

        with self._making:
            if self._servers is None:
                self._servers = McpServers(self._core, *self._parts)
        return self._servers

    def routes(self, closing: "trio.Event") -> "Sequence[Route]":
        """Return `/v1/mcp` and what is below it, and `/mcp` for clients of the protocol."""
        from daycare.features.mcp.faces import McpRoutes
        from daycare.features.mcp.serving import McpServing

        return [*McpRoutes(self.servers).routes(), *McpServing(self._core.owner).routes()]

    def background(self) -> Mapping[str, Callable[[], Awaitable[None]]]:
        """Return what keeps the servers."""
        return {"MCP servers": self._run}

    async def prepare(self) -> None:
        """End calls of the run before; offer the tools of servers, which are started once they are called."""
        import trio

        from daycare.features.mcp.interrupted import end_interrupted

        if not self._core.store.share.several:  # another node's calls go on
            await end_interrupted(self._core, self._approvals)
        if self._core.live.now.mcp:
            await trio.to_thread.run_sync(import_module, _SERVICE)  # imports hold the loop up
            await self.servers.offer_known()

    async def _run(self) -> None:
        import trio

        while not self._core.live.now.mcp:
            await self._named.wait()
            self._named = trio.Event()
        await trio.to_thread.run_sync(import_module, _SERVICE)
        await self.servers.run()

    def committed(self, commit: "Commit") -> None:
        """Something was committed that may concern tools of servers."""
        if self._servers is not None:
            self._servers.committed(commit)

    async def status(self) -> Mapping[str, Any]:
        """Return each server with its state."""
        return {each.name: each.state for each in self._shown()}

    async def findings(self) -> Sequence[Finding]:
        """Return which servers fail, and whose tools wait for a person."""
        return [_finding(each.name, each.state, each.problem, each.waiting) for each in self._shown()]

    def _shown(self) -> "Sequence[ShownServer]":
        return () if self._servers is None else self._servers.shown()


def _finding(name: str, state: str, problem: str, waiting: int) -> Finding:
    if state in ("failed", "left_alone"):
        more = " and is left alone for a while" if state == "left_alone" else ""
        return Finding(
            name=f"mcp {name}", ok=False, text=f"it fails{more}: {problem}", hint=f"daycare mcp restart {name}"
        )
    if waiting:
        told = f"{waiting} of its tools wait for a person's yes"
        return Finding(name=f"mcp {name}", ok=False, text=told, hint=f"daycare mcp approve {name}")
    return Finding(
        name=f"mcp {name}", ok=True, text={"up": "it runs", "starting": "it starts"}.get(state, "it is not needed now")
    )
