"""A real daemon in a throw-away home, which is started, killed and started again."""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import httpx
import trio

READY_DEADLINE_S: Final = 30.0
STOP_DEADLINE_S: Final = 30.0
_REQUEST_S: Final = 20.0
_POLL_S: Final = 0.01
_INHERITED: Final = ("PATH", "VIRTUAL_ENV", "LANG", "PYTHONPATH")  # no key of the user's, and no home


_running: set[int] = set()  # groups of processes that were started and not killed


class BrokenDaemonError(Exception):
    """The daemon did what it must not: it ended by itself, or was not ready in time."""


class Child(Protocol):
    """What is needed of a process that was started, as `subprocess.Popen` has it."""

    pid: int

    def poll(self) -> int | None:
        """Return its status, None while it runs."""
        ...

    def wait(self) -> int:
        """Wait until it has ended; return its status."""
        ...

    def terminate(self) -> None:
        """Send SIGTERM."""
        ...


class ThrowawayHome:
    """A folder with a home in it, and beside that what the daemon wrote to stderr.

    `environment` is what its daemons are started with, besides what every one needs.
    """

    def __init__(self, folder: Path, config: str, environment: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.path = folder / "h"
        self.path.mkdir(mode=0o700)
        self.environment = dict(environment or {})
        (self.path / "config.toml").write_text(config)

    @property
    def socket(self) -> Path:
        """Where the API listens."""
        return self.path / "daycare.sock"

    @property
    def database(self) -> Path:
        """The store's file."""
        return self.path / "daycare.db"

    def free(self) -> bool:
        """Tell whether no process holds the home."""
        try:
            with (self.path / "daycare.lock").open() as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except FileNotFoundError:
            return True
        except BlockingIOError:
            return False
        return True

    def remove(self) -> None:
        """Delete everything."""
        shutil.rmtree(self.folder)


class DaemonProcess:
    """One run of the daemon, in a process group of its own, possibly inside of `strace`."""

    def __init__(
        self,
        home: ThrowawayHome,
        wrapper: Sequence[str] = (),
        *,
        module: str = "daycare.cli.daemon",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._home = home
        self._errors = home.folder / "stderr"
        inherited = {name: value for name, value in os.environ.items() if name in _INHERITED}
        own = {"HOME": str(home.folder), "DAYCARE_BREAKER": "off"}  # it is killed on purpose
        self._process = self._spawn(
            [*wrapper, sys.executable, "-m", module, "--home", str(home.path)],
            inherited | own | home.environment | dict(environment or {}),
        )
        _running.add(self._process.pid)
        self.started_at = time.perf_counter()
        self.ready_s: float | None = None

    def _spawn(self, command: list[str], environment: dict[str, str]) -> Child:
        with self._errors.open("wb") as errors:
            return subprocess.Popen(
                command,
                env=environment,
                cwd=self._home.folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
            )

    async def ready(self, deadline_s: float = READY_DEADLINE_S) -> float | None:
        """Wait for the first answer of `GET /v1/status`; return seconds since the start, None if it was killed first.

        Raises `BrokenDaemonError` when the daemon ends by itself or is not ready in time.
        """
        with trio.move_on_after(deadline_s):
            async with client_of(self._home.socket) as client:
                while self._alive():
                    try:
                        answer = await client.get("/v1/status")
                    except httpx.TransportError:
                        await trio.sleep(_POLL_S)
                        continue
                    if answer.status_code == 200:
                        self.ready_s = time.perf_counter() - self.started_at
                        return self.ready_s
                    await trio.sleep(_POLL_S)
            return None
        raise BrokenDaemonError(f"not ready within {deadline_s:g} s: {self._last_words()}")

    async def died(self, deadline_s: float) -> bool:
        """Wait until it was killed from elsewhere; False when that did not happen in time."""
        with trio.move_on_after(deadline_s):
            while self._alive():
                await trio.sleep(_POLL_S)
            return True
        return False

    def hit(self) -> None:
        """Let it end now, with whatever it has started; `kill` waits until it is gone."""
        if self._process.poll() is None:  # else its number may be another's by now
            _kill_group(self._process.pid)

    async def kill(self) -> None:
        """End it at once, as a crash does, with whatever it has started."""
        self.hit()
        await trio.to_thread.run_sync(self._process.wait)
        _running.discard(self._process.pid)
        with trio.fail_after(READY_DEADLINE_S):
            while not self._home.free():  # the daemon inside of a wrapper may die a little later
                await trio.sleep(_POLL_S)

    async def stop(self) -> None:
        """Ask it to end, as service managers do. Raises `BrokenDaemonError` unless it does, orderly and in time."""
        self._process.terminate()
        with trio.move_on_after(STOP_DEADLINE_S):
            while self._process.poll() is None:
                await trio.sleep(_POLL_S)
        if self._process.poll() != 0:
            raise BrokenDaemonError(f"SIGTERM: status {self._process.poll()}: {self._last_words()}")

    def _alive(self) -> bool:
        status = self._process.poll()
        if status not in (None, -signal.SIGKILL):
            raise BrokenDaemonError(f"ended by itself with status {status}: {self._last_words()}")
        return status is None

    def _last_words(self) -> str:
        return self._errors.read_text(errors="replace")[-3000:]


def die_tidily() -> None:
    """See to it that no daemon outlives a campaign that is told to end."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end_at_once)


def end_at_once(number: int, _frame: object) -> None:
    """Handle a signal: end this campaign, and with it whatever it has started."""
    for group in list(_running):
        _kill_group(group)
    os._exit(128 + number)


def _kill_group(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass  # all of it is gone


def client_of(socket: Path) -> httpx.AsyncClient:
    """Return a client of the API on a Unix socket. (Preparing for TLS would cost 30 ms.)"""
    return httpx.AsyncClient(
        transport=httpx.AsyncHTTPTransport(uds=str(socket), verify=False), base_url="http://daycare", timeout=_REQUEST_S
    )


async def status(socket: Path) -> dict[str, Any]:
    """Return `GET /v1/status`."""
    async with client_of(socket) as client:
        answer = await client.get("/v1/status")
        answer.raise_for_status()
        found: dict[str, Any] = answer.json()
        return found
