"""A model server over HTTP: one request, its reply as a stream with deadlines, and its refusals as errors of ours.

What a provider adds is a body, the headers of its key, and a `ProviderReply` that understands the frames. No retries.
The key is read at each call and stands in no error and no log.
"""

from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final, Protocol, TypeVar

import msgspec
import trio

from daycare.base.errors import DaycareError, SetupError, UnavailableError
from daycare.base.limits import MODEL_FIRST_TOKEN_S, MODEL_FRAME_MAX_BYTES, MODEL_INFER_MAX_S, MODEL_NEXT_TOKEN_S
from daycare.base.sse import SseEvent, SseParser, decode
from daycare.inference.http_client import MODEL_CONNECT_S, ConnectError, HttpAnswer, HttpClient
from daycare.inference.refusals import Refused, explain, retry_after_s, scrub
from daycare.inference.section import checked_url
from daycare.plugin import Completion, ProviderConfig, StreamEvent, TextDelta

T = TypeVar("T")

MODEL_LAST_FRAMES_S: Final = 2.0  # from a reply's end to the stream's, which follows at once or never
MODEL_ERROR_MAX_BYTES: Final = 16 * 1024  # of an error's body, which may be a whole web page


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

    `aclose` frees the connections of `client`; a later call opens new ones.
    """

    def __init__(self, config: ProviderConfig, url: str, keyed: Callable[[str], dict[str, str]]) -> None:
        self.url, self.host = checked_url(config.name, url)
        self.client = HttpClient(self.url)
        self._config = config
        self._keyed = keyed

    async def stream(
        self, path: str, content: Mapping[str, Any], reply: ProviderReply
    ) -> AsyncGenerator[StreamEvent, None]:
        """Post `content` and yield what `reply` makes of the answer: see `daycare.plugin.Provider.infer`.

        What came together is yielded together: a busy daemon does not do for each token what can be done for twenty.
        Frames without text (pieces of a tool call, thoughts) yield an empty `TextDelta`: the model is alive.
        """
        parser = SseParser()
        start = trio.current_time()
        deadline = start + MODEL_FIRST_TOKEN_S
        answer = await self._open("POST", path, deadline, content)
        try:
            if not answer.is_stream:
                text = self._taken(reply, [SseEvent("", await self._document(answer, deadline))])
                if text:
                    yield TextDelta(text)
            while answer.is_stream and not reply.full:
                finished = reply.finished
                try:
                    chunk = await self._read(answer, min(deadline, start + MODEL_INFER_MAX_S))
                except UnavailableError:
                    if finished:  # nothing but counts of tokens can be missing
                        break
                    raise
                if not chunk:
                    break
                text = self._taken(reply, self._events(parser, chunk))
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
            await answer.aclose()
        with self._garbled("the reply makes no sense"):
            completion = reply.completion()
        yield completion

    async def get(self, path: str, type_: type[Any]) -> Any:
        """Return a document of the server, decoded as `type_`."""
        return await self._fetch("GET", path, None, type_)

    async def post(self, path: str, content: Mapping[str, Any], type_: type[Any]) -> Any:
        """Post `content` and return the answer, decoded as `type_`."""
        return await self._fetch("POST", path, content, type_)

    async def exchange(self, path: str, body: bytes, kind: str, deadline: float, max_bytes: int) -> bytes:
        """Post a body of the content type `kind` and return that of the answer, as it is."""
        answer = await self._open("POST", path, deadline, body, kind)
        try:
            return await self._read_all(answer, deadline, max_bytes)
        finally:
            await answer.aclose()

    def decoded(self, path: str, raw: bytes, type_: type[T]) -> T:
        """Return the answer of an exchange as `type_`; raises as `post`."""
        with self._garbled(f"the answer to {path} is not what was expected"):
            found: T = decode(raw, type_)
        return found

    async def _fetch(self, method: str, path: str, content: Mapping[str, Any] | None, type_: type[Any]) -> Any:
        deadline = trio.current_time() + MODEL_FIRST_TOKEN_S
        answer = await self._open(method, path, deadline, content)
        try:
            raw = await self._read_all(answer, deadline)
        finally:
            await answer.aclose()
        return self.decoded(path, raw, type_)

    async def aclose(self) -> None:
        """Close the connections."""
        await self.client.aclose()

    # -- the request -------------------------------------------------------------------------------------------------

    def _headers(self) -> dict[str, str]:
        key = self._key
        if not (key.isascii() and key.isprintable()):
            raise self._key_refused("holds characters that no key has")
        return {"User-Agent": "daycare"} | self._keyed(key)

    @property
    def _key(self) -> str:
        return (self._config.secret() or "").strip()

    async def _open(self, method: str, path: str, deadline: float, content: Any = None, kind: str = "") -> HttpAnswer:
        """Send a request and return the answer, which the caller closes. Raises unless it is a 200.

        The content is sent as JSON, or as it is where it has a content type of its own.
        """
        body = content if kind or content is None else msgspec.json.encode(content)
        headers = self._headers() | ({"Content-Type": kind} if kind else {})
        try:
            with trio.fail_at(deadline):
                answer = await self.client.ask(method, path, headers, body)
        except ConnectError as error:
            hint = f"is the server running? {self._url_hint}"
            raise self._unavailable("PROVIDER_UNREACHABLE", f"the connection failed: {error}", hint=hint) from error
        except (trio.BrokenResourceError, trio.TooSlowError) as error:
            raise self._broken("PROVIDER_UNREACHABLE", error) from error
        try:
            if answer.status != 200:
                raise await self._refusal(answer)
            if answer.is_html:
                raise self._unavailable("MODEL_GARBLED", "the answer is a web page", hint=self._url_hint)
            if answer.is_compressed:
                raise self._unavailable("MODEL_GARBLED", "the answer is compressed, which it was asked not to be")
        except BaseException:
            await answer.aclose()
            raise
        return answer

    # -- the answer --------------------------------------------------------------------------------------------------

    async def _read(self, answer: HttpAnswer, deadline: float) -> bytes:
        try:
            with trio.fail_at(deadline):
                return await answer.read()
        except (trio.BrokenResourceError, trio.TooSlowError) as error:
            raise self._broken("STREAM_CUT", error) from error

    async def _read_all(self, answer: HttpAnswer, deadline: float, max_bytes: int = MODEL_FRAME_MAX_BYTES) -> bytes:
        data = bytearray()
        while len(data) <= max_bytes:
            chunk = await self._read(answer, deadline)
            if not chunk:
                return bytes(data)
            data += chunk
        raise self._unavailable("MODEL_GARBLED", f"the answer is larger than {max_bytes} bytes")

    async def _document(self, answer: HttpAnswer, deadline: float) -> str:
        raw = await self._read_all(answer, deadline)
        with self._garbled("the answer cannot be read"):
            return raw.decode()

    def _events(self, parser: SseParser, chunk: bytes) -> list[SseEvent]:
        with self._garbled("the stream cannot be read"):
            return parser.feed(chunk)

    def _taken(self, reply: ProviderReply, events: Iterable[SseEvent]) -> str | None:
        """Return the text of frames, "" if they carried something else of the reply, None if nothing."""
        found: str | None = None
        try:
            with self._garbled("a frame of the stream cannot be read"):
                for event in events:
                    text = reply.add(event)
                    if text is not None:
                        found = text if found is None else found + text
        except Refused as refused:
            raise self._explained(refused.error, status=None, headers={}) from None
        return found

    # -- failures ----------------------------------------------------------------------------------------------------

    async def _refusal(self, answer: HttpAnswer) -> DaycareError:
        """Return the error for an answer that is not a 200."""
        if answer.status in (401, 403):
            return self._key_refused("was refused" if self._config.secret() else "is missing")
        error: Any = None
        with suppress(UnavailableError, ValueError):
            raw = await self._read_all(answer, trio.current_time() + MODEL_CONNECT_S, MODEL_ERROR_MAX_BYTES)
            error = decode(raw, Any)
        return self._explained(error, answer.status, answer.headers)

    def _explained(self, error: Any, status: int | None, headers: Mapping[str, str]) -> DaycareError:
        refusal = explain(status, error)
        words = scrub(refusal.words, self._key)
        what = self._said(": ".join(filter(None, ("" if status is None else f"status {status}", words))))
        hint = "; ".join(filter(None, (refusal.hint, self._url_hint if refusal.points_at_url else "")))
        return refusal.kind(refusal.code, what, hint=hint, retry_after_s=retry_after_s(headers))

    def _broken(self, code: str, error: Exception) -> UnavailableError:
        if isinstance(error, trio.TooSlowError):
            return self._unavailable("MODEL_SILENT", "no word came within the deadline")
        return self._unavailable(code, f"the connection broke: {error or 'the server closed it'}")

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
