"""What a daemon's process writes besides its log: stdout, stderr, warnings and the last words of threads, redacted."""

import io
import logging
import sys
import threading
from typing import Any, Final, TextIO

from daycare.base.secrecy import without_secrets

_LINE_MAX_CHARS: Final = 64 * 1024  # held back at most until a line ends


class Redacted(io.TextIOBase):
    """A text stream that holds each line back until it is whole, and lets it out without secrets."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self._held = ""
        self._lock = threading.RLock()

    def write(self, text: str) -> int:
        """Take text; lines that are whole go out at once."""
        with self._lock:
            whole, newline, self._held = (self._held + text).rpartition("\n")
            if len(self._held) > _LINE_MAX_CHARS:
                whole, self._held = whole + newline + self._held, ""
                newline = ""
            if whole or newline:
                self.stream.write(without_secrets(whole) + newline)
                self.stream.flush()
        return len(text)

    def flush(self) -> None:
        """Let out what is not a whole line yet: whoever flushes wants it seen."""
        with self._lock:
            held, self._held = self._held, ""
            if held:
                self.stream.write(without_secrets(held))
            self.stream.flush()

    @property
    def buffer(self) -> "_Bytes":
        """For whoever writes bytes: they are text, too."""
        return _Bytes(self)

    def fileno(self) -> int:
        """Return the stream's own."""
        return self.stream.fileno()

    def isatty(self) -> bool:
        """Return whether a person looks at it."""
        return self.stream.isatty()

    def writable(self) -> bool:
        """Say that it can be written."""
        return True

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The stream's own."""
        return self.stream.encoding


class _Bytes(io.RawIOBase):
    """The stream as one of bytes."""

    def __init__(self, text: Redacted) -> None:
        self._text = text

    def write(self, data: Any) -> int:
        """Take bytes."""
        self._text.write(bytes(data).decode(errors="replace"))
        return len(data)

    def flush(self) -> None:
        """Let out what is there."""
        self._text.flush()

    def writable(self) -> bool:
        """Say that it can be written."""
        return True


def redact_streams() -> None:
    """Let nothing that this process prints, warns of or dies with hold a secret, from now to its end."""
    if not isinstance(sys.stderr, Redacted):
        sys.stdout, sys.stderr = Redacted(sys.stdout), Redacted(sys.stderr)
        logging.captureWarnings(True)
