"""`GET /metrics` on a loopback address, for Prometheus: a server that knows this one request and nothing else."""

import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import trio

from daycare.base.errors import InvalidError, UnavailableError
from daycare.base.loopback import loopback
from daycare.observe.metrics import CONTENT_TYPE

_HEAD_MAX_BYTES: Final = 8 * 1024
_DEADLINE_S: Final = 10.0  # of a whole request: a scrape gives up after ten seconds by default
_AT_ONCE: Final = 8
_PORT: Final = re.compile(r":[0-9]{1,5}\Z")
_WAITING_MAX: Final = 32  # connections, with those at work; more are closed


async def serve(
    listen: str,
    text: Callable[[], Awaitable[str]],
    task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until cancelled; tells the port once it listens. Raises `UnavailableError` if it cannot."""
    host, port = loopback(listen)
    try:
        listeners = await trio.open_tcp_listeners(port, host=host)
    except OSError as error:
        raise UnavailableError(
            "METRICS_UNUSABLE",
            f"serving metrics on {listen}: {error.strerror or error}",
            hint="listen of [metrics] in config.toml",
        ) from error
    task_status.started(listeners[0].socket.getsockname()[1])
    await trio.serve_listeners(partial(_serve, text, trio.CapacityLimiter(_AT_ONCE)), listeners)


async def _serve(text: Callable[[], Awaitable[str]], limiter: trio.CapacityLimiter, stream: trio.SocketStream) -> None:
    if limiter.borrowed_tokens + limiter.statistics().tasks_waiting >= _WAITING_MAX:
        await trio.aclose_forcefully(stream)
        return
    try:
        with trio.move_on_after(_DEADLINE_S):
            async with stream, limiter:
                head = await _head(stream)
                if head:
                    await stream.send_all(await _answer(head, text))
    except (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
        pass  # the client went away


async def _head(stream: trio.SocketStream) -> bytes:
    head = b""
    while b"\r\n\r\n" not in head:
        more = await stream.receive_some()
        if not more or len(head) > _HEAD_MAX_BYTES:
            return b""
        head += more
    return head


async def _answer(head: bytes, text: Callable[[], Awaitable[str]]) -> bytes:
    lines = head.decode("latin-1").split("\r\n")
    method, target, *_ = (*lines[0].split(" "), "", "")
    hosts = [line.partition(":")[2].strip().lower() for line in lines[1:] if line.lower().startswith("host:")]
    if len(hosts) > 1 or not all(map(_is_here, hosts)):
        return _response("403 Forbidden", "ask by the name localhost or 127.0.0.1\n")  # a page that rebinds a name
    if target.partition("?")[0] != "/metrics":
        return _response("404 Not Found", "there is /metrics and nothing else\n")
    if method not in ("GET", "HEAD"):
        return _response("405 Method Not Allowed", "GET\n", "Allow: GET, HEAD\r\n")
    whole = _response("200 OK", await text(), kind=CONTENT_TYPE)
    return whole if method == "GET" else whole.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"


def _is_here(host: str) -> bool:
    """Whether a Host header names this machine; a name such as 127.0.0.1.example.org may be anybody's."""
    try:
        loopback(host if _PORT.search(host) else f"{host}:0")
    except InvalidError:
        return False
    return True


def _response(status: str, text: str, more: str = "", kind: str = "text/plain; charset=utf-8") -> bytes:
    body = text.encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{more}Connection: close\r\n\r\n"
    )
    return head.encode() + body
