"""Every model server that speaks OpenAI's Chat Completions: OpenAI, Ollama, OpenRouter, vLLM, LM Studio, ...

One streaming request a call, no retries. The key is read at each call and stands in no error and no log.
"""

import re
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager, suppress
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import msgspec
import trio

from daycare.base.errors import DaycareError, ForbiddenError, InvalidError, UnavailableError
from daycare.base.limits import (
    MODEL_CONNECT_S,
    MODEL_ERROR_MAX_BYTES,
    MODEL_FIRST_TOKEN_S,
    MODEL_FRAME_MAX_BYTES,
    MODEL_LAST_FRAMES_S,
    MODEL_NEXT_TOKEN_S,
)
from daycare.inference.chat import Frame, Reply, decode, encode_request
from daycare.inference.sse import SseParser
from daycare.plugin import InferRequest, Plugin, ProviderConfig, StreamEvent, TextDelta

if TYPE_CHECKING:
    import httpx  # its import takes a tenth of a second: only a provider that is used pays for it

_KNOWN_URLS: Final = {
    "openai": "https://api.openai.com/v1",
    "openrouter": "https://openrouter.ai/api/v1",
    "ollama": "http://127.0.0.1:11434/v1",
    "lmstudio": "http://127.0.0.1:1234/v1",
    "vllm": "http://127.0.0.1:8000/v1",
}
_OPTIONS: Final = {"body"}  # fields added to each request, for what only one server has
_HERE: Final = {"localhost", "127.0.0.1", "::1"}
_RETRY_LATER: Final = {408, 409, 425}
_RETRY_AFTER_MAX_S: Final = 86_400.0  # a server that asks for more is broken or means "never"
_SHOWN_CHARS: Final = 300  # of a server's own words in an error


