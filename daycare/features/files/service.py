"""Where files are kept: the bucket that the store is given, how it is, and what looks after it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

import trio

from daycare.base.errors import BrokenError, DaycareError, SetupError
from daycare.base.files_settings import FilesSection
from daycare.base.health import Finding
from daycare.feature import Core, Feature
from daycare.features.files.rows import BucketRows

if TYPE_CHECKING:
    from starlette.routing import Route

    from daycare.features.files.bucket import S3Bucket
    from daycare.features.files.signing import S3Credentials
    from daycare.store.vault import Vault

_LOST_SHOWN = 3


class FilesFeature(Feature):
    """All of it. Without a bucket in the settings it says only which files cannot be read."""

    name = "files"
    roles: ClassVar = {"bucket": ""}

    def __init__(self, core: Core, vault: "Vault") -> None:
        self._core = core
        self._vault = vault
        self._section: FilesSection = core.live.now.files  # as of the start: it counts until the next
        self._rows = core.store.of(BucketRows)
        self.bucket = self._made() if self._section.s3.bucket else None
        if self.bucket is not None:
            core.store.files.use(self.bucket, puts=self._puts)

    @property
    def _puts(self) -> bool:
        return self._section.backend == "s3"

    def _made(self) -> "S3Bucket":
        from daycare.features.files.bucket import S3Bucket
        from daycare.features.files.client import S3Client

        clock, s3 = self._core.clock, self._section.s3
        place = ""

        async def placed() -> str:
            nonlocal place
            place = place or await self._rows.place()
            return place

        return S3Bucket(S3Client(s3, self._account, clock), s3.prefix, placed, clock)

    def _account(self) -> "S3Credentials":
        from daycare.features.files.bucket import account

        s3 = self._section.s3
        token = self._core.store.secrets.get(s3.key) if s3.key else None
        try:
            return account(s3, self._vault.open(token) if token is not None else None)
        except BrokenError as error:  # it is the key that is bad, and no object
            raise SetupError("BUCKET_KEY", f"asking the bucket {s3.bucket}: {error.message}", hint=error.hint) from None

    # -- what a feature brings -----------------------------------------------------------------------------------------

    def background(self) -> Mapping[str, Callable[[], Awaitable[None]]]:
        """Return what looks after the bucket."""
        return {} if self.bucket is None else {"files in the bucket": self._attend, "bucket": self._watch}

    async def _watch(self) -> None:
        """Look whether the bucket is back, each node for itself: else only who needs a file would find out."""
        from daycare.features.files.upkeep import BUCKET_LOOK_S, probe

        while True:
            await trio.sleep(BUCKET_LOOK_S)
            if self.bucket is not None and self.bucket.trouble is not None:
                with suppress(DaycareError):
                    await probe(self.bucket)

    async def _lost(self) -> Sequence[str]:
        """Return what is known of objects that files have and that are lost or changed."""
        assert self.bucket is not None, "else nothing is known"
        lost = self.bucket.lost
        known = tuple(lost)
        named = await self._rows.named(known)
        for name in known:
            if name not in named:
                lost.pop(name, None)
        return tuple(lost.values())

    async def _attend(self) -> None:
        from daycare.features.files.upkeep import BucketUpkeep

        assert self.bucket is not None, "else nothing is to be done"
        await BucketUpkeep(self.bucket, self._rows, puts=self._puts).run()

    def routes(self, closing: trio.Event) -> "Sequence[Route]":
        """Return the routes."""
        from daycare.features.files.carrying import Carrier
        from daycare.features.files.faces import FilePlaceRoutes

        carrier = Carrier(self._rows, self.bucket) if self.bucket is not None else None
        return FilePlaceRoutes(lambda: self._section, carrier).routes()

    async def status(self) -> Mapping[str, Any]:
        """Return where files are kept; nothing where that is the store, and always was."""
        counts = await self._rows.counts()
        if self.bucket is None:
            return {} if not counts.placed else {"backend": "store", "bucket": "", "placed": counts.placed}
        trouble = self.bucket.trouble
        return {
            "backend": self._section.backend,
            "bucket": self.bucket.client.shown,
            "placed": counts.placed,
            "waiting": counts.waiting,
            "removing": counts.gone,
            "lost": len(await self._lost()),
            "trouble": trouble.message if trouble is not None else "",
            "hint": trouble.hint if trouble is not None else "",
        }

    async def findings(self) -> Sequence[Finding]:
        """Return how it is."""
        counts = await self._rows.counts()
        if self.bucket is None:
            if not counts.placed:
                return ()
            text = f"{counts.placed:,} files cannot be read: they lie in a bucket, and none is set"
            return [Finding(name="files", ok=False, text=text, watched=True, hint="[files.s3] bucket")]
        shown = self.bucket.client.shown
        waiting = f"; {counts.waiting:,} files are still to be carried there" if counts.waiting else ""
        if (trouble := self.bucket.trouble) is not None:
            text = f"files in the bucket cannot be read: {trouble.message}{waiting}. New ones are kept here until then"
            return [Finding(name="files", ok=False, text=text, watched=True, hint=trouble.hint or "daycare doctor")]
        if lost := await self._lost():
            text = f"{len(lost):,} files in the bucket are lost or changed: {'; '.join(lost[:_LOST_SHOWN])}"
            hint = "put these objects back from a copy of the bucket"
            return [Finding(name="files", ok=False, text=text, watched=True, hint=hint)]
        return [
            Finding(name="files", ok=True, text=f"{counts.placed:,} lie in the bucket {shown}{waiting}", watched=True)
        ]
