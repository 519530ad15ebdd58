"""Proposals of agents: a text that becomes one of their documents, or a folder of their workspace with all its files.

Either is a request for approval that shows what is new in it and what is suspicious; the yes is for just that.
"""

from typing import Annotated, Final

import msgspec

from daycare.actors.directory import Directory
from daycare.base.errors import InvalidError
from daycare.base.messages import ToolCall
from daycare.features.approvals.gate import ApprovalGate
from daycare.features.approvals.records import SKILL_PROPOSE, CallAction
from daycare.features.approvals.rows import APPROVED_CALL, ApprovalRows
from daycare.features.skills.folder import SkillFiles
from daycare.features.skills.records import SkillPlace
from daycare.features.skills.service import Skills, file_of
from daycare.plugin import StructTool, ToolContext
from daycare.rules.skill_text import SKILL_DESCRIPTION_MAX_CHARS, SKILL_FILE, flaws, skill_text
from daycare.store.records import User
from daycare.store.sqlite.store import Store

ASKED_MAX_CHARS: Final = 60_000  # of all files in a request: nobody reads more

_BECAUSE_MAX_CHARS: Final = 200


class ProposeSkill(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Propose a skill, instructions for a kind of task that comes again, or a better text of one; without instructions
    the folder .agents/skills/NAME of your workspace. A person has to approve: you are told later."""

    name: Annotated[str, msgspec.Meta(description="Such as weekly-report; a-z, 0-9 and -")]
    reason: Annotated[str, msgspec.Meta(min_length=1, description="Why, in a sentence for the person who decides")]
    description: Annotated[
        str, msgspec.Meta(max_length=SKILL_DESCRIPTION_MAX_CHARS, description="What for, and when to use it")
    ] = ""
    instructions: Annotated[str, msgspec.Meta(description="The whole text, as Markdown")] = ""
    hash: Annotated[str, msgspec.Meta(description="Leave it out")] = ""


class SkillProposals:
    """Makes the tool. `gate` asks people."""

    def __init__(self, skills: Skills, store: Store, directory: Directory, gate: ApprovalGate) -> None:
        self._skills = skills
        self._store = store
        self._directory = directory
        self._gate = gate

    async def propose(self, context: ToolContext, it: ProposeSkill) -> str:
        """Ask for a skill, or approve the folder that a person has said yes to."""
        if not it.instructions:
            return await self._folder(context, it)
        text = skill_text(it.name, " ".join(it.description.split()), it.instructions)
        if wrong := flaws(text, it.name):
            raise InvalidError("SKILL_FLAWED", f"proposing a skill: it {wrong[0]}", hint="such as weekly-report")
        return await context.memory.change("write", f"skills/{it.name}.md", text, it.reason)

    async def _folder(self, context: ToolContext, it: ProposeSkill) -> str:
        agent = await self._directory.at(context.path)
        skill, files = await self._skills.get(agent, it.name, SkillPlace.WORKSPACE)
        if skill.approved:
            return f"the skill {it.name} is approved as it is"
        turn, _, steps = await self._store.turns.load(context.turn)
        [call] = [ToolCall(each.call_id, each.name, each.arguments) for each in steps if each.step == context.step]
        if await self._gate.approved(agent, turn, context.step, call):
            request = await self._store.of(ApprovalRows).get(int(call.id.removeprefix(APPROVED_CALL)))
            assert request is not None
            await self._skills.approve(
                agent, it.name, SkillPlace.WORKSPACE, it.hash, request.decider, request.decided_by
            )
            return f"the skill {it.name} is approved"
        text = _whole(it.name, files)
        if len(text) > ASKED_MAX_CHARS:
            raise InvalidError(
                "SKILL_LONG",
                f"proposing the skill {it.name}: more than {ASKED_MAX_CHARS} characters",
                hint=f"the person can say: daycare skills approve {it.name} --agent {agent.path}",
            )
        bound = CallAction(
            tool=SKILL_PROPOSE, arguments={"name": it.name, "reason": it.reason, "hash": skill.hash}, new=text
        )
        user = await self._store.people.get(agent.user) or User(id=agent.user, name=agent.user)
        because = f"a skill is read before it is followed: {it.reason}"[:_BECAUSE_MAX_CHARS]
        return await self._gate.ask(agent, user, turn, context.step, call, because, shown=bound)


def _whole(name: str, files: SkillFiles) -> str:
    """Return all files of a skill as one text, SKILL.md first."""
    skill_first = sorted(files.files, key=lambda path: (path != SKILL_FILE, path))
    return "".join(f"==> {name}/{path} <==\n{_shown(files, path)}\n" for path in skill_first)


def _shown(files: SkillFiles, path: str) -> str:
    text = file_of("", files, path)
    return f"[{len(files.files[path])} bytes that are not text]" if text is None else text


def proposing_tool(proposals: SkillProposals) -> StructTool[ProposeSkill]:
    """Return the tool. It asks for itself, as a person decides on texts and not on arguments."""
    return StructTool(
        SKILL_PROPOSE,
        ProposeSkill,
        proposals.propose,
        idempotent=True,
        group="memory",
        reads_private=True,
        reads_outside=False,
        changes_outside=False,
    )
