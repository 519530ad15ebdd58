"""Server-sent events, of model servers and of our own API: bytes in, whole events out, and the JSON in them.

An event that the stream's end cuts is never seen. Retry times are skipped. Stricter than the standard in one thing:
lines that are no fields and events without data are errors, as a piece of a tool call may be lost there.
"""

import json
import re
from typing import Any, Final, NamedTuple

import msgspec

from daycare.base.limits import MODEL_FRAME_MAX_BYTES

_LINE_END = re.compile(rb"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"
_HALF: Final = re.compile(r"\\u[dD][89a-fA-F]")
_SKIPPED: Final = {b"", b"retry"}  # a comment is a line without a field's name


class SseEvent(NamedTuple):
    """One event; `name` and `id` are "" where the server gave none."""

    name: str
    data: str
    id: str = ""


class SseParser:
    """Cuts a byte stream, however it is split into chunks, into its events."""

    def __init__(self, frame_max_bytes: int = MODEL_FRAME_MAX_BYTES) -> None:
        self._max_bytes = frame_max_bytes
        self._line: list[bytes] = []  # pieces of the line that has not ended
        self._data: list[bytes] = []  # data lines of the event that has not ended
        self._name = b""
        self._id = b""
        self._line_bytes = 0
        self._data_bytes = 0
        self._after_cr = False  # the last chunk ended in CR: an LF that follows belongs to it
        self._at_start = True

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """Return each event that `chunk` completes.

        Raises `ValueError` if an event outgrows the bound, is not UTF-8 or holds a line that is no field; the parser is
        of no use after that.
        """
        if not chunk:
            return []
        if self._after_cr:
            chunk = chunk.removeprefix(b"\n")
        self._after_cr = chunk.endswith(b"\r")
        # A pattern looks at each byte, a search for a sign does not; most servers write no CR.
        *ended, rest = _LINE_END.split(chunk) if b"\r" in chunk else chunk.split(b"\n")
        if ended and self._line:
            ended[0] = b"".join((*self._line, ended[0]))
            self._line.clear()
            self._line_bytes = 0
        events: list[SseEvent] = []
        for line in ended:
            if line:
                self._take(line)
            elif self._data:
                events.append(self._dispatch())
            elif self._name:
                raise ValueError("an event has a name and no data")
        if rest:
            self._line.append(rest)
            self._line_bytes += len(rest)
            self._bound(self._line_bytes)
        return events

    def _take(self, line: bytes) -> None:
        if self._at_start:
            line = line.removeprefix(_BOM)
            self._at_start = False
        self._bound(len(line))
        field, _, value = line.partition(b":")
        if field == b"data":
            self._data.append(value.removeprefix(b" "))
            self._data_bytes += len(line)
        elif field == b"event":
            self._name = value.removeprefix(b" ")
        elif field == b"id":
            self._id = value.removeprefix(b" ")
        elif field not in _SKIPPED:
            raise ValueError("a line is no field of an event")

    def _dispatch(self) -> SseEvent:
        data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
        event = SseEvent(self._name.decode(), data.decode(), self._id.decode())
        self._data.clear()
        self._data_bytes = 0
        self._name = self._id = b""
        return event

    def _bound(self, line_bytes: int) -> None:
        if line_bytes + self._data_bytes > self._max_bytes:
            raise ValueError(f"a frame is larger than {self._max_bytes} bytes")


def decode_frame(raw: str, type_: Any) -> Any:
    """Decode the JSON of a frame, as `decode`. Its texts may hold half a character, whose rest is in the next frame."""
    try:
        return decode(raw, type_)
    except ValueError:
        if not _HALF.search(raw):
            raise
    try:
        return msgspec.convert(json.loads(raw), type_)
    except (ValueError, msgspec.ValidationError, RecursionError) as error:
        raise ValueError(str(error)) from error


def decode(raw: str | bytes, type_: Any) -> Any:
    """Decode JSON from outside. Raises `ValueError` for whatever is wrong with it."""
    try:
        return msgspec.json.decode(raw, type=type_)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(str(error)) from error
