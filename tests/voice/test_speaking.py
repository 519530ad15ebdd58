"""An answer is spoken where that is wanted and fits; else, and whenever it fails, it goes out in words."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from daycare.base.errors import ForbiddenError
from daycare.base.voice_settings import HearingSection, SpeakingSection
from daycare.plugin import Attachment, Outgoing
from daycare.store.records import AgentConfig
from daycare.testing.daemon import TestDaemon, open_daemon
from daycare.testing.fake_connector import FakeConnector
from daycare.testing.openai_server import FakeOpenAI
from daycare.testing.scripted import say
from tests.flow.platform import inbound, people, receive
from tests.voice.houses import config
from tests.voice.spoken import ESPEAK, spoken
from tests.voice.test_hearing import LATE_S, spent_on

ANSWER = "It is four o'clock in Lima."


@asynccontextmanager
async def speaker(
    tmp_path: Path, pigeon: FakeConnector, base_url: str = "", hearing: HearingSection | None = None, **speaking: Any
) -> AsyncIterator[TestDaemon]:
    """Give a daemon that speaks, and whose people have pigeons."""
    own = config(hearing, base_url, speaking=SpeakingSection(**speaking))
    async with open_daemon(tmp_path, config=own, plugins=[pigeon.plugin()], inline=False) as house:
        await people(house)
        with trio.fail_after(LATE_S):
            yield house


async def arrived(pigeon: FakeConnector, count: int) -> list[Outgoing]:
    while len(pigeon.arrived) < count:
        await trio.sleep(0.01)
    return pigeon.arrived


async def test_an_answer_is_spoken_by_a_provider_paid_once_and_comes_as_a_sound(tmp_path: Path) -> None:
    pigeon = FakeConnector()
    async with (
        FakeOpenAI.serve() as server,
        speaker(tmp_path, pigeon, server.base_url, answers="always", provider="fake/whisper", voice="nova") as house,
    ):
        house.model.enqueue(say(f"**{ANSWER}**"))
        await receive(house, inbound("1", "what time is it?"))
        [sent] = await arrived(pigeon, 1)
        assert not house.events("voice.unspoken")
        assert sent.text.strip() == "" and [file.media_type for file in sent.files] == ["audio/ogg"]
        asked = server.history[-1].body
        assert (asked["input"], asked["voice"], asked["response_format"]) == (ANSWER, "nova", "opus")
        [spent] = await spent_on(house, "whisper")
        assert (spent.calls, spent.cost_micros > 0) == (1, True)
        row = await house.store.outbox.get(1)
        assert row is not None and row.text == f"**{ANSWER}**", "the words are kept"


async def test_a_mirror_speaks_to_those_who_speak(tmp_path: Path) -> None:
    pigeon = FakeConnector()
    async with (
        FakeOpenAI.serve() as server,
        speaker(
            tmp_path,
            pigeon,
            server.base_url,
            HearingSection(provider="fake/whisper-1"),
            answers="mirror",
            provider="fake/tts-1",
        ) as house,
    ):
        server.enqueue("what time is it?")
        house.model.default = lambda request: say(ANSWER)
        await receive(house, inbound("1", "what time is it?"))
        await arrived(pigeon, 1)
        note = Attachment(name="note.ogg", media_type="audio/ogg", data=spoken("what time is it?"))
        await receive(house, inbound("2", "", files=(note,)))
        written, said = await arrived(pigeon, 2)
        assert (written.text, written.files) == (ANSWER, ())
        assert said.files and not said.text.strip()


@pytest.mark.parametrize(
    "answer",
    ["x" * 601, "```\ncode\n```", "First:\n- one\n- two", "See https://example.org", "# Title\nwords"],
    ids=["long", "code", "list", "link", "heading"],
)
async def test_what_nobody_wants_to_hear_stays_text(tmp_path: Path, answer: str) -> None:
    pigeon = FakeConnector()
    async with speaker(tmp_path, pigeon, answers="always", command=("false", "{output}")) as house:
        house.model.enqueue(say(answer))
        await receive(house, inbound("1", "tell"))
        [sent] = await arrived(pigeon, 1)
        assert (sent.text, sent.files) == (answer, ()) and not house.events("voice.unspoken")


@pytest.mark.parametrize(
    ("speaking", "why"),
    [
        ({}, "VOICE_MUTE"),
        ({"command": ("false", "{output}")}, "VOICE_COMMAND"),
        ({"command": ("cp", "{text}", "{output}")}, "VOICE_GARBAGE"),
        ({"provider": "fake/tts-1"}, "PROVIDER_UNREACHABLE"),
    ],
    ids=["no backend", "fails", "garbage", "away"],
)
async def test_an_answer_that_cannot_be_spoken_goes_out_in_words(
    tmp_path: Path, speaking: dict[str, Any], why: str
) -> None:
    pigeon = FakeConnector()
    async with speaker(tmp_path, pigeon, "http://127.0.0.1:9/v1", answers="always", **speaking) as house:
        house.model.enqueue(say(ANSWER))
        await receive(house, inbound("1", "tell"))
        [sent] = await arrived(pigeon, 1)
        assert (sent.text, sent.files) == (ANSWER, ())
        [event] = house.events("voice.unspoken")
        assert event["code"] == why


async def test_what_a_platform_will_not_take_spoken_it_gets_in_words(tmp_path: Path) -> None:
    pigeon = FakeConnector()
    async with FakeOpenAI.serve() as server, speaker(tmp_path, pigeon, server.base_url, provider="fake/tts-1") as house:
        agent = await house.agent("/ann/pigeon", AgentConfig(voice="always"))
        assert agent.config.voice == "always", "an agent's own setting counts"
        pigeon.enqueue(ForbiddenError("VOICE_FORBIDDEN", "she takes no voice notes"))
        house.model.enqueue(say(ANSWER))
        await receive(house, inbound("1", "tell"))
        [sent] = await arrived(pigeon, 1)
        assert (sent.text.strip(), sent.files, len(pigeon.flights)) == (ANSWER, (), 2)
        assert not house.events("dead.lettered") and pigeon.flights[0].files


@pytest.mark.skipif(ESPEAK is None, reason="espeak-ng is not installed: sudo apt-get install espeak-ng")
async def test_espeak_speaks_as_a_program(tmp_path: Path) -> None:
    pigeon = FakeConnector()
    command = ("espeak-ng", "-f", "{text}", "-w", "{output}")
    async with speaker(tmp_path, pigeon, answers="always", command=command, format="wav") as house:
        house.model.enqueue(say(ANSWER))
        await receive(house, inbound("1", "tell"))
        [sent] = await arrived(pigeon, 1)
        assert [file.name for file in sent.files] == ["answer.wav"] and sent.files[0].data.startswith(b"RIFF")
        assert len(sent.files[0].data) > 20_000, "some two seconds of speech"


async def test_people_choose_in_the_chat_when_they_are_spoken_to(tmp_path: Path) -> None:
    async with open_daemon(tmp_path, inline=False) as house:
        with trio.fail_after(LATE_S):
            assert (await house.talk("/voice")).startswith("I answer in words. I do not tell you what I heard")
            told = await house.talk("/voice mirror")
            assert told.startswith(
                "I answer voice notes with voice notes. Nothing here can speak yet, so it stays words."
            )
            assert "I tell you what I heard" in await house.talk("/voice echo on")
            assert "/voice off, mirror or always" in await house.talk("/voice loud")
            agent = await house.daemon.directory.at("/ann/direct")
            assert (agent.config.voice, agent.config.echo) == ("mirror", "on")
            await house.talk("/voice default")
            agent = await house.daemon.directory.at("/ann/direct")
            assert (agent.config.voice, agent.config.echo) == (None, None)
