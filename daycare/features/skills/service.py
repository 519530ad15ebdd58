"""The skills of agents: which there are, which of them a person has approved, and what a model is given of them.

A model follows a skill only if a person has approved exactly these files: the hash is taken of the very copy that is
given. Everything else is data, which counts as others' words. A skill gives no right to any tool.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from msgspec.structs import replace

from daycare.agent.prompt import PromptEntry
from daycare.base.bounded import Bounded
from daycare.base.clock import Clock
from daycare.base.differences import unified
from daycare.base.errors import ConflictError, DaycareError, InvalidError, NotFoundError
from daycare.base.events import SkillChanged
from daycare.features.approvals.records import ApprovalFinding
from daycare.features.approvals.views import worst_first
from daycare.features.skills.finding import FoundSkill, SkillFinder
from daycare.features.skills.folder import SkillFiles
from daycare.features.skills.records import Skill, SkillApproval, SkillFile, SkillPlace, SkillState, SkillView
from daycare.features.skills.rows import SkillApprovalRows
from daycare.observe.bus import Bus
from daycare.rules.skill_text import SKILL_FILE, flaws, read_head
from daycare.store.records import Agent
from daycare.store.sqlite.store import Store

SKILLS_KNOWN_MAX: Final = 1_024  # descriptions kept in memory, 2 MB at most
HASH_MIN_CHARS: Final = 12  # of a hash, to say what was seen
FINDINGS_MAX: Final = 32  # shown of one file
SCANNED_MAX_CHARS: Final = 200_000  # of a file; nobody writes longer ones by hand

Scan = Callable[[str], Awaitable[Sequence[ApprovalFinding]]]


class Skills:
    """Knows them. `scan` finds what is suspicious in a text."""

    def __init__(self, store: Store, finder: SkillFinder, scan: Scan, bus: Bus, clock: Clock) -> None:
        self.rows = store.of(SkillApprovalRows)
        self.finder = finder
        self._scan = scan
        self._bus = bus
        self._clock = clock
        self._changes = 0  # of approvals since the start
        self._known: Bounded[tuple[SkillPlace, str, object], Skill] = Bounded(SKILLS_KNOWN_MAX)

    # -- for prompts and tools -----------------------------------------------------------------------------------------

    def stamp(self, agent: Agent) -> object:
        """Return what changes when the list of an agent's skills may have; documents tell their changes themselves."""
        return self._changes, self.finder.stamp(agent)

    async def entries(self, agent: Agent) -> Sequence[PromptEntry]:
        """Return the list of skills for a prompt. Of what nobody has approved the name alone: the rest is others'."""
        return [
            PromptEntry(skill.name, skill.description if skill.approved else "", skill.approved)
            for skill in await self.offered(agent)
        ]

    async def offered(self, agent: Agent) -> list[Skill]:
        """Return the skills that a model may read, by name.

        Those that a workspace brings are there once they are approved: who made its files may have named them.
        """
        best: dict[str, Skill] = {}
        for skill in await self.all_of(agent):
            outside = skill.place is SkillPlace.WORKSPACE and not skill.approved
            if skill.state is SkillState.BROKEN or outside or not _is_name(skill.name):
                continue
            if skill.name not in best or (skill.approved and not best[skill.name].approved):
                best[skill.name] = skill
        return list(best.values())

    async def open(self, agent: Agent, name: str) -> tuple[Skill, SkillFiles]:
        """Return a skill that a model may read, with its files. Raises `NotFoundError` SKILL_UNKNOWN."""
        offered = await self.offered(agent)
        wanted = next((each for each in offered if each.name == name), None)
        if wanted is None:
            there = ", ".join(each.name for each in offered) or "none"
            raise NotFoundError("SKILL_UNKNOWN", f"reading the skill {name[:80]!a}: there is none; there are: {there}")
        return await self.get(agent, name, wanted.place)

    # -- for people ----------------------------------------------------------------------------------------------------

    async def all_of(self, agent: Agent | None) -> list[Skill]:
        """Return all skills that are there for an agent, or those of the home, by name and place."""
        found = await self.finder.find(agent)
        approvals = await self.rows.find(sorted({"", *(each.scope for each in found)}))
        return [_judged(await self._described(agent, each), each, approvals) for each in found]

    async def get(self, agent: Agent | None, name: str, place: SkillPlace | None = None) -> tuple[Skill, SkillFiles]:
        """Return a skill with its files, read now. Raises `NotFoundError` SKILL_UNKNOWN, `InvalidError` SKILL_UNFIT."""
        found = await self.located(agent, name, place)
        files = await self.finder.read(agent, found)
        approvals = await self.rows.find(sorted({"", found.scope}))
        return _judged(_description(found, files), found, approvals, fresh=files.hash), files

    async def view(
        self, agent: Agent | None, name: str, place: SkillPlace | None = None, file: str = SKILL_FILE
    ) -> SkillView:
        """Return a skill, and a file of it, as it is shown to who decides; raises as `get`, and as `file_of`."""
        found = await self.located(agent, name, place)
        skill, files = await self.get(agent, name, found.place)
        findings = {path: await self._suspicious(data) for path, data in files.files.items()}
        before = await self.rows.newest(found.scope, found.place, name)
        if before is None or before.hash == skill.hash:
            before = None
        changed = {path for path, _ in _hashes(files).items() ^ before.files.items()} if before else set()
        return SkillView(
            skill=skill,
            file=file,
            text=file_of(name, files, file),
            findings={path: each for path, each in findings.items() if each},
            diff=unified(before.text, files.text, SKILL_FILE) if before else "",
            changed=tuple(sorted(changed)),
        )

    async def approve(
        self, agent: Agent | None, name: str, place: SkillPlace | None, seen: str, user: str, by: str
    ) -> Skill:
        """Approve a skill as `seen`, its hash or the beginning of it.

        Raises `ConflictError` SKILL_CHANGED where it is another one by now, and what `get` raises.
        """
        found = await self.located(agent, name, place)
        skill, files = await self.get(agent, name, found.place)
        if len(seen) < HASH_MIN_CHARS or not skill.hash.startswith(seen):
            raise ConflictError(
                "SKILL_CHANGED",
                f"approving the skill {name}: it is not the one you saw",
                hint=f"daycare skills show {name}",
            )
        if not _is_name(name):
            raise InvalidError(
                "SKILL_NAME", f"approving the skill {name[:80]!a}: no model could ask for it", hint="rename it"
            )
        await self.rows.add(
            SkillApproval(
                hash=skill.hash,
                scope=found.scope,
                name=name,
                place=found.place,
                user=user,
                by=by,
                text=files.text,
                files=_hashes(files),
            )
        )
        self.changed(agent, name, "approved", skill.hash, by)
        return (await self.get(agent, name, found.place))[0]

    async def revoke(self, agent: Agent | None, name: str, place: SkillPlace | None, by: str) -> int:
        """Take back all approvals of a skill; return how many there were. A document's own history stands as it is."""
        found = await self.located(agent, name, place)
        many = await self.rows.remove(found.scope, found.place, name)
        self.changed(agent, name, "revoked", "", by)
        return many

    async def forget(self, agent: Agent | None, found: FoundSkill, by: str) -> None:
        """Note that a skill was removed."""
        await self.rows.remove(found.scope, found.place, found.name)
        self.changed(agent, found.name, "removed", "", by)

    def changed(self, agent: Agent | None, name: str, change: str, hash_: str, by: str) -> None:
        """Let prompts and others know that something about a skill has changed."""
        self._changes += 1
        self._bus.publish(
            SkillChanged(
                at_ms=self._clock.now_ms(),
                path=agent.path if agent else "",
                user=agent.user if agent else "",
                agent_id=agent.id if agent else "",
                skill=name,
                change=change,
                hash=hash_,
                by=by,
            )
        )

    async def located(self, agent: Agent | None, name: str, place: SkillPlace | None) -> FoundSkill:
        """Return where a skill is: without a place the one that counts."""
        found = [each for each in await self.finder.find(agent) if each.name == name and place in (None, each.place)]
        if not found:
            raise NotFoundError(
                "SKILL_UNKNOWN", f"looking up the skill {name[:80]!a}: there is none", hint="daycare skills list"
            )
        if len(found) == 1 or place is not None:
            return found[0]
        approvals = await self.rows.find(sorted({"", *(each.scope for each in found)}))
        judged = [(_judged(await self._described(agent, each), each, approvals), each) for each in found]
        return next((each for skill, each in judged if skill.approved), found[0])

    async def _described(self, agent: Agent | None, found: FoundSkill) -> Skill:
        key = (found.place, found.where, found.stamp)
        known = self._known.get(key)
        if known is None or known.name != found.name:
            try:
                known = _description(found, await self.finder.read(agent, found))
            except DaycareError as error:
                known = Skill(
                    name=found.name,
                    place=found.place,
                    where=found.where,
                    state=SkillState.BROKEN,
                    problems=(error.message,),
                )
            self._known[key] = known
        return known

    async def _suspicious(self, data: bytes) -> tuple[ApprovalFinding, ...]:
        if b"\0" in data:
            return ()
        return tuple(worst_first(await self._scan(data.decode(errors="replace")[:SCANNED_MAX_CHARS]))[:FINDINGS_MAX])


