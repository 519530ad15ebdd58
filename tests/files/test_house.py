"""A daemon whose files lie in a bucket: what people see of it, also while it is away."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from msgspec.structs import replace

from daycare.base.errors import ConflictError
from daycare.base.files_settings import FilesSection
from daycare.base.messages import Image, Message, Origin, Text
from daycare.config import Config, ModelSection, ModelsSection, ProviderSection
from daycare.features.backups.making import Making
from daycare.features.files.carrying import Carrier
from daycare.features.files.faces import FilePlaceRoutes
from daycare.features.files.operations import MoveFiles
from daycare.features.files.rows import BucketRows
from daycare.features.files.service import FilesFeature
from daycare.ops import purging
from daycare.plugin import Attachment, Inbound
from daycare.store.home import Home
from daycare.store.records import Receipt, User
from daycare.store.sqlite import copies
from daycare.store.sqlite.forgotten_turns import forget_turns
from daycare.testing.daemon import TestDaemon, open_daemon
from daycare.testing.fake_connector import FakeConnector
from daycare.testing.s3_server import FakeS3
from daycare.testing.scripted import call, say
from tests.exports.houses import exported, imported
from tests.files.conftest import UpOrDown, section
from tests.flow.platform import answered, inbound, people, receive

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 400  # more than is read of a text


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", FakeS3().key_id)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", FakeS3().secret)


def config(s3: UpOrDown, backend: str = "s3", **more: Any) -> Config:
    return Config(
        models=ModelsSection(default="scripted/model"),
        providers={"scripted": ProviderSection(kind="scripted", models={"model": ModelSection(images=True)})},
        files=FilesSection(backend=backend, s3=section(s3, **more)),  # type: ignore[arg-type]
    )


@asynccontextmanager
async def house_with(tmp: Path, s3: UpOrDown, backend: str = "s3", **more: Any) -> AsyncIterator[TestDaemon]:
    async with open_daemon(tmp, config=config(s3, backend), clock=s3.clock, **more) as house:
        yield house


def feature(house: TestDaemon) -> FilesFeature:
    return next(each for each in house.daemon.features if isinstance(each, FilesFeature))


async def health(house: TestDaemon) -> tuple[bool, str]:
    [finding] = await feature(house).findings()
    return finding.ok, finding.text


async def send(house: TestDaemon, *files: Attachment, key: str = "k", text: str = "look", user: str = "ann") -> str:
    return await house.hear(await send_only(house, *files, key=key, text=text, user=user))


async def send_only(
    house: TestDaemon, *files: Attachment, key: str = "k", text: str = "look", user: str = "ann"
) -> Receipt:
    got = Inbound(connector="direct", sender=f"direct:{user}", key=key, text=text, files=files)
    return await house.daemon.intake.accept(got)


def shown(house: TestDaemon) -> list[Message]:
    return [message for message in house.model.history[-1].messages if message.role == "user"]


def pictures(house: TestDaemon) -> list[bytes]:
    return [part.data for message in shown(house) for part in message.parts if isinstance(part, Image)]


def words(house: TestDaemon) -> str:
    return "\n".join(part.text for message in shown(house) for part in message.parts if isinstance(part, Text))


PICTURE = Attachment(name="cat.png", media_type="image/png", data=PNG)


async def test_a_picture_lies_in_the_bucket_and_a_model_sees_it(
    tmp_path: Path, autojump_clock: object, s3: UpOrDown
) -> None:
    async with house_with(tmp_path, s3) as house:
        await send(house, PICTURE)
        assert pictures(house) == [PNG] and [it.data for it in s3.objects.values()] == [PNG]
        assert (await house.daemon.status())["files"] == {
            "backend": "s3",
            "bucket": "files at 127.0.0.1",
            "placed": 1,
            "waiting": 0,
            "removing": 0,
            "lost": 0,
            "trouble": "",
            "hint": "",
        }
        assert await health(house) == (True, "1 lie in the bucket files at 127.0.0.1")


async def test_a_message_that_comes_while_the_bucket_is_away_is_answered_as_ever(
    tmp_path: Path, autojump_clock: object, s3: UpOrDown
) -> None:
    async with house_with(tmp_path, s3) as house:
        s3.down = True
        await send(house, PICTURE)
        assert pictures(house) == [PNG] and not s3.objects
        ok, told = await health(house)
        assert not ok and "Connection refused" in told and "1 files are still to be carried there" in told
        assert "files in the bucket cannot be read" in await house.talk("/status")
        s3.down = False
        await trio.sleep(200)
        assert [it.data for it in s3.objects.values()] == [PNG] and (await health(house))[0]
        await send(house, key="again")
        assert pictures(house) == [PNG]


async def test_a_picture_of_before_is_named_with_the_reason_while_the_bucket_is_away(
    tmp_path: Path, autojump_clock: object, s3: UpOrDown
) -> None:
    async with house_with(tmp_path, s3) as house:
        await send(house, PICTURE)
        s3.down = True
        assert await send(house, key="second"), "nobody waits for it"
        assert pictures(house) == [] and '"cat.png"' in words(house)
        assert "the connection failed: Connection refused" in words(house)
        s3.down = False
        await trio.sleep(10)
        await send(house, key="third")
        assert pictures(house) == [PNG]


async def test_a_lost_picture_is_named_and_shown_in_health_until_it_is_back(
    tmp_path: Path, autojump_clock: object, s3: UpOrDown
) -> None:
    async with house_with(tmp_path, s3) as house:
        await send(house, PICTURE)
        [(name, it)] = s3.objects.items()
        del s3.objects[name]
        await send(house, key="second")
        assert pictures(house) == [] and "it is not there" in words(house)
        ok, told = await health(house)
        assert not ok and "1 files in the bucket are lost or changed" in told and name in told
        s3.objects[name] = it
        await send(house, key="third")
        assert pictures(house) == [PNG] and (await health(house))[0]


async def test_a_lost_picture_that_nobody_keeps_any_more_is_no_trouble(
    tmp_path: Path, autojump_clock: object, s3: UpOrDown
) -> None:
    async with house_with(tmp_path, s3) as house:
        await send(house, PICTURE)
        s3.objects.clear()
        await send(house, key="second")
        assert not (await health(house))[0]
        await house.store.upkeep._writer.write(lambda tx: tx.run("DELETE FROM files WHERE name = 'cat.png'"))
        assert (await health(house))[0] and (await house.daemon.status())["files"]["lost"] == 0


async def test_a_stored_key_that_cannot_be_opened_loses_no_file(
    tmp_path: Path, autojump_clock: object, s3: UpOrDown
) -> None:
    async with house_with(tmp_path, s3) as house:
        await house.store.secrets.put("s3", "ann", house.daemon.vault.seal(s3.key))
        await send(house, PICTURE)
        await house.store.secrets.put("s3", "ann", b"sealed by nobody")
        await send(house, key="second")
        assert "opening a stored secret" in words(house) and pictures(house) == []
        assert (await house.daemon.status())["files"]["lost"] == 0 and "daycare" in (await health(house))[1]
        await house.store.secrets.put("s3", "ann", house.daemon.vault.seal(s3.key))
        await trio.sleep(120)
        assert (await health(house))[0]
        await send(house, key="third")
        assert pictures(house) == [PNG]


async def test_each_node_finds_out_by_itself_that_the_bucket_is_back(
    tmp_path: Path, autojump_clock: object, s3: UpOrDown
) -> None:
    async with house_with(tmp_path, s3, work=False) as house, trio.open_nursery() as nursery:
        await send_only(house, PICTURE)
        s3.down = True
        await send_only(house, PICTURE, key="second")
        assert not (await health(house))[0]
        nursery.start_soon(feature(house).background()["bucket"])
        await trio.sleep(300)
        assert not (await health(house))[0]
        s3.down = False
        await trio.sleep(120)
        assert (await health(house))[0]
        nursery.cancel_scope.cancel()


async def test_a_reply_with_a_file_waits_for_the_bucket(tmp_path: Path, autojump_clock: object, s3: UpOrDown) -> None:
    post = FakeConnector()
    async with house_with(tmp_path, s3, plugins=[post.plugin()]) as house:
        await people(house)

        def away(request: object) -> Any:
            s3.down = True
            return say("there")

        house.model.enqueue(call(("send_file", {"name": "a.txt", "text": "words"})), away)
        [outcome] = await receive(house, inbound("a", "send it"))
        await answered(house, outcome)
        await trio.sleep(5)
        assert not [each for each in post.arrived if each.files]
        s3.down = False
        await trio.sleep(600)
        assert [[file.data for file in each.files] for each in post.arrived if each.files] == [[b"words"]]
        assert await house.store.dead.count() == 0


async def test_what_is_forgotten_goes_from_the_bucket(tmp_path: Path, autojump_clock: object, s3: UpOrDown) -> None:
    async with house_with(tmp_path, s3) as house:
        await send(house, PICTURE)
        agent = await house.daemon.directory.at("/ann/direct")
        [turn] = house.store.upkeep._reader.execute("SELECT turn FROM turns WHERE agent_id = ?", (agent.id,))
        await house.store.upkeep._writer.write(lambda tx: forget_turns(tx, [(agent.id, int(str(turn[0])))], []))
        await trio.sleep(300)
        assert not s3.objects


async def test_routes_move_files_where_new_ones_go_and_nowhere_else(
    tmp_path: Path, autojump_clock: object, s3: UpOrDown
) -> None:
    async with house_with(tmp_path, s3, "store", location="daycare.db") as house:
        assert not (await house.daemon.status())["files"]["placed"]
        await send(house, PICTURE)
        bucket, rows = feature(house).bucket, house.store.of(BucketRows)
        assert not s3.objects and bucket is not None
        routes = FilePlaceRoutes(lambda: house.daemon.live.now.files, Carrier(rows, bucket))
        with pytest.raises(ConflictError, match="new ones go to store"):
            await routes.move(MoveFiles(to="s3"))
        with pytest.raises(ConflictError, match="no bucket is set"):
            await FilePlaceRoutes(lambda: house.daemon.live.now.files, None).move(MoveFiles())
    async with house_with(tmp_path, s3, location="daycare.db") as house:
        bucket, rows = feature(house).bucket, house.store.of(BucketRows)
        assert bucket is not None
        routes = FilePlaceRoutes(lambda: house.daemon.live.now.files, Carrier(rows, bucket))
        step = await routes.move(MoveFiles(to="s3", limit=1))
        assert (step.moved, step.bytes, step.lost) == (1, len(PNG), ()) and step.after
        assert (await routes.move(MoveFiles(after=step.after, limit=1))).after is None
        await send(house, key="again")
        assert pictures(house) == [PNG]


async def test_without_a_bucket_in_the_settings_health_says_which_files_cannot_be_read(
    tmp_path: Path, autojump_clock: object, s3: UpOrDown
) -> None:
    async with house_with(tmp_path, s3, location="daycare.db") as house:
        await send(house, PICTURE)
    bare = replace(config(s3), files=FilesSection())
    async with open_daemon(tmp_path, config=bare, location="daycare.db", clock=s3.clock) as house:
        assert await health(house) == (False, "1 files cannot be read: they lie in a bucket, and none is set")
        assert (await house.daemon.status())["files"]["bucket"] == ""
        await send(house, key="again")
        assert "no bucket is set" in words(house)


# -- backups, exports, purges ------------------------------------------------------------------------------------------


async def test_a_backup_says_what_it_does_not_contain_and_a_restored_store_looks_through_nothing_of_before(
    tmp_path: Path, autojump_clock: object, s3: UpOrDown
) -> None:
    async with house_with(tmp_path, s3, location="daycare.db") as house:
        await send(house, PICTURE)
        bucket = feature(house).bucket
        assert bucket is not None
        before = await bucket.place()
    home = Home(tmp_path)
    with (tmp_path / "b").open("wb") as target:
        manifest = Making(home, home.database("daycare.db"), 0, with_key=False).write(target)
    [left] = [each.why for each in manifest.left_out if each.what == "files in the bucket"]
    assert left == "1 files, 0.1 MB: copy the bucket yourself"
    copies.mark_restored(tmp_path / "daycare.db", copies.Restored(source="b", made_at=0, restored_at=1))
    async with house_with(tmp_path, s3, location="daycare.db") as house:
        bucket = feature(house).bucket
        assert bucket is not None and await bucket.place() != before
        await send(house, key="again")
        assert pictures(house) == [PNG]


async def test_an_export_has_the_bytes_and_says_what_is_lost(
    tmp_path: Path, autojump_clock: object, s3: UpOrDown
) -> None:
    async with house_with(tmp_path, s3, location="daycare.db", inline=False) as house:
        await send(house, PICTURE)
        await send(house, Attachment(name="b.txt", media_type="text/plain", data=b"some words"), key="b")
        report, data = await exported(house, "/ann/direct")
        assert report.taken["file"] == 2 and not [each for each in report.left_out if "bytes" in each.what]
        await imported(house, data, "/ann/agent/copy")
        assert (await house.store.of(BucketRows).counts()).waiting == 2
        await trio.sleep(300)
        assert sorted(it.data for it in s3.objects.values()) == sorted([PNG, b"some words"] * 2)
        lost = next(name for name, it in s3.objects.items() if it.data == PNG)
        del s3.objects[lost]
        for name in [name for name, it in s3.objects.items() if it.data == PNG]:
            del s3.objects[name]
        report, _ = await exported(house, "/ann/direct")
        [left] = [each for each in report.left_out if each.what == "bytes of files"]
        assert left.count == 1 and "lost" in left.why


@pytest.mark.parametrize("down", [False, True])
async def test_a_purge_deletes_the_objects_of_a_person_and_of_nobody_else(
    tmp_path: Path, autojump_clock: object, s3: UpOrDown, down: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path)
    home.config.write_text(f'[files]\nbackend = "s3"\n[files.s3]\nbucket = "files"\nendpoint = "{s3.origin}"\n')
    async with house_with(tmp_path, s3, location="daycare.db") as house:
        await house.store.people.add(User(id="ben", name="Ben", keys=("direct:ben",)))
        for user in ("ann", "ben"):
            await house.store.files.put("k", user, Origin.PERSON, "n", "t", f"of {user}".encode())
    s3.down = down

    waiting: list[Any] = []
    monkeypatch.setattr("daycare.ops.bare.run", lambda main, *args: waiting.append((main, args)))
    done = purging.purge(home, "ben", s3.clock.now_ms())
    assert done.objects_left == 1, "of what is deleted nothing is deleted before the rows are gone"
    [(main, args)] = waiting
    args[1]._clock = s3.clock
    if down:
        with pytest.raises(Exception, match="Connection refused"):
            await main(*args)
        assert len(s3.objects) == 2
        s3.down = False
        async with house_with(tmp_path, s3, location="daycare.db"):
            await trio.sleep(300)
    else:
        assert await main(*args) == 1
    assert [it.data for it in s3.objects.values()] == [b"of ann"]
