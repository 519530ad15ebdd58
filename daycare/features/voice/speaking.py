"""Answers as voice notes: spoken before the turn ends, so that they are committed with it like any other file.

What cannot be spoken, or is not worth it, goes out as text. Nothing here fails a turn.
"""

import hashlib
import re
from collections.abc import Collection, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Final, Protocol

import trio
from msgspec.structs import replace

from daycare.agent.attachments import is_sound
from daycare.agent.deliveries import is_silent
from daycare.agent.kinds import route
from daycare.agent.steps import Thought
from daycare.base.clock import Clock
from daycare.base.error_boundary import error_boundary
from daycare.base.errors import DaycareError, SetupError, UnavailableError
from daycare.base.events import VoiceUnspoken
from daycare.base.messages import File, Message, Origin, Text
from daycare.base.voice_settings import SpeakingSection, VoiceMode
from daycare.features.voice.command import CommandRunner, VoiceProgram
from daycare.features.voice.ears import Servers
from daycare.features.voice.rows import VoiceRows
from daycare.features.voice.sound import sound_of
from daycare.inference.metering import Meter, Payer
from daycare.inference.pool import Pool
from daycare.observe.about import about
from daycare.observe.bus import Bus
from daycare.settings import Live
from daycare.store.records import Agent, Turn
from daycare.store.retry import with_retry
from daycare.store.sqlite.store import Store

# What nobody wants to hear read out: code, lists, tables, headings, addresses of pages.
_WRITTEN: Final = re.compile(r"```|^[ \t]*+(?:[-*+\u2022]\s|\d++[.)]\s|#{1,6}\s|\|)|https?://", re.MULTILINE)
_MARKS: Final = re.compile(r"[*_`~]+")


class Mouth(Protocol):
    """Somebody who can speak."""

    def meter(self, text: str, payer: Payer) -> AbstractAsyncContextManager[Meter | None]:
        """Return what reserves and charges the call."""
        ...

    async def speak(self, text: str) -> bytes:
        """Return the sound. Raises `DaycareError`."""
        ...


class ProviderMouth:
    """A provider's `/audio/speech`."""

    def __init__(self, it: SpeakingSection, pool: Pool, servers: Servers) -> None:
        self._it, self._pool, self._servers = it, pool, servers

    def meter(self, text: str, payer: Payer) -> AbstractAsyncContextManager[Meter | None]:
        """Meter the words."""
        said = (Message("user", (Text(text),)),)
        return self._pool.metered(self._it.provider, said, 1, self._it.seconds, payer)

    async def speak(self, text: str) -> bytes:
        """Ask it."""
        provider, _, model = self._it.provider.partition("/")
        return await (await self._servers(provider)).speak(model, self._it.voice, text, self._it.format)


class ProgramMouth:
    """A program of the operator's own."""

    def __init__(self, it: SpeakingSection, runner: CommandRunner) -> None:
        self._it, self._runner = it, runner
        self._program = VoiceProgram(it.command, it.seconds, it.memory_mb, it.readable)

    def meter(self, text: str, payer: Payer) -> AbstractAsyncContextManager[Meter | None]:
        """Meter nothing."""
        return nullcontext()

    async def speak(self, text: str) -> bytes:
        """Run it."""
        spoken = f"answer.{self._it.format}"
        names = {"text": "answer.txt", "output": spoken}
        return await self._runner.run(self._program, {"answer.txt": text.encode()}, names, spoken, stdin="answer.txt")


class Speaking:
    """Speaks. `connectors` are where an answer can go."""

    def __init__(
        self,
        store: Store,
        pool: Pool,
        runner: CommandRunner,
        servers: Servers,
        connectors: Collection[str],
        live: Live,
        bus: Bus,
        clock: Clock,
    ) -> None:
        self._store, self._rows = store, store.of(VoiceRows)
        self._pool, self._runner, self._servers, self._connectors = pool, runner, servers, connectors
        self._live, self._bus, self._clock = live, bus, clock

    async def spoken(self, agent: Agent, turn: Turn, thought: Thought) -> Thought:
        """Return what a turn came to with its reply spoken, or as it was where that stays text."""
        text = words_of(thought.reply)
        if not self._wants(agent, thought) or not 0 < len(text) <= self._live.now.voice.speaking.max_chars:
            return thought
        if _WRITTEN.search(thought.reply) or is_silent(thought):
            return thought
        payer = Payer.of(agent, 0, turn.trace)
        try:
            with error_boundary("VOICE_CRASHED", f"speaking the answer of turn {turn.turn}"):
                return replace(thought, spoken=await self.file(agent, turn.turn, text, payer))
        except DaycareError as error:
            self._bus.publish(
                VoiceUnspoken(
                    **about(self._clock, agent, turn.trace), turn=turn.turn, code=error.code, reason=error.message
                )
            )
            return thought

    def _wants(self, agent: Agent, thought: Thought) -> bool:
        """Return whether somebody is to hear it: an agent says so, or they spoke themselves."""
        mode: VoiceMode = agent.config.voice or self._live.now.voice.speaking.answers
        if mode == "off" or (mode == "mirror" and not any(map(is_sound, _files(thought)))):
            return False
        return any(route(agent, row.envelope, self._connectors) is not None for row in thought.rows)

    async def file(self, agent: Agent, turn: int, text: str, payer: Payer) -> File:
        """Return a text as a sound, kept once it was spoken. Raises the error of the last who was asked."""
        it = self._live.now.voice.speaking
        key = f"spoken:{turn}:{hashlib.sha256(text.encode()).hexdigest()[:16]}"
        known = await self._store.files.find(key, agent.user)
        if known is not None:
            return known
        failed: DaycareError = SetupError(
            "VOICE_MUTE", "nothing here can speak yet", hint="[voice.speaking] in config.toml: doc/use/voice.md"
        )
        for mouth in self._mouths(it):
            try:
                return await self._said(mouth, agent, key, text, payer)
            except DaycareError as error:
                failed = error
        raise failed

    def _mouths(self, it: SpeakingSection) -> Sequence[Mouth]:
        found: list[Mouth] = [ProgramMouth(it, self._runner)] if it.command else []
        return [*found, ProviderMouth(it, self._pool, self._servers)] if it.provider else found

    async def _said(self, mouth: Mouth, agent: Agent, key: str, text: str, payer: Payer) -> File:
        seconds = self._live.now.voice.speaking.seconds
        with trio.move_on_after(seconds):
            async with mouth.meter(text, payer) as meter:
                data = await mouth.speak(text)
                if meter is not None:
                    meter.read()
                sound = sound_of(data)
                if sound is None:
                    raise UnavailableError("VOICE_GARBAGE", "what came is no sound that I know")
                spend = meter.spend if meter is not None else None
                name = f"answer.{sound.ending}"
                kept = key, agent.user, Origin.AGENT, name, sound.media_type, data, spend
                file = await with_retry(lambda: self._rows.keep(*kept))
                if meter is not None:
                    meter.paid = True
            return file
        raise UnavailableError("VOICE_SLOW", f"speaking took longer than {seconds} s")


def words_of(text: str) -> str:
    """Return a text as it is said: without the marks of Markdown."""
    return " ".join(_MARKS.sub("", text).split())


def _files(thought: Thought) -> Sequence[File]:
    return [file for row in thought.rows for file in row.envelope.files]
