"""Carrying files between the store and the bucket: at every moment the row of a file names bytes that are there."""

from collections.abc import Sequence

import msgspec

from daycare.base.files_settings import FilePlace
from daycare.features.files.bucket import S3Bucket
from daycare.features.files.client import BadObjectError
from daycare.features.files.rows import BucketRows, KeptFile, PlacedFile


class CarriedFiles(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a step: files `moved` and their `bytes`, those that were `lost` in the bucket and stay as they are.

    `after` is where the next step goes on, None if there is nothing more.
    """

    to: FilePlace
    moved: int = 0
    bytes: int = 0
    lost: tuple[int, ...] = ()
    after: int | None = None


class Carrier:
    """Carries files of one store, some at a time. What is cut off is repeated: no file is ever in neither place."""

    def __init__(self, rows: BucketRows, bucket: S3Bucket) -> None:
        self._rows = rows
        self._bucket = bucket

    async def carry(self, to: FilePlace, after: int, limit: int, *, waiting: bool = False) -> CarriedFiles:
        """Carry files behind the number `after`; `waiting`: of those that are here, those that belong in the bucket.

        Raises what the bucket says that cannot be asked.
        """
        found: Sequence[KeptFile] | Sequence[PlacedFile]
        if to == "s3":
            found = await self._rows.kept(after, limit, waiting=waiting)
        else:
            found = await self._rows.placed(after, limit)
        moved, size, lost = 0, 0, []
        for file in found:
            try:
                many = await (self._to_bucket(file) if isinstance(file, KeptFile) else self._to_store(file))
            except BadObjectError:
                lost.append(file.id)
            else:
                moved, size = moved + bool(many), size + many
        more = found[-1].id if len(found) == limit else None
        return CarriedFiles(to=to, moved=moved, bytes=size, lost=tuple(lost), after=more)

    async def _to_bucket(self, file: KeptFile) -> int:
        data = await self._rows.data(file.id)
        if not data:
            return 0  # it was forgotten meanwhile
        placed = await self._bucket.put(data)
        return len(data) if await self._rows.carried(file.id, placed) else 0

    async def _to_store(self, file: PlacedFile) -> int:
        data = await self._bucket.read(file.placed)
        return len(data) if await self._rows.brought(file.id, file.placed, data) else 0
