"""Running the daemon: as a process of its own (`daycare run`), or inside of another program's."""

import os
import queue
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self, TypeVar

import trio

from daycare.agent.prompt import Persona
from daycare.agent.sections import introduce
from daycare.base.clock import Clock, SystemClock
from daycare.base.errors import BusyError, DaycareError, StoreAwayError, UnavailableError
from daycare.base.interpreter import TURN_S
from daycare.base.limits import SHUTDOWN_GRACE_S, STORE_RETRY_S
from daycare.config import Config, load
from daycare.daemon import Daemon
from daycare.features import open_store
from daycare.features.backups.half import refuse_half
from daycare.features.memory.documents.rows import DocumentRows
from daycare.observe import log
from daycare.ops import bare, garbage
from daycare.ops.daemon_lifecycle import DaemonLifecycle
from daycare.ops.node import node_of
from daycare.ops.owner import owner_of
from daycare.ops.program import become_daemon
from daycare.ops.run import Run
from daycare.ops.setup import initialise
from daycare.ops.warming import warm
from daycare.store.home import Home, HomeLock
from daycare.store.records import User
from daycare.store.retry import with_retry
from daycare.store.sqlite import mark
from daycare.store.sqlite.database import refuse_damage
from daycare.store.vault import open_vault

HANDOVER_S: Final = 15.0  # for the daemon inside a chat to finish its turns and leave the home to `daycare run`

T = TypeVar("T")

_DISK = ("DISK_FULL", "STORE_IO")  # what passes by itself; any other refusal needs a person
_START_S = 60.0  # a large database may have to be recovered and migrated first


def run(path: Path, *, as_json: bool = False, early: list[int] | None = None) -> int:
    """Run a home's daemon in the foreground until a signal or `daycare stop`; return the exit code.

    `early` gets the numbers of signals that come before the daemon listens for them.
    A daemon inside of a `daycare chat` is asked to give way. Raises `BusyError` (exit code 75) naming the holder when
    another `daycare run` has the home.
    """
    home, config = _prepare(path)
    with HomeLock(home) as lock:
        _take_over(home, lock)
        own = config.daemon
        log.configure(
            own.log_level, home.log_file, stderr=True, max_mb=own.log_max_mb, pretty=own.log_format == "pretty"
        )
        again = partial(become_daemon, home.path, as_json=as_json)
        life = DaemonLifecycle(
            home, SystemClock(), again, [] if early is None else early, breaker=config.daemon.breaker
        )
        with life.span():
            life.note_signals()
            daemon = bare.run(_foreground, home, config, life)
    if daemon.stop.restart:
        again()
    return 0


