"""A voice note goes the way of typed words; what cannot be heard says so, once, with what to do."""

from pathlib import Path

import trio

from daycare.base.voice_settings import HearingSection, VoiceSection
from daycare.config import Config, ModelsSection, ProviderSection
from daycare.plugin import Attachment, Inbound
from daycare.store.records import Receipt
from daycare.testing.daemon import TestDaemon, open_daemon
from daycare.testing.openai_server import FakeOpenAI
from tests.voice.spoken import Stub


def config(hearing: HearingSection, base_url: str = "") -> Config:
    own = {"scripted": ProviderSection(kind="scripted")}
    if base_url:
        own["fake"] = ProviderSection(kind="openai", base_url=base_url)
    return Config(models=ModelsSection(default="scripted/model"), providers=own, voice=VoiceSection(hearing=hearing))


async def note(house: TestDaemon, data: bytes, text: str = "", key: str = "note") -> Receipt:
    return await house.daemon.intake.accept(
        Inbound(
            connector="direct",
            sender="direct:ann",
            key=key,
            text=text,
            files=(Attachment(name="note.wav", media_type="audio/wav", data=data),),
        )
    )


async def test_a_voice_note_is_answered_as_if_it_were_typed(tmp_path: Path, stub: Stub) -> None:
    data = stub.told("What is the time in Lima?")
    async with open_daemon(tmp_path, config=config(HearingSection(command=stub.command)), inline=False) as house:
        with trio.fail_after(20):
            answer = await house.hear(await note(house, data))
        assert answer.startswith("echo: What is the time in Lima?")
        assert "the words above were heard in it" in house.model.history[-1].messages[-1].text


async def test_a_provider_hears(tmp_path: Path, stub: Stub) -> None:
    data = stub.told("What is the time in Lima?")
    async with FakeOpenAI.serve() as server:
        server.hear = lambda upload: stub.heard(upload.content)
        own = config(HearingSection(provider="fake/whisper-1"), server.base_url)
        async with open_daemon(tmp_path, config=own, inline=False) as house:
            with trio.fail_after(20):
                answer = await house.hear(await note(house, data))
            assert answer.startswith("echo: What is the time in Lima?")
            assert "in the language english" in house.model.history[-1].messages[-1].text
