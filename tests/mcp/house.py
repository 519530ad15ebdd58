"""A house with servers: Ann's agent, a scripted model, and real processes."""

import json
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import trio
import trio.testing
from msgspec.structs import replace

from daycare.base.mcp_settings import McpServer
from tests.tools.scene import Scene, scene_of, settings

ALL = ("/ann/**",)
STUB = Path(__file__).parent / "stub.py"
PLAIN = {"type": "object", "properties": {"text": {"type": "string"}}}


def tool(name: str, description: str = "Does something", **more: Any) -> dict[str, Any]:
    return {"name": name, "description": description, "inputSchema": PLAIN, **more}


class Stub:
    """The server of `stub.py`, and the folder that it shares with the test."""

    def __init__(self, folder: Path, *tools: dict[str, Any]) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.has(*tools)

    def has(self, *tools: dict[str, Any]) -> None:
        (self.folder / "tools.json").write_text(json.dumps(tools))

    def settings(self, **more: Any) -> McpServer:
        command = (sys.executable, str(STUB), str(self.folder))
        return McpServer(command=command, allow=ALL, readable=(str(STUB.parent),), writable=(str(self.folder),), **more)

    @property
    def calls(self) -> list[str]:
        file = self.folder / "calls"
        return file.read_text().splitlines() if file.exists() else []


@asynccontextmanager
async def house_of(tmp: Path, *, location: str = "memory:", **servers: McpServer) -> AsyncIterator[Scene]:
    """A house that begins with these; with a file as `location` another one can go on."""
    async with scene_of(tmp, replace(settings(), mcp=servers), location=location) as scene:
        yield scene


@contextmanager
def patience(seconds: float = 60.0) -> Iterator[None]:
    with trio.fail_after(seconds):
        yield


async def until(true: Callable[[], Any]) -> None:
    """Wait for something that a process does."""
    with patience():
        while not true():
            await trio.testing.wait_all_tasks_blocked(0.02)


def state(scene: Scene, server: str) -> str:
    shown = scene.house.daemon.mcp.servers.shown()
    return next((each.state for each in shown if each.name == server), "")


def offered(scene: Scene) -> set[str]:
    return {each.name for each in scene.house.daemon.catalogue.specs(scene.agent) if "__" in each.name}


async def approve_all(scene: Scene, server: str) -> None:
    servers = scene.house.daemon.mcp.servers
    await until(lambda: servers._waiting.get(server))
    waiting = [each for each in await servers.tools(server) if each.state in ("new", "changed")]
    await servers.approve(server, {each.tool: each.now.digest for each in waiting}, "test")
