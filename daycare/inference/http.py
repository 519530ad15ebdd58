"""A model server over HTTP: one request, its reply as a stream with deadlines, and its refusals as errors of ours.

What a provider adds is a body, the headers of its key, and a `ProviderReply` that understands the frames. No retries.
The key is read at each call and stands in no error and no log.
"""

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec
import trio

from daycare.base.errors import DaycareError, SetupError, UnavailableError
from daycare.base.limits import MODEL_FIRST_TOKEN_S, MODEL_FRAME_MAX_BYTES, MODEL_INFER_MAX_S, MODEL_NEXT_TOKEN_S
from daycare.base.sse import SseEvent, SseParser, decode
from daycare.inference.refusals import Refused, explain, retry_after_s, scrub
from daycare.inference.section import checked_url
from daycare.plugin import Completion, ProviderConfig, StreamEvent, TextDelta

if TYPE_CHECKING:
    import httpx  # its import takes a tenth of a second: only a provider that is used pays for it

MODEL_CONNECT_S: Final = 10.0  # a model server that takes longer to accept a connection is away
MODEL_LAST_FRAMES_S: Final = 2.0  # from a reply's end to the stream's, which follows at once or never
MODEL_ERROR_MAX_BYTES: Final = 16 * 1024  # of an error's body, which may be a whole web page

_HERE: Final = {"localhost", "127.0.0.1", "::1"}


class ProviderReply(Protocol):
    """A reply in the making: of one protocol, and without I/O.

    `add` takes an event's data (of a server that does not stream: the whole document) and returns its text, "" if it
    carried something else of the reply, None if nothing. It raises `ValueError` for what makes no sense and `Refused`
    for an error that the server reports. `full`: nothing more is taken. `finished`: the server said that all is there;
    what follows are counts at most.
    """

    @property
    def full(self) -> bool: ...  # noqa: D102

    @property
    def finished(self) -> bool: ...  # noqa: D102

    def add(self, event: SseEvent) -> str | None: ...  # noqa: D102

    def completion(self) -> Completion:
        """Return the whole reply; `ValueError` if its tool calls make no sense."""
        ...


