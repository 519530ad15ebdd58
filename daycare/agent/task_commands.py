"""The chat command `/task`: what works in the background; start something, or cancel it."""

from collections.abc import Collection
from typing import Final

from daycare.actors.lifecycle import Activation
from daycare.agent.commands import Answer, Command, Commands, check_manager
from daycare.agent.kinds import sender_connector
from daycare.agent.task_controls import TaskControls
from daycare.agent.task_tools import line_of
from daycare.base.messages import Choice
from daycare.base.path import Path
from daycare.base.task import TaskSpec
from daycare.store.records import Agent, InboxRow
from daycare.store.sqlite.tasks import TaskRows

_SHOWN: Final = 10  # tasks of one answer: a phone's screen
_HELP: Final = "/task TEXT starts one, /task cancel NAME stops it; `daycare task show` tells all of one."


class TaskCommands:
    """Answers it. `connectors` are those that people write by."""

    def __init__(self, controls: TaskControls, connectors: Collection[str]) -> None:
        self._controls = controls
        self._connectors = connectors

    def add_to(self, commands: Commands) -> None:
        """Register it."""
        commands.add("task", Command("what works in the background [TEXT | cancel NAME]", self._run))

    async def _run(self, agent: Agent, lane: Activation, row: InboxRow, rest: str) -> Answer:
        verb, _, name = rest.partition(" ")
        if not rest or rest == "list":
            return await self._list(agent.user)
        await check_manager(self._controls.store.people, row, agent, "whose tasks these are can do that")
        if verb == "cancel" and name.strip() and " " not in name.strip():
            task = await self._controls.cancel(str(Path.task(agent.user, name.strip())))
            return Answer(f"Task {task.id} is being stopped.")
        task = await self._controls.start(
            agent.user,
            TaskSpec(prompt=rest),
            key=f"chat:{agent.id}:{row.seq}",
            deliver=agent.path,
            connector=sender_connector(row.envelope, self._connectors) or "",
            target=row.envelope.reply_target,
        )
        stop = Choice(f"Cancel {task.id}", f"/task cancel {task.id}")
        return Answer(f"Task {task.id} has begun; its answer comes here by itself.", choices=(stop,))

    async def _list(self, user: str) -> Answer:
        tasks = await self._controls.store.of(TaskRows).find(user=user, limit=_SHOWN)
        if not tasks:
            return Answer(f"There are no tasks. {_HELP}")
        zone = await self._controls.zone(user)
        return Answer("\n".join((*(line_of(task, zone) for task in tasks), "", _HELP)))
