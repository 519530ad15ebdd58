"""A plugin that says which node is connected, over and over, for as long as it is: there is never more than one.

What it does needs neither the server nor anybody who writes, so a node that is cut off could go on with it.
"""

import os
import time
from pathlib import Path
from typing import Final

import trio

from daycare.plugin import BaseConnector, Outgoing, Plugin, PluginContext
from tests.crash.ledger import Finding

BEACON: Final = "beacon"
FILE = "NODES_BEACON"
NODE = "NODES_NAME"
_EACH_S: Final = 0.05
_WITHIN_S: Final = 1.0
_SWITCHES_MAX: Final = 3  # within that time: a node that was stopped says one word when it goes on


class BeaconConnector(BaseConnector):
    """Sends nothing."""

    name = BEACON

    async def send(self, outgoing: Outgoing) -> str:
        """Take what nobody reads."""
        return ""


async def _start(context: PluginContext) -> None:
    async def say() -> None:
        fd = os.open(os.environ[FILE], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            while True:
                os.write(fd, f"{time.monotonic():.3f} {os.environ[NODE]}\n".encode())
                await trio.sleep(_EACH_S)
        finally:
            os.close(fd)

    await context.while_connected(BEACON, say)


def judge(file: Path) -> list[Finding]:
    """Return when two nodes were connected at the same time."""
    said = [line.split() for line in file.read_text().splitlines()]
    switches: list[float] = []
    found: list[Finding] = []
    for at in range(1, len(said)):
        if said[at][1] != said[at - 1][1]:
            switches.append(float(said[at][0]))
            if len(switches) > _SWITCHES_MAX and switches[-1] - switches[-1 - _SWITCHES_MAX] < _WITHIN_S:
                pair = sorted({said[at][1], said[at - 1][1]})
                found.append(("two_owners", f"{' and '.join(pair)} were connected at the same time, line {at + 1}"))
                switches.clear()
    return found


plugin = Plugin(name=BEACON, connectors={BEACON: BeaconConnector}, start=_start, by_connector=True)