class EmbeddedDaemon:
    """A daemon in a thread of this process, serving the home's socket for the length of a `with` block.

    With `work=False` it accepts and shows, and takes no turns. Raises what stands in the way of starting, `BusyError`
    naming the holder if another process has the home.
    """

    def __init__(self, path: Path, *, work: bool) -> None:
        self._home, self._config = _prepare(path)
        self._work = work
        self._mode: Literal["chat", "tool"] = "chat" if work else "tool"
        self._ready: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="daycare", daemon=True)
        self._token: trio.lowlevel.TrioToken | None = None
        self._daemon: Daemon | None = None

    @property
    def socket(self) -> Path:
        """Where its API listens."""
        return self._home.socket

    @property
    def running(self) -> bool:
        """False once it gave way to a `daycare run`, or was stopped."""
        return self._thread.is_alive()

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            failure = self._ready.get(timeout=_START_S)
        except queue.Empty as error:
            raise UnavailableError("START_LATE", "starting the daemon took too long", hint="daycare doctor") from error
        if failure is not None:
            self._thread.join()
            raise failure
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._token is not None and self._daemon is not None:
            try:
                self._token.run_sync_soon(self._daemon.stop.ask, False, "the program ends")
            except trio.RunFinishedError:
                pass  # it has stopped by itself
        self._thread.join(SHUTDOWN_GRACE_S + _START_S)

    def _serve(self) -> None:
        try:
            with HomeLock(self._home) as lock:
                lock.acquire(self._mode, SystemClock().now_ms())
                log.configure(self._config.daemon.log_level, self._home.log_file, max_mb=self._config.daemon.log_max_mb)
                bare.run(self._main)
        except (DaycareError, OSError) as error:
            self._ready.put(error)

    async def _main(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        async with open_daemon(self._home, self._config, mode=self._mode) as daemon:
            self._daemon = daemon
            await daemon.run(lambda: self._ready.put(None), work=self._work)


@asynccontextmanager
async def open_daemon(
    home: Home, config: Config, *, mode: str, clock: Clock | None = None, inline: bool = False
) -> AsyncIterator[Daemon]:
    """Open a home's store and wire a daemon over it; the caller holds the home's lock. `inline` is for virtual time."""
    clock = clock or SystemClock()
    vault = open_vault(home.key_file)
    location = home.database(config.store.location)
    refuse_damage(location, whole=bool(mark.read(location).damage))
    async with open_store(location, clock, inline=inline, node=node_of(config, vault)) as store:
        owner = await with_retry(partial(owner_of, store, config))
        operator = await with_retry(partial(store.people.get, owner)) or User(id=owner, name=owner)
        persona = Persona(config.agent.name, config.agent.tone)
        await with_retry(partial(introduce, store.of(DocumentRows), persona, operator))
        yield Daemon(Run(home, mode, owner, clock), config, store, vault, ())


def _prepare(path: Path) -> tuple[Home, Config]:
    os.umask(0o077)  # whatever is made from here on is the operator's alone
    home = Home(path)
    home.prepare()
    refuse_half(home)
    config = load(home.path)
    if not Path(home.database(config.store.location)).exists():
        initialise(home.path)
    tune()
    return home, config


def tune() -> None:
    """Set the interpreter up for a daemon: short turns between two threads, few looks for garbage."""
    if "httpx" not in sys.modules:
        sys.modules["httpx._main"] = None  # type: ignore[assignment]  # its command line, with rich and more: 4 MB, 40 ms
    sys.setswitchinterval(TURN_S)
    garbage.tune()


def _take_over(home: Home, lock: HomeLock) -> None:
    """Get the home's lock; a chat that holds it is asked to finish its turns and give way."""
    clock = SystemClock()
    deadline = clock.steady_s() + HANDOVER_S
    asked = False
    while True:
        try:
            return lock.acquire("run", clock.now_ms())
        except BusyError:
            holder = lock.holder()
            if clock.steady_s() > deadline or (holder is not None and holder.mode == "run"):
                raise
            if holder is not None and holder.mode == "chat" and not asked:
                asked = _ask_to_give_way(home)
            threading.Event().wait(0.05)


def _ask_to_give_way(home: Home) -> bool:
    import httpx

    try:
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(home.socket), verify=False), timeout=5.0) as client:
            return client.post("http://daycare/v1/handover").is_success
    except httpx.HTTPError:
        return False


async def when_possible(
    opened: AsyncExitStack,
    attempt: Callable[[], AbstractAsyncContextManager[T]],
    waits: Callable[[StoreAwayError], bool],
) -> T:
    """Enter what `attempt` returns in `opened`; while the disk is full or fails, try again every second.

    `waits` hears of each refusal; where it returns False, and for any other error, that is raised.
    """
    while True:
        try:
            return await opened.enter_async_context(attempt())
        except StoreAwayError as refusal:
            if refusal.code not in _DISK or not waits(refusal):
                raise
        await trio.sleep(STORE_RETRY_S)


async def _foreground(home: Home, config: Config, life: DaemonLifecycle) -> Daemon:
    async with AsyncExitStack() as opened:
        daemon = await when_possible(opened, lambda: open_daemon(home, config, mode="run"), life.waits)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(garbage.look_for_garbage)
            await nursery.start(life.attend, daemon.standing, daemon.live, daemon.hold, daemon.extensions.ended)
            secrets = bool(await with_retry(daemon.store.secrets.find))
            await trio.to_thread.run_sync(partial(warm, daemon.personalities, daemon.vault, secrets=secrets))

            def ready() -> None:
                garbage.freeze()  # what the start made stays, too
                life.ready(daemon.standing)

            await daemon.run(ready, work=True)
            log.logger().info("daemon.stopped", reason=daemon.stop.reason)
            nursery.cancel_scope.cancel()
        return daemon
