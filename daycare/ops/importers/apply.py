"""Taking over what was found: people first, then agents, and what belongs to them, each thing once.

Everything has a name in the store that does not change from one import to the next, so that a repeat takes nothing
twice, also after a crash in the middle. What is written at the same time is one commit.
"""

import hashlib
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Final

import trio
from msgspec.structs import replace

from daycare.agent.kinds import conversation
from daycare.base.clock import Clock
from daycare.base.errors import ConflictError, DaycareError
from daycare.base.ids import new_agent_id
from daycare.base.messages import Origin
from daycare.base.path import Kind, Path
from daycare.features.approvals.findings import findings_of
from daycare.features.approvals.records import ApprovalFinding
from daycare.features.cron.model import NewCronJob
from daycare.features.cron.rows import CronRows
from daycare.features.signals.rows import SignalRows
from daycare.ops.importers import documents, skills
from daycare.ops.importers.import_model import (
    MAIN,
    OWNER,
    ImportedAgent,
    ImportedItem,
    ImportedJob,
    ImportedPerson,
    ImportedSecret,
    ImportedSubscription,
    ImportModel,
)
from daycare.ops.importers.report import ImportItem, Outcome
from daycare.ops.importers.words import free, slug
from daycare.store.records import Agent, AgentConfig, NewAgent, User
from daycare.store.sqlite.store import Store
from daycare.store.vault import Vault, check_key_name

AT_ONCE: Final = 32  # of documents: what is written at the same time is one commit
_AGENTS_MAX: Final = 10_000  # of one kind and person: these were made by people, over the years
_NAME_MAX_CHARS: Final = 100  # of what somebody is called
_SHOWN_MAX: Final = 5  # findings of one text
_ENDED: Final = "it had ended before it was imported"