class ModelServer:
    """The server of one `[providers.NAME]` section. `keyed` makes the headers that carry a key.

    `transport` stands in for the network in tests. `aclose` frees the connections; a later call opens new ones.
    """

    def __init__(self, config: ProviderConfig, url: str, keyed: Callable[[str], dict[str, str]]) -> None:
        self.url, self.host = checked_url(config.name, url)
        self.transport: httpx.AsyncBaseTransport | None = None
        self._config = config
        self._keyed = keyed
        self._client: httpx.AsyncClient | None = None

    async def stream(
        self, path: str, content: Mapping[str, Any], reply: ProviderReply
    ) -> AsyncGenerator[StreamEvent, None]:
        """Post `content` and yield what `reply` makes of the answer: see `daycare.plugin.Provider.infer`.

        A frame without text (a piece of a tool call, a thought) yields an empty `TextDelta`: the model is alive.
        """
        parser = SseParser()
        start = trio.current_time()
        deadline = start + MODEL_FIRST_TOKEN_S
        body = await self._open("POST", path, deadline, content)
        try:
            if not body.is_stream:
                text = self._add(reply, SseEvent("", await self._document(body, deadline)))
                if text:
                    yield TextDelta(text)
            while body.is_stream and not reply.full:
                chunk = await self._read(body, min(deadline, start + MODEL_INFER_MAX_S), reply)
                if chunk is None:
                    break
                for event in self._feed(parser, chunk):
                    finished = reply.finished
                    text = self._add(reply, event)
                    if reply.finished and not finished:
                        # Counts of tokens follow, and the end, without which the connection cannot be used again.
                        deadline = trio.current_time() + MODEL_LAST_FRAMES_S
                    elif text is not None and not finished:
                        deadline = trio.current_time() + MODEL_NEXT_TOKEN_S
                    if text is not None:
                        yield TextDelta(text)
            if not (reply.finished or reply.full):
                raise self._unavailable("STREAM_CUT", "the stream ended before the reply did")
        finally:
            await body.aclose()
        with self._garbled("the reply makes no sense"):
            completion = reply.completion()
        yield completion

    async def get(self, path: str, type_: type[Any]) -> Any:
        """Return a document of the server, decoded as `type_`."""
        return await self._fetch("GET", path, None, type_)

    async def post(self, path: str, content: Mapping[str, Any], type_: type[Any]) -> Any:
        """Post `content` and return the answer, decoded as `type_`."""
        return await self._fetch("POST", path, content, type_)

    async def _fetch(self, method: str, path: str, content: Mapping[str, Any] | None, type_: type[Any]) -> Any:
        deadline = trio.current_time() + MODEL_FIRST_TOKEN_S
        body = await self._open(method, path, deadline, content)
        try:
            raw = await self._read_all(body, deadline)
        finally:
            await body.aclose()
        with self._garbled(f"the answer to {path} is not what was expected"):
            return decode(raw, type_)

    async def aclose(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    # -- the request -------------------------------------------------------------------------------------------------

    def _headers(self) -> dict[str, str]:
        key = self._key
        if not (key.isascii() and key.isprintable()):
            raise self._key_refused("holds characters that no key has")
        # Identity: a compressed stream would be held back by the server, and could blow up when unpacked.
        return {"Accept-Encoding": "identity", "User-Agent": "daycare"} | self._keyed(key)

    @property
    def _key(self) -> str:
        return (self._config.secret() or "").strip()

    def _connected(self) -> "httpx.AsyncClient":
        if self._client is None:
            import httpx

            # Reads have deadlines of ours. A model on this machine is never reached by way of a proxy.
            timeout = httpx.Timeout(None, connect=MODEL_CONNECT_S, write=MODEL_FIRST_TOKEN_S)
            trust_env = self.transport is None and self.host not in _HERE
            # As many connections as there are turns: a wait for one of them would look like a silent model.
            limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
            verify = trust_env or self.url.startswith("https:")  # reading the certificates takes 40 ms
            self._client = httpx.AsyncClient(
                timeout=timeout, limits=limits, trust_env=trust_env, verify=verify, transport=self.transport
            )
        return self._client

    async def _open(self, method: str, path: str, deadline: float, content: Any = None) -> "_Body":
        """Send a request and return the answer's body, which the caller closes. Raises unless the answer is a 200."""
        client = self._connected()
        headers, data = self._headers(), None
        if content is not None:  # a long conversation has megabytes: httpx takes ten times as long
            headers, data = headers | {"content-type": "application/json"}, msgspec.json.encode(content)
        request = client.build_request(method, self.url + path, headers=headers, content=data)
        with self._errors("PROVIDER_UNREACHABLE"), trio.fail_at(deadline):
            response = await client.send(request, stream=True)
        body = _Body(response)
        try:
            if response.status_code != 200:
                raise await self._refusal(body)
            if body.is_html:
                raise self._unavailable("MODEL_GARBLED", "the answer is a web page", hint=self._url_hint)
        except BaseException:
            await body.aclose()
            raise
        return body

    # -- the answer --------------------------------------------------------------------------------------------------

    async def _read(self, body: "_Body", deadline: float, reply: ProviderReply) -> bytes | None:
        try:
            with self._errors("STREAM_CUT"):
                return await body.read(deadline)
        except UnavailableError:
            if reply.finished:  # nothing but counts of tokens can be missing
                return None
            raise

    async def _read_all(self, body: "_Body", deadline: float, max_bytes: int = MODEL_FRAME_MAX_BYTES) -> bytes:
        data = bytearray()
        while len(data) <= max_bytes:
            with self._errors("STREAM_CUT"):
                chunk = await body.read(deadline)
            if chunk is None:
                return bytes(data)
            data += chunk
        raise self._unavailable("MODEL_GARBLED", f"the answer is larger than {max_bytes} bytes")

    async def _document(self, body: "_Body", deadline: float) -> str:
        raw = await self._read_all(body, deadline)
        with self._garbled("the answer cannot be read"):
            return raw.decode()

    def _feed(self, parser: SseParser, chunk: bytes) -> list[SseEvent]:
        with self._garbled("the stream cannot be read"):
            return parser.feed(chunk)

    def _add(self, reply: ProviderReply, event: SseEvent) -> str | None:
        try:
            with self._garbled("a frame of the stream cannot be read"):
                return reply.add(event)
        except Refused as refused:
            raise self._explained(refused.error, status=None, headers={}) from None

    # -- failures ----------------------------------------------------------------------------------------------------

    async def _refusal(self, body: "_Body") -> DaycareError:
        """Return the error for an answer that is not a 200."""
        if body.status in (401, 403):
            return self._key_refused("was refused" if self._config.secret() else "is missing")
        error: Any = None
        with suppress(UnavailableError, ValueError):
            raw = await self._read_all(body, trio.current_time() + MODEL_CONNECT_S, MODEL_ERROR_MAX_BYTES)
            error = decode(raw, Any)
        return self._explained(error, body.status, body.headers)

    def _explained(self, error: Any, status: int | None, headers: Mapping[str, str]) -> DaycareError:
        refusal = explain(status, error)
        words = scrub(refusal.words, self._key)
        what = self._said(": ".join(filter(None, ("" if status is None else f"status {status}", words))))
        hint = "; ".join(filter(None, (refusal.hint, self._url_hint if refusal.points_at_url else "")))
        return refusal.kind(refusal.code, what, hint=hint, retry_after_s=retry_after_s(headers))

    @contextmanager
    def _errors(self, code: str) -> Iterator[None]:
        """Turn what the transport raises into errors of ours; `code` is for a connection that broke."""
        import httpx

        try:
            yield
        except trio.TooSlowError as error:
            raise self._unavailable("MODEL_SILENT", "no word came within the deadline") from error
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            hint = f"is the server running? {self._url_hint}"
            raise self._unavailable("PROVIDER_UNREACHABLE", "the connection failed", hint=hint) from error
        except (httpx.RequestError, httpx.StreamError) as error:
            raise self._unavailable(code, f"the connection broke ({type(error).__name__})") from error

    @contextmanager
    def _garbled(self, what: str) -> Iterator[None]:
        try:
            yield
        except ValueError as error:
            why = scrub(str(error), self._key)
            raise self._unavailable("MODEL_GARBLED", f"{what}: {why}") from None

    def _key_refused(self, why: str) -> SetupError:
        hint = f"daycare keys add {self._config.name}"
        return SetupError("KEY_REFUSED", self._said(f"the key {why}"), hint=hint)

    def _unavailable(self, code: str, what: str, *, hint: str = "") -> UnavailableError:
        return UnavailableError(code, self._said(what), hint=hint)

    def _said(self, what: str) -> str:
        return f"Model call to {self._config.name} at {self.host} failed: {what}"

    @property
    def _url_hint(self) -> str:
        return f"check base_url in [providers.{self._config.name}] of config.toml"


class _Body:
    """The body of an answer. Each read has a deadline on trio's clock."""

    def __init__(self, response: "httpx.Response") -> None:
        self.status = response.status_code
        self.headers = response.headers
        self._response = response
        self._chunks = response.aiter_bytes()

    @property
    def is_stream(self) -> bool:
        """False for the single JSON document of a server that does not stream."""
        return "application/json" not in self.headers.get("content-type", "")

    @property
    def is_html(self) -> bool:
        return "html" in self.headers.get("content-type", "")

    async def read(self, deadline: float) -> bytes | None:
        """Return some bytes, None at the end."""
        with trio.fail_at(deadline):
            return await anext(self._chunks, None)

    async def aclose(self) -> None:
        import httpx

        await self._response.aclose()
        # httpx nests async generators and closes only the outermost; run to their end, none is left to the collector.
        with suppress(httpx.RequestError, httpx.StreamError):
            async for _ in self._chunks:
                pass
        # The two hold each other, and with them the whole prompt: the collector comes after hundreds of calls.
        self._response.stream = httpx.ByteStream(b"")
