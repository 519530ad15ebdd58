"""One page of the web, fetched under bounds: where it may be, how often it may lead on, how much and how long."""

import ssl
import zlib
from typing import Final, NamedTuple
from urllib.parse import SplitResult, quote, urljoin, urlsplit

import certifi
import h11
import trio

from daycare.base.errors import InvalidError, UnavailableError
from daycare.base.limits import FILE_MAX_BYTES
from daycare.formats import reading as formats
from daycare.public_network import PublicNetwork

WEB_DEADLINE_S: Final = 30.0  # for all of it
WEB_MAX_BYTES: Final = 4 * 1024 * 1024  # of a page as it is sent, and unpacked; a document: FILE_MAX_BYTES
WEB_REDIRECTS_MAX: Final = 5
URL_MAX_CHARS: Final = 2_000

_PORTS: Final = {"http": 80, "https": 443}
_OTHER_PORTS: Final = frozenset((8000, 8008, 8080, 8443, 8888))  # where pages are, too; others are other services'
_REDIRECTS: Final = frozenset((301, 302, 303, 307, 308))
_TEXTS: Final = ("text/", "application/json", "application/xml", "application/xhtml+xml", "application/rss+xml")
_TEXTS_END: Final = ("+json", "+xml")
_GZIP: Final = zlib.MAX_WBITS | 32  # and zlib
_HEADERS: Final = (
    ("User-Agent", "daycare (a personal assistant; reads what its user asks for)"),
    ("Accept", "text/html, text/plain, application/json;q=0.9, application/xml;q=0.8, */*;q=0.1"),
    ("Accept-Encoding", "gzip"),
    ("Connection", "close"),
)
_HEAD_MAX_BYTES: Final = 64 * 1024
_READ_BYTES: Final = 64 * 1024


class WebPage(NamedTuple):
    """What was fetched: where it was found in the end, its status, what it is and its bytes, unpacked."""

    url: str
    status: int
    media_type: str
    charset: str
    body: bytes


class WebFetcher:
    """Fetches pages from the public Internet, or from where a `network` leads. It keeps no cookies, sends no secrets.

    No proxy of the environment is used: it would resolve names by itself.
    """

    def __init__(self, network: PublicNetwork | None = None) -> None:
        self._network = network or PublicNetwork()
        self._trusted = ssl.create_default_context(cafile=certifi.where())

    async def fetch(self, url: str) -> WebPage:
        """Return a page; what begins with http: is tried over https: first.

        Raises `InvalidError` for a URL that is none of the web, `UnavailableError` for what cannot be had.
        """
        place = checked(url)
        try:
            with trio.fail_after(WEB_DEADLINE_S):
                if place.scheme == "http" and place.port is None:
                    try:
                        return await self._followed(place._replace(scheme="https"))
                    except OSError:
                        pass  # nobody answers there, or without a certificate that holds
                return await self._followed(place)
        except trio.TooSlowError:
            raise UnavailableError(
                "WEB_LATE", f"{place.hostname} did not send all of it within {WEB_DEADLINE_S:g} s"
            ) from None
        except (OSError, trio.BrokenResourceError, h11.RemoteProtocolError, zlib.error) as error:
            raise UnavailableError("WEB_UNREACHABLE", f"{place.hostname} could not be read: {error}") from None

    async def _followed(self, place: SplitResult) -> WebPage:
        for _ in range(WEB_REDIRECTS_MAX + 1):
            async with await self._connected(place) as stream:
                page, on = await _asked(stream, place)
            if on is None:
                return page
            following = checked(urljoin(place.geturl(), on))
            if (place.scheme, following.scheme) == ("https", "http"):
                following = following._replace(scheme="https")
            place = following
        raise InvalidError("WEB_REDIRECTS", f"{place.hostname} leads on more than {WEB_REDIRECTS_MAX} times")

    async def _connected(self, place: SplitResult) -> trio.abc.Stream:
        host = _host(place)
        plain = await self._network.connect(host, place.port or _PORTS[place.scheme])
        if place.scheme == "http":
            return plain
        stream = trio.SSLStream(plain, self._trusted, server_hostname=host, https_compatible=True)
        try:
            await stream.do_handshake()
        except trio.BrokenResourceError as error:
            await trio.aclose_forcefully(plain)
            raise ConnectionRefusedError(f"no encryption with {host}: {error.__cause__ or error}") from None
        return stream