@dataclass
class ImportApply:
    """One import into a store. `owner` is the person to whom the other installation belongs.

    `replace`: documents of ours make room, as older versions. `approve`: the owner stands behind documents of identity.
    Without a `vault` secrets are only named. `connectors` are those that there are. `skills_folder` is that of the
    home, which is only looked at if it is `dry`.
    """

    store: Store
    owner: User
    product: str
    clock: Clock
    connectors: Collection[str]
    skills_folder: FilePath
    dry: bool = False
    replace: bool = False
    approve: bool = False
    pause_jobs: bool = False
    with_keys: bool = False
    vault: Vault | None = None
    items: list[ImportItem] = field(default_factory=list)
    held: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    _users: dict[str, User] = field(default_factory=dict)
    _agents: dict[str, Agent] = field(default_factory=dict)
    _jobs: dict[str, str] = field(default_factory=dict)  # paths by ref

    async def take(self, imported: ImportModel) -> list[ImportItem]:
        """Take everything; return what came of each thing."""
        self._users[OWNER] = self.owner
        for person in sorted(imported.people, key=lambda each: bool(each.parent)):
            await self._each("person", person, lambda it=person: self._person(it))  # type: ignore[misc]
        self.owner = self._users[OWNER]
        later = [each for each in imported.agents if each.kind is Kind.CRON]
        for agent in imported.agents:
            if agent.kind is not Kind.CRON:
                await self._each("agent", agent, lambda it=agent: self._agent(it))  # type: ignore[misc]
        await documents.take_texts(self, imported.texts)
        for skill in imported.skills:
            await self._each("skill", skill, lambda it=skill: skills.take(self, it))  # type: ignore[misc]
        for job in imported.jobs:
            await self._each("job", job, lambda it=job: self._job(it))  # type: ignore[misc]
        for agent in later:
            await self._each("agent", agent, lambda it=agent: self._agent(it))  # type: ignore[misc]
        for wish in imported.subscriptions:
            await self._each("subscription", wish, lambda it=wish: self._subscribe(it))  # type: ignore[misc]
        await documents.take_talks(self, imported)
        for secret in imported.secrets:
            await self._each("key", secret, lambda it=secret: self._secret(it))  # type: ignore[misc]
        for left in imported.left:
            self.items.append(ImportItem(what="other", source=left.source, target="", outcome="left",
                                   notes=(f"{left.what}: {left.why}",)))  # fmt: skip
        return self.items

    def key(self, *parts: str) -> str:
        """Return what names a thing of the other program in the store, whenever it is imported."""
        digest = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
        return f"migrate:{self.product}:{digest[:32]}"

    def user(self, ref: str) -> User:
        """Return the person with a ref; of one who was left, the owner."""
        return self._users.get(ref, self.owner)

    async def agent(self, ref: str) -> Agent | None:
        """Return the agent with a ref, None if it was left. A conversation comes into being when it is needed."""
        if ref == MAIN:
            ref = f"person:{OWNER}"
        if ref not in self._agents and ref.startswith("person:") and ref.removeprefix("person:") in self._users:
            user = self._users[ref.removeprefix("person:")]
            try:
                self._agents[ref] = await self._converse(user, self._connector_of(user))
            except DaycareError:  # somebody else's agent lives there: what names it is left
                return None
        return self._agents.get(ref)

    async def look(self, text: str) -> tuple[tuple[str, ...], bool]:
        """Return what is suspicious in a text, for people to read, and whether some of it is dangerous."""
        found = await findings_of(text)
        told = tuple(f"{each.meaning}: {_short(each)}" for each in found[:_SHOWN_MAX])
        if len(found) > _SHOWN_MAX:
            told += (f"and {len(found) - _SHOWN_MAX} more",)
        return told, any(each.severity == "danger" for each in found)

    async def together(self, works: Sequence[Callable[[], Awaitable[None]]]) -> None:
        """Do several things at the same time."""
        limiter = trio.CapacityLimiter(AT_ONCE)

        async def one(work: Callable[[], Awaitable[None]]) -> None:
            async with limiter:
                await work()

        async with trio.open_nursery() as nursery:
            for work in works:
                nursery.start_soon(one, work)

    def done(
        self, what: str, it: ImportedItem, outcome: Outcome, target: str, *notes: str, findings: tuple[str, ...] = ()
    ) -> ImportItem:
        """Return what came of a thing; one that was changed on the way is not just taken."""
        told = (*it.changes, *notes)
        if outcome == "taken" and told:
            outcome = "changed"
        told = notes if outcome in ("there", "left") else told
        return ImportItem(what=what, source=it.source, outcome=outcome, target=target, notes=told, findings=findings)

    async def _each(self, what: str, it: ImportedItem, work: Callable[[], Awaitable[ImportItem]]) -> None:
        try:
            self.items.append(await work())
        except DaycareError as error:
            self.items.append(self.done(what, it, "left", "", error.message))

    # -- people --------------------------------------------------------------------------------------------------------

    async def _person(self, it: ImportedPerson) -> ImportItem:
        known = [user for key in it.keys if (user := await self.store.people.by_key(key)) is not None]
        if it.ref == OWNER:
            return await self._owner_accounts(it)
        if any(user.id == self.owner.id for user in known):
            self._users[it.ref] = self.owner
            return self.done("person", it, "there", self.owner.id)
        parent = self._users.get(it.parent) if it.parent else None
        if it.parent and parent is None:
            return self.done("person", it, "left", "", "who has let them in was left")
        if known:
            user = known[0]
        else:
            wanted = slug(it.name or it.ref, most=32)
            there = await self.store.people.get(wanted)
            above = parent.id if parent else None
            # Who has an account is known by it: two people may have one name.
            if not it.keys and there is not None and (there.name, there.parent) == (it.name[:_NAME_MAX_CHARS], above):
                user, known = there, [there]
            else:
                user = await self._new_person(it, wanted, parent)
        for key in it.keys:
            await self.store.people.link(key, user.id, Origin.FILE)
        self._users[it.ref] = await self.store.people.get(user.id) or user
        told = f"{user.id} ({', '.join(it.keys)})" if it.keys else user.id
        return self.done("person", it, "there" if known else "taken", told)

    async def _new_person(self, it: ImportedPerson, wanted: str, parent: User | None) -> User:
        taken = {"system"}
        name = free(wanted, taken)
        while await self._ever(name):
            taken.add(name)
            name = free(wanted, taken)
        new = User(
            id=name,
            name=it.name[:_NAME_MAX_CHARS] or name,
            zone=it.zone or self.owner.zone,
            parent=parent.id if parent else None,
        )
        return await self.store.people.add(new, Origin.FILE)

    async def _ever(self, name: str) -> bool:
        """Return whether there is or was somebody of this id."""
        if await self.store.people.get(name) is not None:
            return True
        return bool(await self.store.agents.find(user=name, include_dead=True, limit=1))

    async def _owner_accounts(self, it: ImportedPerson) -> ImportItem:
        fresh = []
        for key in it.keys:
            if await self.store.people.by_key(key) is None:
                fresh.append(key)
            await self.store.people.link(key, self.owner.id, Origin.FILE)
        self.owner = await self.store.people.get(self.owner.id) or self.owner
        self._users[OWNER] = self.owner
        notes = []
        if it.zone and it.zone != self.owner.zone:
            notes.append(f"the time zone there was {it.zone}, here yours is {self.owner.zone}")
        return self.done("person", it, "taken" if fresh else "there", f"{self.owner.id} ({', '.join(it.keys)})", *notes)

    def _connector_of(self, user: User) -> str:
        found = [key.partition(":")[0] for key in user.keys]
        usual = [name for name in ("telegram", "whatsapp", "whatsapp-cloud") if name in found]
        return next((name for name in (*usual, *found) if name in self.connectors and name != "direct"), "direct")

    # -- agents --------------------------------------------------------------------------------------------------------

    async def _agent(self, it: ImportedAgent) -> ImportItem:
        if it.kind is Kind.SYSTEM:
            tag = str(Path.system(it.name))
            if await self.store.agents.at(tag) is not None:
                return self.done("agent", it, "there", tag, "it is the daemon's own, which has one like it")
            return self.done("agent", it, "left", tag, "the daemon brings its own agents, and takes no others")
        user = self.user(it.person)
        if it.kind is Kind.CONNECTOR:
            path = conversation(user, it.name)
            there = await self.store.agents.at(str(path))
            self._agents[it.ref] = await self._converse(user, it.name)
            notes = () if it.name in self.connectors else (f"there is no connector {it.name} here yet",)
            return self.done("agent", it, "there" if there else "taken", str(path), *notes)
        parent = await self.agent(it.parent) if it.parent else None
        if it.parent and parent is None:
            return self.done("agent", it, "left", "", "its parent was left")
        if it.kind is Kind.CRON:
            job = self._jobs.get(it.name)
            if job is None:
                return self.done("agent", it, "left", "", "its job is not there")
            it = replace(it, name=job.rsplit("/", 1)[-1])
            user = self.user_of(job)
        path = self._path(it, user, parent)
        agent, fresh = await self._create(it, path, user, parent)
        self._agents[it.ref] = agent
        if it.ended and fresh:
            self._agents[it.ref] = await self.store.agents.set_state(agent.id, "dead", _ENDED)
        notes = () if agent.path == str(path) else (f"{path} was taken",)
        return self.done("agent", it, "taken" if fresh else "there", agent.path, *notes)

    def user_of(self, path: str) -> User:
        """Return the person whose path it is, among those of the import."""
        name = path.split("/")[1]
        return next((user for user in self._users.values() if user.id == name), self.owner)

    def _path(self, it: ImportedAgent, user: User, parent: Agent | None) -> Path:
        if parent is not None:
            above = Path.stored(parent.path, Kind(parent.kind))
            if it.kind is Kind.MEMORY:
                return above.memory()
            return above.sub(int(it.name)) if it.kind is Kind.SUB else above.search(int(it.name))
        if it.kind is Kind.SUBUSER:
            return conversation(user, "direct")
        build = {Kind.AGENT: Path.agent, Kind.APP: Path.app, Kind.TASK: Path.task, Kind.CRON: Path.cron}[it.kind]
        return build(user.id, it.name)

    async def _create(self, it: ImportedAgent, path: Path, user: User, parent: Agent | None) -> tuple[Agent, bool]:
        """Create an agent, or return the one that an earlier import has made; and whether it is new."""
        born = self.key("agent", it.ref, str(it.kind))
        new = self._new(path, user, AgentConfig(name=it.title, description=it.description), born, parent)
        try:
            made = await self.store.agents.create_permanent(new, _AGENTS_MAX)
        except ConflictError:
            if it.kind in (Kind.MEMORY, Kind.SUBUSER, Kind.CRON):  # there is one of these at most, and it is meant
                there = await self.store.agents.at(str(path))
                if there is None:
                    raise
                return there, False
            name = str(int(it.name) + 1_000) if it.kind in (Kind.SUB, Kind.SEARCH) else f"{it.name[:40]}-{self.product}"
            other = self._path(replace(it, name=name), user, parent)
            made = await self.store.agents.create_permanent(replace(new, path=str(other)), _AGENTS_MAX)
        return made, made.id == new.id

    async def _converse(self, user: User, connector: str) -> Agent:
        path = conversation(user, connector)
        return await self.store.agents.create(self._new(path, user, AgentConfig(), "", None))

    def _new(self, path: Path, user: User, config: AgentConfig, born: str, parent: Agent | None) -> NewAgent:
        return NewAgent(
            id=new_agent_id(),
            path=str(path),
            kind=path.kind,
            role=path.role,
            user=path.name if path.kind is Kind.SUBUSER else user.id,
            origin=Origin.FILE,
            parent=parent.id if parent else None,
            config=config,
            born=born,
        )

    # -- skills, jobs, signals, keys -----------------------------------------------------------------------------------

    async def _job(self, it: ImportedJob) -> ImportItem:
        user = self.user(it.person)
        key = self.key("job", it.ref)
        known = await self.store.of(CronRows).by_key(key)
        if known is not None:
            self._jobs[it.ref] = known.path
            return self.done("job", it, "there", known.path)
        notes: list[str] = []
        spec = it.spec
        if it.target:
            target = await self.agent(it.target)
            if target is not None and target.state != "dead" and target.path.split("/")[1] == user.id:
                spec = replace(spec, target=target.path)
            else:
                spec = replace(spec, session="fresh")
                notes.append("whom it asked is not there: it has an agent of its own")
        deliver, told = self._deliver(it.deliver, user)
        spec, notes = replace(spec, deliver=deliver).checked(), [*notes, *told]
        first = replace(spec, enabled=True).first(user.zone, self.clock.now_ms())
        if first is None:
            return self.done("job", it, "left", "", f"its time, {spec.at or spec.cron}, is over")
        findings, danger = await self.look(spec.prompt)
        pause = it.paused or self.pause_jobs or danger
        if danger and not it.paused:
            notes.append("paused, as its text is suspicious: read it, then daycare cron resume")
        path, job = str(Path.cron(user.id, it.name)), None
        for name in (it.name, f"{it.name[:40]}-{self.product}"):
            path = str(Path.cron(user.id, name))
            if await self.store.of(CronRows).at(path) is None:
                job = await self.store.of(CronRows).add(
                    NewCronJob(path=path, user=user.id, source="cli", source_ref="", spec=spec, next_at=first, key=key)
                )
                break
        if job is None:
            return self.done("job", it, "left", path, "there is one of this name")
        if pause:
            await self.store.of(CronRows).pause(job.no, True, None)
            notes += [] if danger and not it.paused else ["paused"]
        self._jobs[it.ref] = path
        return self.done("job", it, "taken", path, *notes, findings=findings)

    def _deliver(self, key: str, user: User) -> tuple[str, list[str]]:
        if ":" not in key:
            return key, []
        connector = key.partition(":")[0]
        if connector not in self.connectors:
            return "", [f"there is no connector {connector} here: its answers go to the most recent conversation"]
        return str(conversation(user, connector)), []

    async def _subscribe(self, it: ImportedSubscription) -> ImportItem:
        agent = await self.agent(it.agent)
        if agent is None or agent.state == "dead":
            return self.done("subscription", it, "left", "", "its agent is not there")
        parts = []
        for part in it.pattern.split(":"):
            other = self._agents.get(part)
            parts.append(other.path if other is not None else part)
        pattern = ":".join(parts)
        known = await self.store.of(SignalRows).subscriptions(agent_id=agent.id)
        if any(each.pattern == pattern for each in known):
            return self.done("subscription", it, "there", f"{agent.path} {pattern}")
        from daycare.base.signal import check_pattern

        await self.store.of(SignalRows).subscribe(agent, check_pattern(pattern), silent=it.silent, origin=Origin.FILE)
        return self.done("subscription", it, "taken", f"{agent.path} {pattern}")

    async def _secret(self, it: ImportedSecret) -> ImportItem:
        name = check_key_name(it.name)
        if self.store.secrets.get(name) is not None and not self.replace:
            return self.done("key", it, "there", name, "there is one of this name")
        if not self.with_keys:
            if name not in self.keys:
                self.keys.append(name)
            return self.done("key", it, "left", name, f"daycare keys add {name}, or --with-keys takes it")
        if self.vault is not None:
            await self.store.secrets.put(name, self.owner.id, self.vault.seal(it.value))
        return self.done("key", it, "taken", name)


def _short(found: ApprovalFinding) -> str:
    return " ".join(found.excerpt.split())[:120]