class OpenAIProvider:
    """One `[providers.NAME]` section of kind `openai`.

    Text is yielded as it comes. A frame that is no text (an argument of a tool call, a thought) yields an empty
    `TextDelta`, which tells the caller that the model is alive. `aclose` frees the connections; a later call opens
    new ones.
    """

    def __init__(self, config: ProviderConfig) -> None:
        unknown = config.options.keys() - _OPTIONS
        if unknown or not isinstance(config.options.get("body", {}), dict):
            raise InvalidError(
                "CONFIG_INVALID",
                f"[providers.{config.name}] has an option that kind openai cannot use: {sorted(unknown) or 'body'}",
                hint="keep `kind`, `base_url` and `body` (a table of fields added to each request)",
            )
        self.name = config.name
        self._config = config
        self._url, self._host = _base_url(config)
        self._client: httpx.AsyncClient | None = None

    async def infer(self, request: InferRequest) -> AsyncGenerator[StreamEvent, None]:
        """Stream the model's answer; see `daycare.plugin.Provider`."""
        reply = Reply(request)
        parser = SseParser()
        deadline = trio.current_time() + MODEL_FIRST_TOKEN_S
        body = await self._open("POST", "/chat/completions", deadline, self._encode(request))
        try:
            if not body.is_stream:
                text = reply.add(self._frame(await self._read_all(body, deadline)))
                if text:
                    yield TextDelta(text)
            while body.is_stream and not reply.full:
                chunk = await self._read(body, deadline, reply)
                if chunk is None:
                    break
                for data in self._feed(parser, chunk):
                    finished = reply.finished
                    text = None
                    if data.strip() == "[DONE]":
                        reply.finish("stop")
                    else:
                        text = reply.add(self._frame(data))
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
        try:
            completion = reply.completion()
        except ValueError as error:
            raise self._unavailable("MODEL_GARBLED", str(error)) from error
        yield completion

    async def models(self) -> list[str]:
        """Return the names of the server's models, sorted."""
        deadline = trio.current_time() + MODEL_FIRST_TOKEN_S
        body = await self._open("GET", "/models", deadline)
        try:
            raw = await self._read_all(body, deadline)
        finally:
            await body.aclose()
        try:
            return sorted(model.id for model in decode(raw, _Models).data)
        except ValueError as error:
            raise self._unavailable("MODEL_GARBLED", f"the list of models is not what was expected: {error}") from error

    async def aclose(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    # -- the request -------------------------------------------------------------------------------------------------

    def _encode(self, request: InferRequest) -> dict[str, Any]:
        body = encode_request(request)
        extra: dict[str, Any] = self._config.options.get("body", {})
        if request.max_output_tokens is not None:
            # OpenAI's newer models refuse the old name, most other servers know only that.
            field = "max_completion_tokens" if self._host == "api.openai.com" else "max_tokens"
            body[field] = request.max_output_tokens
        return body | extra

    def _headers(self) -> dict[str, str]:
        key = (self._config.secret() or "").strip()
        if not (key.isascii() and key.isprintable()):
            raise self._key_refused("holds characters that no key has")
        # Identity: a compressed stream would be held back by the server, and could blow up when unpacked.
        headers = {"Accept-Encoding": "identity", "User-Agent": "daycare"}
        return headers | {"Authorization": f"Bearer {key}"} if key else headers

    def _connected(self) -> "httpx.AsyncClient":
        if self._client is None:
            import httpx

            # Reads have deadlines of ours. A model on this machine is never reached by way of a proxy.
            timeout = httpx.Timeout(None, connect=MODEL_CONNECT_S, write=MODEL_FIRST_TOKEN_S)
            self._client = httpx.AsyncClient(timeout=timeout, trust_env=self._host not in _HERE)
        return self._client

    async def _open(self, method: str, path: str, deadline: float, content: dict[str, Any] | None = None) -> "_Body":
        """Send a request and return the answer's body, which the caller closes. Raises unless the answer is a 200."""
        client = self._connected()
        request = client.build_request(method, self._url + path, headers=self._headers(), json=content)
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

    async def _read(self, body: "_Body", deadline: float, reply: Reply) -> bytes | None:
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

    def _feed(self, parser: SseParser, chunk: bytes) -> list[str]:
        try:
            return parser.feed(chunk)
        except ValueError as error:
            raise self._unavailable("MODEL_GARBLED", f"the stream cannot be read: {error}") from error

    def _frame(self, data: str | bytes) -> Frame:
        try:
            frame = decode(data, Frame)
        except ValueError as error:
            raise self._unavailable("MODEL_GARBLED", f"a frame of the stream cannot be read: {error}") from error
        if frame.error:
            raise self._unavailable("MODEL_FAILED", self._scrub(_words({"error": frame.error})))
        return frame

    # -- failures ----------------------------------------------------------------------------------------------------

    async def _refusal(self, body: "_Body") -> DaycareError:
        """Return the error for an answer that is not a 200."""
        status, headers = body.status, body.headers
        if status in (401, 403):
            return self._key_refused("was refused" if self._config.secret() else "is missing")
        words = ""
        with suppress(UnavailableError):
            raw = await self._read_all(body, trio.current_time() + MODEL_CONNECT_S, MODEL_ERROR_MAX_BYTES)
            with suppress(ValueError):
                words = self._scrub(_words(decode(raw, dict[str, Any])))
        what = f"status {status}" + (f": {words}" if words else "")
        if status == 429:
            return self._unavailable("RATE_LIMITED", what, retry_after_s=_retry_after_s(headers))
        if status == 402:
            hint = "add credit at the provider, or choose another model"
            return ForbiddenError("CREDIT_EXHAUSTED", self._said(what), hint=hint)
        if status >= 500 or status in _RETRY_LATER:
            return self._unavailable("PROVIDER_FAILED", what, retry_after_s=_retry_after_s(headers))
        if status == 404:
            return InvalidError("MODEL_NOT_FOUND", self._said(what), hint=f"check the model's name; {self._url_hint}")
        if 300 <= status < 400:
            return InvalidError("BASE_URL_INVALID", self._said(f"{what}, a redirect"), hint=self._url_hint)
        return InvalidError("REQUEST_REFUSED", self._said(what), hint="correct the request: trying again is no use")

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

    def _key_refused(self, why: str) -> ForbiddenError:
        return ForbiddenError("KEY_REFUSED", self._said(f"the key {why}"), hint=f"daycare keys add {self.name}")

    def _unavailable(
        self, code: str, what: str, *, hint: str = "", retry_after_s: float | None = None
    ) -> UnavailableError:
        return UnavailableError(code, self._said(what), hint=hint, retry_after_s=retry_after_s)

    def _said(self, what: str) -> str:
        return f"Model call to {self.name} at {self._host} failed: {what}"

    @property
    def _url_hint(self) -> str:
        return f"check base_url in [providers.{self.name}] of config.toml"

    def _scrub(self, words: str) -> str:
        """Take out the key, which some servers repeat, and what could forge lines of a log."""
        key = (self._config.secret() or "").strip()
        words = words.replace(key, "***") if key else words
        return re.sub(r"[\x00-\x1f\x7f-\x9f\s]+", " ", words)[:_SHOWN_CHARS].strip()


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


class _Model(msgspec.Struct):
    id: str


class _Models(msgspec.Struct):
    data: list[_Model]


def _base_url(config: ProviderConfig) -> tuple[str, str]:
    """Return the URL without slash at its end, and its host."""
    url = config.base_url or _KNOWN_URLS.get(config.name, "")
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and url.isprintable()
    except ValueError:
        parts, valid = urlsplit(""), False
    why = ""
    if not url:
        why = "is missing"
    elif not valid:
        why = "is not an http or https URL"
    elif parts.username or parts.password:
        why = "holds a password, which does not belong into a file of settings"
    if why:
        raise InvalidError(
            "BASE_URL_INVALID",
            f"The base_url of provider {config.name} {why}",
            hint=f'set base_url = "http://127.0.0.1:11434/v1", say, in [providers.{config.name}] of config.toml',
        )
    return url.rstrip("/"), parts.hostname or ""


def _words(raw: Any) -> str:
    """Return the message in an error's JSON, in any of the shapes that are in use."""
    for field in ("error", "message", "detail"):
        if isinstance(raw, dict) and raw.get(field):
            return _words(raw[field])
    return raw if isinstance(raw, str) else ""


def _retry_after_s(headers: "httpx.Headers") -> float | None:
    """Return how long the server asks to wait. A date is compared with the server's own clock."""
    value = headers.get("retry-after", "").strip()
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(value) - parsedate_to_datetime(headers.get("date", ""))).total_seconds()
        except (ValueError, TypeError):
            return None
    return min(max(seconds, 0.0), _RETRY_AFTER_MAX_S) if seconds == seconds else None


def _create(config: ProviderConfig) -> OpenAIProvider:
    return OpenAIProvider(config)


plugin = Plugin(name="openai", providers={"openai": _create})
