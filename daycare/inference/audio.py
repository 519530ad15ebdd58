"""Every server that hears and speaks as OpenAI's does: OpenAI itself, Groq, vLLM, LocalAI, speaches, whisper.cpp, ...

Each call is one request and one answer; metering, deadlines and what to do about a failure are for whoever asks.
"""

import secrets
from typing import Any, Final

import msgspec
import trio

from daycare.base.errors import UnavailableError
from daycare.base.limits import AUDIO_TOKENS_A_S, FILE_MAX_BYTES, MODEL_INFER_MAX_S
from daycare.base.messages import Usage
from daycare.inference.http import ModelServer
from daycare.plugin import ProviderConfig

TRANSCRIPT_MAX_BYTES: Final = 4 * 1024 * 1024  # of an answer, which tells of each word of a long note

_HEARS: Final = "/audio/transcriptions"
_SPEAKS: Final = "/audio/speech"
_FORMATS: Final = {"ogg": "opus", "mp3": "mp3", "wav": "wav"}  # by our name, as the server calls it


class Transcript(msgspec.Struct, frozen=True, kw_only=True):
    """What was heard. `language` as whoever heard it calls it, "" if they do not say; so is `usage`."""

    text: str
    language: str = ""
    usage: Usage = Usage()


class _Used(msgspec.Struct):
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0


class _Transcription(msgspec.Struct):
    text: str
    language: str | None = None
    usage: _Used | None = None


class AudioServer:
    """One `[providers.NAME]` section of kind `openai`, for sound."""

    def __init__(self, config: ProviderConfig, url: str) -> None:
        self.name = config.name
        self.server = ModelServer(config, url, lambda key: {"Authorization": f"Bearer {key}"} if key else {})

    async def transcribe(self, model: str, name: str, media_type: str, data: bytes, language: str = "") -> Transcript:
        """Return what is said in a file, whose `name` ends as its format does; `language` is a hint.

        Raises as a call of a model does.
        """
        # OpenAI's newer models tell no language, and refuse to be asked for one; others tell it in the longer form.
        form = "json" if model.startswith("gpt-") else "verbose_json"
        fields = {"model": model, "response_format": form} | ({"language": language} if language else {})
        kind, body = multipart(fields, name, media_type, data)
        raw = await self.server.exchange(_HEARS, body, kind, _deadline(), TRANSCRIPT_MAX_BYTES)
        heard = self.server.decoded(_HEARS, raw, _Transcription)
        used = heard.usage or _Used()
        tokens = used.input_tokens or round(used.seconds * AUDIO_TOKENS_A_S)
        return Transcript(
            text=heard.text.strip(), language=heard.language or "", usage=Usage(tokens, used.output_tokens)
        )

    async def speak(self, model: str, voice: str, text: str, form: str) -> bytes:
        """Return a text spoken by a voice, in the format `form`: ogg, mp3 or wav. Raises as a call of a model does."""
        asked: dict[str, Any] = {"model": model, "input": text, "voice": voice, "response_format": _FORMATS[form]}
        body = msgspec.json.encode(asked)
        data = await self.server.exchange(_SPEAKS, body, "application/json", _deadline(), FILE_MAX_BYTES)
        if not data:
            raise UnavailableError("MODEL_GARBLED", f"Speaking with {self.name}: the answer is empty")
        return data

    async def aclose(self) -> None:
        """Close the connections; a later call opens new ones."""
        await self.server.aclose()


def _deadline() -> float:
    return trio.current_time() + MODEL_INFER_MAX_S  # those who ask have shorter ones


def multipart(fields: dict[str, str], name: str, media_type: str, data: bytes) -> tuple[str, bytes]:
    """Return the content type and the body of a form with one file, called `file`."""
    boundary = secrets.token_hex(16)
    parts = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n'
        for key, value in fields.items()
    ]
    parts.append(
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
        f"Content-Type: {media_type}\r\n\r\n"
    )
    return f"multipart/form-data; boundary={boundary}", "".join(
        parts
    ).encode() + data + f"\r\n--{boundary}--\r\n".encode()
