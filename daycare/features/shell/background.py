"""Commands that go on while their agent does other things: so many, so long, and never longer than their agent lives.

They are kept in memory alone. A daemon that ends takes them along, and the next one knows of none.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import trio

from daycare.base.error_boundary import error_boundary
from daycare.base.errors import BusyError, DaycareError, NotFoundError

if TYPE_CHECKING:
    from daycare.features.shell.running import ShellResult, ShellRun  # late: most daemons run none

ENDED_KEPT_MAX: Final = 8  # of an agent, with their output
RUNNING_MAX: Final = 8  # of all agents: each holds a thread

CarryOut = Callable[[], Awaitable["ShellResult"]]


@dataclass
class BackgroundCommand:
    """One of them. `result` is there once it has ended, `failed` says why it could not begin."""

    no: int
    agent_id: str
    command: str
    run: "ShellRun"
    result: "ShellResult | None" = None
    failed: str = ""
    ended: trio.Event = field(default_factory=trio.Event)

    @property
    def state(self) -> str:
        """How it is, in a few words."""
        if self.failed:
            return f"did not begin: {self.failed}"
        if self.result is None:
            return "runs"
        return f"stopped: {self.result.stopped}" if self.result.stopped else f"ended with exit code {self.result.code}"


class BackgroundCommands:
    """Keeps them. They run in `work`, which ends them all when it is cancelled."""

    def __init__(self) -> None:
        self._all: dict[str, list[BackgroundCommand]] = {}  # by agent, in order
        self._last = 0
        self._nursery: trio.Nursery | None = None

    async def work(self) -> None:
        """Let them run, until cancelled."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            await trio.sleep_forever()

    def start(self, agent_id: str, command: str, run: "ShellRun", carry_out: CarryOut, most: int) -> BackgroundCommand:
        """Start one of at most so many of an agent. Raises `BusyError` SHELL_BACKGROUND."""
        mine = self._all.setdefault(agent_id, [])
        running, of_all = self.running(agent_id), self.running()
        if self._nursery is None or running >= most or of_all >= RUNNING_MAX:
            raise BusyError(
                "SHELL_BACKGROUND",
                f"starting a command in the background: {running} of this agent run, {of_all} in all",
                hint="stop one with shell_stop, or run it without background",
            )
        for each in [each for each in mine if each.ended.is_set()][: -ENDED_KEPT_MAX + 1]:
            mine.remove(each)
        self._last += 1
        it = BackgroundCommand(self._last, agent_id, command, run)
        mine.append(it)
        self._nursery.start_soon(self._carry_out, it, carry_out)
        return it

    def running(self, agent_id: str | None = None) -> int:
        """Return how many run, of an agent or of all."""
        found = self._all.values() if agent_id is None else [self.of(agent_id)]
        return sum(not each.ended.is_set() for these in found for each in these)

    def of(self, agent_id: str) -> list[BackgroundCommand]:
        """Return those of an agent, with those that have ended lately."""
        return list(self._all.get(agent_id, ()))

    def get(self, agent_id: str, no: int) -> BackgroundCommand:
        """Return one of an agent's. Raises `NotFoundError` SHELL_RUN."""
        for each in self._all.get(agent_id, ()):
            if each.no == no:
                return each
        raise NotFoundError(
            "SHELL_RUN", f"looking for command {no}: there is none, or the daemon was started since", hint="shell_runs"
        )

    def end(self, agent_id: str | None = None) -> None:
        """Stop those of an agent that has ended and forget them; without one stop all."""
        for owner in list(self._all) if agent_id is None else [agent_id]:
            for each in self._all.get(owner, ()):
                each.run.stop("its agent has ended" if agent_id else "[shell] says so")
        if agent_id is not None:
            self._all.pop(agent_id, None)

    async def _carry_out(self, it: BackgroundCommand, carry_out: CarryOut) -> None:
        try:
            with error_boundary("SHELL_CRASHED", f"command {it.no} in the background"):
                it.result = await carry_out()
        except DaycareError as error:
            it.failed = error.message
        finally:
            it.ended.set()
