"""What is done beside the daemon's work: files that wait are carried to the bucket, and what nobody has is removed.

Objects go in two steps. That no row names one any more is committed first; it is removed a while later, when whoever
had just read the row is done. An object that no row ever came to name, because its daemon ended between the two, is
found by listing what this store has put there, once it is a day old by the bucket's own clock.
"""

from typing import Final

import trio

from daycare.base.errors import DaycareError
from daycare.features.files.bucket import S3Bucket
from daycare.features.files.carrying import Carrier
from daycare.features.files.client import S3_DELETED_MAX
from daycare.features.files.rows import BucketRows
from daycare.observe import log
from daycare.store.worker import Worker

BUCKET_LOOK_S: Final = 60.0  # also how long an object stays at least that nobody has any more
BUCKET_ORPHAN_S: Final = 86_400.0  # old enough that nobody is still about to name it
BUCKET_SWEEP_S: Final = 86_400.0  # from the end of one walk through the list to the next

_CARRIED: Final = 50  # at once, before others get their turn
_GONE_MAX: Final = 10_000  # looked at with one look
_PAGES: Final = 5  # of the list, of 1,000 objects each, with one look


class BucketUpkeep:
    """Looks after a bucket. `puts`: files belong there."""

    def __init__(self, bucket: S3Bucket, rows: BucketRows, *, puts: bool) -> None:
        self._bucket = bucket
        self._rows = rows
        self._puts = puts
        self._carrier = Carrier(rows, bucket)
        self._seen: dict[str, float] = {}  # objects to be removed, and when that was seen first
        self._after = ""  # where the walk through the list is
        self._sweep_at_s = 0.0
        self._asked = False

    async def run(self) -> None:
        """Look until cancelled; of several nodes one does."""
        try:
            await Worker(self.look).run()
        finally:
            with trio.CancelScope(shield=True):
                await self._bucket.client.aclose()

    async def look(self) -> float:
        """Do what is due; return in how many seconds to look again."""
        try:
            await self._ask()
            await self._carry()
            await self._remove()
            await self._sweep()
        except DaycareError as error:
            if not error.code.startswith("BUCKET_"):
                raise  # it is the store that is away
            log.logger().warning("files.bucket_away", code=error.code, reason=error.message)
        return BUCKET_LOOK_S

    async def _ask(self) -> None:
        """Look whether it can be asked: at the start, and after trouble."""
        if not self._asked or self._bucket.trouble is not None:
            await probe(self._bucket)
            self._asked = True

    async def _carry(self) -> None:
        after: int | None = 0
        while self._puts and after is not None:
            after = (await self._carrier.carry("s3", after, _CARRIED, waiting=True)).after

    async def _remove(self) -> None:
        """Remove what was to be removed a while ago already."""
        now = trio.current_time()
        self._seen = {name: self._seen.get(name, now) for name in await self._rows.gone(_GONE_MAX)}
        await remove(self._bucket, self._rows, [name for name, at in self._seen.items() if now - at >= BUCKET_LOOK_S])

    async def _sweep(self) -> None:
        """Walk on through the list of what this store has put there."""
        if trio.current_time() < self._sweep_at_s:
            return
        prefix = self._bucket.full(f"{await self._bucket.place()}/")
        cut = len(self._bucket.full(""))
        for _ in range(_PAGES):
            page, now_ms = await self._bucket.asked(lambda: self._bucket.client.page(prefix, self._after))
            old = now_ms - BUCKET_ORPHAN_S * 1000
            names = [each.name[cut:] for each in page.objects if each.name.startswith(prefix) and each.changed_ms < old]
            if many := await self._rows.let_go(names):
                log.logger().info("files.orphans", objects=many)
            self._after = page.objects[-1].name if page.more and page.objects else ""
            if not self._after:
                self._sweep_at_s = trio.current_time() + BUCKET_SWEEP_S
                return


async def probe(bucket: S3Bucket) -> None:
    """Look whether a bucket can be asked. Raises what it says where it cannot."""
    prefix = bucket.full("")
    await bucket.asked(lambda: bucket.client.page(prefix, most=1))


async def remove(bucket: S3Bucket, rows: BucketRows, names: list[str]) -> None:
    """Remove objects, and note which are gone. Raises what the bucket says that cannot be asked."""
    for start in range(0, len(names), S3_DELETED_MAX):
        some = names[start : start + S3_DELETED_MAX]
        left = await bucket.asked(lambda some=some: bucket.client.delete([bucket.full(name) for name in some]))  # type: ignore[misc]
        await rows.removed([name for name in some if bucket.full(name) not in left])
        if left:
            name, why = next(iter(left.items()))
            log.logger().warning("files.not_removed", objects=len(left), first=name, reason=why)
