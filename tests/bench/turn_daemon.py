"""A daemon under measurement, as a process of its own, and clients that talk to it over its Unix socket."""

import json
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, closing
from functools import partial
from pathlib import Path
from typing import Any, Final

import apsw
import trio

from . import product
from .turn_counted import HOLDS, IMPORTS, Counters
from .turn_home import Variant

_WAIT_S: Final = 60.0
_POLL_S: Final = 0.02
_IDLE_S: Final = 1.0  # after which a connection is not used again
_SCHEDULED: Final = 2  # the kernel's CPUCLOCK_SCHED: nanoseconds, of all threads, those that ended included


class Client:
    """A connection that keeps its HTTP so simple that the client hardly costs anything.

    One that has been idle, which servers close, is opened `again` where that is given.
    """

    def __init__(self, stream: trio.abc.Stream, again: Callable[[], Awaitable[trio.abc.Stream]] | None = None) -> None:
        self._stream = stream
        self._again = again
        self._used_at = trio.current_time()

    async def call(self, method: str, path: str, body: object = None, headers: str = "") -> Any:
        """Return the answer's JSON. Raises `RuntimeError` for a status of 400 and above."""
        if self._again is not None and trio.current_time() > self._used_at + _IDLE_S:
            await self._stream.aclose()
            self._stream = await self._again()
        sent = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{headers}"
        await self._stream.send_all(f"{head}Content-Length: {len(sent)}\r\n\r\n".encode() + sent)
        found = b""
        while b"\r\n\r\n" not in found:
            found += await self._more()
        top, _, rest = found.partition(b"\r\n\r\n")
        fields = dict(line.lower().split(": ", 1) for line in top.decode("latin-1").splitlines()[1:])
        while len(rest) < int(fields["content-length"]):
            rest += await self._more()
        self._used_at = trio.current_time()
        if int(top.split()[1]) >= 400:
            raise RuntimeError(f"{method} {path}: {top.split()[1].decode()} {rest.decode()}")
        return json.loads(rest)

    async def aclose(self) -> None:
        """Close the connection."""
        await self._stream.aclose()

    async def _more(self) -> bytes:
        data = await self._stream.receive_some(65_536)
        if not data:
            raise RuntimeError("the server closed the connection")
        return bytes(data)


class Talker:
    """One client with its agent."""

    def __init__(self, client: Client, variant: Variant, number: int) -> None:
        self._client = client
        self._variant = variant
        self._number = number
        self._said = 0
        self._shown: list[int] = []
        self._texts = variant.texts(number)  # before a clock runs

    async def begin(self) -> None:
        """Create the agent, unless it is created when it is first written to."""
        if self._variant.shared:
            await self._client.call("POST", "/v1/agents", {"path": self._variant.path(self._number)})

    async def turn(self, text: str | None = None) -> float:
        """Say something, confirming what was answered before, and wait for the answer; return the seconds until it."""
        if text is None:
            text = self._texts[self._said % len(self._texts)]
            self._said += 1
        where = {"user": self._variant.user(self._number), "path": self._variant.path(self._number)}
        if not self._variant.shared:
            del where["path"]
        begin = time.perf_counter()
        said = {"text": text, "wait_s": _WAIT_S, "shown": self._shown, **where}
        found = await self._client.call("POST", "/v1/messages", said)
        took = time.perf_counter() - begin
        if found["state"] != "done":
            raise RuntimeError(f"a message was not answered: {found}")
        self._shown = [each["seq"] for each in found["replies"]]
        return took


