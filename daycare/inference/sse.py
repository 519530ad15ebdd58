"""Server-sent events as model servers use them: bytes in, the data of whole events out. Does no I/O.

An event that the stream's end cuts is never seen. Names, ids and retry times of events are skipped.
"""

import re

from daycare.base.limits import MODEL_FRAME_MAX_BYTES

_LINE_END = re.compile(rb"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"


class SseParser:
    """Cuts a byte stream, however it is split into chunks, into the data of its events."""

    def __init__(self, frame_max_bytes: int = MODEL_FRAME_MAX_BYTES) -> None:
        self._max_bytes = frame_max_bytes
        self._line: list[bytes] = []  # pieces of the line that has not ended
        self._data: list[bytes] = []  # data lines of the event that has not ended
        self._line_bytes = 0
        self._data_bytes = 0
        self._after_cr = False  # the last chunk ended in CR: an LF that follows belongs to it
        self._at_start = True

    def feed(self, chunk: bytes) -> list[str]:
        """Return the data of each event that `chunk` completes.

        Raises `ValueError` if an event outgrows the bound or is not UTF-8; the parser is of no use after that.
        """
        if not chunk:
            return []
        if self._after_cr:
            chunk = chunk.removeprefix(b"\n")
        self._after_cr = chunk.endswith(b"\r")
        *ended, rest = _LINE_END.split(chunk)
        events: list[str] = []
        for end in ended:
            self._grow(end)
            line = b"".join(self._line)
            self._line.clear()
            self._line_bytes = 0
            if line:
                self._take(line)
            elif self._data:
                events.append(self._dispatch())
        self._grow(rest)
        return events

    def _take(self, line: bytes) -> None:
        if self._at_start:
            line = line.removeprefix(_BOM)
            self._at_start = False
        field, _, value = line.partition(b":")
        if field == b"data":
            self._data.append(value.removeprefix(b" "))
            self._data_bytes += len(line)

    def _dispatch(self) -> str:
        data = b"\n".join(self._data).decode()
        self._data.clear()
        self._data_bytes = 0
        return data

    def _grow(self, piece: bytes) -> None:
        self._line.append(piece)
        self._line_bytes += len(piece)
        if self._line_bytes + self._data_bytes > self._max_bytes:
            raise ValueError(f"a frame is larger than {self._max_bytes} bytes")