def file_of(name: str, files: SkillFiles, path: str) -> str | None:
    """Return a file's text, None where it is none. Raises `NotFoundError` SKILL_FILE."""
    data = files.files.get(path)
    if data is None:
        raise NotFoundError("SKILL_FILE", f"reading {path[:80]!a} of the skill {name}: there is no such file")
    try:
        return None if b"\0" in data else data.decode()
    except UnicodeDecodeError:
        return None


def _description(found: FoundSkill, files: SkillFiles) -> Skill:
    head = read_head(files.text, found.name)
    return Skill(
        name=found.name,
        place=found.place,
        where=found.where,
        state=SkillState.NEW,
        description=head.description,
        hash=files.hash,
        files=tuple(SkillFile(path, len(data)) for path, data in sorted(files.files.items())),
        problems=tuple(f"it {each}" for each in flaws(files.text, found.name)),
        license=head.license,
        compatibility=head.compatibility,
        allowed_tools=head.allowed_tools,
    )


def _judged(skill: Skill, found: FoundSkill, approvals: Sequence[SkillApproval], *, fresh: str = "") -> Skill:
    """Return a skill with what people have decided on it; `fresh` is the hash of the copy that it is about."""
    if skill.state is SkillState.BROKEN:
        return skill
    about = [each for each in approvals if each.name == skill.name and each.scope in ("", found.scope)]
    same = next((each for each in about if each.hash == (fresh or skill.hash)), None)
    if same is not None:
        return replace(skill, state=SkillState.APPROVED, approved_by=same.by, approved_at=same.created_at)
    if found.vouched:
        return replace(skill, state=SkillState.APPROVED, approved_by=found.vouched)
    mine = any((each.scope, each.place) == (found.scope, found.place) for each in about)
    return replace(skill, state=SkillState.CHANGED if mine else SkillState.NEW)


def _hashes(files: SkillFiles) -> dict[str, str]:
    return {path: SkillFiles({path: data}).hash for path, data in files.files.items()}


def _is_name(name: str) -> bool:
    """Return whether a name says nothing but a name: it stands in prompts before anybody has approved it."""
    return len(name) <= _NAME_MAX_CHARS and all(char.isalnum() or char in "-_/" for char in name)


_NAME_MAX_CHARS: Final = 130  # of a document in a folder of skills; any other has 64
