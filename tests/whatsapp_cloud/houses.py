"""A daemon with a WhatsApp number over the fake Graph API, both on real sockets."""

import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from daycare.config import Config, ModelSection, ModelsSection, PluginsSection, ProviderSection
from daycare.testing.clock import VirtualClock
from daycare.testing.daemon import OWNER, TestDaemon, open_daemon
from daycare.testing.scripted import Scripted
from daycare_plugins.whatsapp_cloud import outgoing as _outgoing  # noqa: F401 -- it would block the house's loop
from daycare_plugins.whatsapp_cloud import serving as _serving  # noqa: F401
from daycare_plugins.whatsapp_cloud.testing.server import FakeGraph
from daycare_plugins.whatsapp_cloud.testing.world import Sent

ANN = "4915112345678"
BEN = "4917187654321"
KEY = f"whatsapp-cloud:{ANN}"
PATH = "/ann/whatsapp-cloud"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Stage:
    """What outlives a daemon: the fake, its port, the folder and the clock."""

    def __init__(self, graph: FakeGraph, folder: Path) -> None:
        self.graph = graph
        self.folder = folder
        self.port = free_port()
        self.clock = VirtualClock()
        self.model = Scripted()
        graph.clock = lambda: self.clock.now_ms() / 1000
        graph.webhook_url = f"http://127.0.0.1:{self.port}/whatsapp"
        graph.person(ANN, "Ann")

    @asynccontextmanager
    async def daemon(self, *, linked: bool = True, **settings: Any) -> AsyncGenerator[TestDaemon, None]:
        """Run a daemon; leaving the block is a kill."""
        chosen = {
            "phone_number_id": self.graph.number_id,
            "base_url": self.graph.base_url,
            "listen": f"127.0.0.1:{self.port}",
            "confirm_s": 1,
        } | settings
        config = Config(
            models=ModelsSection(default="scripted/model"),
            providers={"scripted": ProviderSection(kind="scripted", models={"model": ModelSection(images=True)})},
            plugins=PluginsSection(settings={"whatsapp_cloud": chosen}),
        )
        where = str(self.folder / "house.db")
        async with open_daemon(
            self.folder, self.model, location=where, config=config, work=False, clock=self.clock
        ) as house:
            vault = house.daemon.vault
            for name, value in (
                ("whatsapp_cloud", self.graph.token),
                ("whatsapp_cloud.app_secret", self.graph.app_secret),
                ("whatsapp_cloud.verify_token", self.graph.verify_token),
            ):
                await house.store.secrets.put(name, OWNER, vault.seal(value))
            if linked and await house.store.people.by_key(KEY) is None:
                await house.store.people.link(KEY, OWNER)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(house.daemon.work)
                yield house
                nursery.cancel_scope.cancel()

    async def sent(self, number: int, who: str = ANN) -> Sent:
        """Return the n-th message to somebody, once it is there."""
        await until(lambda: len(self.graph.sent(who)) >= number)
        return self.graph.sent(who)[number - 1]


@asynccontextmanager
async def open_stage(folder: Path) -> AsyncGenerator[Stage, None]:
    async with FakeGraph.serve() as graph:
        yield Stage(graph, folder)


async def until(what: Callable[[], object], deadline_s: float = 10.0, step_s: float = 0.01) -> None:
    """Wait until something is so."""
    with trio.fail_after(deadline_s):
        while not what():
            await trio.sleep(step_s)


def health(house: TestDaemon) -> dict[str, Any]:
    """How the connection is."""
    daemon: Any = house.daemon
    found: dict[str, Any] = daemon.host.status(daemon.connectors)["whatsapp-cloud"]
    return found
