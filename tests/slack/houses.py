"""A daemon in a fake Slack workspace, both on real sockets."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from daycare.config import Config, ModelSection, ModelsSection, PluginsSection, ProviderSection
from daycare.testing.clock import VirtualClock
from daycare.testing.daemon import OWNER, TestDaemon, open_daemon
from daycare.testing.scripted import Scripted
from daycare_plugins.slack import outgoing as _outgoing  # noqa: F401 -- it would block the house's loop
from daycare_plugins.slack import serving as _serving  # noqa: F401
from daycare_plugins.slack import socket_mode as _socket_mode  # noqa: F401
from daycare_plugins.slack.testing.server import APP_TOKEN, SIGNING_SECRET, TOKEN, FakeWorkspace

ANN = "U1ANN"
BEN = "U2BEN"
KEY = f"slack:{ANN}"
PATH = "/ann/slack"


class Stage:
    """What outlives a daemon: the workspace, the folder and the clock."""

    def __init__(self, slack: FakeWorkspace, folder: Path) -> None:
        self.slack = slack
        self.folder = folder
        self.clock = VirtualClock()
        self.model = Scripted()
        slack.clock = lambda: self.clock.now_ms() / 1000
        slack.person(ANN, "Ann")
        slack.person(BEN, "Ben")

    @asynccontextmanager
    async def daemon(self, *, linked: bool = True, **settings: Any) -> AsyncGenerator[TestDaemon, None]:
        """Run a daemon; leaving the block is a kill."""
        chosen = {"base_url": self.slack.url} | settings
        config = Config(
            models=ModelsSection(default="scripted/model"),
            providers={"scripted": ProviderSection(kind="scripted", models={"model": ModelSection(images=True)})},
            plugins=PluginsSection(settings={"slack": chosen}),
        )
        where = str(self.folder / "house.db")
        async with open_daemon(
            self.folder, self.model, location=where, config=config, work=False, clock=self.clock
        ) as house:
            vault = house.daemon.vault
            for name, value in (
                ("slack", TOKEN),
                ("slack.app_token", APP_TOKEN),
                ("slack.signing_secret", SIGNING_SECRET),
            ):
                await house.store.secrets.put(name, OWNER, vault.seal(value))
            if linked and await house.store.people.by_key(KEY) is None:
                await house.store.people.link(KEY, OWNER)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(house.daemon.work)
                yield house
                nursery.cancel_scope.cancel()

    def texts(self, where: str = ANN) -> list[str]:
        """Return what the app said, in order."""
        return [message["text"] for message in self.slack.sent(where)]

    async def sent(self, number: int, where: str = ANN) -> dict[str, Any]:
        """Return the n-th message to somebody or in a channel, once it is there."""
        await until(lambda: len(self.slack.sent(where)) >= number)
        return self.slack.sent(where)[number - 1]


@asynccontextmanager
async def open_stage(folder: Path) -> AsyncGenerator[Stage, None]:
    async with FakeWorkspace.serve() as slack:
        yield Stage(slack, folder)


async def until(what: Callable[[], object], deadline_s: float = 10.0, step_s: float = 0.01) -> None:
    """Wait until something is so."""
    with trio.fail_after(deadline_s):
        while not what():
            await trio.sleep(step_s)


def health(house: TestDaemon, name: str = "slack") -> dict[str, Any]:
    """How the connection is."""
    daemon: Any = house.daemon
    found: dict[str, Any] = daemon.host.status(daemon.connectors)[name]
    return found
