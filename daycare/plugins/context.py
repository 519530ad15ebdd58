"""What a plugin may touch: its settings, folder, secrets and connectors. Nothing of its neighbours."""

import threading
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

import trio

from daycare.base import foreign
from daycare.base.clock import Clock
from daycare.base.error_boundary import error_boundary
from daycare.base.errors import BusyError, ConflictError, DaycareError, ForbiddenError, InvalidError
from daycare.base.limits import BATCH_MAX_ITEMS
from daycare.nodes.webhook_posts import WebhookPosts
from daycare.observe import log
from daycare.observe.redact import hide
from daycare.plugin import Health, Inbound, Logger, Outcome, Unreadable
from daycare.plugins import handed_in
from daycare.store.records import Receipt

PLUGIN_TASKS_MAX: Final = 256  # background tasks of one plugin; more is a leak


class ConnectionHost(Protocol):
    """What the daemon does for connections."""

    async def receive(self, connector: str, batch: Sequence[Inbound | Unreadable], cursor: str) -> Sequence[Outcome]:
        """Commit what came over a connector."""
        ...

    async def recall(self, connector: str, name: str) -> str:
        """Return what a connector remembered."""
        ...

    async def remember(self, connector: str, name: str, value: str) -> None:
        """Keep a value for a connector."""
        ...

    def commands(self) -> Sequence[tuple[str, str]]:
        """Return the chat commands."""
        ...

    async def moved(self, connector: str, old: str, new: str) -> None:
        """Let a chat's key be another one."""
        ...

    def report(self, connector: str, health: Health) -> None:
        """Take a connection's word for how it is."""
        ...


@dataclass(frozen=True)
class Surroundings:
    """What contexts are made of; nothing of it checks whose it is, contexts do.

    `token` finds a stored secret by name, `unseal` decrypts it; `accept` commits a message; `host` serves connectors.
    """

    folder: Path
    clock: Clock
    token: Callable[[str], bytes | None]
    unseal: Callable[[bytes], str]
    accept: Callable[[Inbound], Awaitable[Receipt]]
    host: ConnectionHost | None = None  # none where plugins are only looked at
    while_connected: Callable[[str, Callable[[], Awaitable[None]]], Awaitable[None]] | None = None
    posts: WebhookPosts = field(default_factory=WebhookPosts)


class HostContext:
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
        with self._handed("a message"):
            inbound = await handed_in.inbound(inbound)
        self._check(inbound.connector, inbound.sender, inbound.chat, inbound.within)
        return (await self._around.accept(inbound)).seq

    async def receive(
        self, connector: str, batch: Sequence[Inbound | Unreadable], cursor: str = ""
    ) -> Sequence[Outcome]:
        """Take in what came over one of the plugin's connectors."""
        with self._handed("messages"):  # a batch that is too long for one commit is refused by the flow
            batch = [await handed_in.came_in(item) for item in foreign.items(batch, 10 * BATCH_MAX_ITEMS)]
            connector, cursor = foreign.line(connector), foreign.text(cursor)
        for item in batch:
            if isinstance(item, Inbound):
                self._check(item.connector, item.sender, item.chat, item.within)
                if item.connector != connector:
                    self._check("", item.sender)
        self._check(connector)
        return await self._host.receive(connector, batch, cursor)

    async def recall(self, connector: str, name: str = "cursor") -> str:
        """Return what one of the plugin's connectors remembered."""
        with self._handed("a name"):
            connector, name = foreign.line(connector), foreign.text(name)
        self._check(connector)
        return await self._host.recall(connector, name)

    async def remember(self, connector: str, name: str, value: str) -> None:
        """Keep a value for one of the plugin's connectors."""
        with self._handed("a value to remember"):
            connector, name, value = foreign.line(connector), foreign.text(name), foreign.text(value)
        self._check(connector)
        await self._host.remember(connector, name, value)

    async def moved(self, connector: str, old: str, new: str) -> None:
        """Let a chat of one of the plugin's connectors have another key."""
        with self._handed("a chat that has moved"):
            connector, old, new = foreign.line(connector), foreign.line(old), foreign.line(new)
        self._check(connector, old, new)
        await self._host.moved(connector, old, new)

    def report(self, connector: str, health: Health) -> None:
        """Tell how one of the plugin's connections is."""
        with self._handed("a connection's health"):
            connector, health = foreign.line(connector), handed_in.health(health)
        self._check(connector)
        self._host.report(connector, health)

    async def while_connected(self, connector: str, run: Callable[[], Awaitable[None]]) -> None:
        """Run what connects one of the plugin's connectors."""
        self._check(connector)
        if self._around.while_connected is None:
            await run()
        else:
            await self._around.while_connected(connector, run)

    async def hand_on(self, connector: str, body: bytes) -> None:
        """Hand on what was posted for one of the plugin's connectors."""
        self._check(connector)
        await self._around.posts.hand_on(connector, body)

    def taking(self, connector: str, take: Callable[[bytes], Awaitable[None]]) -> AbstractContextManager[None]:
        """Take what is handed on for one of the plugin's connectors."""
        self._check(connector)

        async def bounded(body: bytes) -> None:
            with error_boundary("PLUGIN_FAILED", f"taking what was posted for {connector}"):
                await take(body)

        return self._around.posts.taking(connector, bounded)

    def commands(self) -> Sequence[tuple[str, str]]:
        """Return the chat commands."""
        return self._host.commands()

    @property
    def _host(self) -> ConnectionHost:
        if self._around.host is None:
            raise ConflictError("CHECK_ONLY", f"connecting the plugin {self.name}: this is a check")
        return self._around.host

    def _handed(self, what: str) -> AbstractContextManager[None]:
        """Let what is wrong with a value be the plugin's own `InvalidError`."""
        return error_boundary("PLUGIN_VALUE", f"taking {what} of the plugin {self.name}", InvalidError)

    def _check(self, connector: str, *keys: str) -> None:
        """Refuse what concerns another plugin's connector; an empty key is none."""
        if connector not in self.connectors or any(key and not key.startswith(f"{connector}:") for key in keys):
            raise ForbiddenError(
                "CONNECTOR_FOREIGN",
                f"speaking for {' '.join(filter(None, keys)) or 'nobody'} over {connector or 'another connector'}: the "
                f"plugin {self.name} has the connectors {', '.join(self.connectors) or 'none'}",
            )

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


async def in_its_own(context: HostContext, call: Callable[[], Awaitable[str]], deadline_s: float, doing: str) -> str:
    """Return what a call of a running plugin returns; raise at the deadline, also when it ignores being cancelled.

    It runs among the plugin's own tasks, so what cannot be ended hangs there and nowhere else.
    """
    found: list[str | DaycareError] = []
    done, scope = trio.Event(), trio.CancelScope()

    async def run() -> None:
        try:
            with scope, error_boundary("PLUGIN_FAILED", doing):
                found.append(foreign.text(await call()))
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
