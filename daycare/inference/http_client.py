"""HTTP/1.1 to one model server: connections that are kept open, and answers that are read as they come.

Made of h11 and trio, as a token of a model is some microseconds of work and each layer above these costs more than it.
No redirects, no compression, no cookies: model servers need none. Proxies are those of the environment.
"""

import base64
import os
import ssl
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple
from urllib.parse import SplitResult, quote, unquote, urlsplit

import h11
import trio

from daycare.inference.chunked import ChunkedBody

MODEL_CONNECT_S: Final = 10.0  # a model server that takes longer to accept a connection is away
MODEL_IDLE_S: Final = 5.0  # that a connection is kept for the next call: what many servers do, too
MODEL_IDLE_MAX: Final = 20  # connections kept

_READ_BYTES: Final = 16 * 1024  # at a time: some hundred tokens, 3 ms of work
_HEAD_MAX_BYTES: Final = 64 * 1024
_JOINED_MAX_BYTES: Final = 256 * 1024  # a body that is copied behind its head, to be sent with it
_WITHOUT_BODY: Final = (204, 304)
_HERE: Final = {"localhost", "127.0.0.1", "::1"}
_PORTS: Final = {"http": 80, "https": 443}


class ConnectError(OSError):
    """No connection could be made: nothing was sent, and nothing is charged for."""


class _Way(NamedTuple):
    """How a server is reached: by way of a proxy, and with whose certificates trusted."""

    proxy: SplitResult | None = None
    trusted: ssl.SSLContext | None = None


class HttpClient:
    """The connections to the server of `url`, as many as there are calls. `dial` opens one; tests put in their own."""

    def __init__(self, url: str) -> None:
        self.dial: Callable[[], Awaitable[trio.abc.Stream]] = self._dial
        self._url = _plain(urlsplit(url))
        self._way: _Way | None = None
        self._idle: list[_Connection] = []
        self._closings = 0

    async def ask(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None = None) -> "HttpAnswer":
        """Send a request and return the answer as soon as its head is there; the caller closes it.

        Raises `ConnectError`, or `trio.BrokenResourceError` if the connection broke.
        """
        connection = self._kept() or _Connection(await self._dialled(), self._closings)
        try:
            await connection.send(self._request(method, path, headers, body), body)
            return await connection.answer(self._give_back)
        except BaseException:
            await connection.aclose()
            raise

    async def aclose(self) -> None:
        """Close what is idle now, and the others when their answers end; a later call opens new ones."""
        self._closings += 1
        idle, self._idle = self._idle, []
        for connection in idle:
            await connection.aclose()

    # -- keeping -----------------------------------------------------------------------------------------------------

    def _kept(self) -> "_Connection | None":
        """Return the connection that was used last, if any is still good."""
        while self._idle:
            connection = self._idle.pop()
            if connection.is_good():
                return connection
            connection.drop()
        return None

    async def _give_back(self, connection: "_Connection") -> None:
        """Keep a connection for the next call, unless it cannot be used again."""
        if connection.closings != self._closings or not connection.again():
            await connection.aclose()
            return
        self._idle.append(connection)
        while self._idle and (len(self._idle) > MODEL_IDLE_MAX or not self._idle[0].is_good()):
            self._idle.pop(0).drop()

    # -- connecting --------------------------------------------------------------------------------------------------

    async def _dialled(self) -> trio.abc.Stream:
        try:
            with trio.move_on_after(MODEL_CONNECT_S):
                return await self.dial()
        except OSError as error:
            raise ConnectError(_why(error)) from error
        raise ConnectError(f"it took longer than {MODEL_CONNECT_S:g} s")

    async def _dial(self) -> trio.abc.Stream:
        if self._way is None:  # reading the certificates takes 40 ms
            near = self._url.hostname in _HERE and self._url.scheme == "http"
            self._way = _Way() if near else await trio.to_thread.run_sync(_way_to, self._url)
        proxy, trusted = self._way
        stream = await _open(proxy or self._url, trusted)
        if proxy is None or self._url.scheme == "http":
            return stream
        try:
            connection = _Connection(stream, 0)
            where = f"{_bracketed(self._url)}:{self._url.port or 443}"
            head = [("Host", where), *_proxy_authorization(proxy)]
            await connection.send(h11.Request(method="CONNECT", target=where, headers=head), None)
            answer = await connection.answer(_keep)
            if not 200 <= answer.status < 300:
                raise OSError(f"the proxy {proxy.hostname} refused with status {answer.status}")
            return await _with_tls(stream, self._url, trusted)
        except BaseException as error:
            await trio.aclose_forcefully(stream)
            if isinstance(error, trio.BrokenResourceError):
                raise OSError(f"the proxy {proxy.hostname} closed the connection") from error
            raise

    def _request(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None) -> h11.Request:
        url, proxy = self._url, self._way.proxy if self._way else None
        target = url.path + path + (f"?{url.query}" if url.query else "")
        lines = [("Host", url.netloc), ("Accept", "*/*"), ("Accept-Encoding", "identity"), *headers.items()]
        if body is not None:
            kind = () if "Content-Type" in headers else (("Content-Type", "application/json"),)
            lines += [*kind, ("Content-Length", str(len(body)))]
        if proxy is not None and url.scheme == "http":
            target = f"http://{url.netloc}{target}"
            lines += _proxy_authorization(proxy)
        return h11.Request(method=method, target=target or "/", headers=lines)


