"""Skills over the API: which there are, what they say, and the yes of a person.

Those of the home are for all agents: operators alone decide on them. A person decides on those of their own agents.
"""

from starlette.routing import Route

from daycare.actors.directory import Directory
from daycare.api.callers import Caller, persons
from daycare.api.described import described
from daycare.api.operations import route
from daycare.base.connector import DIRECT
from daycare.base.documents import Attribution
from daycare.base.errors import ForbiddenError, InvalidError
from daycare.base.messages import Origin
from daycare.base.scope import is_subusers
from daycare.features.skills.installing import SkillInstaller
from daycare.features.skills.operations import (
    AddSkill,
    ApproveSkill,
    ListedSkills,
    ListSkills,
    OneSkill,
    RemovedSkill,
    RemoveSkill,
    RevokedSkill,
    RevokeSkill,
    ShowSkill,
)
from daycare.features.skills.records import SkillPlace, SkillView
from daycare.features.skills.service import Skills
from daycare.store.records import Agent

_EVERYBODYS = (SkillPlace.HOME, SkillPlace.GLOBAL)


class SkillRoutes:
    """`/v1/skills` and `/v1/skill`."""

    def __init__(self, skills: Skills, installer: SkillInstaller, directory: Directory, owner: str) -> None:
        self._skills = skills
        self._installer = installer
        self._directory = directory
        self._owner = owner

    def routes(self) -> list[Route]:
        """Return them."""
        return [
            route(ListSkills, self.find),
            route(ShowSkill, self.show),
            route(AddSkill, self.add),
            route(ApproveSkill, self.approve),
            route(RevokeSkill, self.revoke),
            route(RemoveSkill, self.remove),
        ]

    @persons
    @described({200: ListedSkills})
    async def find(self, wish: ListSkills, caller: Caller) -> ListedSkills:
        """List skills."""
        return ListedSkills(skills=tuple(await self._skills.all_of(await self._agent(wish.path, caller))))

    @persons
    @described({200: SkillView}, refuses=(409,))
    async def show(self, wish: ShowSkill, caller: Caller) -> SkillView:
        """Show one."""
        return await self._skills.view(await self._agent(wish.path, caller), wish.name, wish.place, wish.file)

    @described({201: OneSkill}, refuses=(409,))
    async def add(self, wish: AddSkill) -> OneSkill:
        """Put one into the home."""
        files = {each.path: each.data for each in wish.files}
        if len(files) < len(wish.files):
            raise InvalidError("SKILL_UNFIT", f"adding the skill {wish.name}: a path stands twice")
        by = f"{DIRECT}:{self._owner}"
        return OneSkill(skill=await self._installer.add(wish.name, files, by, instead=wish.replace))

    @persons
    @described({200: OneSkill}, refuses=(409,))
    async def approve(self, wish: ApproveSkill, caller: Caller) -> OneSkill:
        """Approve one."""
        agent = await self._own(wish, caller)
        by = caller.actor(f"{DIRECT}:{self._user(caller)}")
        return OneSkill(
            skill=await self._skills.approve(agent, wish.name, wish.place, wish.hash, self._user(caller), by)
        )

    @persons
    @described({200: RevokedSkill}, refuses=(409,))
    async def revoke(self, wish: RevokeSkill, caller: Caller) -> RevokedSkill:
        """Take approvals back."""
        agent = await self._own(wish, caller)
        by = caller.actor(f"{DIRECT}:{self._user(caller)}")
        return RevokedSkill(name=wish.name, revoked=await self._skills.revoke(agent, wish.name, wish.place, by))

    @persons
    @described({200: RemovedSkill}, refuses=(409,))
    async def remove(self, wish: RemoveSkill, caller: Caller) -> RemovedSkill:
        """Remove one."""
        agent = await self._own(wish, caller)
        author = f"{DIRECT}:{self._user(caller)}"
        by = Attribution(origin=Origin.PERSON, author=author, approver=author, reason="the skill was removed")
        found = await self._installer.remove(agent, wish.name, wish.place, by)
        return RemovedSkill(name=found.name, place=found.place, where=found.where)

    async def _own(self, wish: ApproveSkill | RevokeSkill | RemoveSkill, caller: Caller) -> Agent | None:
        """Return the agent of a skill on which a caller decides. Raises `ForbiddenError` SKILL_SHARED."""
        agent = await self._agent(wish.path, caller)
        found = await self._skills.located(agent, wish.name, wish.place)
        if found.place in _EVERYBODYS and caller.own_only:
            raise ForbiddenError(
                "SKILL_SHARED", f"deciding on the skill {wish.name}: it is everybody's", hint="ask the operator"
            )
        return agent

    async def _agent(self, path: str, caller: Caller) -> Agent | None:
        if not path:
            return None
        caller.check_path(path)
        agent = await self._directory.at(path)
        caller.check_user(agent.user)
        if not caller.own_only and is_subusers(agent.path):
            raise ForbiddenError("OTHER_USER", f"using the skills of {path}: they are theirs alone")
        return agent

    def _user(self, caller: Caller) -> str:
        return caller.user or self._owner
