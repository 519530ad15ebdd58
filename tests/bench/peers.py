"""Other durable queues under the same load, each in a process of its own so that it cannot disturb the product.

In the child: `python -m tests.bench.peers NAME FOLDER MESSAGES SENDERS QUEUES SIZE` prints messages per second.
Each peer is set up for its best speed at the product's promise: nothing is acknowledged before it is on the disk.
"""

import functools
import importlib.util
import logging
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

_POLL_S = 0.002  # how often a peer without a wake-up looks for work: short, but not a busy loop
_PACKAGES = {
    "redis_always": "redis",
    "huey": "huey",
    "litequeue": "litequeue",
    "dbos_sqlite": "dbos",
    "dbos_wal": "dbos",
}
_REDIS = "redis-server"
_PROGRAMS = {"redis_always": _REDIS, "redis_raw": _REDIS}


@dataclass(frozen=True)
class Load:
    """What each system carries: `senders` wait for each other's disk, never for handling."""

    messages: int
    senders: int
    queues: int
    size: int

    @property
    def text(self) -> str:
        """One message."""
        return "x" * self.size

    def scaled(self, share: float) -> "Load":
        """Return the same load with fewer messages, at least a few for each sender."""
        return replace(self, messages=min(self.messages, max(2 * self.senders, int(self.messages * share))))


def missing(name: str) -> str | None:
    """Return why a peer cannot run here, or None if it can."""
    program, package = _PROGRAMS.get(name), _PACKAGES.get(name)
    if program is not None and shutil.which(program) is None:
        return f"no {program} on the PATH"
    if package is not None and importlib.util.find_spec(package) is None:
        return f"the package {package} is not installed (pip install -e '.[bench]')"
    return None


def measure(name: str, folder: Path, load: Load, deadline: float) -> float:
    """Return a peer's messages per second; it must not be `missing`."""
    numbers = [str(n) for n in (load.messages, load.senders, load.queues, load.size)]
    command = [sys.executable, "-m", f"{__package__}.peers", name, str(folder.resolve()), *numbers]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        out, errors = child.communicate(timeout=deadline)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)  # its servers, too, whatever happened to it
        child.wait()
    if child.returncode != 0:
        raise RuntimeError(f"peer {name} failed with status {child.returncode}:\n{errors[-4000:]}")
    return float(out.split()[-1])


def redis_version() -> str | None:
    """Return the version of the Redis server found here, or None."""
    if shutil.which(_REDIS) is None:
        return None
    words = subprocess.run([_REDIS, "--version"], capture_output=True, text=True, check=True).stdout.split()
    return next((word.removeprefix("v=") for word in words if word.startswith("v=")), None)


def _redis(load: Load) -> float:
    from .redis_streams import drive

    return drive(load.messages, load.senders, load.queues, load.text.encode())


def _redis_raw(load: Load) -> float:
    from .redis_streams import drive_raw

    return drive_raw(load.messages, load.senders, load.queues, load.text.encode())


def _huey(load: Load) -> float:
    """One queue: more would be more files. Results are off; a task leaves the file before it runs (at most once)."""
    from huey import SqliteHuey
    from huey.consumer import Consumer

    logging.getLogger("huey").setLevel(logging.ERROR)
    queue = SqliteHuey("bench", filename="huey.db", fsync=True, results=False)
    done = _Countdown(load.messages)

    @queue.task()  # type: ignore[untyped-decorator]
    def handle(text: str) -> None:
        done.tick()

    # One worker: more only wait for the one lock around the one connection.
    consumer = Consumer(
        queue, workers=1, periodic=False, initial_delay=_POLL_S, max_delay=_POLL_S, check_worker_health=False
    )
    consumer.start()
    begin = time.perf_counter()
    _from_threads(load, lambda text: handle(text))
    done.wait()
    elapsed = time.perf_counter() - begin
    consumer.stop(graceful=True)
    return load.messages / elapsed


