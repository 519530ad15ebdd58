"""Files in a bucket, as the store sees them: put once, read with proof that they are what was put there."""

import hashlib
import os
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeVar

import trio

from daycare.base.bounded import Bounded
from daycare.base.clock import Clock
from daycare.base.errors import DaycareError, SetupError
from daycare.base.files_settings import S3Section
from daycare.base.limits import FILE_MAX_BYTES
from daycare.base.secrecy import hide
from daycare.features.files.client import BadObjectError, S3Client
from daycare.features.files.signing import S3Credentials
from daycare.store.bucket import PlacedObject

T = TypeVar("T")

BUCKET_AWAY_S: Final = 5.0  # after a failure nobody waits for it again until so much time has passed
BUCKET_LOST_MAX: Final = 1_000  # objects known to be lost or changed

_AT_ONCE_BYTES: Final = 1024 * 1024  # of which the hash is made in the loop's thread: 1 to 3 ms
_NAME_BYTES: Final = 16  # nobody guesses it, and no two are the same
_VARIABLES: Final = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


class S3Bucket:
    """The objects of one store. `place` says below which name this store puts its own.

    `trouble` is why it could not be asked last time, `lost` which objects were not there or not as they were put, with
    what was said of each.
    """

    def __init__(self, client: S3Client, prefix: str, place: Callable[[], Awaitable[str]], clock: Clock) -> None:
        self.client = client
        self.trouble: DaycareError | None = None
        self.lost: Bounded[str, str] = Bounded(BUCKET_LOST_MAX)
        self._prefix = prefix
        self._place = place
        self._clock = clock
        self._again_at_s = 0.0

    async def put(self, data: bytes) -> PlacedObject:
        """Put bytes there under a name that nobody had; see `FileBucket`."""
        self._refuse_away()
        name = f"{await self._place()}/{secrets.token_hex(_NAME_BYTES)}"
        it = PlacedObject(name, len(data), await _hash(data))
        await self.asked(lambda: self.client.put(self.full(it.name), data, it.sha256))
        return it

    async def read(self, it: PlacedObject, offset: int = 0, length: int | None = None) -> bytes:
        """Return bytes of an object; see `FileBucket`.

        All of them are proven by their hash. Of a part, the size of the whole has to be right and the hash that stands
        beside the object, else the whole is read to prove it: objects that were copied elsewhere may have lost that.
        """
        length = it.size if length is None else min(length, it.size - offset)
        if length <= 0:
            return b""
        self._refuse_away()
        try:
            if length < it.size:
                found = await self.asked(lambda: self.client.get(self.full(it.name), offset, length, it.size))
                if (found.size, found.sha256) == (it.size, it.sha256):
                    self.lost.pop(it.name, None)
                    return found.data
            found = await self.asked(lambda: self.client.get(self.full(it.name), 0, FILE_MAX_BYTES, it.size))
            if await _hash(found.data) != it.sha256:
                raise BadObjectError(
                    "OBJECT_CHANGED",
                    f"reading {self.full(it.name)} in the bucket {self.client.shown}: it is not what was put there",
                    hint="daycare health",
                )
        except BadObjectError as error:
            self.lost[it.name] = error.message
            raise
        self.lost.pop(it.name, None)
        return found.data[offset : offset + length]

    async def asked(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask, and remember whether it could be asked."""
        try:
            found = await ask()
        except BadObjectError:
            self.trouble = None  # it answers
            raise
        except DaycareError as error:
            self.trouble = error
            self._again_at_s = self._clock.steady_s() + BUCKET_AWAY_S
            raise
        self.trouble = None
        return found

    def full(self, name: str) -> str:
        """Return the whole name of an object."""
        return f"{self._prefix}/{name}"

    async def place(self) -> str:
        """Return below which name this store puts its objects."""
        return await self._place()

    def _refuse_away(self) -> None:
        if self.trouble is not None and self._clock.steady_s() < self._again_at_s:
            raise self.trouble


async def _hash(data: bytes) -> str:
    if len(data) <= _AT_ONCE_BYTES:
        return hashlib.sha256(data).hexdigest()
    return await trio.to_thread.run_sync(lambda: hashlib.sha256(data).hexdigest())


def account(section: S3Section, stored: str | None, environment: Mapping[str, str] = os.environ) -> S3Credentials:
    """Return who asks: the `stored` key, else the environment's. Raises `SetupError` BUCKET_KEY."""
    parts = stored.strip().split(":") if stored else [environment.get(name, "").strip() for name in _VARIABLES]
    parts += [""] * (3 - len(parts))
    if len(parts) > 3 or not all(each.isascii() and each.isprintable() for each in parts) or not all(parts[:2]):
        what = f"the key {section.key} is not ACCESS_KEY_ID:SECRET_ACCESS_KEY" if stored else "there is no key for it"
        raise SetupError(
            "BUCKET_KEY", f"asking the bucket {section.bucket}: {what}", hint=f"daycare keys add {section.key}"
        )
    found = S3Credentials(*parts)
    for each in (found.secret, found.token):
        if each:
            hide(each)
    return found
