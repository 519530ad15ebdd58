"""Tools of servers that speak the Model Context Protocol: `[mcp.NAME]`; nothing of it runs without one."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from daycare.base.health import Finding
from daycare.feature import Core, Feature

if TYPE_CHECKING:
    import trio
    from starlette.routing import Route

    from daycare.features.mcp.service import Warn
    from daycare.store.records import Commit
    from daycare.store.rotation import Keyring
    from daycare.tools.catalogue import Catalogue


class McpFeature(Feature):
    """All of it. `folder` has a folder for each server, `keyring` has their secrets, `warn` tells the operator."""

    name = "mcp"

    def __init__(self, core: Core, catalogue: "Catalogue", folder: Path, keyring: "Keyring", warn: "Warn") -> None:
        from daycare.features.mcp.service import McpServers

        self._core = core
        self.servers = McpServers(core, catalogue, folder, keyring, warn)

    def routes(self, closing: "trio.Event") -> "Sequence[Route]":
        """Return `/v1/mcp` and what is below it, and `/mcp` for clients of the protocol."""
        from daycare.features.mcp.faces import McpRoutes
        from daycare.features.mcp.serving import McpServing

        return [*McpRoutes(self.servers).routes(), *McpServing(self._core.owner).routes()]

    def background(self) -> Mapping[str, Callable[[], Awaitable[None]]]:
        """Return what keeps the servers."""
        return {"MCP servers": self.servers.run}

    def committed(self, commit: "Commit") -> None:
        """Something was committed that may concern tools of servers."""
        self.servers.committed(commit)

    async def status(self) -> Mapping[str, Any]:
        """Return each server with its state."""
        return {each.name: each.state for each in self.servers.shown()}

    async def findings(self) -> Sequence[Finding]:
        """Return which servers fail, and whose tools wait for a person."""
        return [_finding(each.name, each.state, each.problem, each.waiting) for each in self.servers.shown()]


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
