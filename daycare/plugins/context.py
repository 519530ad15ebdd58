"""What a plugin may touch: its settings, folder, secrets and connectors. Nothing of its neighbours."""

import threading
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trio

from daycare.base.blame import blamed
from daycare.base.clock import Clock
from daycare.base.errors import BusyError, ConflictError, DaycareError, ForbiddenError
from daycare.base.limits import PLUGIN_TASKS_MAX
from daycare.observe import log
from daycare.observe.redact import hide
from daycare.plugin import Inbound, Logger
from daycare.store.records import Receipt


@dataclass(frozen=True)
class Surroundings:
    """What contexts are made of; nothing of it checks whose it is, contexts do.

    `token` finds a stored secret by name, `unseal` decrypts it; `accept` commits a message.
    """

    folder: Path
    clock: Clock
    token: Callable[[str], bytes | None]
    unseal: Callable[[bytes], str]
    accept: Callable[[Inbound], Awaitable[Receipt]]


class Context:
    """A `PluginContext`."""

    def __init__(self, name: str, config: Any, around: Surroundings) -> None:
        self.name = name
        self.config = config
        self.connectors: Collection[str] = ()
        self.tasks: trio.Nursery | None = None  # open while the plugin runs
        self.setting_up = False
        self._thread = threading.get_ident()
        self._around = around

    @property
    def log(self) -> Logger:
        """The plugin's logger."""
        return log.logger(f"daycare.plugin.{self.name}")

    @property
    def data(self) -> Path:
        """The plugin's folder, made when it is first asked for."""
        folder = self._around.folder / self.name
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder

    def now_ms(self) -> int:
        """Return the wall time."""
        return self._around.clock.now_ms()

    def secret(self, name: str) -> str | None:
        """Return one of the plugin's own secrets."""
        if name != self.name and not name.startswith(f"{self.name}."):
            raise ForbiddenError(
                "SECRET_FOREIGN",
                f"reading the secret {name}: the plugin {self.name} may read {self.name} and {self.name}.* only",
                hint=f"daycare keys add {self.name}",
            )
        if threading.get_ident() != self._thread and not self.setting_up:  # the store's connection is the loop's
            raise ConflictError(
                "SECRET_THREAD",
                f"reading the secret {name}: the plugin {self.name} is in a thread of its own",
                hint="trio.from_thread.run_sync(context.secret, name)",
            )
        token = self._around.token(name)
        if token is None:
            return None
        value = self._around.unseal(token)
        hide(value)
        return value

    async def accept(self, inbound: Inbound) -> int:
        """Take in a message of one of the plugin's connectors."""
        if inbound.connector not in self.connectors or not inbound.sender.startswith(f"{inbound.connector}:"):
            raise ForbiddenError(
                "CONNECTOR_FOREIGN",
                f"accepting a message of {inbound.sender} over {inbound.connector}: the plugin {self.name} has the "
                f"connectors {', '.join(self.connectors) or 'none'}",
            )
        return (await self._around.accept(inbound)).seq

    def start_soon(self, task: Callable[..., Awaitable[object]], *arguments: Any) -> None:
        """Run a background task within the plugin's life."""
        if self.tasks is None:
            raise ConflictError("PLUGIN_DOWN", f"starting a task of the plugin {self.name}: it does not run now")
        if len(self.tasks.child_tasks) >= PLUGIN_TASKS_MAX:
            raise BusyError(
                "PLUGIN_TASKS",
                f"starting a task of the plugin {self.name}: it has {PLUGIN_TASKS_MAX}, which looks like a leak",
                hint="let tasks end",
            )
        self.tasks.start_soon(task, *arguments)


async def in_its_own(context: Context, call: Callable[[], Awaitable[str]], deadline_s: float, doing: str) -> str:
    """Return what a call of a running plugin returns; raise at the deadline, also when it ignores being cancelled.

    It runs among the plugin's own tasks, so what cannot be ended hangs there and nowhere else.
    """
    found: list[str | DaycareError] = []
    done, scope = trio.Event(), trio.CancelScope()

    async def run() -> None:
        try:
            with scope, blamed("PLUGIN_FAILED", doing):
                found.append(str(await call()))
        except DaycareError as error:
            found.append(error)
        finally:
            done.set()

    context.start_soon(run)
    try:
        with trio.move_on_after(deadline_s):
            await done.wait()
    finally:
        scope.cancel()
    if not found:
        raise BusyError("PLUGIN_LATE", f"{doing}: no answer within {deadline_s:g} s")
    if isinstance(found[0], DaycareError):
        raise found[0]
    return found[0]
