"""HTTP as clients of platforms use it: which failure means what, and bodies with a bound."""

import re
import socket
import ssl
from typing import Final, NamedTuple

import httpx
import trio

from daycare.base.error_boundary import causes
from daycare.base.errors import AwayError, DaycareError, InvalidError, UnavailableError

LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")  # no proxy leads there
_NO_NAME: Final = re.compile("name or service not known|name resolution|nodename nor servname|getaddrinfo")


class Server(NamedTuple):
    """Whom a client asks, and the codes of its errors. `setting` is where the address of the server is chosen."""

    name: str
    setting: str
    timeout: str
    lost: str  # the connection broke
    url: str
    away: str  # no connection in time
    no_name: str
    no_proof: str  # TLS
    unreachable: str


def of_http(error: Exception, doing: str, server: Server) -> DaycareError:
    """Return our error for one of httpx. `AwayError`: surely nothing has arrived; `UnavailableError`: it may have."""
    if isinstance(error, httpx.ConnectTimeout):
        return AwayError(server.away, f"{doing}: no connection to {server.name}'s server in time")
    if isinstance(error, httpx.PoolTimeout):
        return AwayError(server.away, f"{doing}: all connections to {server.name}'s server are in use")
    if isinstance(error, httpx.TimeoutException):
        return UnavailableError(server.timeout, f"{doing}: {server.name}'s server did not answer in time")
    if isinstance(error, httpx.UnsupportedProtocol | httpx.InvalidURL):
        return InvalidError(server.url, f"{doing}: the address of the server is invalid", hint=server.setting)
    if isinstance(error, httpx.ConnectError | httpx.ProxyError):
        return _unconnected(error, doing, server)
    return UnavailableError(server.lost, f"{doing}: the connection to {server.name}'s server broke")


def _unconnected(error: Exception, doing: str, server: Server) -> DaycareError:
    found, said = list(causes(error)), str(error).lower()
    if any(isinstance(cause, socket.gaierror) for cause in found) or _NO_NAME.search(said):
        return AwayError(server.no_name, f"{doing}: the name of {server.name}'s server is not found")
    for cause in found:
        if isinstance(cause, ssl.SSLError) or (cause is error and ("certificate" in said or "ssl" in said)):
            why = getattr(cause, "verify_message", "") or getattr(cause, "reason", "") or "no secure connection"
            return AwayError(server.no_proof, f"{doing}: {server.name}'s server does not prove who it is ({why})")
    return AwayError(server.unreachable, f"{doing}: {server.name}'s server cannot be reached")


async def body_of(response: httpx.Response, max_bytes: int) -> bytes | None:
    """Return the body of a streamed response, None if it is longer: no more than the bound is read."""
    announced = response.headers.get("content-length", "")
    if announced.isdecimal() and len(announced) < 16 and int(announced) > max_bytes:
        return None
    body = bytearray()
    with trio.CancelScope() as enough:
        async for piece in response.aiter_bytes():
            body += piece
            if len(body) > max_bytes:
                enough.cancel()  # ends each of httpx's nested generators, which leaving the loop would not
    return bytes(body) if len(body) <= max_bytes else None


def too_large(max_bytes: int) -> InvalidError:
    """Return the error for a file that has more bytes than are taken."""
    return InvalidError("FILE_TOO_LARGE", f"downloading a file: it has more than {max_bytes:,} bytes")
