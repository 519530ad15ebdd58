"""Hearing and speaking over the API."""

from collections.abc import Awaitable, Callable
from pathlib import Path

from starlette.routing import Route

from daycare.api.described import described
from daycare.api.operations import route
from daycare.base.clock import Clock
from daycare.base.errors import NotFoundError
from daycare.base.messages import File
from daycare.base.voice_settings import VoiceSection
from daycare.features.voice.ears import programs
from daycare.features.voice.operations import (
    HeardFile,
    HearFile,
    ShowVoice,
    SpeakText,
    SpokenText,
    VoiceStanding,
)
from daycare.features.voice.records import HeardWords
from daycare.settings import Live
from daycare.store.sqlite.store import Store

Hear = Callable[[File], Awaitable[HeardWords]]
Speak = Callable[[str], Awaitable[File]]


class VoiceRoutes:
    """`/v1/voice` and what is below it. `hear` and `speak` do it for the operator `owner`."""

    def __init__(self, store: Store, live: Live, clock: Clock, owner: str, hear: Hear, speak: Speak) -> None:
        self._store, self._live, self._clock, self._owner = store, live, clock, owner
        self._hear, self._speak = hear, speak

    def routes(self) -> list[Route]:
        """Return them."""
        return [route(ShowVoice, self.show), route(HearFile, self.hear), route(SpeakText, self.speak)]

    @described({200: VoiceStanding})
    async def show(self, wish: ShowVoice) -> VoiceStanding:
        """Show who does it."""
        return standing(self._live.now.voice)

    @described({200: HeardFile}, refuses=(403, 503))
    async def hear(self, wish: HearFile) -> HeardFile:
        """Listen to a file of the operator's."""
        file = await self._store.files.get(wish.file, self._owner)
        if file is None:
            raise NotFoundError("FILE_UNKNOWN", f"listening to file {wish.file}: {self._owner} has none")
        began = self._clock.steady_s()
        heard = await self._hear(file)
        seconds = round(self._clock.steady_s() - began, 3)
        return HeardFile(text=heard.text, language=heard.language, by=heard.by, seconds=seconds)

    @described({200: SpokenText}, refuses=(403, 503))
    async def speak(self, wish: SpeakText) -> SpokenText:
        """Speak a text."""
        began = self._clock.steady_s()
        file = await self._speak(wish.text)
        seconds = round(self._clock.steady_s() - began, 3)
        return SpokenText(file=file.id, name=file.name, size=file.size, seconds=seconds)


def standing(section: VoiceSection) -> VoiceStanding:
    """Return who hears and speaks, as the settings have it."""
    hearing, speaking = section.hearing, section.speaking
    return VoiceStanding(
        model=hearing.model,
        hears=(*(name for name, _ in programs(hearing)), *filter(None, (hearing.provider,))),
        speaks=(*(Path(word).name for word in speaking.command[:1]), *filter(None, (speaking.provider,))),
        answers=speaking.answers,
    )
