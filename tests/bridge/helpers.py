"""A house with a real bridge process to a platform that does not exist."""

import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
import trio

from daycare.config import Config, ModelsSection, PluginsSection, ProviderSection
from daycare.testing.daemon import OWNER, TestDaemon, open_daemon
from daycare.testing.scripted import Scripted
from daycare_plugins.bridge.sandbox import wrapped
from daycare_plugins.bridge.testing.platform import FakePlatform, platform
from tests.judges.bridge import RECORDED, faults_of

_PLUGIN = "daycare_plugins.bridge.plugin:plugin"
FAKE = [sys.executable, "-m", "daycare_plugins.bridge.testing.fake"]
QUICK: dict[str, Any] = {"heartbeat_s": 0.1, "deaf_s": 2.0, "sandbox": "off"}


_, _WHY = wrapped(["x"], Path("/nowhere/home/plugins/bridge/x"), [], "auto")
CAN_SANDBOX = not _WHY
real = pytest.mark.skipif(bool(_WHY), reason=f"needs a sandbox: {_WHY}")


def to_load(plugin: str = _PLUGIN) -> tuple[str, ...]:
    """Return what to load, if the source tree was installed before the plugin was there."""
    return () if plugin in {point.value for point in entry_points(group="daycare.plugins")} else (plugin,)


async def until(true: Callable[[], object], seconds: float = 20.0) -> None:
    with trio.fail_after(seconds):
        while not true():
            await trio.sleep(0.01)


@asynccontextmanager
async def bridged(
    tmp: Path, model: Scripted, command: list[str], *, link: bool = True, **settings: Any
) -> AsyncGenerator[TestDaemon, None]:
    """Open a house with a bridge `fake`, over which the owner is `fake:ann`."""
    own = {"command": command, **QUICK, **settings}
    config = Config(
        models=ModelsSection(default="scripted/model"),
        providers={"scripted": ProviderSection(kind="scripted")},
        plugins=PluginsSection(load=to_load(), settings={"bridge": {"to": {"fake": own}}}),
    )
    async with open_daemon(
        tmp, model, location=str(tmp / "house.db"), config=config, work=False, inline=False
    ) as house:
        if link and await house.store.people.by_key("fake:ann") is None:
            await house.store.people.link("fake:ann", OWNER)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(house.daemon.work)
            yield house
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def staged(
    tmp: Path, model: Scripted, *more: str, **settings: Any
) -> AsyncGenerator[tuple[TestDaemon, FakePlatform], None]:
    """Open a platform and a house with a bridge to it; the platform is outside of the home, which a sandbox hides.

    At the end every line of both directions must be in the protocol's published schema.
    """
    home = tmp / "home"
    home.mkdir(exist_ok=True)
    async with platform(tmp / "p.sock") as there:
        command = [*FAKE, "--platform", str(tmp / "p.sock"), "--record", RECORDED, *more]
        async with bridged(home, model, command, **settings) as house:
            yield house, there
    assert faults_of(home / "plugins" / "bridge" / "fake") == []


def health(house: TestDaemon) -> dict[str, Any]:
    return house.daemon.host.status(house.daemon.connectors)["fake"]


def is_up(house: TestDaemon) -> bool:
    """Whether it is connected; one that has not told anything yet is called `up`, too."""
    return bool(house.daemon.connectors["fake"].connected) and health(house)["state"] == "up"  # type: ignore[attr-defined]
