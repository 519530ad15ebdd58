"""Against a server that somebody else wrote: moto's, over a real socket. It is left out where moto is not installed."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daycare.base.clock import SystemClock
from daycare.base.errors import BrokenError
from daycare.base.files_settings import S3Section
from daycare.base.messages import Origin
from daycare.features import open_store
from daycare.features.files.bucket import S3Bucket, account
from daycare.features.files.carrying import Carrier
from daycare.features.files.client import S3Client
from daycare.features.files.rows import BucketRows
from daycare.features.files.upkeep import remove

DATA = bytes(range(256)) * 300
HASH = hashlib.sha256(DATA).hexdigest()
KEY = "AKIAIOSFODNN7EXAMPLE:wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """A server on loopback with an empty bucket `files`."""
    servers: Any = pytest.importorskip(
        "moto.server", reason="moto's server is not installed: pip install 'daycare[test]'"
    )
    server = servers.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def client(endpoint: str) -> S3Client:
    import httpx

    httpx.put(f"{endpoint}/files", headers={"Authorization": "AWS4-HMAC-SHA256 Credential=a/b/us-east-1/s3/c"})
    section = S3Section(endpoint=endpoint, bucket="files")
    return S3Client(section, lambda: account(section, KEY), SystemClock())


async def test_objects_are_put_read_listed_and_deleted(client: S3Client) -> None:
    names = [f"daycare/judge/{number}" for number in range(5)]
    for name in names:
        await client.put(name, DATA, HASH)
    whole = await client.get(names[0], 0, len(DATA), len(DATA))
    assert (whole.data, whole.size, whole.sha256) == (DATA, len(DATA), HASH)
    part = await client.get(names[0], 100, 10, len(DATA))
    assert (part.data, part.size, part.sha256) == (DATA[100:110], len(DATA), HASH)
    page, now_ms = await client.page("daycare/judge/", names[1], most=2)
    assert [each.name for each in page.objects] == names[2:4] and page.more
    assert all(abs(now_ms - each.changed_ms) < 600_000 for each in page.objects)
    assert await client.delete([*names, "daycare/judge/none"]) == {}
    assert not (await client.page("daycare/judge/"))[0].objects
    with pytest.raises(BrokenError, match="it is not there"):
        await client.get(names[0], 0, 1, 1)


async def test_a_store_keeps_its_files_there_and_takes_them_back(client: S3Client, tmp_path: Path) -> None:
    async with open_store(str(tmp_path / "a.db")) as store:
        rows = store.of(BucketRows)
        bucket = S3Bucket(client, "daycare", rows.place, SystemClock())
        store.files.use(bucket, puts=True)
        file = await store.files.put("k", "ann", Origin.PERSON, "n", "t", DATA)
        assert (await rows.data(file.id), (await rows.counts()).placed) == (b"", 1)
        assert await store.files.read(file.id, "ann", 7, 100) == DATA[7:107]
        assert await store.files.read(file.id, "ann") == DATA
        assert (await Carrier(rows, bucket).carry("store", 0, 10)).moved == 1
        assert await rows.data(file.id) == DATA
        await remove(bucket, rows, await rows.gone(10))
        assert (await rows.counts()).gone == 0 and not (await client.page("daycare/"))[0].objects
    await client.aclose()
