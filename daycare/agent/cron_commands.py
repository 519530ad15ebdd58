"""The chat command `/cron`: what is scheduled here, paused, let go on, or run now."""

from typing import Final

from daycare.actors.lifecycle import Activation
from daycare.agent.commands import Answer, Command, Commands, check_manager
from daycare.agent.cron_controls import CronControls
from daycare.agent.cron_tools import line_of
from daycare.base.messages import Choice
from daycare.base.path import Path
from daycare.store.records import Agent, InboxRow

_SHOWN: Final = 20  # jobs of one answer: a phone's screen
_HELP: Final = (
    "/cron pause NAME, /cron resume NAME, /cron run NAME; `daycare cron history` shows what became of each time."
)


class CronCommands:
    """Answers it."""

    def __init__(self, controls: CronControls) -> None:
        self._controls = controls

    def add_to(self, commands: Commands) -> None:
        """Register it."""
        commands.add("cron", Command("what is scheduled [pause | resume | run NAME]", self._run))

    async def _run(self, agent: Agent, lane: Activation, row: InboxRow, rest: str) -> Answer:
        verb, _, name = rest.partition(" ")
        if not verb or verb == "list":
            return await self._list(agent.user)
        if verb not in ("pause", "resume", "run") or not name.strip():
            return Answer(_HELP)
        await check_manager(self._controls.store.people, row, agent, "whose jobs these are can do that")
        path = str(Path.cron(agent.user, name.strip()))
        if verb == "run":
            run = await self._controls.run(path)
            return Answer(f"{name.strip()} runs now (run {run.no}); its answer comes by itself.")
        job = await self._controls.pause(path, paused=verb == "pause")
        return Answer(line_of(job, await self._controls.zone(job.user)))

    async def _list(self, user: str) -> Answer:
        jobs = await self._controls.find(user)
        if not jobs:
            return Answer(
                "Nothing is scheduled. Ask me to do something every morning, or see `daycare cron add --help`."
            )
        zone = await self._controls.zone(user)
        lines = [line_of(job, zone) for job in jobs[:_SHOWN]]
        lines += [f"and {len(jobs) - _SHOWN} more: `daycare cron list`"] if len(jobs) > _SHOWN else []
        verb = "resume" if jobs[0].paused else "pause"
        choices = (Choice(f"{verb} {jobs[0].id}"[:60], f"/cron {verb} {jobs[0].id}"),) if len(jobs) == 1 else ()
        return Answer("\n".join((*lines, "", _HELP)), choices=choices)
