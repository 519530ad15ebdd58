"""The mind of the crash campaign, with a tool and a plugin that start processes and do not look after them."""

import os
import signal
from contextlib import suppress
from subprocess import DEVNULL

import trio

from daycare.base.tool import STAYS
from daycare.plugin import Plugin, PluginContext, StructTool, ToolContext
from tests.crash import mind

HANG = "DAYCARE_TEST_HANG"  # its tool takes longer than anybody waits
# Deaf to every polite signal, with a child in the background that is as deaf.
_DEAF = "trap '' TERM INT HUP; sleep 300 & sleep 300; wait"


async def _child() -> trio.Process:
    return await trio.lowlevel.open_process(
        ["/bin/sh", "-c", _DEAF], stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL, start_new_session=True
    )


async def _dawdle(context: ToolContext, arguments: mind.Dawdle) -> str:
    process = await _child()
    if os.environ.get(HANG):
        await trio.sleep(60.0)
    said = await mind.dawdle(context, arguments)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
    return said


async def _start(_context: PluginContext) -> None:
    await _child()


plugin = Plugin(
    name="crash",
    providers=mind.plugin.providers,
    tools=(StructTool("dawdle", mind.Dawdle, _dawdle, idempotent=False, **STAYS),),
    start=_start,
)
