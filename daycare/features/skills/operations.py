"""What can be asked about skills."""

from typing import Annotated

import msgspec

from daycare.api.operations import Operation
from daycare.base.meaning import meaning
from daycare.features.skills.folder import SKILL_FILES_MAX
from daycare.features.skills.records import Skill, SkillPlace
from daycare.rules.skill_text import SKILL_FILE

SkillName = Annotated[str, meaning("The skill's name", metavar="NAME")]
SkillAgent = Annotated[
    str, meaning("The agent that has it; empty: a skill of the home", metavar="PATH", option="--agent")
]
Where = Annotated[
    SkillPlace | None, meaning("agent, user, home, global or workspace, where several have the name", metavar="PLACE")
]


class ListSkills(Operation, frozen=True, kw_only=True):
    """List the skills of the home, or all those that are there for an agent, and whether a person has approved them."""

    ROUTE = "GET /v1/skills"
    path: SkillAgent = ""


class ShowSkill(Operation, frozen=True, kw_only=True):
    """Show what a skill says, what is suspicious in its files, and what has changed since it was approved."""

    ROUTE = "GET /v1/skill"
    name: SkillName
    file: Annotated[str, meaning("Which of its files, such as scripts/fill.py", metavar="FILE")] = SKILL_FILE
    path: SkillAgent = ""
    place: Where = None


class SkillUpload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of a skill. `data` is base64."""

    path: Annotated[str, msgspec.Meta(min_length=1, max_length=1_000)]
    data: bytes


class AddSkill(Operation, frozen=True, kw_only=True):
    """Put a skill into the home: its folder, with SKILL.md. Nobody has approved it by that."""

    ROUTE = "POST /v1/skills"
    STATUS = 201
    name: SkillName
    files: Annotated[tuple[SkillUpload, ...], msgspec.Meta(min_length=1, max_length=SKILL_FILES_MAX)]
    replace: Annotated[bool, meaning("In place of one of that name")] = False


class ApproveSkill(Operation, frozen=True, kw_only=True):
    """Approve exactly what a skill says now: agents follow it from then on, until a file of it changes."""

    ROUTE = "POST /v1/skill/approve"
    name: SkillName
    hash: Annotated[str, meaning("Of what you saw, or its first 12 characters", metavar="HASH")]
    path: SkillAgent = ""
    place: Where = None


class RevokeSkill(Operation, frozen=True, kw_only=True):
    """Take back the approvals of a skill: from then on it is data for agents."""

    ROUTE = "POST /v1/skill/revoke"
    name: SkillName
    path: SkillAgent = ""
    place: Where = None


class RemoveSkill(Operation, frozen=True, kw_only=True):
    """Remove a skill of the home with its files, or the document that is one."""

    ROUTE = "DELETE /v1/skill"
    name: SkillName
    path: SkillAgent = ""
    place: Where = None


class ListedSkills(msgspec.Struct, frozen=True, kw_only=True):
    """Skills, by name and place."""

    skills: tuple[Skill, ...]


class OneSkill(msgspec.Struct, frozen=True, kw_only=True):
    """A skill as it is after a change."""

    skill: Skill


class RevokedSkill(msgspec.Struct, frozen=True, kw_only=True):
    """How many approvals were taken back."""

    name: str
    revoked: int


class RemovedSkill(msgspec.Struct, frozen=True, kw_only=True):
    """What was removed."""

    name: str
    place: SkillPlace
    where: str
