"""Hearing and speaking: voice notes that come are read as if they were typed, and answers are spoken on request."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from daycare.base.messages import EnvelopeKind
from daycare.feature import Core, Feature
from daycare.features.voice.rows import VoiceRows

if TYPE_CHECKING:
    from daycare.agent.admission import Admission
    from daycare.agent.attachments import AttachedFiles
    from daycare.features.voice.ears import Ears
    from daycare.features.voice.hearing import Hearing
    from daycare.inference.audio import AudioServer
    from daycare.inference.pool import Pool
    from daycare.settings import ProviderSection
    from daycare.store.records import Commit
    from daycare.store.vault import Vault


class VoiceFeature(Feature):
    """All of it. What hears is loaded with the first note. `folder` is for programs that hear and speak."""

    name = "voice"

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
        self._servers: dict[str, tuple[ProviderSection | None, AudioServer]] = {}

    def background(self) -> Mapping[str, Callable[[], Awaitable[None]]]:
        """Return what hears."""
        return {"voice notes": self.attend}

    def committed(self, commit: "Commit") -> None:
        """Begin with the first note, and look again after each."""
        if commit.posted and any(row.envelope.kind is EnvelopeKind.VOICE for row in commit.posted):
            self._wanted.set()
            if self._hearing is not None:
                self._hearing.wake()

    async def attend(self) -> None:
        """Hear what waits and what comes, once there is any."""
        if not await self._core.store.of(VoiceRows).waiting(1):
            await self._wanted.wait()
        if self._hearing is None:
            self._hearing = self._made()
        try:
            await self._hearing.run()
        finally:
            with trio.CancelScope(shield=True):
                for _, server in self._servers.values():
                    await server.aclose()

    def _made(self) -> "Hearing":
        from daycare.features.voice.hearing import Hearing  # late: most daemons hear nothing

        core, (admission, files, connectors) = self._core, self._parts
        return Hearing(core.store, admission, files, self.ears(), connectors, core.live, core.bus, core.clock)

    def ears(self) -> "Ears":
        """Return all that can hear, as the settings have it."""
        from daycare.features.voice.command import CommandRunner
        from daycare.features.voice.ears import Ears

        runner = CommandRunner(self._folder, self._core.clock)
        runner.sweep()
        return Ears(self._core.live, self._pool, runner, self.server)

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
