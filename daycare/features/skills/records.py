"""Skills as they are found, and approvals of them as they are kept. Times are wall-clock milliseconds, UTC."""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from daycare.features.approvals.records import ApprovalFinding


class SkillPlace(StrEnum):
    """Where a skill is. Of one name in several places the first approved one counts, else the first."""

    AGENT = "agent"  # a document of one agent
    USER = "user"  # a document that all agents of a user share
    HOME = "home"  # a folder in `skills` of the home, for all agents
    GLOBAL = "global"  # a document that is everybody's
    WORKSPACE = "workspace"  # a folder in `.agents/skills` of an agent's workspace


DOCUMENTS = (SkillPlace.AGENT, SkillPlace.USER, SkillPlace.GLOBAL)


class SkillState(StrEnum):
    """Whether a person has approved exactly what a skill says now."""

    APPROVED = "approved"
    CHANGED = "changed"  # something else of it was
    NEW = "new"
    BROKEN = "broken"  # it cannot be read; its problems say why


class SkillFile(msgspec.Struct, frozen=True):
    """A file of a skill; `size` is in bytes."""

    path: str
    size: int


class Skill(msgspec.Struct, frozen=True, kw_only=True):
    """A skill. `where` is its folder in the home or workspace, or its document; `hash` is that of all its files.

    `problems` are what is not as the standard says. `allowed_tools` are names that it mentions: they give no right.
    """

    name: str
    place: SkillPlace
    where: str
    state: SkillState
    description: str = ""
    hash: str = ""
    files: tuple[SkillFile, ...] = ()
    problems: tuple[str, ...] = ()
    license: str = ""
    compatibility: str = ""
    allowed_tools: tuple[str, ...] = ()
    approved_by: str = ""
    approved_at: int | None = None

    @property
    def approved(self) -> bool:
        """Whether its instructions are to be followed."""
        return self.state is SkillState.APPROVED


class SkillApproval(msgspec.Struct, frozen=True, kw_only=True):
    """That somebody has approved a skill: for all agents, or with a `scope` for those of one user.

    `text` is what SKILL.md said, `files` are the hashes of all files by their paths.
    """

    no: int = 0
    hash: str
    scope: str
    name: str
    place: SkillPlace
    user: str
    by: str
    text: str
    files: Mapping[str, str]
    created_at: int = 0


class SkillView(msgspec.Struct, frozen=True, kw_only=True):
    """A skill as it is shown to who decides: what a file of it says, what is suspicious, and what was approved before.

    `text` is None of a file that is not text. `findings` are by file, the worst first. `changed` are the files that
    have since it was approved last, `diff` is what has in SKILL.md.
    """

    skill: Skill
    file: str
    text: str | None
    findings: Mapping[str, tuple[ApprovalFinding, ...]]
    diff: str = ""
    changed: tuple[str, ...] = ()
