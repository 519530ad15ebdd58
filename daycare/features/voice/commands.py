"""The chat command `/voice`: when answers are spoken here, and whether people are told what was heard."""

from typing import Final, get_args

from msgspec.structs import replace

from daycare.actors.directory import Directory
from daycare.actors.lifecycle import Activation
from daycare.agent.commands import Command, CommandAnswer, Commands, check_manager
from daycare.base.voice_settings import VoiceMode
from daycare.settings import Live
from daycare.store.records import Agent, InboxRow
from daycare.store.sqlite.store import Store

_WHEN: Final = {
    "off": "I answer in words",
    "mirror": "I answer voice notes with voice notes",
    "always": "I answer with voice notes",
}
_HOW: Final = "/voice off, mirror or always chooses; /voice echo on tells you what I heard."


class VoiceCommands:
    """Answers it."""

    def __init__(self, store: Store, directory: Directory, live: Live) -> None:
        self._store, self._directory, self._live = store, directory, live

    def add_to(self, commands: Commands) -> None:
        """Register it."""
        commands.add("voice", Command("when I speak, or choose it [off | mirror | always | echo on]", self._run))

    async def _run(self, agent: Agent, lane: Activation, row: InboxRow, rest: str) -> CommandAnswer:
        word, _, more = rest.strip().lower().partition(" ")
        if not word:
            return CommandAnswer(f"{self._told(agent)} {_HOW}")
        await check_manager(self._store.people, row, agent, "whose conversation it is can choose how I answer")
        now = await self._directory.get(agent.id)
        if word in get_args(VoiceMode):
            config = replace(now.config, voice=word)
        elif word == "default":
            config = replace(now.config, voice=None, echo=None)
        elif word == "echo" and more in ("on", "off"):
            config = replace(now.config, echo=more)
        else:
            return CommandAnswer(f"What about it? {_HOW}")
        return CommandAnswer(self._told(await self._store.agents.configure(agent.id, config)))

    def _told(self, agent: Agent) -> str:
        settings = self._live.now.voice
        mode = agent.config.voice or settings.speaking.answers
        echo = settings.hearing.echo if agent.config.echo is None else agent.config.echo == "on"
        able = bool(settings.speaking.command or settings.speaking.provider)
        lacking = "" if able or mode == "off" else " Nothing here can speak yet, so it stays words."
        return f"{_WHEN[mode]}.{lacking} I {'tell you' if echo else 'do not tell you'} what I heard in voice notes."