def _litequeue(load: Load) -> float:
    """One table and one connection: its documentation says that more are slower. `done` acknowledges."""
    from litequeue import LiteQueue

    queue = LiteQueue("litequeue.db")
    queue.conn.execute("PRAGMA synchronous = FULL")  # its own NORMAL may lose acknowledged messages
    # Its connection is shared by threads, its transactions are not: without a lock a `put` could land in a `pop`'s.
    lock = threading.Lock()

    arrived = threading.Event()

    def put(text: str) -> None:
        with lock:
            queue.put(text)
        arrived.set()

    def work() -> None:
        left = load.messages
        while left:
            arrived.clear()
            with lock:
                message = queue.pop()
            if message is None:
                arrived.wait()
                continue
            with lock:
                queue.done(message.message_id)
            left -= 1

    worker = threading.Thread(target=work)
    begin = time.perf_counter()
    worker.start()
    _from_threads(load, put)
    worker.join()
    return load.messages / (time.perf_counter() - begin)


def _dbos(load: Load, *, tuned: bool = False) -> float:
    """A workflow per message on one queue; the workflow has no steps, so its only writes are the queue's own.

    As its documentation sets it up, but for a shorter poll; `tuned` with what makes it faster from outside.
    """
    from dbos import DBOS, DBOSConfig

    if tuned:  # not a setting of DBOS: a pragma that stays with the file, given before DBOS opens it
        with sqlite3.connect("dbos.db") as db:
            db.execute("PRAGMA journal_mode = WAL")
    config: DBOSConfig = {
        "name": "bench",
        "system_database_url": f"sqlite:///{Path('dbos.db').resolve()}",
        "log_level": "ERROR",
    }
    if tuned:
        config["sys_db_pool_size"] = 1  # more connections only wait for each other's lock on the file
        config["max_executor_threads"] = load.senders
    DBOS(config=config)

    @DBOS.workflow()
    def handle(text: str) -> None:
        pass

    DBOS.launch()
    DBOS.register_queue("bench", polling_interval_sec=5 * _POLL_S)
    # The queue's worker is found at the next look of its manager, a second later at most: not part of its speed.
    DBOS.enqueue_workflow("bench", handle, "warm").get_result(polling_interval_sec=0.05)
    begin = time.perf_counter()
    _from_threads(load, lambda text: DBOS.enqueue_workflow("bench", handle, text))
    reader = sqlite3.connect("dbos.db")
    count = "SELECT count(*) FROM workflow_status WHERE status = 'SUCCESS'"
    pause = threading.Event()
    while reader.execute(count).fetchone()[0] <= load.messages:  # the warm one counts, too
        pause.wait(0.01)
    elapsed = time.perf_counter() - begin
    reader.close()
    DBOS.destroy()
    return load.messages / elapsed


class _Countdown:
    def __init__(self, left: int) -> None:
        self._left = left
        self._lock = threading.Lock()
        self._over = threading.Event()

    def tick(self) -> None:
        with self._lock:
            self._left -= 1
            if not self._left:
                self._over.set()

    def wait(self) -> None:
        self._over.wait()


def _from_threads(load: Load, put: Callable[[str], object]) -> None:
    """Send from as many threads as there are senders; return when all is accepted."""
    text = load.text

    def send(first: int) -> None:
        for _ in range(first, load.messages, load.senders):
            put(text)

    threads = [threading.Thread(target=send, args=(n,)) for n in range(load.senders)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


_PEERS: dict[str, Callable[[Load], float]] = {
    "redis_always": _redis,
    "redis_raw": _redis_raw,
    "huey": _huey,
    "litequeue": _litequeue,
    "dbos_sqlite": _dbos,
    "dbos_wal": functools.partial(_dbos, tuned=True),
}


def main(arguments: list[str]) -> None:
    """Run one peer in the given folder and print its rate."""
    name, folder, *numbers = arguments
    os.chdir(folder)
    rate = _PEERS[name](Load(*map(int, numbers)))
    print(rate, flush=True)
    os._exit(0)  # a peer's leftover threads have no say in when this process ends


if __name__ == "__main__":
    main(sys.argv[1:])
