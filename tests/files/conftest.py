"""A store with a bucket on a strict server, on virtual time: connections are streams in memory."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from daycare.base.files_settings import S3Section
from daycare.features import open_store
from daycare.features.files.bucket import S3Bucket, account
from daycare.features.files.client import S3Client
from daycare.features.files.rows import BucketRows
from daycare.features.files.upkeep import BucketUpkeep
from daycare.inference.http_client import HttpClient
from daycare.store.sqlite.store import Store
from daycare.testing.clock import VirtualClock
from daycare.testing.http_server import HttpRequest, ServerConnection
from daycare.testing.s3_server import FakeS3


class UpOrDown(FakeS3):
    """A server that cannot be reached while it is `down`."""

    clock: VirtualClock
    down = False

    async def _answer(self, connection: ServerConnection, request: HttpRequest) -> bool:
        return not self.down and await super()._answer(connection, request)


def section(s3: FakeS3, **more: Any) -> S3Section:
    """Return settings of its bucket."""
    return S3Section(**({"endpoint": s3.origin, "bucket": s3.bucket} | more))


@pytest.fixture
async def clock(s3: UpOrDown) -> VirtualClock:
    return s3.clock


@pytest.fixture
async def s3(autojump_clock: object, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[UpOrDown]:
    """A server that every client reaches over a stream in memory, unless it is `down`."""
    clock = VirtualClock()
    server = UpOrDown(80, now_s=lambda: clock.now_ms() / 1000)
    server.origin, server.clock = "http://127.0.0.1", clock

    async def dial(_: HttpClient) -> trio.abc.Stream:
        if server.down:
            raise ConnectionRefusedError(111, "Connection refused")
        near, far = trio.testing.memory_stream_pair()
        nursery.start_soon(server.serve_stream, far)
        return near

    monkeypatch.setattr(HttpClient, "_dial", dial)
    yield server


@dataclass
class Kept:
    """A store with its bucket."""

    store: Store
    s3: UpOrDown
    bucket: S3Bucket
    upkeep: BucketUpkeep
    clock: VirtualClock

    @property
    def rows(self) -> BucketRows:
        """What the store has of the bucket."""
        return self.store.of(BucketRows)

    def names(self) -> list[str]:
        """Return the objects as the store names them."""
        return sorted(name.removeprefix("daycare/") for name in self.s3.objects)

    async def looks(self, many: int = 2) -> None:
        """Let what looks after the bucket look, with time between."""
        for _ in range(many):
            await trio.sleep(await self.upkeep.look())


def joined(store: Store, s3: UpOrDown, *, puts: bool = True, **more: Any) -> Kept:
    """Give a store the bucket."""
    clock = s3.clock
    settings = section(s3, **more)
    rows = store.of(BucketRows)
    client = S3Client(settings, lambda: account(settings, s3.key), clock)
    bucket = S3Bucket(client, settings.prefix, rows.place, clock)
    store.files.use(bucket, puts=puts)
    return Kept(store, s3, bucket, BucketUpkeep(bucket, rows, puts=puts), clock)


@pytest.fixture
async def kept(tmp_path: Path, s3: UpOrDown) -> AsyncIterator[Kept]:
    async with open_store(str(tmp_path / "daycare.db"), s3.clock, inline=True) as store:
        yield joined(store, s3)
