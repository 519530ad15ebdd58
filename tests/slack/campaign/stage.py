"""A daemon in a home of its own, the fake Slack workspace it is in, and the people in both."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Final

import apsw
import httpx

from daycare.testing.daemon_process import BrokenDaemonError, client_of
from daycare_plugins.slack.testing.server import APP_TOKEN, TOKEN, FakeWorkspace
from tests.planted.plugin import section, to_load
from tests.telegram.campaign.report import Report, say
from tests.telegram.campaign.running import CampaignHome

SLACK: Final = "slack"
REDELIVER_S: Final = 1.5  # Slack waits for three
_CONFIG: Final = """\
[models]
default = "mind/names"

[providers.mind]
kind = "mind"
models."names" = {{ images = true }}

[budgets]
person = []
group = []

[plugins]
load = [{plugins}]

[plugins.slack]
base_url = "{base_url}"
"""
_MIND: Final = "tests.telegram.campaign.mind:plugin"
_SLACK: Final = "daycare_plugins.slack.plugin:plugin"


@dataclass
class SlackRoom:
    """Where people write: somebody alone with the app, or a channel in threads. `id` is that of the channel."""

    number: int
    id: str
    writers: list[str]
    threads: list[str] = field(default_factory=lambda: [""])
    said: int = 0  # messages, each with a number of its own

    @property
    def is_channel(self) -> bool:
        """Whether several people write there, who have to address the app."""
        return self.id[0] == "C"

    def name(self) -> str:
        """Return the word with which the next message begins."""
        self.said += 1
        return f"m{self.number}-{self.said}"


class SlackStage(CampaignHome):
    """One home, one workspace; the model is the plugin `mind`."""

    connector = SLACK

    def __init__(self, slack: FakeWorkspace, report: Report) -> None:
        super().__init__(report)
        self.slack = slack
        self.rooms: list[SlackRoom] = []
        slack.links.redeliver_s = REDELIVER_S
        slack.echoes = True
        plugins = ", ".join(f'"{plugin}"' for plugin in _plugins())
        config = _CONFIG.format(plugins=plugins, base_url=slack.url)
        (self.home.path / "config.toml").write_text(config + section())

    async def introduce(self, rooms: Sequence[SlackRoom]) -> None:
        """Start for the first time: store the tokens, and make the people and channels known."""
        self.rooms = list(rooms)
        await self.up()
        async with client_of(self.home.socket) as client:
            for room in rooms:
                (await client.post("/v1/users", json={"id": f"c{room.number}"})).raise_for_status()
                key = {"key": f"{SLACK}:{room.id if room.is_channel else room.writers[0]}"}
                (await client.post(f"/v1/users/c{room.number}/links", json=key)).raise_for_status()
            for name, value in ((SLACK, TOKEN), (f"{SLACK}.app_token", APP_TOKEN)):
                (await client.put(f"/v1/keys/{name}", json={"value": value})).raise_for_status()

    def left(self) -> dict[str, int]:
        """Return what is not done yet, by name; nothing is left when all are 0."""
        return super().left() | {"events": self.slack.links.unacknowledged}


def _plugins() -> list[str]:
    """Return what to load; the connector is there already, unless the source tree was installed before it was."""
    installed = {point.value for point in entry_points(group="daycare.plugins")}
    return [_MIND, *([] if _SLACK in installed else [_SLACK]), *to_load()]


def rooms_of(slack: FakeWorkspace, count: int, *, channels: int = 0, threads: int = 3) -> list[SlackRoom]:
    """Make so many rooms, the first of them channels with threads."""
    rooms = []
    for number in range(count):
        writers = [f"U{number:03d}W{who}" for who in range(2)]
        places = [slack.person(writer, f"Person {number} {who}") for who, writer in enumerate(writers)]
        if number >= channels:
            rooms.append(SlackRoom(number, places[0], writers[:1]))
            continue
        channel = slack.channel(f"C{number:03d}ROOM", f"room-{number}")
        roots = [slack.ts() for _ in range(threads)]
        for root in roots:
            channel.messages[root] = {"type": "message", "user": writers[0], "text": "a thread", "ts": root}
        rooms.append(SlackRoom(number, channel.id, writers, roots))
    return rooms


@asynccontextmanager
async def staged(report: Report) -> AsyncGenerator[SlackStage, None]:
    """Open a stage. The home is kept if a promise was broken."""
    async with FakeWorkspace.serve() as slack:
        stage = SlackStage(slack, report)
        try:
            yield stage
        except* (BrokenDaemonError, httpx.HTTPError, apsw.Error) as errors:
            for error in errors.exceptions:
                report.find("broken", repr(error))
        finally:
            await stage.down()
            for wrong in slack.links.wrong:
                report.find("broken", f"over the WebSocket the daemon sent {wrong[:200]}")
            for kind, what in report.findings[:20]:
                say(f"{kind}: {what}")
            if report.harm:
                say(f"mode {report.mode}, seed {report.seed}: the home is kept in {stage.home.folder}")
            else:
                stage.home.remove()
