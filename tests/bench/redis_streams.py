"""Redis Streams with `appendfsync always`, driven by two clients.

`drive` is what a good Python program does: redis-py, a thread and a connection for each sender, which waits for its
XADD, and for each consumer of the group, which owns a share of the streams, reads what waits there, handles one message
after the other and acknowledges each on its own (XACK and XDEL in one pipeline) before it begins the next.

Threads or asyncio, and how many consumers? Messages per second with redis-py 8.1 and hiredis on two busy cores, median
and range of five runs by turns:

| consumers             | 8                   | 32                  | 64                  |
| --------------------- | ------------------- | ------------------- | ------------------- |
| threads (`Redis`)     | 2,170 (1,840-2,960) | 3,110 (2,310-3,340) | 2,270 (1,940-3,230) |
| `redis.asyncio`       |                     | 2,190 (1,860-2,810) | 2,080 (1,720-2,530) |

So threads. Few consumers are slower because each waits for an fsync per message, and only those that wait together
share it: 4 under asyncio gave 700-1,600. Without hiredis both lost 3-20 %. One stream for all was no faster than one
for each queue. A program that acknowledges all it read at once, by one XACK and one XDEL for each stream, got
4,400-7,600 (asyncio, four consumers); a crash then repeats all of them.

`drive_raw` is no program anyone would write: an upper bound of the server (22,000-24,000 in the same minutes). One loop
over epoll and plain sockets, commands encoded beforehand; a few consumers, each of which acknowledges (XACK) and
removes (XDEL) all it read and asks for more in one write, one command of each kind for every stream.

Redis answers after the fsync that ends its event loop's pass, so it commits in groups, too.
"""

import selectors
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from redis import Redis

_SOCKET = "redis.sock"  # relative: the path of a Unix socket is short
_CONFIG = {
    "port": "0",
    "unixsocket": _SOCKET,
    "appendonly": "yes",
    "appendfsync": "always",
    "save": "",
    "auto-aof-rewrite-percentage": "0",
    "loglevel": "warning",
}
_READ_COUNT = 100  # entries per stream and read: more than ever wait, so a read empties its streams
_CONSUMERS = 32  # see the table above
_BLOCK_MS = 500  # consumers look so often whether all is handled; shorter than redis-py's timeout of 5 s
_RAW_CONSUMERS = 4  # with one, reading from 100 streams costs a third of the speed
_START_S = 10.0


def drive(messages: int, senders: int, queues: int, text: bytes) -> float:
    """Start a private server in the current folder and return the messages per second of redis-py."""
    with _server():
        return _Program(messages, senders, queues, text).run()


def drive_raw(messages: int, senders: int, queues: int, text: bytes) -> float:
    """Start a private server in the current folder and return the messages per second of plain sockets."""
    with _server():
        return _Client(messages, senders, queues, text).run()


@contextmanager
def _server() -> Iterator[None]:
    options = [word for name, value in _CONFIG.items() for word in (f"--{name}", value)]
    server = subprocess.Popen(["redis-server", *options], stdout=subprocess.DEVNULL)
    try:
        _await_socket(server)
        yield
    finally:
        server.kill()
        server.wait()


