"""Keeps a connection going: off without a credential, serving with one, and again when it changes or breaks."""

import sys
from importlib import import_module
from types import ModuleType
from typing import Final, Protocol

import trio

from daycare.base.error_boundary import error_boundary
from daycare.base.errors import DaycareError
from daycare.base.interpreter import short_turns
from daycare.plugin import PluginContext

LOOK_S: Final = 3.0  # a stored or changed credential takes effect after so long ...
SELDOM_LOOK_S: Final = 30.0  # ... or so, when there was none for long
SELDOM_AFTER_S: Final = 1800.0
PAUSE_S: Final = 1.0  # after a defect
PAUSE_MAX_S: Final = 30.0  # it doubles up to here, and begins again after a steady time
STEADY_S: Final = 300.0


class Connection(Protocol):
    """What is kept going."""

    def credential(self) -> tuple[str, str]:
        """Return what it is served with, and why there is none where that is empty. Another one begins it again."""
        ...

    def off(self, reason: str) -> None:
        """There is no credential."""
        ...

    def starting(self) -> None:
        """There is a credential, and nothing was served with it yet."""
        ...

    def broken(self, defect: DaycareError) -> None:
        """Serving has failed; it is tried again soon."""
        ...

    async def serve(self, credential: str) -> None:
        """Receive and send until cancelled."""
        ...


async def keep(connection: Connection, code: str, doing: str) -> None:
    """Serve until cancelled. Raises nothing: what goes wrong is told to `broken`, with this code."""
    last, pause_s, had = "", PAUSE_S, trio.current_time()
    told: str | None = None  # why it is off; None while it is not
    while True:
        credential, why = connection.credential()
        if not credential:
            if last:
                last, had = "", trio.current_time()
            if why != told:
                told = why
                connection.off(why)
            await trio.sleep(LOOK_S if trio.current_time() - had < SELDOM_AFTER_S else SELDOM_LOOK_S)
            continue
        told = None
        if credential != last:
            connection.starting()
        last, began = credential, trio.current_time()
        try:
            with error_boundary(code, doing):
                await _until_changed(connection, credential)
        except DaycareError as defect:
            connection.broken(defect)
            if trio.current_time() - began > STEADY_S:
                pause_s = PAUSE_S
            await trio.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_MAX_S)


async def _until_changed(connection: Connection, credential: str) -> None:
    async with trio.open_nursery() as nursery:

        async def watch() -> None:
            while connection.credential()[0] == credential:  # noqa: ASYNC110 -- no event tells of secrets
                await trio.sleep(LOOK_S)
            nursery.cancel_scope.cancel()

        nursery.start_soon(watch)
        await connection.serve(credential)
        nursery.cancel_scope.cancel()


def stored(context: PluginContext, name: str) -> tuple[str, str]:
    """Return a stored secret as a credential."""
    try:
        return (context.secret(name) or "").strip(), "no token is stored"
    except DaycareError as error:
        return "", error.message


async def imported(name: str, *others: str) -> ModuleType:
    """Import what is heavy with the first credential, and not in the daemon's loop; return the first of the modules."""
    if all(map(_is_whole, (name, *others))):
        return sys.modules[name]
    with short_turns():
        modules = await trio.to_thread.run_sync(lambda: [import_module(each) for each in (name, *others)])
    return modules[0]


def _is_whole(name: str) -> bool:
    module = sys.modules.get(name)
    return module is not None and not getattr(module.__spec__, "_initializing", False)  # by another connection
