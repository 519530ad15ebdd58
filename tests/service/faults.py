"""A plugin that does what kills, blocks and hangs daemons, as `DAYCARE_TEST_FAULT` says, and a connector beside it."""

import os
import signal
import time

import trio

from daycare.plugin import Health, Plugin, PluginContext
from daycare.testing.fake_connector import FakeConnector

FAULT = "DAYCARE_TEST_FAULT"


async def _start(context: PluginContext) -> None:
    context.report("pigeon", Health(state="up"))
    match os.environ.get(FAULT):
        case "block":  # the loop, for long
            await trio.sleep(1.0)
            time.sleep(60.0)
        case "pause":  # the loop, for a while
            await trio.sleep(1.0)
            time.sleep(3.0)
        case "stay":  # and ignore every wish to end
            with trio.CancelScope(shield=True):
                await trio.sleep(60.0)
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)


plugin = Plugin(name="faults", connectors={"pigeon": FakeConnector}, start=_start)
