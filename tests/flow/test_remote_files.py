"""Files that stay with their platform until a prompt needs them, and what a model is told when they do not come."""

from pathlib import Path

import pytest
import trio

from daycare.agent.attachments import FETCH_DEADLINE_S, FETCH_PAUSE_S
from daycare.base.errors import NotFoundError, UnavailableError
from daycare.base.fence import fence
from daycare.base.limits import FILE_MAX_BYTES
from daycare.base.messages import Image
from daycare.config import Config, ModelSection, ModelsSection, ProviderSection
from daycare.plugin import RemoteFile
from daycare.testing.daemon import TestDaemon, open_daemon
from daycare.testing.fake_connector import FakeConnector
from tests.flow.platform import answered, asked, inbound, people, receive

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


class Album(FakeConnector):
    """A pigeon that keeps files; what it is asked for is in `fetched`."""

    def __init__(self) -> None:
        super().__init__()
        self.files: dict[str, bytes | Exception | float] = {}
        self.fetched: list[str] = []

    async def fetch(self, reference: str, max_bytes: int) -> bytes:
        """Bring a file."""
        assert max_bytes == FILE_MAX_BYTES
        self.fetched.append(reference)
        found = self.files[reference]
        if isinstance(found, float):
            await trio.sleep(found)
            return b"late"
        if isinstance(found, Exception):
            raise found
        return found


def seeing() -> Config:
    """A model that sees pictures."""
    provider = ProviderSection(kind="scripted", models={"model": ModelSection(images=True)})
    return Config(models=ModelsSection(default="scripted/model"), providers={"scripted": provider})


def text_file(reference: str = "r1", key: str = "f1", **more: object) -> RemoteFile:
    """Return a text that is still with its platform."""
    fields = {"name": "a.txt", "media_type": "text/plain", "size": 5} | more
    return RemoteFile(reference=reference, key=key, **fields)  # type: ignore[arg-type]


async def send(house: TestDaemon, key: str, *files: RemoteFile, text: str = "look") -> str:
    """Send files; return what the model was asked last."""
    [outcome] = await receive(house, inbound(key, text, files=files))
    await answered(house, outcome)
    return asked(house.model)[-1]


async def test_a_file_is_fetched_once_and_when_a_prompt_needs_it(tmp_path: Path, autojump_clock: object) -> None:
    album = Album()
    album.files["r1"] = b"hello"
    async with open_daemon(tmp_path, plugins=[album.plugin()]) as house:
        await people(house)
        [note] = await receive(house, inbound("n", "shared a file", files=(text_file(),), kind="note"))
        await answered(house, note)
        assert album.fetched == [], "nobody has read it"
        for key in ("a", "b", "c"):
            [outcome] = await receive(house, inbound(key))
            await answered(house, outcome)
            assert fence("attached", "hello") in asked(house.model)[0], "it stays in the conversation"
        assert album.fetched == ["r1"]
        assert fence("attached", "hello") in await send(house, "again", text_file("r2"))
        assert album.fetched == ["r1"], "sent again, it is the same file"


async def test_a_picture_is_fetched_for_a_model_that_sees(tmp_path: Path, autojump_clock: object) -> None:
    album = Album()
    album.files["r1"] = PNG
    async with open_daemon(tmp_path, config=seeing(), plugins=[album.plugin()]) as house:
        await people(house)
        await send(house, "a", text_file(name="p.png", media_type="image/png"))
        assert house.model.history[-1].messages[-1].parts[1] == Image("image/png", PNG)


@pytest.mark.parametrize("media_type", ["video/mp4", "image/png"])  # sound is fetched to be heard
async def test_what_the_model_cannot_read_anyhow_is_not_fetched(
    tmp_path: Path, autojump_clock: object, media_type: str
) -> None:
    album = Album()
    async with open_daemon(tmp_path, plugins=[album.plugin()]) as house:
        await people(house)
        assert "not readable" in await send(house, "a", text_file(name="x", media_type=media_type))
        assert album.fetched == []


