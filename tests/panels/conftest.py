"""A whole daemon with a scripted model, whose API is served on a real socket."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio

from daycare.api.app import build
from daycare.api.server import serve
from daycare.base.clock import SystemClock
from daycare.store.records import Agent
from daycare.testing.daemon import TestDaemon, open_daemon

Json = dict[str, Any]


@dataclass
class Panels:
    """The daemon, a client of its socket, and the agent `/ann/agent/scribe`, named by its id in `{id}` of routes."""

    house: TestDaemon
    client: httpx.AsyncClient
    scribe: Agent

    async def ask(
        self, method: str, route: str, body: Any = None, headers: dict[str, str] | None = None, **query: Any
    ) -> httpx.Response:
        """Make one call."""
        return await self.client.request(
            method, route.replace("{id}", self.scribe.id), json=body, headers=headers, params=query
        )

    async def call(self, method: str, route: str, body: Any = None, *, status: int = 200, **more: Any) -> Json:
        """Make one call and return its document, after looking at its status."""
        answer = await self.ask(method, route, body, **more)
        assert answer.status_code == status, f"{method} {route}: {answer.status_code} {answer.text}"
        found: Json = answer.json()
        return found

    async def refused(self, status: int, code: str, method: str, route: str, body: Any = None, **more: Any) -> Json:
        """Make one call that must be refused, and return its error."""
        error: Json = (await self.call(method, route, body, status=status, **more))["error"]
        assert error["code"] == code, error
        return error


@pytest.fixture
async def panels(tmp_path: Path) -> AsyncIterator[Panels]:
    socket = tmp_path / "panels.sock"
    async with (
        open_daemon(tmp_path, location=str(tmp_path / "daycare.db"), clock=SystemClock(), inline=False) as house,
        trio.open_nursery() as nursery,
    ):
        scribe = await house.agent("/ann/agent/scribe")
        shutdown = trio.Event()

        async def serving(task_status: trio.TaskStatus[None]) -> None:
            await serve(build(house.daemon.services), socket, shutdown, task_status)

        await nursery.start(serving)
        transport = httpx.AsyncHTTPTransport(uds=str(socket), verify=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://daycare", timeout=15) as client:
            with trio.fail_after(30):
                yield Panels(house, client, scribe)
        shutdown.set()
        nursery.cancel_scope.cancel()
