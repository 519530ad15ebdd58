"""How the fake of OpenAI's server hears and speaks: `/audio/transcriptions` and `/audio/speech`, as strict as it."""

import math
import struct
from collections.abc import Callable
from typing import Any, Final

import msgspec

from daycare.testing.http_server import HttpRequest, RefusedError, UploadedFile
from daycare.testing.model_server import ScriptedAnswer

AUDIO: Final = "/v1/audio/"
UPLOAD_MAX_BYTES: Final = 25 * 1024 * 1024
INPUT_MAX_CHARS: Final = 4_096

Hear = Callable[[UploadedFile], str]
Speak = Callable[[str, str], bytes]

_ENDINGS: Final = ("flac", "m4a", "mp3", "mp4", "mpeg", "mpga", "oga", "ogg", "wav", "webm")
_FORMATS: Final = {
    "mp3": "audio/mpeg",
    "opus": "audio/ogg",
    "aac": "audio/aac",
    "flac": "audio/flac",
    "wav": "audio/wav",
}
_BEGINNINGS: Final = (b"OggS", b"RIFF", b"fLaC", b"ID3", b"\xff", b"\x1aE\xdf\xa3")


class AudioCall(msgspec.Struct, frozen=True):
    """A call for sound, decoded: its fields, and the answer that the real server would give for a wrong one."""

    body: dict[str, Any]
    upload: UploadedFile | None = None
    refused: ScriptedAnswer | None = None


def asked(request: HttpRequest) -> AudioCall:
    """Return what a request for sound asks for."""
    try:
        params = request.params()
    except RefusedError as error:
        return AudioCall({}, refused=ScriptedAnswer(status=400, text=error.description))
    upload = params.uploads.get("file")
    body = dict(params.values)
    if request.path.endswith("/speech"):
        return AudioCall(body, refused=_wrong_speech(body))
    return AudioCall(body, upload, _wrong_upload(body, upload))


def heard(it: AudioCall, text: str, seconds: float) -> ScriptedAnswer:
    """Return the answer of `/audio/transcriptions` in the form that was asked for."""
    form = it.body.get("response_format", "json")
    said: dict[str, Any] = {"text": text, "usage": {"type": "duration", "seconds": math.ceil(seconds)}}
    if str(it.body["model"]).startswith("gpt-"):
        said["usage"] = {"type": "tokens", "input_tokens": math.ceil(10 * seconds), "output_tokens": len(text.split())}
        said["usage"]["total_tokens"] = said["usage"]["input_tokens"] + said["usage"]["output_tokens"]
    if form == "verbose_json":
        said |= {
            "task": "transcribe",
            "language": it.body.get("language", "english"),
            "duration": seconds,
            "segments": [],
        }
    return ScriptedAnswer(raw=msgspec.json.encode(said), headers={"Content-Type": "application/json"})


def spoken(it: AudioCall, data: bytes) -> ScriptedAnswer:
    """Return the answer of `/audio/speech`."""
    return ScriptedAnswer(raw=data, headers={"Content-Type": _FORMATS[it.body.get("response_format", "mp3")]})


def tone(text: str, form: str) -> bytes:
    """Return a sound as long as a text takes to say: a WAV, or the head of an Ogg stream."""
    seconds = max(1, len(text) // 15)
    if form == "opus":
        head = b"OpusHead" + struct.pack("<BBHIHB", 1, 1, 0, 48_000, 0, 0)
        return _page(0, 2, head) + _page(48_000 * seconds, 4, text.encode()[:200])
    rate = 8_000
    samples = b"".join(struct.pack("<h", int(8_000 * math.sin(n / 3))) for n in range(rate * seconds))
    kind = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, rate, 2 * rate, 2, 16)
    return (
        b"RIFF"
        + struct.pack("<I", 36 + len(samples))
        + b"WAVE"
        + kind
        + struct.pack("<4sI", b"data", len(samples))
        + samples
    )


def _page(granule: int, flags: int, data: bytes) -> bytes:
    return b"OggS" + struct.pack("<BBqIIIB", 0, flags, granule, 1, 0, 0, 1) + bytes([len(data)]) + data


def _wrong_upload(body: dict[str, Any], upload: UploadedFile | None) -> ScriptedAnswer | None:
    model, form = str(body.get("model", "")), body.get("response_format", "json")
    why = ""
    if not model:
        why = "you must provide a model parameter"
    elif upload is None:
        why = "Field required: file"
    elif upload.filename.rpartition(".")[2] not in _ENDINGS or not upload.content.startswith(_BEGINNINGS):
        why = "Invalid file format. Supported formats: " + str(list(_ENDINGS))
    if not why and model.startswith("gpt-") and form not in ("json", "text"):
        why = f"response_format '{form}' is not compatible with model '{model}'. Use 'json' or 'text' instead."
    if upload is not None and len(upload.content) > UPLOAD_MAX_BYTES:
        return ScriptedAnswer(status=413, text="Maximum content size limit exceeded")
    return ScriptedAnswer(status=400, text=why) if why else None


def _wrong_speech(body: dict[str, Any]) -> ScriptedAnswer | None:
    text, form = body.get("input"), body.get("response_format", "mp3")
    for name in ("model", "input", "voice"):
        if not isinstance(body.get(name), str) or not body[name]:
            return ScriptedAnswer(status=400, text=f"Field required: {name}")
    if len(str(text)) > INPUT_MAX_CHARS:
        return ScriptedAnswer(status=400, text=f"String should have at most {INPUT_MAX_CHARS} characters")
    if form not in _FORMATS:
        return ScriptedAnswer(status=400, text=f"Invalid response_format {form!r}")
    return None
