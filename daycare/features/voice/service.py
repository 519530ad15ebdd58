"""Hearing and speaking, wired: what hears is loaded with the first note, what speaks with the first answer."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import trio

from daycare.base.connector import DIRECT
from daycare.base.health import Finding
from daycare.base.messages import EnvelopeKind
from daycare.feature import Core, Feature
from daycare.features.voice.rows import VoiceRows

if TYPE_CHECKING:
    from starlette.routing import Route

    from daycare.agent.admission import Admission
    from daycare.agent.attachments import AttachedFiles
    from daycare.agent.commands import Commands
    from daycare.agent.steps import Thought
    from daycare.base.messages import File
    from daycare.features.voice.command import CommandRunner
    from daycare.features.voice.hearing import Hearing
    from daycare.features.voice.records import HeardWords
    from daycare.features.voice.speaking import Speaking
    from daycare.inference.audio import AudioServer
    from daycare.inference.metering import Payer
    from daycare.inference.pool import Pool
    from daycare.settings import ProviderSection
    from daycare.store.records import Agent, Commit, Turn
    from daycare.store.vault import Vault


class VoiceFeature(Feature):
    """All of it. `folder` is for programs that hear and speak."""

    name = "voice"
    roles: ClassVar = {"voice notes": ""}

    def __init__(
        self,
        core: Core,
        admission: "Admission",
        files: "AttachedFiles",
        pool: "Pool",
        vault: "Vault",
        connectors: Collection[str],
        folder: Path,
    ) -> None:
        self._core, self._pool, self._vault, self._folder = core, pool, vault, folder
        self._parts = admission, files, connectors
        self._wanted = trio.Event()  # set once there is something to hear
        self._hearing: Hearing | None = None
        self._speaking: Speaking | None = None
        self._runs: CommandRunner | None = None
        self._servers: dict[str, tuple[ProviderSection | None, AudioServer]] = {}

    def background(self) -> Mapping[str, Callable[[], Awaitable[None]]]:
        """Return what hears."""
        return {"voice notes": self.attend}

    def committed(self, commit: "Commit") -> None:
        """Begin with the first note, and look again after each."""
        if commit.shards or any(row.envelope.kind is EnvelopeKind.VOICE for row in commit.posted):
            self._wanted.set()
            if self._hearing is not None:
                self._hearing.wake()

    def add_to(self, commands: "Commands") -> None:
        """Register `/voice`."""
        from daycare.features.voice.commands import VoiceCommands

        VoiceCommands(self._core.store, self._core.directory, self._core.live).add_to(commands)

    def routes(self, closing: trio.Event) -> "Sequence[Route]":
        """Return the routes."""
        from daycare.features.voice.faces import VoiceRoutes

        core = self._core
        return VoiceRoutes(
            core.store, core.live, core.clock, core.owner, self._try_to_hear, self._try_to_speak
        ).routes()

    async def findings(self) -> Sequence[Finding]:
        """Return who hears and who speaks, where that is set up."""
        from daycare.features.voice.faces import standing

        voice = self._core.live.now.voice
        if voice == type(voice)():
            return ()
        it = standing(voice)
        hears = ", ".join(it.hears) or "only a model that hears"
        text = f"listens: {hears}; speaks: {', '.join(it.speaks) or 'nobody'}"
        return [Finding(name="voice", ok=True, text=text)]

    async def attend(self) -> None:
        """Hear what waits and what comes, once there is any."""
        try:
            if not await self._core.store.of(VoiceRows).waiting(1):
                await self._wanted.wait()
            if self._hearing is None:
                self._hearing = self._made()
            await self._hearing.run()
        finally:
            with trio.CancelScope(shield=True):
                for _, server in self._servers.values():
                    await server.aclose()

    async def spoken(self, agent: "Agent", turn: "Turn", thought: "Thought") -> "Thought":
        """Return what a turn came to with its reply spoken, where that is wanted."""
        mode = agent.config.voice or self._core.live.now.voice.speaking.answers
        if mode == "off" or not thought.reply:
            return thought
        return await self._mouth().spoken(agent, turn, thought)

    async def _try_to_hear(self, file: "File") -> "HeardWords":
        agent, payer = await self._operators()
        if self._hearing is None:
            self._hearing = self._made()
        return await self._hearing.words(agent, file, payer)

    async def _try_to_speak(self, text: str) -> "File":
        agent, payer = await self._operators()
        return await self._mouth().file(agent, 0, text, payer)

    async def _operators(self) -> "tuple[Agent, Payer]":
        """Return the conversation at the operator's terminal, for which a test is made, and who pays."""
        from daycare.base.messages import Origin
        from daycare.base.path import Path as AgentPath
        from daycare.inference.metering import Payer

        place = AgentPath.connector(self._core.owner, DIRECT)
        agent = await self._core.directory.create(place, origin=Origin.PERSON)
        return agent, Payer.of(agent, 0)

    def _made(self) -> "Hearing":
        from daycare.features.voice.ears import Ears  # late: most daemons hear nothing
        from daycare.features.voice.hearing import Hearing

        core, (admission, files, connectors) = self._core, self._parts
        ears = Ears(core.live, self._pool, self._runner(), self.server)
        return Hearing(core.store, admission, files, ears, connectors, core.live, core.bus, core.clock)

    def _mouth(self) -> "Speaking":
        from daycare.features.voice.speaking import Speaking

        if self._speaking is None:
            core, connectors = self._core, self._parts[2]
            parts = core.store, self._pool, self._runner(), self.server, connectors, core.live, core.bus, core.clock
            self._speaking = Speaking(*parts)
        return self._speaking

    def _runner(self) -> "CommandRunner":
        from daycare.features.voice.command import CommandRunner

        if self._runs is None:
            self._runs = CommandRunner(self._folder, self._core.clock)
            self._runs.sweep()
        return self._runs

    async def server(self, provider: str) -> "AudioServer":
        """Return the server of a provider, as its section is now."""
        from daycare.inference.configured import audio

        section = self._core.live.now.providers.get(provider)
        known = self._servers.get(provider)
        if known is not None and known[0] == section:
            return known[1]
        server = audio(self._core.live.now, provider, self._core.store.secrets, self._vault)
        self._servers[provider] = section, server
        if known is not None:
            await known[1].aclose()
        return server