async def test_what_is_said_to_be_too_large_is_not_fetched(tmp_path: Path, autojump_clock: object) -> None:
    album = Album()
    async with open_daemon(tmp_path, plugins=[album.plugin()]) as house:
        await people(house)
        assert "larger than" in await send(house, "a", text_file(size=FILE_MAX_BYTES + 1))
        assert album.fetched == []


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (UnavailableError("AWAY", "fetching: the platform is away"), "the platform is away"),
        (NotFoundError("GONE", "fetching: it expired"), "it expired"),
        (KeyError("a defect of the plugin"), "KeyError"),
        (FETCH_DEADLINE_S + 1, "not here after"),
        (bytes(FILE_MAX_BYTES + 1), "at most"),
    ],
    ids=["away", "gone", "crash", "late", "huge"],
)
async def test_a_file_that_does_not_come_is_named_with_the_reason_and_the_turn_goes_on(
    tmp_path: Path, autojump_clock: object, found: bytes | Exception | float, told: str
) -> None:
    album = Album()
    album.files["r1"] = found
    async with open_daemon(tmp_path, plugins=[album.plugin()]) as house:
        await people(house)
        words = await send(house, "a", text_file())
        assert told in words and '"a.txt"' in words and words.startswith("look")
        assert house.events("turn.failed") == []


async def test_a_platform_that_hangs_costs_one_answer_its_time_and_the_file_comes_later(
    tmp_path: Path, autojump_clock: object
) -> None:
    album = Album()
    album.files["r1"] = FETCH_DEADLINE_S * 2
    async with open_daemon(tmp_path, plugins=[album.plugin()]) as house:
        await people(house)
        await send(house, "a", text_file())
        for key in ("b", "c"):
            began = trio.current_time()
            await send(house, key)
            assert trio.current_time() - began < 1
        assert len(album.fetched) == 1
        album.files["r1"] = b"hello"
        await trio.sleep(FETCH_PAUSE_S)
        await send(house, "d")
        assert fence("attached", "hello") in asked(house.model)[0]
        await send(house, "e")
        assert len(album.fetched) == 2


async def test_a_file_that_was_not_here_yet_is_fetched_from_where_it_was_sent_last(
    tmp_path: Path, autojump_clock: object
) -> None:
    album = Album()
    album.files = {"r1": NotFoundError("GONE", "fetching: it expired"), "r2": b"hello"}
    async with open_daemon(tmp_path, plugins=[album.plugin()]) as house:
        await people(house)
        await send(house, "a", text_file("r1"))
        await trio.sleep(FETCH_PAUSE_S)
        assert fence("attached", "hello") in await send(house, "b", text_file("r2"))


async def test_a_strangers_file_is_not_even_noted(tmp_path: Path, autojump_clock: object) -> None:
    album = Album()
    async with open_daemon(tmp_path, plugins=[album.plugin()]) as house:
        await people(house)
        await receive(house, inbound("s", sender="pigeon:eve", files=(text_file(),)))
        await trio.sleep(60)
        assert album.fetched == [] and house.store._db.execute("SELECT count(*) FROM files").fetchall() == [(0,)]


async def test_a_file_of_unknown_size_is_cut_where_a_prompt_must_be(tmp_path: Path, autojump_clock: object) -> None:
    album = Album()
    album.files["r1"] = b"x" * 100_000
    async with open_daemon(tmp_path, plugins=[album.plugin()]) as house:
        await people(house)
        assert "[cut: 100000 bytes in all" in await send(house, "a", text_file(size=0))


async def test_who_asks_for_a_file_by_its_number_gets_the_bytes(tmp_path: Path, autojump_clock: object) -> None:
    album = Album()
    album.files["r1"] = PNG
    async with open_daemon(tmp_path, plugins=[album.plugin()]) as house:
        await people(house)
        await send(house, "a", text_file(name="p.png", media_type="image/png"))
        [(number,)] = house.store._db.execute("SELECT id FROM files").fetchall()
        assert await house.daemon.files.read(int(str(number)), "ann") == PNG
        assert await house.daemon.files.read(int(str(number)), "bob") is None