class HttpAnswer:
    """The answer to a request: its head, and its body as it comes. `headers` are by their names in lower case."""

    def __init__(
        self, response: h11.Response, connection: "_Connection", give_back: "Callable[[_Connection], Awaitable[None]]"
    ) -> None:
        self.status = response.status_code
        self.headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in response.headers}
        self._connection = connection
        self._give_back = give_back

    @property
    def is_stream(self) -> bool:
        """False for the single JSON document of a server that does not stream."""
        return "application/json" not in self._type

    @property
    def is_html(self) -> bool:
        """Whether it is a web page, of whoever it is that answers here."""
        return "html" in self._type

    @property
    def is_compressed(self) -> bool:
        """Whether a server compressed what it was asked not to."""
        return self.headers.get("content-encoding", "identity") not in ("identity", "")

    @property
    def _type(self) -> str:
        return self.headers.get("content-type", "")

    async def read(self) -> bytes:
        """Return all that has come since, at least a byte, or b"" at the end. Raises `trio.BrokenResourceError`."""
        return await self._connection.read()

    async def aclose(self) -> None:
        """Let others have the connection, or close it if there is more to come."""
        await self._give_back(self._connection)


class _Connection:
    def __init__(self, stream: trio.abc.Stream, closings: int) -> None:
        self.closings = closings  # how often its owner had closed all, when it was opened
        self._stream = stream
        self._http = _http()
        self._chunks: ChunkedBody | None = None  # of the answer, if it has some: of that h11 reads the head alone
        self._keeps_alive = False
        self._free_since = 0.0
        self._ended = False
        self._wrong = ""

    async def send(self, request: h11.Request, body: bytes | None) -> None:
        """Send a request. A server may refuse it before it has read all: then there is an answer to read."""
        sent = self._http.send(request) or b""
        pieces = [sent]
        if body is not None:
            self._http.send(h11.Data(data=body))
            pieces = [sent + body] if len(body) <= _JOINED_MAX_BYTES else [sent, body]
        self._http.send(h11.EndOfMessage())
        with suppress(trio.BrokenResourceError):
            for piece in pieces:
                await self._stream.send_all(piece)

    async def answer(self, give_back: "Callable[[_Connection], Awaitable[None]]") -> HttpAnswer:
        """Return the head of the answer."""
        while True:
            event = self._event()
            if isinstance(event, h11.Response):
                self._begin(event)
                return HttpAnswer(event, self, give_back)
            if event is h11.NEED_DATA:
                await self._receive()

    async def read(self) -> bytes:
        """See `HttpAnswer.read`."""
        if self._chunks is not None:
            return await self._read_chunks(self._chunks)
        pieces: list[bytes] = []
        while not (pieces or self._ended):
            try:
                while isinstance(event := self._event(), h11.Data):
                    pieces.append(event.data)
            except trio.BrokenResourceError:
                if not pieces:
                    raise
                break  # what came before is worth reading; the next call raises again
            self._ended = isinstance(event, h11.EndOfMessage)
            if event is h11.NEED_DATA and not pieces:
                await self._receive()
        return b"".join(pieces)

    def again(self) -> bool:
        """Return whether it can take another request, from now on."""
        if (chunks := self._chunks) is not None:
            if not (self._keeps_alive and chunks.ended) or chunks.rest:
                return False
            self._http, self._chunks = _http(), None
        elif (
            self._http.our_state is not h11.DONE
            or self._http.their_state is not h11.DONE
            or self._http.trailing_data[0]
        ):
            return False
        else:
            self._http.start_next_cycle()
        self._ended = False
        self._free_since = trio.current_time()
        return True

    def is_good(self) -> bool:
        """Return whether a free one is young, and the server has not closed it: nothing else can have come."""
        stream = self._stream.transport_stream if isinstance(self._stream, trio.SSLStream) else self._stream
        silent = not (isinstance(stream, trio.SocketStream) and stream.socket.is_readable())
        return silent and trio.current_time() < self._free_since + MODEL_IDLE_S

    def drop(self) -> None:
        """Close a free one at once."""
        stream = self._stream.transport_stream if isinstance(self._stream, trio.SSLStream) else self._stream
        if isinstance(stream, trio.SocketStream):
            stream.socket.close()

    async def aclose(self) -> None:
        """Close it, without a word of goodbye."""
        await trio.aclose_forcefully(self._stream)

    def _begin(self, response: h11.Response) -> None:
        """Look how the body of an answer comes."""
        told = [(name, value.lower()) for name, value in response.headers]
        if (b"transfer-encoding", b"chunked") in told and response.status_code not in _WITHOUT_BODY:
            self._chunks = ChunkedBody(_HEAD_MAX_BYTES)
            self._chunks.rest, _ = self._http.trailing_data
            closes = any(name == b"connection" and b"close" in value for name, value in told)
            self._keeps_alive = response.http_version == b"1.1" and not closes

    async def _read_chunks(self, chunks: ChunkedBody) -> bytes:
        found = chunks.take(b"")
        while not (found or chunks.ended):
            if chunks.wrong:
                raise trio.BrokenResourceError(chunks.wrong)
            data = bytes(await self._stream.receive_some(_READ_BYTES))
            if not data:
                raise trio.BrokenResourceError("the connection was closed before the end of the answer")
            found = chunks.take(data)
        return found

    def _event(self) -> object:
        try:
            return self._http.next_event()
        except h11.RemoteProtocolError as error:
            self._wrong = self._wrong or str(error)
            raise trio.BrokenResourceError(self._wrong) from error

    async def _receive(self) -> None:
        self._http.receive_data(bytes(await self._stream.receive_some(_READ_BYTES)))