class Daemon:
    """A daemon's process; `counters` are there if it counts."""

    def __init__(self, home: Path, pid: int, counters: Counters | None) -> None:
        self.home = home
        self.pid = pid
        self.counters = counters

    @asynccontextmanager
    async def talkers(self, variant: Variant, count: int) -> AsyncIterator[list[Talker]]:
        """Connect so many clients."""
        connect = partial(trio.open_unix_socket, str(product.control_socket(self.home)))
        clients = [Client(await connect(), connect) for _ in range(count)]
        try:
            found = [Talker(client, variant, number) for number, client in enumerate(clients)]
            for talker in found:
                await talker.begin()
            yield found
        finally:
            with trio.CancelScope(shield=True):
                for client in clients:
                    await client.aclose()

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        """Connect to the API."""
        async with await trio.open_unix_socket(str(product.control_socket(self.home))) as stream:
            yield Client(stream)

    def cpu_ms(self) -> float:
        """Return the processor time of the process."""
        return process_cpu_ms(self.pid)

    def database_bytes(self) -> int:
        """Return the size of the pages in use, whether or not they have left the log of commits."""
        with closing(apsw.Connection(str(product.database(self.home)), flags=apsw.SQLITE_OPEN_READONLY)) as db:
            pages, free, size = (
                int(str(db.execute(f"PRAGMA {name}").fetchall()[0][0]))
                for name in ("page_count", "freelist_count", "page_size")
            )
        return (pages - free) * size

    def log_bytes(self) -> int:
        """Return the size of the log; it must not have been rotated meanwhile."""
        return self._log.stat().st_size

    def recalled(self) -> int:
        """Return for how many turns something was recalled until now."""
        asked = "json_extract(event, '$.event') = 'memory.recalled' AND json_array_length(event, '$.numbers') > 0"
        with closing(apsw.Connection(str(product.database(self.home)), flags=apsw.SQLITE_OPEN_READONLY)) as db:
            return int(str(db.execute(f"SELECT count(*) FROM events WHERE {asked}").fetchall()[0][0]))

    @property
    def holds(self) -> Path:
        """Where a daemon that counts tells what held its loop."""
        return self.home / f"counters{HOLDS}"

    def imported(self) -> list[str]:
        """Return the modules that the loop of a daemon that counts has imported since it was ready."""
        return (self.home / f"counters{IMPORTS}").read_text().split()

    @property
    def _log(self) -> Path:
        return self.home / "daycare.log"


def process_cpu_ms(pid: int) -> float:
    """Return the processor time of another process, of user and system together."""
    return 1_000 * time.clock_gettime((~pid << 3) | _SCHEDULED)


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of a program under measurement: modules are compiled once, as in an installation.

    A process that compiles everything has some 10 MB more. Where Python may write nothing beside the sources, what is
    compiled is kept beside `folder`.
    """
    found = {**os.environ, "DAYCARE_BREAKER": "off"}
    if found.pop("PYTHONDONTWRITEBYTECODE", ""):
        found["PYTHONPYCACHEPREFIX"] = str(folder.parent / "compiled")
    return found


@asynccontextmanager
async def daemon(home: Path, deadline: float, *, counts: bool = False) -> AsyncIterator[Daemon]:
    """Run a daemon until the block ends; then it is stopped in order."""
    command, counters = product.start_command(home), None
    if counts:
        counters = Counters(home / "counters")
        own = ["-m", f"{__package__}.turn_counted", str(home / "counters"), "--home", str(home)]
        command = [sys.executable, *own]
    with (home / "stderr").open("wb") as errors:
        process = await trio.lowlevel.open_process(command, stdout=errors, stderr=errors, env=environment(home.parent))
    try:
        with trio.fail_after(deadline):
            while not await _listens(product.control_socket(home)):
                if process.poll() is not None:
                    raise RuntimeError(f"the daemon ended: {(home / 'stderr').read_text()[-3_000:]}")
                await trio.sleep(_POLL_S)
        yield Daemon(home, process.pid, counters)
        process.terminate()
        with trio.fail_after(deadline):
            await process.wait()
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()


async def _listens(socket: Path) -> bool:
    """Whether somebody takes connections: the file is there a moment before."""
    try:
        async with await trio.open_unix_socket(str(socket)):
            return True
    except OSError:
        return False


async def talk(talkers: Sequence[Talker], turns: int) -> list[float]:
    """Let all take so many turns, each one after the other; return the seconds that each answer took."""
    waits: list[float] = []

    async def take(talker: Talker) -> None:
        for _ in range(turns):
            waits.append(await talker.turn())

    async with trio.open_nursery() as nursery:
        for talker in talkers:
            nursery.start_soon(take, talker)
    return waits
