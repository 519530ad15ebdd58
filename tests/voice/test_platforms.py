"""Spoken words set a reminder wherever they come from, and each platform gets an answer as it shows voice notes."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from daycare.base.bridge import FileAt
from daycare.base.clock import SystemClock
from daycare.base.voice_settings import HearingSection, SpeakingSection, VoiceSection
from daycare.config import Config, PluginsSection, ProviderSection
from daycare.testing.daemon import OWNER, TestDaemon, open_daemon
from daycare.testing.openai_server import FakeOpenAI
from daycare_plugins.bridge.testing.platform import platform
from daycare_plugins.slack import outgoing as _slack_outgoing  # noqa: F401 -- it would block the house's loop
from daycare_plugins.slack import serving as _slack  # noqa: F401
from daycare_plugins.slack import socket_mode as _socket_mode  # noqa: F401
from daycare_plugins.slack.testing.server import APP_TOKEN, TOKEN, FakeWorkspace
from daycare_plugins.telegram import serving as _telegram  # noqa: F401 -- it would block the house's loop
from daycare_plugins.telegram.testing.server import FakeTelegram
from daycare_plugins.whatsapp_cloud import outgoing as _outgoing  # noqa: F401
from daycare_plugins.whatsapp_cloud import serving as _whatsapp  # noqa: F401
from daycare_plugins.whatsapp_cloud.testing.server import FakeGraph
from tests.bridge.helpers import FAKE, QUICK
from tests.voice.houses import note
from tests.voice.spoken import Stub
from tests.whatsapp_cloud.houses import ANN, KEY, free_port, until

REMIND = "Remind me in five minutes to stretch."
LATE_S = 30.0

Said = Callable[[bytes], Awaitable[None]]


@asynccontextmanager
async def house_of(
    tmp: Path,
    hearing: HearingSection,
    speaking: SpeakingSection,
    server: FakeOpenAI,
    plugins: dict[str, Any],
    **keys: str,
) -> AsyncIterator[TestDaemon]:
    """Run a daemon without a model that answers Ann over a platform; `keys` are stored secrets."""
    config = Config(
        providers={"fake": ProviderSection(kind="openai", base_url=server.base_url)} | Config().providers,
        plugins=PluginsSection(settings=plugins),
        voice=VoiceSection(hearing=hearing, speaking=speaking),
    )
    async with open_daemon(tmp, config=config, work=False, inline=False, clock=SystemClock()) as house:
        for name, value in keys.items():
            await house.store.secrets.put(name.replace("__", "."), OWNER, house.daemon.vault.seal(value))
        await house.store.people.link("telegram:5", OWNER)
        await house.store.people.link(KEY, OWNER)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(house.daemon.work)
            with trio.fail_after(LATE_S):
                yield house
            nursery.cancel_scope.cancel()


async def reminders(house: TestDaemon, path: str) -> list[str]:
    agent = await house.daemon.directory.at(path)
    return [timer.envelope.text for timer in await house.store.timers.find(agent.id, 10)]


async def test_telegram_hears_a_reminder_and_answers_with_a_voice_note(
    tmp_path: Path, stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    hearing, speaking = HearingSection(command=stub.command), SpeakingSection(answers="mirror", provider="fake/tts-1")
    async with FakeOpenAI.serve() as server, FakeTelegram.serve() as telegram:
        own = {"base_url": telegram.base_url, "base_file_url": telegram.base_file_url}
        async with house_of(tmp_path, hearing, speaking, server, {"telegram": own}, telegram=telegram.token) as house:
            telegram.voice(5, 5, stub.told(REMIND))
            await until(lambda: telegram.sent(5), LATE_S)
            assert await reminders(house, "/ann/telegram") == ["stretch"]
            [answer] = telegram.sent(5)
            assert (answer.kind, answer.text or "") == ("voice", "")


async def test_whatsapp_hears_a_reminder_and_answers_with_a_sound(tmp_path: Path, stub: Stub) -> None:
    hearing, speaking = (
        HearingSection(provider="fake/whisper-1"),
        SpeakingSection(answers="mirror", provider="fake/tts-1"),
    )
    async with FakeOpenAI.serve() as server, FakeGraph.serve() as graph:
        server.hear = lambda upload: stub.heard(upload.content)
        port = free_port()
        graph.webhook_url = f"http://127.0.0.1:{port}/whatsapp"
        graph.person(ANN, "Ann")
        own = {
            "phone_number_id": graph.number_id,
            "base_url": graph.base_url,
            "listen": f"127.0.0.1:{port}",
            "confirm_s": 1,
        }
        secrets = {
            "whatsapp_cloud": graph.token,
            "whatsapp_cloud__app_secret": graph.app_secret,
            "whatsapp_cloud__verify_token": graph.verify_token,
        }
        async with house_of(tmp_path, hearing, speaking, server, {"whatsapp_cloud": own}, **secrets) as house:
            await until(lambda: "whatsapp-cloud" in house.daemon.connectors)
            voice = graph.file("audio/ogg", stub.told(REMIND)) | {"voice": True}
            graph.send(ANN, "audio", voice)
            await until(lambda: graph.sent(ANN), LATE_S)
            assert await reminders(house, "/ann/whatsapp-cloud") == ["stretch"]


async def test_slack_hears_a_clip_and_answers_with_a_sound(tmp_path: Path, stub: Stub) -> None:
    hearing, speaking = HearingSection(command=stub.command), SpeakingSection(answers="mirror", provider="fake/tts-1")
    async with FakeOpenAI.serve() as server, FakeWorkspace.serve() as slack:
        slack.person("U1ANN", "Ann")
        secrets = {"slack": TOKEN, "slack__app_token": APP_TOKEN}
        own = {"slack": {"base_url": slack.url}}
        async with house_of(tmp_path, hearing, speaking, server, own, **secrets) as house:
            await house.store.people.link("slack:U1ANN", OWNER)
            clip = slack.file("audio_message.m4a", "audio/mp4", stub.told(REMIND), "slack_audio")
            slack.say("U1ANN", "", files=(clip,))
            await until(lambda: slack.sent("U1ANN"), LATE_S)
            assert await reminders(house, "/ann/slack") == ["stretch"]
            [answer] = slack.sent("U1ANN")
            assert [slack.files[each["id"]].content[:4] for each in answer["files"]] == [b"OggS"]


async def test_a_bridge_hears_a_reminder(tmp_path: Path, stub: Stub) -> None:
    home = tmp_path / "home"
    home.mkdir()
    command = [*FAKE, "--platform", str(tmp_path / "p.sock")]
    own = {"bridge": {"to": {"fake": {"command": command, **QUICK}}}}
    async with FakeOpenAI.serve() as server, platform(tmp_path / "p.sock") as there:
        hearing = HearingSection(command=stub.command)
        async with house_of(home, hearing, SpeakingSection(), server, own) as house:
            await house.store.people.link("fake:ann", OWNER)
            await until(lambda: there.connections, LATE_S)
            (home / "plugins/bridge/fake/in/note.wav").write_bytes(stub.told(REMIND))
            there.say("ann", "", files=(FileAt(name="note.wav", media_type="audio/wav", path="in/note.wav"),))
            await until(lambda: there.texts("ann"), LATE_S)
            assert await reminders(house, "/ann/fake") == ["stretch"]


async def test_the_api_hears_a_reminder(tmp_path: Path, stub: Stub) -> None:
    async with FakeOpenAI.serve() as server:
        hearing = HearingSection(command=stub.command)
        async with house_of(tmp_path, hearing, SpeakingSection(), server, {}) as house:
            answer = await house.hear(await note(house, stub.told(REMIND)))
            assert await reminders(house, "/ann/direct") == ["stretch"], answer
