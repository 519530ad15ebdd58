"""Where the workspaces of agents are: below `workspaces` in the home, or below a root that config.toml names."""

from pathlib import Path
from typing import Final

from daycare.base.errors import ForbiddenError, InvalidError
from daycare.base.workspace import Access
from daycare.features.workspaces.beneath import why_not
from daycare.features.workspaces.folder import WorkspaceFolder, checked
from daycare.settings import Live
from daycare.store.records import Agent, AgentConfig

HOME_FOLDER: Final = "workspaces"


class WorkspacePlaces:
    """Knows them; `home` is the daemon's own folder, which is in none of them."""

    def __init__(self, home: Path, live: Live) -> None:
        self._home = home
        self._live = live

    def access(self, agent: Agent) -> Access:
        """Return what an agent may do with files."""
        config = agent.config
        if not config.workspace or why_not():
            return Access.NONE
        return config.access or Access.LIMITED

    def of(self, config: AgentConfig) -> WorkspaceFolder:
        """Return an agent's workspace, which is not opened yet; its folder is made where it is in the home.

        Raises `ForbiddenError` WORKSPACE_OUTSIDE for one that is nowhere where it may be, `InvalidError` FILE_PATH.
        """
        wanted = config.workspace
        if not wanted.startswith(("/", "~/")):
            return WorkspaceFolder(self._home, f"{HOME_FOLDER}/{self._name(wanted)}", make=True)
        path = Path(wanted).expanduser()
        for root in (Path(each).expanduser() for each in self._live.now.workspaces.roots):
            if not path.is_relative_to(root) or ".." in path.parts:
                continue
            real, home = root.resolve(), self._home.resolve()
            if home.is_relative_to(real / path.relative_to(root)) or real.is_relative_to(home):
                raise ForbiddenError(
                    "WORKSPACE_HOME", f"using the workspace {wanted}: the daemon's own files are there", hint="another"
                )
            return WorkspaceFolder(real, str(path.relative_to(root)))
        raise ForbiddenError(
            "WORKSPACE_OUTSIDE",
            f"using the workspace {wanted}: no root in [workspaces] has it",
            hint='name it in config.toml: [workspaces] roots = ["/srv/projects"], or use a name without a slash',
        )

    def check(self, config: AgentConfig) -> None:
        """Raise what `of` raises, for settings that name a workspace."""
        if config.workspace:
            self.of(config)

    def _name(self, wanted: str) -> str:
        if checked(wanted) == ".":
            raise InvalidError(
                "FILE_PATH", f"using the workspace {wanted!a}: a workspace needs a name", hint="workspace=notes"
            )
        return checked(wanted)
