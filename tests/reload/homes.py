"""Houses with a config.toml that can be written anew."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from daycare.base.clock import Clock
from daycare.base.errors import DaycareError
from daycare.config import load
from daycare.ops.applying import Reloaded
from daycare.plugin import Plugin
from daycare.testing.daemon import TestDaemon, open_daemon

BASE = """
[models]
default = "scripted/model"
[providers.scripted]
kind = "scripted"
[memory.ingestion]
background = false
"""


@asynccontextmanager
async def open_home(
    tmp: Path,
    more: str = "",
    *,
    base: str = BASE,
    plugins: Sequence[Plugin] = (),
    location: str = "memory:",
    clock: Clock | None = None,
) -> AsyncIterator[TestDaemon]:
    """Open a house whose settings are those of its file."""
    write(tmp, more, base=base)
    async with open_daemon(tmp, config=load(tmp), plugins=plugins, location=location, clock=clock) as house:
        yield house


def write(tmp: Path, more: str = "", *, base: str = BASE) -> None:
    """Put another file in its place, as editors do."""
    new = tmp / "config.toml~"
    new.write_text(base + more)
    new.replace(tmp / "config.toml")


async def change(house: TestDaemon, tmp: Path, more: str = "", *, base: str = BASE) -> Reloaded:
    """Write and have it read; it is not refused."""
    write(tmp, more, base=base)
    found = await house.daemon.reloading.read()
    assert isinstance(found, Reloaded), found
    return found


async def refused(house: TestDaemon, tmp: Path, more: str = "", *, base: str = BASE) -> DaycareError:
    """Write and have it read; it is refused, and nothing else is in force than before."""
    before = house.daemon.live.now
    write(tmp, more, base=base)
    found = await house.daemon.reloading.read()
    assert isinstance(found, DaycareError), found
    assert house.daemon.live.now is before
    return found
