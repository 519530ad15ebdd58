"""The chat command `/pair`, by which an operator lets strangers in or turns them away: what a notice's buttons say."""

from daycare.actors.lifecycle import Activation
from daycare.agent.blocks import one_line
from daycare.agent.commands import Command, CommandAnswer, Commands, who_asks
from daycare.features.pairing.newcomers import Newcomers
from daycare.store.records import Agent, InboxRow
from daycare.store.sqlite.people import PeopleStore

_NAME_MAX_CHARS = 40


class NewcomerCommands:
    """Answers it."""

    def __init__(self, newcomers: Newcomers, people: PeopleStore) -> None:
        self._newcomers = newcomers
        self._people = people

    def add_to(self, commands: Commands) -> None:
        """Register it."""
        commands.add("pair", Command("let a stranger in [approve or deny ADDRESS]", self._pair, hidden=True))

    async def _pair(self, agent: Agent, lane: Activation, row: InboxRow, rest: str) -> CommandAnswer:
        asker = await who_asks(self._people, row)
        if asker is None or not asker.operator:
            return CommandAnswer("Only an operator may let people in.")
        word, _, key = rest.partition(" ")
        key = key.strip()
        if word == "approve" and key:
            done = await self._newcomers.approve_key(key)
            told = "They are told." if done.welcomed else "They could not be told: let them write again."
            return CommandAnswer(f"{done.key} is {done.user.id}, and talks to {done.path}. {told}")
        if word == "deny" and key:
            stranger = await self._newcomers.deny(key)
            name = one_line(stranger.name, _NAME_MAX_CHARS).replace("`", "'")
            return CommandAnswer(f"`{name or stranger.key}` is shown no more codes.")
        return CommandAnswer("/pair approve ADDRESS lets a stranger in, /pair deny ADDRESS turns them away.")
