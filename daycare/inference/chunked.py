"""An answer's body that comes in chunks (RFC 9112, section 7.1): read as it comes, many chunks at once.

A model sends each token as a chunk, and a library for all of HTTP takes longer for one than we do for all of them.
"""

import re
from typing import Final

_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?")  # what may follow a size means nothing to us
_END: Final = b"\r\n"


class ChunkedBody:
    """Takes bytes and gives what they carry. Once something is wrong with them `wrong` says what, and no more is taken.

    `ended` is set at the end of the body. What came behind it is `rest`: nothing, if the server keeps to the rules.
    A size may have `line_max` bytes with its line, and as many all that stands behind the last chunk.
    """

    def __init__(self, line_max: int) -> None:
        self.ended = False
        self.wrong = ""
        self.rest = b""  # before the end: what is no whole line yet
        self._line_max = line_max
        self._left = 0  # bytes of the chunk that has begun
        self._in_chunk = False  # its end has not come
        self._is_last = False  # only lines that mean nothing to us follow, and an empty one
        self._behind = 0  # bytes of those

    def take(self, data: bytes) -> bytes:
        """Return what these bytes carry, with what was left of those before them."""
        data, at = self.rest + data, 0
        pieces: list[bytes] = []
        while not (self.ended or self.wrong):
            if self._left:
                piece = data[at : at + self._left]
                pieces.append(piece)
                at += len(piece)
                self._left -= len(piece)
                if self._left:
                    break
            if self._in_chunk and not _END.startswith(data[at : at + len(_END)]):
                self.wrong = "a chunk is longer than it says"
                break
            end = data.find(_END, at)
            if end < 0:
                if self._behind + len(data) - at > self._line_max:
                    self.wrong = "a line between chunks is too long"
                break
            self._read(data[at:end])
            at = end + len(_END)
        self.rest = data[at:]
        return b"".join(pieces)

    def _read(self, line: bytes) -> None:
        """Take in a line between two chunks: the end of one, the size of the next, or what follows the last."""
        if self._in_chunk:
            self._in_chunk = False
        elif self._is_last:
            self.ended = not line
            self._behind += len(line) + len(_END)
        elif (found := _SIZE.fullmatch(line)) is None:
            self.wrong = "the size of a chunk is not a number"
        else:
            self._left = int(found[1], 16)
            self._in_chunk = self._left > 0
            self._is_last = not self._in_chunk
