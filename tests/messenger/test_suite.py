"""Every messenger keeps what the suite of connectors claims, over the fake of its platform."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pytest

from daycare.base.error_boundary import causes
from daycare.base.errors import UnavailableError
from daycare.testing.daemon import TestDaemon
from daycare.testing.messenger_suite import (
    CLAIMS,
    Claim,
    Stage,
    Trouble,
    a_reply_is_cut_the_same_each_time,
    failures_say_what_to_do,
    name_of,
    no_wait_is_without_an_end,
)
from daycare.testing.scripted import Scripted
from daycare_plugins.bridge.testing.platform import FakePlatform, platform
from daycare_plugins.slack.testing import server as workspace
from daycare_plugins.telegram.testing import faults
from daycare_plugins.telegram.testing.server import FakeTelegram
from daycare_plugins.whatsapp_cloud import failures
from daycare_plugins.whatsapp_cloud.connector import CloudConnector
from daycare_plugins.whatsapp_cloud.testing import server as graph
from tests.bridge.helpers import FAKE, bridged
from tests.bridge.helpers import is_up as bridge_is_up
from tests.slack import houses as slack_houses
from tests.telegram.test_house import daemon as telegram_daemon
from tests.whatsapp_cloud.houses import ANN, BEN, open_stage, until
from tests.whatsapp_cloud.houses import Stage as CloudHouse


class Telegram:
    connector = "telegram"
    target = "5"

    def __init__(self, server: FakeTelegram, folder: Path) -> None:
        self.model = Scripted()
        server.person(5)
        self._server = server
        self._folder = folder

    @asynccontextmanager
    async def daemon(self) -> AsyncGenerator[TestDaemon, None]:
        async with telegram_daemon(self._folder, self._server, self.model) as house:
            await until(lambda: self._server.called("getUpdates"))
            yield house

    def say(self, text: str, name: str = "Ann") -> object:
        self._server.person_of(5).first_name = name
        self._server.say(5, 5, text)
        return self._server.next_update_id

    def again(self, said: object) -> None:
        self._server.redeliver(10)

    def stranger(self, text: str) -> None:
        self._server.say(6, 6, text)

    def texts(self) -> Sequence[str]:
        return [message.text for message in self._server.sent(5)]

    def told_stranger(self) -> Sequence[str]:
        return [message.text for message in self._server.sent(6)]

    async def trouble(self, kind: Trouble) -> None:
        fault = {
            "lost": faults.lost(),
            "busy": faults.flood(1),
            "gone": faults.refused(403, "Forbidden: bot was blocked by the user"),
            "stalled": faults.TelegramFault(stall="after"),
        }[kind]
        self._server.fault("sendMessage", fault, chat=5)


@asynccontextmanager
async def telegram(folder: Path) -> AsyncGenerator[Stage, None]:
    async with FakeTelegram.serve() as server:
        yield Telegram(server, folder)


class Cloud:
    connector = "whatsapp-cloud"
    target = ANN

    def __init__(self, house: CloudHouse) -> None:
        self.model = house.model
        self._house = house
        self._graph = house.graph

    def daemon(self) -> AbstractAsyncContextManager[TestDaemon]:
        return self._house.daemon(confirm_s=0)

    def say(self, text: str, name: str = "Ann") -> object:
        self._graph.person(ANN, name)
        return self._graph.say(ANN, text)

    def again(self, said: Any) -> None:
        self._graph.post(messages=[said])

    def stranger(self, text: str) -> None:
        self._graph.say(BEN, text)

    def texts(self) -> Sequence[str]:
        return [message.text for message in self._graph.sent(ANN)]

    def told_stranger(self) -> Sequence[str]:
        return [message.text for message in self._graph.sent(BEN)]

    async def trouble(self, kind: Trouble) -> None:
        fault = {
            "lost": graph.lost(silent=True),
            "busy": graph.error(130429, 429),
            "gone": graph.error(131026),
            "stalled": graph.stalled(),
        }[kind]
        self._graph.fault("messages", fault, to=ANN)


@asynccontextmanager
async def cloud(folder: Path) -> AsyncGenerator[Stage, None]:
    async with open_stage(folder) as house:
        yield Cloud(house)


class Slack:
    connector = "slack"
    target = slack_houses.ANN

    def __init__(self, house: slack_houses.Stage) -> None:
        self.model = house.model
        self._house = house
        self._slack = house.slack

    def daemon(self) -> AbstractAsyncContextManager[TestDaemon]:
        return self._house.daemon()

    def say(self, text: str, name: str = "Ann") -> object:
        self._slack.people[self.target] = name
        return self._slack.say(self.target, text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"))

    def again(self, said: Any) -> None:
        self._slack.push("events_api", said)

    def stranger(self, text: str) -> None:
        self._slack.say(slack_houses.BEN, text)

    def texts(self) -> Sequence[str]:
        return self._house.texts()

    def told_stranger(self) -> Sequence[str]:
        return self._house.texts(slack_houses.BEN)

    async def trouble(self, kind: Trouble) -> None:
        fault = {
            "lost": workspace.lost(),
            "busy": workspace.busy(),
            "gone": workspace.refused("user_disabled"),
            "stalled": workspace.stalled(),
        }[kind]
        self._slack.fault("chat.postMessage", fault)


@asynccontextmanager
async def slack(folder: Path) -> AsyncGenerator[Stage, None]:
    async with slack_houses.open_stage(folder) as house:
        yield Slack(house)


class Bridge:
    connector = "fake"
    target = "ann"

    def __init__(self, there: FakePlatform, folder: Path) -> None:
        self.model = Scripted()
        self._there = there
        self._folder = folder
        self._said: dict[object, tuple[str, str]] = {}

    @asynccontextmanager
    async def daemon(self) -> AsyncGenerator[TestDaemon, None]:
        command = [*FAKE, "--platform", str(self._there.path)]
        async with bridged(self._folder, self.model, command) as house:
            await until(lambda: bridge_is_up(house), 20)
            yield house

    def say(self, text: str, name: str = "Ann") -> object:
        said = self._there.say("ann", text, name=name)
        self._said[said] = (text, name)
        return said

    def again(self, said: object) -> None:
        text, name = self._said[said]
        self._there.say("ann", text, name=name, id=said)

    def stranger(self, text: str) -> None:
        self._there.say("ben", text)

    def texts(self) -> Sequence[str]:
        return self._there.texts("ann")

    def told_stranger(self) -> Sequence[str]:
        return self._there.texts("ben")

    async def trouble(self, kind: Trouble) -> None:
        before = len(self._there.obeyed)
        self._there.order("trouble", kind=kind)
        await until(lambda: len(self._there.obeyed) > before, 20)


@asynccontextmanager
async def bridge(folder: Path) -> AsyncGenerator[Stage, None]:
    home = folder / "home"
    home.mkdir()
    async with platform(folder / "p.sock") as there:
        yield Bridge(there, home)


HURRY: Final = 5  # in so much less time than they have do they answer, and is it looked whether they do
WAITS: Final[dict[Callable[[Path], AbstractAsyncContextManager[Stage]], list[str]]] = {
    telegram: [f"daycare_plugins.telegram.client.{name}" for name in ("CONNECT_S", "POOL_S", "CALL_S")],
    cloud: [f"daycare_plugins.whatsapp_cloud.client.{name}" for name in ("CONNECT_S", "CALL_S")],
    slack: [f"daycare_plugins.slack.client.{name}" for name in ("CONNECT_S", "CALL_S")],
    bridge: ["daycare_plugins.bridge.connector.SEND_S"],
}


@pytest.mark.parametrize("claim", CLAIMS, ids=name_of)
@pytest.mark.parametrize("messenger", [telegram, cloud, slack, bridge], ids=name_of)
async def test_every_messenger_conforms(
    messenger: Callable[[Path], AbstractAsyncContextManager[Stage]],
    claim: Claim,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))  # whose locks are nobody else's
    if claim is no_wait_is_without_an_end:
        for name in (*WAITS[messenger], "daycare.testing.messenger_suite.SEND_MAX_S"):
            module, _, constant = name.rpartition(".")
            monkeypatch.setattr(name, getattr(import_module(module), constant) / HURRY)
    async with messenger(tmp_path) as stage:
        await claim(stage)


async def test_a_connector_that_loses_words_or_hides_a_failure_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    split, code_of = CloudConnector.split, failures.CODES[130429]
    monkeypatch.setattr(CloudConnector, "split", lambda self, outgoing: split(self, outgoing)[:1])
    monkeypatch.setitem(failures.CODES, 130429, code_of._replace(kind=UnavailableError))
    for claim, why in ((a_reply_is_cut_the_same_each_time, "words are missing"), (failures_say_what_to_do, "to wait")):
        folder = tmp_path / name_of(claim)
        folder.mkdir()
        with pytest.raises(ExceptionGroup) as found:
            async with cloud(folder) as stage:
                await claim(stage)
        assert any(isinstance(cause, AssertionError) and why in str(cause) for cause in causes(found.value))
