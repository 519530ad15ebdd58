"""Behaviours of plugins: run among the plugin's own tasks, with a deadline, and blamed when they break."""

from collections.abc import Iterable, Sequence
from typing import Final

import trio

from daycare.agent.behaviours import FAILED, BehaviourPart
from daycare.base import foreign
from daycare.base.behaviour import Behaviour, BehaviourContext, BehaviourMessage
from daycare.base.clock import Clock
from daycare.base.errors import AwayError, DaycareError, UnavailableError
from daycare.base.events import PluginFailed
from daycare.observe.bus import Bus
from daycare.plugins.admission import Admitted
from daycare.plugins.context import HostContext, in_its_own

BEHAVIOUR_DEADLINE_S: Final = 120.0  # of one turn of an app: as long as a tool may take
BEHAVIOUR_WAIT_S: Final = 5.0  # that a turn waits for its plugin to start; then it is put off

_ITS_FAULT = ("PLUGIN_FAILED", "PLUGIN_LATE")  # any other error it raised on purpose
_LOOK_S = 0.1
_AGAIN_S = 15.0  # before a turn looks again whether its plugin runs


def acting(admitted: Iterable[Admitted], bus: Bus, clock: Clock) -> dict[str, BehaviourPart]:
    """Return the behaviours of plugins by PLUGIN/NAME."""
    return {
        f"{each.plugin.name}/{behaviour.name}": ForeignBehaviour(behaviour, each.context, bus, clock)
        for each in admitted
        for behaviour in each.plugin.behaviours
    }


class ForeignBehaviour:
    """One behaviour of a plugin; see `agent.behaviours.BehaviourPart`."""

    def __init__(self, behaviour: Behaviour, context: HostContext, bus: Bus, clock: Clock) -> None:
        self.name = behaviour.name
        self.description = behaviour.description
        self.plugin = context.name
        self._behaviour = behaviour
        self._context = context
        self._bus = bus
        self._clock = clock

    def problem(self) -> str:
        """Return why it cannot act now, "" if it can."""
        if self._context.tasks is not None:
            return ""
        return f"the plugin {self.plugin}, whose behaviour {self.name} makes it, does not run now"

    async def act(self, context: BehaviourContext, messages: Sequence[BehaviourMessage]) -> str | None:
        """Let the plugin take a turn."""
        for _ in range(round(BEHAVIOUR_WAIT_S / _LOOK_S)):  # it is starting, or starts anew after a crash
            if not self.problem():
                break
            await trio.sleep(_LOOK_S)
        if problem := self.problem():
            what = f"{context.path} cannot work: {problem}"
            raise AwayError("BEHAVIOUR_AWAY", what, hint="daycare plugins list", retry_after_s=_AGAIN_S)
        said: list[str | None] = []

        async def act() -> str:
            reply: object = await self._behaviour.act(context, messages)
            said.append(None if reply is None else foreign.text(reply))
            return ""

        doing = f"a turn of the behaviour {self.name} of the plugin {self.plugin}"
        try:
            await in_its_own(self._context, act, BEHAVIOUR_DEADLINE_S, doing)
        except DaycareError as error:
            if error.code not in _ITS_FAULT:
                raise
            self._blame(context, error)
            raise UnavailableError(FAILED, error.message, hint="daycare plugins list") from error
        return said[0] if said else None

    def _blame(self, context: BehaviourContext, error: DaycareError) -> None:
        self._bus.publish(
            PluginFailed(
                at_ms=self._clock.now_ms(),
                plugin=self.plugin,
                part=f"behaviour {self.name} of {context.path}",
                code=error.code,
                reason=error.message,
            )
        )