def checked(url: str) -> SplitResult:
    """Return the parts of a URL that may be fetched. Raises `InvalidError` WEB_URL."""
    url = url.strip()
    if "://" not in url.partition("?")[0]:
        url = f"https://{url}"
    try:
        place = urlsplit(url)
        host, port = place.hostname, place.port
    except ValueError:
        host, port, place = None, None, urlsplit("")
    told = url[:100]
    if len(url) > URL_MAX_CHARS or not url.isprintable() or any(char in url for char in " \\<>\"'`{}|^"):
        raise InvalidError("WEB_URL", f"{told!r} is no address of a page")
    if place.scheme not in _PORTS or not host:
        raise InvalidError("WEB_URL", f"{told!r}: only https:// and http:// addresses are read")
    if place.username is not None or place.password is not None:
        raise InvalidError("WEB_URL", "an address with a password in it is not read")
    if port is not None and port not in _OTHER_PORTS and port not in _PORTS.values():
        raise InvalidError("WEB_URL", f"{host}:{port}: pages are not read from that port")
    return place


async def _asked(stream: trio.abc.Stream, place: SplitResult) -> tuple[WebPage, str | None]:
    """Return a page, or where it leads on to."""
    peer = h11.Connection(h11.CLIENT, max_incomplete_event_size=_HEAD_MAX_BYTES)
    target = quote(f"{place.path or '/'}{f'?{place.query}' if place.query else ''}", safe="/?&=%:@!$'()*+,;~")
    host = f"[{_host(place)}]" if ":" in _host(place) else _host(place)
    named = [("Host", f"{host}:{place.port}" if place.port else host), *_HEADERS]
    await stream.send_all(peer.send(h11.Request(method="GET", target=target, headers=named)) or b"")
    await stream.send_all(peer.send(h11.EndOfMessage()) or b"")
    answer = await _next(stream, peer)
    while isinstance(answer, h11.InformationalResponse):
        answer = await _next(stream, peer)
    if not isinstance(answer, h11.Response):
        raise h11.RemoteProtocolError("the answer has no head")
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in answer.headers}
    if answer.status_code in _REDIRECTS and headers.get("location"):
        return WebPage("", answer.status_code, "", "", b""), headers["location"]
    media_type, _, more = headers.get("content-type", "text/html").partition(";")
    media_type = media_type.strip().lower()
    text = media_type.startswith(_TEXTS) or media_type.endswith(_TEXTS_END)
    if not text and not media_type.startswith((formats.PDF, *formats.PACKED)):
        raise InvalidError("WEB_TYPE", f"{place.hostname} sends {media_type[:60]}, which has no text that is read")
    most = WEB_MAX_BYTES if text else FILE_MAX_BYTES
    body = await _body(stream, peer, headers.get("content-encoding", "").strip().lower(), most)
    return WebPage(place.geturl(), answer.status_code, media_type, _charset(more), body), None


async def _next(stream: trio.abc.Stream, peer: h11.Connection) -> h11.Event:
    while True:
        event = peer.next_event()
        if isinstance(event, h11.Event):
            return event
        peer.receive_data(bytes(await stream.receive_some(_READ_BYTES)))


def _host(place: SplitResult) -> str:
    try:
        return (place.hostname or "").encode("idna").decode()
    except UnicodeError:
        raise InvalidError("WEB_URL", f"{place.hostname!r} is not the name of a server") from None


def _charset(parameters: str) -> str:
    for each in parameters.split(";"):
        name, _, value = each.strip().partition("=")
        if name.lower() == "charset":
            return value.strip("\"' ")
    return ""


async def _body(stream: trio.abc.Stream, peer: h11.Connection, coding: str, most: int) -> bytes:
    if coding not in ("", "identity", "gzip", "x-gzip", "deflate"):
        raise InvalidError("WEB_TYPE", f"the page is packed as {coding[:40]}, which nobody asked for")
    unpack = zlib.decompressobj(_GZIP) if coding not in ("", "identity") else None
    body, sent = bytearray(), 0
    while isinstance(event := await _next(stream, peer), h11.Data):
        sent += len(event.data)
        body += unpack.decompress(event.data, most + 1 - len(body)) if unpack else event.data
        if max(sent, len(body)) > most:
            raise InvalidError("WEB_TOO_LARGE", f"the page has more than {most // 1024**2} MiB")
    return bytes(body)
