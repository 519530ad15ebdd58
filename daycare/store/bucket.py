"""Files whose bytes lie elsewhere: what the store needs of a bucket, which a capability brings."""

from typing import NamedTuple, Protocol


class PlacedObject(NamedTuple):
    """Bytes in a bucket: the object's name, how many they are, and their SHA-256 in hexadecimal digits."""

    name: str
    size: int
    sha256: str


class FileBucket(Protocol):
    """A bucket. An object is written once, under a name that nobody had before, and is never changed."""

    async def put(self, data: bytes) -> PlacedObject:
        """Put bytes there; they are safe when it returns. Raises `DaycareError` where they may not be."""
        ...

    async def read(self, it: PlacedObject, offset: int = 0, length: int | None = None) -> bytes:
        """Return bytes of an object, of which no more are read than needed.

        Raises `UnavailableError` BUCKET_AWAY, `SetupError` BUCKET_REFUSED, `BrokenError` OBJECT_LOST or OBJECT_CHANGED.
        """
        ...
