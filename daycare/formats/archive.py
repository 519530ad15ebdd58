"""Files that are archives of others, and how much of one may be unpacked."""

import io
import zipfile
from typing import Final

from daycare.formats.pieces import UnreadableFormat

PARTS_MAX: Final = 10_000  # of one archive: a long book has some hundred
UNPACKED_MAX_BYTES: Final = 200 * 1024 * 1024  # of all parts together, before any is unpacked
PART_MAX_BYTES: Final = 64 * 1024 * 1024  # of one


class Archive:
    """A ZIP file whose parts say how large they are before any is unpacked; none gives more than it said."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._zip = zipfile.ZipFile(io.BytesIO(data))
        parts = self._zip.infolist()
        if len(parts) > PARTS_MAX or sum(part.file_size for part in parts) > UNPACKED_MAX_BYTES:
            raise UnreadableFormat("it is too large when it is unpacked; a part of it could be read")
        if any(part.flag_bits & 1 for part in parts):
            raise UnreadableFormat("it is protected by a password; a copy without one could be read")
        self.names = frozenset(part.filename for part in parts)

    def read(self, name: str) -> bytes:
        """Return a part. Raises `KeyError` if there is none, `UnreadableFormat` for one that is too large."""
        part = self._zip.getinfo(name)
        if part.file_size > PART_MAX_BYTES:
            raise UnreadableFormat("a part of it is too large when it is unpacked")
        with self._zip.open(part) as opened:
            return opened.read(PART_MAX_BYTES)
