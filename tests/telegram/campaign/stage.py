"""A daemon in a home of its own, the fake Telegram it talks to, and the people in both."""

import shutil
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final

import apsw
import httpx
import trio

from daycare.testing.daemon_process import BrokenDaemonError, client_of
from daycare.testing.model_server import FakeModelServer
from daycare_plugins.telegram.testing.server import FakeChat, FakePerson, FakeTelegram
from tests.planted.plugin import section, to_load
from tests.telegram.campaign.report import Report, say
from tests.telegram.campaign.running import CampaignHome

BOT: Final = "telegram"
FIRST_PERSON: Final = 1_000
FIRST_STRANGER: Final = 900_000
_MIND_MODELS: Final = """\
[models]
default = "mind/names"

[providers.mind]
kind = "mind"
models."names" = { images = true }
"""
_SERVER_MODELS: Final = """\
[models]
default = "box/fake-large"

[providers.box]
base_url = "{base_url}"
"""
_CONFIG: Final = """\
{models}
[agent]
policy = "{policy}"

[plugins]
load = [{plugins}]

[plugins.telegram]
base_url = "{base_url}"
base_file_url = "{base_file_url}"
poll_s = {poll_s}
groups = "always"
group_overrides = {{ {addressed} }}
"""
_MIND: Final = "tests.telegram.campaign.mind:plugin"
_TELEGRAM: Final = "daycare_plugins.telegram.plugin:plugin"


@dataclass
class Room:
    """A chat with who writes there: a private one, a group, or a forum with topics."""

    number: int
    place: FakePerson | FakeChat
    writers: list[FakePerson]
    threads: list[int | None] = field(default_factory=lambda: [None])
    said: int = 0  # messages, each with a number of its own
    addressed: bool = False  # a group in which the bot answers only whoever addresses it

    @property
    def id(self) -> int:
        """Telegram's number of the chat."""
        return self.place.id

    @property
    def is_group(self) -> bool:
        """Whether several people write there."""
        return isinstance(self.place, FakeChat)

    def name(self) -> str:
        """Return the word with which the next message begins."""
        self.said += 1
        return f"m{self.number}-{self.said}"


class Stage(CampaignHome):
    """One home, one bot.

    The model is the plugin `mind`, or asked of the server `models`.
    """

    connector = BOT

    def __init__(
        self,
        server: FakeTelegram,
        report: Report,
        *,
        poll_s: int,
        policy: str = "steer",
        models: FakeModelServer | None = None,
    ) -> None:
        super().__init__(report)
        self.server = server
        self.rooms: list[Room] = []
        self._config = partial(
            _CONFIG.format,
            models=_MIND_MODELS if models is None else _SERVER_MODELS.format(base_url=models.base_url),
            policy=policy,
            plugins=", ".join(f'"{plugin}"' for plugin in _plugins()),
            base_url=server.base_url,
            base_file_url=server.base_file_url,
            poll_s=poll_s,
        )
        self.configure()

    def configure(self, rooms: Sequence[Room] = ()) -> None:
        """Write the settings, with those that some of the rooms need."""
        addressed = ", ".join(f'"{room.id}" = "addressed"' for room in rooms if room.addressed)
        (self.home.path / "config.toml").write_text(self._config(addressed=addressed) + section())

    async def introduce(self, rooms: Sequence[Room]) -> None:
        """Start for the first time: store the token, and make the people of the rooms known."""
        self.rooms = list(rooms)
        await self.up()
        async with client_of(self.home.socket) as client:
            for room in rooms:
                (await client.post("/v1/users", json={"id": f"c{room.number}"})).raise_for_status()
                key = {"key": f"{BOT}:{room.id}"}
                (await client.post(f"/v1/users/c{room.number}/links", json=key)).raise_for_status()
            (await client.put(f"/v1/keys/{BOT}", json={"value": self.server.token})).raise_for_status()

    def furnish(self, folder: Path, rooms: Sequence[Room]) -> None:
        """Take over a home in which the people of the rooms have been introduced; it must be at rest."""
        self.rooms = list(rooms)
        for file in folder.iterdir():
            if file.is_file() and file.name not in ("config.toml", "daycare.lock"):
                shutil.copy2(file, self.home.path)

    async def until_state(self, wanted: set[str], deadline_s: float) -> float | None:
        """Wait until the connection is in one of these states; return how long that took, None if it was too long."""
        began = trio.current_time()
        with trio.move_on_after(deadline_s):
            while (await self.health())["state"] not in wanted:
                await trio.sleep(0.05)
            return trio.current_time() - began
        return None

    def left(self) -> dict[str, int]:
        """Return what is not done yet, by name; nothing is left when all are 0."""
        return super().left() | {"updates": len(self.server.queue)}


def _plugins() -> list[str]:
    """Return what to load; the connector is there already, unless the source tree was installed before it was."""
    installed = {point.value for point in entry_points(group="daycare.plugins")}
    return [_MIND, *([] if _TELEGRAM in installed else [_TELEGRAM]), *to_load()]


def rooms_of(server: FakeTelegram, count: int, *, groups: int = 0, forums: int = 0) -> list[Room]:
    """Make so many chats, some of them groups, some of those forums with topics."""
    rooms: list[Room] = []
    for number in range(count):
        writers = [
            server.person(FIRST_PERSON + 10 * number + who, first_name=f"Person {number} {who}") for who in range(2)
        ]
        if number >= groups:
            rooms.append(Room(number, writers[0], writers[:1]))
            continue
        place = server.group(-1_000_000_000_000 - number, f"Group {number}", forum=number < forums)
        rooms.append(Room(number, place, writers))
    return rooms


def open_topics(server: FakeTelegram, rooms: Sequence[Room]) -> None:
    """Open two topics in each forum. The bot must be known by then."""
    for room in rooms:
        if isinstance(room.place, FakeChat) and room.place.forum:
            room.threads = [None, *(server.topic(room.place, f"Topic {number}", room.writers[0]) for number in (1, 2))]


@asynccontextmanager
async def staged(
    report: Report, *, poll_s: int, policy: str = "steer", models: FakeModelServer | None = None
) -> AsyncGenerator[Stage, None]:
    """Open a stage. The home is kept if a promise was broken."""
    async with FakeTelegram.serve() as server:
        stage = Stage(server, report, poll_s=poll_s, policy=policy, models=models)
        try:
            yield stage
        except* (BrokenDaemonError, httpx.HTTPError, apsw.Error) as errors:
            for error in errors.exceptions:
                report.find("broken", repr(error))
        finally:
            await stage.down()
            for kind, what in report.findings[:20]:
                say(f"{kind}: {what}")
            if report.harm:
                say(f"mode {report.mode}, seed {report.seed}: the home is kept in {stage.home.folder}")
            else:
                stage.home.remove()
