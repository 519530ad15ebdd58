"""Skills: instructions for tasks, with scripts and references, that agents read when they need them."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from daycare.agent.prompt import is_helper
from daycare.base.health import Finding
from daycare.feature import Core, Feature

if TYPE_CHECKING:
    from pathlib import Path

    import trio
    from starlette.routing import Route

    from daycare.agent.commands import Commands
    from daycare.features.approvals.gate import ApprovalGate
    from daycare.features.memory.documents.service import Documents
    from daycare.features.skills.service import Scan
    from daycare.features.workspaces.places import WorkspacePlaces
    from daycare.plugin import StructTool
    from daycare.store.records import Agent

UPLOAD_MAX_BYTES: Final = 6 * 1024 * 1024  # of a skill with its files in base64


class SkillsFeature(Feature):
    """All of it. `home` is the daemon's own folder, `scan` finds what is suspicious in a text, `gate` asks people."""

    name = "skills"
    bodies: ClassVar[Mapping[str, int]] = {"/v1/skills": UPLOAD_MAX_BYTES}

    def __init__(
        self,
        core: Core,
        home: "Path",
        documents: "Documents",
        places: "WorkspacePlaces",
        scan: "Scan",
        may_use: "Callable[[Agent, str], bool]",
        gate: "ApprovalGate",
    ) -> None:
        from daycare.features.skills.asked import AskedSkills
        from daycare.features.skills.finding import SkillFinder
        from daycare.features.skills.service import Skills

        self._core = core
        self._gate = gate
        self._home = home
        self._documents = documents
        self._commands: Commands | None = None
        self.skills = Skills(core.store, SkillFinder(home, documents, places), scan, core.bus, core.clock)
        self.asked = AskedSkills(self.skills, core.directory, may_use, self._is_command)

    def tools(self) -> "Sequence[StructTool[Any]]":
        """Return the tools that read and propose skills."""
        from daycare.features.skills.proposing import SkillProposals
        from daycare.features.skills.tools import SkillTools

        store, directory = self._core.store, self._core.directory
        proposals = SkillProposals(self.skills, store, directory, self._gate)
        return SkillTools(self.skills, directory, proposals, self._core.may).tools()

    def offers(self, agent: "Agent", tool: str) -> bool:
        """Return whether an agent has skills: a helper is told its task, and nothing else."""
        return not is_helper(agent)

    def add_to(self, commands: "Commands") -> None:
        """Know the chat commands: a skill of the same name is not meant by their words."""
        self._commands = commands

    def routes(self, closing: "trio.Event") -> "Sequence[Route]":
        """Return `/v1/skills` and `/v1/skill`."""
        from daycare.features.skills.faces import SkillRoutes
        from daycare.features.skills.installing import SkillInstaller

        installer = SkillInstaller(self._home, self._documents, self.skills)
        return SkillRoutes(self.skills, installer, self._core.directory, self._core.owner).routes()

    async def findings(self) -> "Sequence[Finding]":
        """Return why skills of the home are not there, where somebody would not see it."""
        from daycare.features.skills.folder import HOME_FOLDER

        if not (self._home / HOME_FOLDER).is_symlink():
            return ()
        return [Finding(name="skills", ok=False, text=f"{HOME_FOLDER} in the home is a link, which is not followed")]

    def _is_command(self, word: str) -> bool:
        return self._commands is not None and self._commands.has(word)
