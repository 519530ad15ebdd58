"""Chat commands of plugins: run among the plugin's own tasks, with a deadline, and blamed when they fail."""

from collections.abc import Iterable
from typing import Final

from daycare.actors.lifecycle import Activation
from daycare.agent.commands import Command, CommandAnswer
from daycare.base import foreign
from daycare.base.clock import Clock
from daycare.base.errors import ConflictError, DaycareError
from daycare.base.events import PluginFailed
from daycare.base.limits import REPLY_MAX_CHARS
from daycare.base.secrecy import without_known
from daycare.observe.bus import Bus
from daycare.plugin import ChatCommand
from daycare.plugins.admission import Admitted
from daycare.plugins.context import HostContext, in_its_own
from daycare.store.records import Agent, InboxRow

COMMAND_DEADLINE_S: Final = 30.0  # of a plugin's chat command

_ITS_FAULT: Final = ("PLUGIN_FAILED", "PLUGIN_LATE")  # any other error is its answer


def offered(admitted: Iterable[Admitted], bus: Bus, clock: Clock) -> dict[str, Command]:
    """Return the commands of plugins by their words, which belong to one plugin each."""
    return {
        word: Command(command.help, Foreign(word, command, each.context, bus, clock).run)
        for each in admitted
        for word, command in each.plugin.commands.items()
    }


class Foreign:
    """One command of a plugin."""

    def __init__(self, word: str, command: ChatCommand, context: HostContext, bus: Bus, clock: Clock) -> None:
        self._word = word
        self._command = command
        self._context = context
        self._bus = bus
        self._clock = clock

    async def run(self, agent: Agent, lane: Activation, row: InboxRow, rest: str) -> CommandAnswer:
        """Let the plugin answer. What it raises on purpose is the answer, too."""
        name = self._context.name
        if self._context.tasks is None:
            raise ConflictError("PLUGIN_DOWN", f"/{self._word} is the plugin {name}'s, which does not run now")
        try:
            text = await in_its_own(
                self._context,
                lambda: self._say(agent, rest),
                COMMAND_DEADLINE_S,
                f"/{self._word} of the plugin {name}",
            )
        except DaycareError as error:
            if error.code in _ITS_FAULT:
                self._blame(error)
            raise
        return CommandAnswer(without_known(text)[:REPLY_MAX_CHARS].strip() or "Done.")

    async def _say(self, agent: Agent, rest: str) -> str:
        return foreign.text(await self._command.run(self._context, agent.path, agent.user, rest))

    def _blame(self, error: DaycareError) -> None:
        self._bus.publish(
            PluginFailed(
                at_ms=self._clock.now_ms(),
                plugin=self._context.name,
                part=f"/{self._word}",
                code=error.code,
                reason=error.message,
            )
        )
