"""Commands of agents in a sandbox, each in one of its own; off until `[shell]` says otherwise."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import trio

from daycare.base.errors import UnavailableError
from daycare.base.events import AgentDied
from daycare.base.health import Finding
from daycare.base.workspace import Access
from daycare.feature import Core, Feature
from daycare.features.shell.background import BackgroundCommands

if TYPE_CHECKING:
    from daycare.features.skills.service import Skills
    from daycare.features.workspaces import WorkspacesFeature
    from daycare.plugin import StructTool
    from daycare.store.records import Agent, Commit


class ShellFeature(Feature):
    """All of it. Where no sandbox can be started the tool is not there, and health and doctor say why."""

    name = "shell"
    roles: ClassVar = {"shell": "", "shell commands": ""}

    def __init__(self, core: Core, workspaces: "WorkspacesFeature", skills: "Skills") -> None:
        self._core = core
        self._workspaces = workspaces
        self._running = BackgroundCommands()
        self._skills = skills
        self._why: str | None = None  # why there is no sandbox, None until that was tried
        self._tried = trio.Event()
        self._changed = trio.Event()
        core.live.watch(lambda settings: settings.shell, self._retry)

    def tools(self) -> "Sequence[StructTool[Any]]":
        """Return the tools."""
        from daycare.features.shell.tools import ShellTools

        core, workspaces = self._core, self._workspaces
        ground = core.directory, workspaces.places, self._skills, core.live, core.bus, core.clock
        return ShellTools(*ground, self.check, self._running).tools()

    def offers(self, agent: "Agent", tool: str) -> bool:
        """Return whether an agent has it: a sandbox can be started, and it has a workspace.

        Until that was tried it can: what was interrupted or approved goes on while the daemon starts.
        """
        shell = self._core.live.now.shell
        able = shell.enabled and not self._why and (tool == "shell" or shell.background > 0)
        return able and self._workspaces.places.access(agent) is not Access.NONE

    def background(self) -> Mapping[str, Callable[[], Awaitable[None]]]:
        """Return what tries the sandbox, once it is switched on, and what commands in the background run in."""
        return {"shell": self.attend, "shell commands": self._running.work}

    def committed(self, commit: "Commit") -> None:
        """Stop what agents that have ended have left in the background."""
        for event in commit.events:
            if isinstance(event, AgentDied):
                self._running.end(event.agent_id)

    async def attend(self) -> None:
        """Try whether a sandbox can be started, and again when the settings change."""
        while True:
            self._changed = trio.Event()
            if self._core.live.now.shell.enabled:
                self._why = await trio.to_thread.run_sync(_tried, bool(self._core.live.now.shell.hosts))
                self._tried.set()
            await self._changed.wait()

    async def check(self) -> None:
        """Raise `UnavailableError` SHELL_NONE if no sandbox can be started, once that was tried."""
        await self._tried.wait()
        if self._why:
            raise UnavailableError("SHELL_NONE", f"starting a sandbox: {self._why}", hint="daycare doctor")

    async def findings(self) -> Sequence[Finding]:
        """Return whether commands can be run, where they are switched on."""
        if not self._core.live.now.shell.enabled or self._why is None:
            return ()
        hosts = ", ".join(self._core.live.now.shell.hosts)
        network = f"; by https it reaches {hosts}" if hosts else ""
        network += f"; in the background: {running}" if (running := self._running.running()) else ""
        text = f"no sandbox, so no shell: {self._why}" if self._why else f"each command runs in a sandbox{network}"
        return [Finding(name="shell", ok=not self._why, text=text)]

    def _retry(self) -> None:
        shell = self._core.live.now.shell
        if not shell.enabled or not shell.background:
            self._running.end()
        self._changed.set()


def _tried(reaching: bool) -> str:
    from daycare.features.shell import cgroups, sandbox  # late: it costs nothing where it is off

    cgroups.sweep()
    return sandbox.why_not(reaching=reaching)[0]