def _await_socket(server: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + _START_S
    while not Path(_SOCKET).exists():
        try:
            raise RuntimeError(f"redis-server ended with status {server.wait(0.01)}")
        except subprocess.TimeoutExpired:
            if time.monotonic() > until:
                raise TimeoutError(f"redis-server did not open {_SOCKET} within {_START_S} s") from None


class _Program:
    """Senders and consumers as threads, each with a connection of its own."""

    def __init__(self, messages: int, senders: int, queues: int, text: bytes) -> None:
        self._messages = messages
        self._streams = [f"s{n}" for n in range(queues)]
        self._text = text
        self._senders = [_redis() for _ in range(senders)]
        self._consumers = [_redis() for _ in range(min(_CONSUMERS, queues))]
        self._left = messages
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._end = 0.0

    def run(self) -> float:
        """Send, handle and acknowledge everything; return messages per second."""
        for stream in self._streams:
            self._senders[0].xgroup_create(stream, "g", "$", mkstream=True)
        begin = time.perf_counter()
        with ThreadPoolExecutor(len(self._senders) + len(self._consumers)) as threads:
            work = [threads.submit(self._consume, number) for number in range(len(self._consumers))]
            work += [threads.submit(self._send, number) for number in range(len(self._senders))]
            try:
                for ended in as_completed(work):
                    ended.result()
            finally:
                self._over.set()  # if one failed, the others would wait for its messages
        return self._messages / (self._end - begin)

    def _send(self, number: int) -> None:
        redis = self._senders[number]
        for message in range(number, self._messages, len(self._senders)):
            redis.xadd(self._streams[message % len(self._streams)], {"d": self._text})

    def _consume(self, number: int) -> None:
        redis = self._consumers[number]
        share: dict[Any, Any] = dict.fromkeys(self._streams[number :: len(self._consumers)], ">")
        while not self._over.is_set():
            found: Any = redis.xreadgroup("g", f"c{number}", share, count=_READ_COUNT, block=_BLOCK_MS)
            for stream, entries in found:
                for entry, _fields in entries:  # this is where a handler would run
                    self._acknowledge(redis, stream, entry)

    def _acknowledge(self, redis: "Redis", stream: bytes, entry: bytes) -> None:
        with redis.pipeline(transaction=False) as pipe:
            pipe.xack(stream, "g", entry)
            pipe.xdel(stream, entry)  # or the stream would grow for ever
            acknowledged, removed = pipe.execute()
        if (acknowledged, removed) != (1, 1):
            raise RuntimeError(f"redis acknowledged {acknowledged} and removed {removed} of entry {entry!r}")
        with self._lock:
            self._left -= 1
            if not self._left:
                self._end = time.perf_counter()
                self._over.set()


def _redis() -> "Redis":
    from redis import Redis  # here, as the other driver needs no package

    redis = Redis(unix_socket_path=_SOCKET, single_connection_client=True)
    redis.ping()  # connects: not part of the speed
    return redis


class _Consumer:
    """Reads its share of the streams; one write acknowledges what it got and asks for more."""

    def __init__(self, names: list[bytes], member: int) -> None:
        self.connection = _connect()
        self._replies = _Replies(self.connection)
        self._read = _command(
            b"XREADGROUP", b"GROUP", b"g", b"c%d" % member, b"COUNT", b"%d" % _READ_COUNT, b"BLOCK", b"0",
            b"STREAMS", *names, *[b">"] * len(names),
        )  # fmt: skip
        self._acks = 0  # replies to acknowledgements that come before the next entries
        self.acknowledged = 0
        self._handled = 0
        for name in names:
            self.connection.sendall(_command(b"XGROUP", b"CREATE", name, b"g", b"$", b"MKSTREAM"))
        self._replies.take(len(names))

    def begin(self) -> None:
        """Ask for the first entries."""
        self.connection.sendall(self._read)

    def step(self) -> None:
        """Take what arrived."""
        for reply in self._replies.arrived():
            if self._acks:
                self._acks -= 1
                if not self._acks:
                    self.acknowledged = self._handled
                continue
            commands = []
            for name, entries in reply:
                ids = [entry[0] for entry in entries]  # this is where a handler would run
                self._handled += len(ids)
                commands += [_command(b"XACK", name, b"g", *ids), _command(b"XDEL", name, *ids)]
            self._acks = len(commands)
            self.connection.sendall(b"".join([*commands, self._read]))


class _Client:
    """The loop over the connections of all senders and consumers."""

    def __init__(self, messages: int, senders: int, queues: int, text: bytes) -> None:
        self._messages = messages
        names = [b"s%d" % n for n in range(queues)]
        self._adds = [_command(b"XADD", name, b"*", b"d", text) for name in names]
        self._consumers = [_Consumer(names[n::_RAW_CONSUMERS], n) for n in range(min(_RAW_CONSUMERS, queues))]
        self._senders = [_connect() for _ in range(senders)]
        self._todo = [iter(range(n, messages, senders)) for n in range(senders)]

    def run(self) -> float:
        """Send, handle and acknowledge everything; return messages per second."""
        select = selectors.EpollSelector()
        begin = time.perf_counter()
        for consumer in self._consumers:
            select.register(consumer.connection, selectors.EVENT_READ, consumer)
            consumer.begin()
        for number, sender in enumerate(self._senders):
            select.register(sender, selectors.EVENT_READ, number)
            self._send_next(number)
        while self._left():
            for key, _ in select.select():
                if isinstance(key.data, _Consumer):
                    key.data.step()
                else:
                    self._accepted(key.data)
                    self._send_next(key.data)
        return self._messages / (time.perf_counter() - begin)

    def _send_next(self, number: int) -> bool:
        message = next(self._todo[number], None)
        if message is not None:
            self._senders[number].sendall(self._adds[message % len(self._adds)])
        return message is not None

    def _accepted(self, number: int) -> None:
        reply = self._senders[number].recv(256)
        if not reply.startswith(b"$"):
            raise RuntimeError(f"redis answered XADD with {reply!r}")

    def _left(self) -> int:
        return self._messages - sum(consumer.acknowledged for consumer in self._consumers)


class _Replies:
    """Decodes what one connection answers."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._data = b""

    def take(self, count: int) -> None:
        """Wait for `count` replies."""
        while count > 0:
            count -= len(self.arrived())

    def arrived(self) -> list[Any]:
        """Read once and return the replies that are complete; what is cut off waits for the rest."""
        chunk = self._connection.recv(1 << 20)
        if not chunk:
            raise ConnectionError("redis closed the connection")
        self._data += chunk
        found, at = [], 0
        while at < len(self._data):
            try:
                reply, at = _decode(self._data, at)
            except _CutOffError:
                break
            found.append(reply)
        self._data = self._data[at:]
        return found


class _CutOffError(Exception):
    pass


def _decode(data: bytes, at: int) -> tuple[Any, int]:
    end = data.find(b"\r\n", at)
    if end < 0:
        raise _CutOffError
    kind, value = data[at : at + 1], data[at + 1 : end]
    at = end + 2
    if kind == b"*":
        items = []
        for _ in range(int(value)):
            item, at = _decode(data, at)
            items.append(item)
        return items, at
    if kind == b"$":
        size = int(value)
        if len(data) < at + size + 2:
            raise _CutOffError
        return data[at : at + size], at + size + 2
    if kind == b":":
        return int(value), at
    if kind == b"+":
        return value, at
    raise RuntimeError(f"redis answered {data[at - len(value) - 3 : end]!r}")


def _command(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


def _connect() -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(60.0)
    connection.connect(_SOCKET)
    return connection