def _http() -> h11.Connection:
    return h11.Connection(h11.CLIENT, max_incomplete_event_size=_HEAD_MAX_BYTES)


def _plain(url: SplitResult) -> SplitResult:
    """Return a URL as it stands in a request: of ASCII alone."""
    if not url.netloc.isascii():
        url = url._replace(netloc=url.netloc.encode("idna").decode())
    return url._replace(path=quote(url.path, safe="/%~!$&'()*+,;=:@"))


async def _keep(_: _Connection) -> None:
    """Leave a connection to a proxy as it is: what follows goes through it."""


async def _open(to: SplitResult, trusted: ssl.SSLContext | None) -> trio.abc.Stream:
    host = to.hostname or ""  # of bytes the codec for names in other scripts is not imported
    stream: trio.abc.Stream = await trio.open_tcp_stream(
        host.encode() if host.isascii() else host, to.port or _PORTS[to.scheme]
    )
    return stream if to.scheme == "http" else await _with_tls(stream, to, trusted)


async def _with_tls(stream: trio.abc.Stream, to: SplitResult, trusted: ssl.SSLContext | None) -> trio.abc.Stream:
    assert trusted is not None
    safe = trio.SSLStream(stream, trusted, server_hostname=to.hostname, https_compatible=True)
    try:
        await safe.do_handshake()
    except BaseException as error:
        await trio.aclose_forcefully(stream)
        if isinstance(error, trio.BrokenResourceError):
            raise OSError(getattr(error.__cause__, "verify_message", "") or "it does not speak TLS") from error
        raise
    return safe


def _way_to(url: SplitResult) -> _Way:
    """Return how to reach a server, by the environment; it reads files."""
    from urllib.request import getproxies, proxy_bypass

    host, proxy = url.hostname or "", None
    if host not in _HERE and not proxy_bypass(host):  # a model on this machine is never reached by way of a proxy
        named = getproxies()
        address = named.get(url.scheme) or named.get("all") or ""
        proxy = urlsplit(address if "://" in address else f"http://{address}") if address else None
    if proxy is not None and proxy.scheme not in _PORTS:
        raise OSError(f"the proxy {proxy.hostname} is of kind {proxy.scheme}: http and https can be used")
    safe = url.scheme == "https" or (proxy is not None and proxy.scheme == "https")
    return _Way(proxy, _trusted() if safe else None)


def _trusted() -> ssl.SSLContext:
    """Return what certificates are checked with: those that the environment names, as it does for other programs."""
    names = ssl.get_default_verify_paths()
    if file := os.environ.get(names.openssl_cafile_env):
        return ssl.create_default_context(cafile=file)
    if folder := os.environ.get(names.openssl_capath_env):
        return ssl.create_default_context(capath=folder)
    import certifi

    return ssl.create_default_context(cafile=certifi.where())


def _proxy_authorization(proxy: SplitResult) -> list[tuple[str, str]]:
    if proxy.username is None:
        return []
    pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return [("Proxy-Authorization", f"Basic {base64.b64encode(pair.encode()).decode()}")]


def _bracketed(url: SplitResult) -> str:
    host = url.hostname or ""
    return f"[{host}]" if ":" in host else host


def _why(error: OSError) -> str:
    """Return what the first of the causes says; trio tries several addresses and gives a group."""
    cause: BaseException | None = error
    while isinstance(cause, OSError) and cause.__cause__ is not None:
        cause = cause.__cause__
    while isinstance(cause, BaseExceptionGroup):
        cause = cause.exceptions[0]
    return (cause.strerror if isinstance(cause, OSError) else None) or str(error)
