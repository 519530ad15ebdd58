"""A daemon with ears, and people who speak to it."""

from typing import Any

from daycare.base.messages import Origin
from daycare.base.voice_settings import HearingSection, SpeakingSection, VoiceSection
from daycare.config import BudgetsSection, Config, ModelSection, ModelsSection, ProviderSection
from daycare.plugin import Attachment, Inbound
from daycare.store.records import Receipt
from daycare.testing.daemon import TestDaemon


def config(
    hearing: HearingSection | None = None,
    base_url: str = "",
    *,
    speaking: SpeakingSection | None = None,
    budget: str = "20usd a day",
    **model: Any,
) -> Config:
    """Return settings with a scripted model, and a provider called fake at `base_url`."""
    providers = {"scripted": ProviderSection(kind="scripted", models={"model": ModelSection(**model)})}
    if base_url:
        prices = {"whisper": ModelSection(input_usd=100.0, output_usd=0.0)}
        providers["fake"] = ProviderSection(kind="openai", base_url=base_url, models=prices)
    return Config(
        models=ModelsSection(default="scripted/model"),
        providers=providers,
        voice=VoiceSection(hearing=hearing or HearingSection(), speaking=speaking or SpeakingSection()),
        budgets=BudgetsSection(operator=(budget,)),
    )


async def note(
    house: TestDaemon,
    *sounds: bytes,
    text: str = "",
    key: str = "note",
    user: str = "ann",
    origin: Origin = Origin.PERSON,
    message: str = "",
) -> Receipt:
    """Let somebody send a voice note."""
    files = tuple(Attachment(name="note.wav", media_type="audio/wav", data=data) for data in sounds)
    return await house.daemon.intake.accept(
        Inbound(
            connector="direct",
            sender=f"direct:{user}",
            key=key,
            text=text,
            files=files,
            origin=origin,
            context="from Bob" if origin is Origin.FORWARD else "",
            message=message,
        )
    )
