"""Rights do not grow by moving: each thing a narrowed agent brought about x each way it can come to be elsewhere.

The table: `WAYS` are the columns, `THINGS` the rows. A thing either does not come (`COMES` says so), or whatever acts
for it where it came to may use no tool, do nothing to anybody, write nothing unasked and spend nothing that it might
not where it was.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
import trio
import trio.testing
from msgspec.structs import replace

from daycare.base.consent import CHANGES, LOG, ApprovalRule, ApprovalsSection, Consent, chosen
from daycare.base.cron import CronSpec
from daycare.base.errors import ConflictError, InvalidError
from daycare.base.messages import Envelope, Origin
from daycare.base.path import Kind
from daycare.base.permission import ACTIONS, TOOL, Decision, OwnRule, Permissions, Rule
from daycare.config import Config, ModelsSection, ProviderSection
from daycare.features.approvals.records import Grant
from daycare.features.approvals.rows import ApprovalRows
from daycare.features.backups import restoring
from daycare.features.budgets.records import BudgetRow
from daycare.features.budgets.rows import BudgetRows
from daycare.features.cron.rows import CronRows
from daycare.features.exports.engine import ExportProgress
from daycare.rules.consent import needed
from daycare.store.home import Home
from daycare.store.records import Agent, AgentConfig, NewTimer, User
from daycare.testing.clock import patient_clock
from daycare.testing.daemon import TestDaemon, open_daemon
from daycare.testing.scripted import call, say
from tests.backup.homes import make
from tests.exports.houses import exported, exports_of, imported
from tests.exports.test_hostile import lines, of_version, packed, unpacked, with_

WORK, SCRIBE, NOTES = "/ann/agent/work", "/ann/agent/scribe", "/ann/app/notes"
ORPHAN = "sub/1/sub/0"
OTHERS = ("direct", "agent/bank", "agent/vault", "agent/safe", "agent/diary")
TOOLS = ("send_message", "ask", "spawn", "end_agent", "cron_add", "task_start", "remind", "now", "read_history",
         "memory_write", "memory_append", "memory_append_daily", "memory_read", "memory_search")  # fmt: skip
FREE = ApprovalsSection(memory_write=Consent.AUTO, memory_append=Consent.AUTO, memory_delete=Consent.AUTO)
HERE = replace(FREE, rules={"work": ApprovalRule(policy=Consent.ALWAYS, tools=(LOG,), agents=WORK)})
RULES = (
    Rule(action="message", decision=Decision.DENY, subject=f"{WORK}/**", object="/ann/agent/bank"),
    Rule(action="tool:remind", decision=Decision.DENY, subject=WORK),
    Rule(action="kill", decision=Decision.DENY, subject="/ann/**"),
    Rule(action="read_history", decision=Decision.ASK, subject=f"{WORK}/sub/0"),
    Rule(action="message", decision=Decision.DENY, subject=f"{WORK}/sub/7", object="/ann/agent/safe"),
    Rule(action="tool:now", decision=Decision.DENY, subject="/ann/cron/news"),
    Rule(action="tool:now", decision=Decision.DENY, subject="/ann/*"),
)
OWN = (OwnRule(action="message", decision="deny", object="/ann/agent/vault"),
       OwnRule(action="read_memory", decision="deny", object=WORK))  # fmt: skip
NARROW = AgentConfig(
    tools=TOOLS, permissions=Permissions(rules=OWN), approvals=Consent.ALWAYS, model="scripted/small"
)  # fmt: skip
FOR_EVER_S = 86_400.0  # what acts goes on acting, so that it can be looked at
LIMITS = {"day.calls": 50, "month.usd": 2_000_000}


class Rights(msgspec.Struct, frozen=True):
    """What something may do: tools; actions, each with whom it concerns; changes it makes unasked; what it spends."""

    tools: frozenset[str]
    actions: frozenset[tuple[str, str]]
    unasked: frozenset[str]
    limits: dict[str, int]
    model: str

    def beyond(self, other: "Rights") -> dict[str, object]:
        """Return what this one may do that the other may not."""
        found: dict[str, object] = {
            "tools": self.tools - other.tools,
            "actions": self.actions - other.actions,
            "unasked": self.unasked - other.unasked,
            "limits": {
                name: limit for name, limit in other.limits.items() if self.limits.get(name, limit + 1) > limit
            },
        }  # fmt: skip
        return {name: more for name, more in found.items() if more}


def config_of(rules: tuple[Rule, ...], approvals: ApprovalsSection) -> Config:
    return Config(
        models=ModelsSection(default="scripted/model"),
        providers={"scripted": ProviderSection(kind="scripted")},
        rules=rules,
        approvals=approvals,
    )


@asynccontextmanager
async def house_at(
    folder: Path, rules: tuple[Rule, ...] = RULES, approvals: ApprovalsSection = HERE
) -> AsyncIterator[TestDaemon]:
    """Open a house with people and agents whom others could reach."""
    folder.mkdir(mode=0o700, exist_ok=True)
    async with open_daemon(folder, location="daycare.db", config=config_of(rules, approvals)) as house:
        if await house.store.people.get("bob") is None:
            await house.store.people.add(User(id="bob", name="Bob", keys=("direct:bob",)))
            for user in ("ann", "bob"):
                for other in OTHERS:
                    await house.agent(f"/{user}/{other}")
        yield house


def set_rules(house: TestDaemon, *rules: Rule) -> None:
    live = house.daemon.live
    live.take(replace(live.now, rules=rules))


async def lived(house: TestDaemon) -> None:
    """Let a narrowed agent bring about whatever an agent can."""
    store, directory = house.store, house.daemon.directory
    work = await house.agent(WORK, replace(NARROW, heartbeat_s=0))
    await directory.create(directory.parse(SCRIBE), origin=Origin.AGENT, config=NARROW)
    app = AgentConfig(behaviour="lists/notes", permissions=NARROW.permissions, tools=("now", "send_message"))
    await directory.create(directory.parse(NOTES), origin=Origin.PERSON, config=app)
    for path in (WORK, SCRIBE, NOTES, f"{WORK}/sub/0", "/ann/cron/news"):
        await store.of(BudgetRows).put(BudgetRow(path=path, limits=LIMITS | {"day.minutes": -1}))
    helper = await directory.spawn(work, Kind.SUB, origin=Origin.AGENT)
    gone = await directory.spawn(work, Kind.SUB, origin=Origin.AGENT, config=AgentConfig(
        tools=("send_message", "now"), permissions=Permissions(rules=(
            OwnRule(action="message", decision="deny", object="/ann/direct"),))))  # fmt: skip
    orphan = await directory.spawn(gone, Kind.SUB, origin=Origin.AGENT)
    await directory.spawn(work, Kind.SEARCH, origin=Origin.AGENT)
    await directory.spawn(work, Kind.MEMORY, origin=Origin.SYSTEM)
    await store.agents.set_state(gone.id, "dead", "ended")
    await trio.sleep(60)
    await store.agents.revive(orphan.path, 0)
    specs: dict[str, tuple[str, dict[str, Any]]] = {
        "news": (WORK, {}),
        "digest": (helper.path, {}),
        "chores": (WORK, {"task": "chores"}),
        "visit": (WORK, {"target": WORK}),
    }
    for name, (maker, more) in specs.items():
        spec = CronSpec(cron="0 7 * * *", prompt="what is new?", **more)
        await house.daemon.cron.controls.add("ann", name, spec, source="agent", by=maker)
    reading = CronSpec(cron="0 8 * * *", prompt="read", target=WORK)
    await house.daemon.cron.controls.add("ann", "reading", reading, source="cli")
    reminder = Envelope(to=WORK, user="ann", origin=Origin.TIMER, sender=WORK, key="r", text="water it", trace="t")
    due_at = house.daemon.clock.now_ms() + 86_400_000
    await store.timers.add(NewTimer(agent_id=work.id, key="r", due_at=due_at, envelope=reminder))
    await house.daemon.signals.controls.subscribe(WORK, "garden:*")
    await store.of(ApprovalRows).grant(
        Grant(agent_id=work.id, kind="memory", user="ann", by="direct:ann", until=due_at)
    )
    house.model.enqueue(call(("memory_write", {"path": "MEMORY.md", "text": "x", "reason": "y"})), say("asked"))
    await house.talk("note it", path=WORK)
    house.model.enqueue(call(("task_start", {"prompt": "tidy up"})), say("started"), say("tidied"))
    await house.talk("have it tidied up", path=WORK)
    await trio.sleep(60)
    house.model.enqueue(call(("ask", {"to": "/ann/agent/safe", "text": "how much?"})), FOR_EVER_S)
    await house.say("ask the safe", path=WORK)
    await trio.sleep(60)
    assert all(left_at(house, WORK).values()), left_at(house, WORK)


BELOW = {"helper": "/sub/0", "helper of a dead one": f"/{ORPHAN}", "search": "/search/0", "memory worker": "/memory"}
OF_WORK = ("agent", "helper", "helper of a dead one", "search", "memory worker", "job", "helper's job", "job of tasks",
           "job for the agent", "person's job for the agent", "reminder")  # fmt: skip
THINGS = (*OF_WORK, "permanent agent", "app")
LEFT = ("signal_subscriptions", "approval_grants", "approvals", "waits", "tasks")
JOBS = {"job": "news", "helper's job": "digest", "job of tasks": "chores", "job for the agent": "visit",
        "person's job for the agent": "reading"}  # fmt: skip


async def rights_at(house: TestDaemon, path: str, root: str, agent: Agent | None = None) -> Rights:
    """Return what the agent at a path may do, below the root that was moved; of others by their names alone."""
    daemon, user = house.daemon, path.split("/")[1]
    agent = agent or await daemon.directory.at(path)
    offered = {tool.name for tool in daemon.catalogue.specs(agent)}

    async def may(action: str, target: str) -> bool:
        return (await daemon.permissions.may(agent.path, action, target)).decision is Decision.ALLOW

    named = {"itself": root, "its origin": WORK, "a helper": f"{root}/sub/0"}
    named |= {other: f"/{user}/{other}" for other in OTHERS}
    actions = {(act, name) for act in ACTIONS for name, at in named.items() if await may(act, at)}
    section = chosen(daemon.live.now.approvals, agent.config.approvals)
    unasked = {
        tool for tool in (*CHANGES, LOG)
        if needed(section, tool, agent.path, "MEMORY.md", {Origin.PERSON}, direct=True).consent is Consent.AUTO
        and await may("write_memory", root)
    }  # fmt: skip
    rows = await daemon.budgets.rows()
    return Rights(
        tools=frozenset([tool for tool in offered if await may(f"{TOOL}{tool}", agent.path)]),
        actions=frozenset(actions),
        unasked=frozenset(unasked),
        limits={name: limit for name, limit in rows[agent.path].limits.items() if limit >= 0}
        if agent.path in rows
        else {},
        model=agent.config.model,
    )


async def acting(house: TestDaemon, thing: str, root: str) -> Rights | None:
    """Let a thing act, and return what it may then; None if it has not come."""
    user = root.split("/")[1]
    if (name := JOBS.get(thing)) is not None:
        job = await house.store.of(CronRows).at(f"/{user}/cron/{name}")
        if job is None or not (job.spec.target or job.source_ref).startswith(root):
            return None
        house.model.enqueue(FOR_EVER_S)
        run = await house.daemon.cron.controls.run(job.path)
        await trio.sleep(60)
        found = await house.store.of(CronRows).run(run.no)
        assert found is not None and found.agent_id is not None, found
        agent = await house.daemon.directory.get(found.agent_id)
        return await rights_at(house, agent.path, root, agent)
    if thing == "reminder":
        agent = await house.daemon.directory.at(root)
        if not [timer for timer in await house.store.timers.find(agent.id) if timer.envelope.text == "water it"]:
            return None
    path = root + BELOW.get(thing, "")
    if await house.daemon.directory.find(path) is None:
        return None
    return await rights_at(house, path, root)


def left_at(house: TestDaemon, root: str) -> dict[str, int]:
    """Return how many of what never moves the agents below a root have."""
    ids = "SELECT id FROM agents WHERE path = ?1 OR path > ?1 || '/' AND path < ?1 || '0'"
    asked = "asker = ?1 OR asker > ?1 || '/' AND asker < ?1 || '0'"
    found = {}
    for table in LEFT:
        whose = asked if table == "tasks" else f"agent_id IN ({ids})"
        [(found[table],)] = house.store._reader.execute(f"SELECT count(*) FROM {table} WHERE {whose}", (root,))
    return found


# -- the ways --------------------------------------------------------------------------------------------------------

TWINS = {WORK: "/ann/agent/twin", SCRIBE: "/ann/agent/twin-2", NOTES: "/ann/app/twin"}
BOBS = {WORK: "/bob/agent/second", SCRIBE: "/bob/agent/scribe", NOTES: "/bob/app/notes"}
SAME = {root: root for root in TWINS}
Found = tuple[dict[str, Rights | None], dict[str, int]]


async def found_at(house: TestDaemon, roots: Mapping[str, str]) -> Found:
    """Return what each thing may do where it came to, and what else of the first root's came there."""
    left = left_at(house, roots[WORK])
    which = {"permanent agent": roots[SCRIBE], "app": roots[NOTES]}
    return {thing: await acting(house, thing, which.get(thing, roots[WORK])) for thing in THINGS}, left


async def by_clone(folder: Path, roots: Mapping[str, str]) -> Found:
    async with house_at(folder / "here") as house:
        await lived(house)
        for root, to in roots.items():
            await exports_of(house).clone(root, to, progress=ExportProgress())
        return await found_at(house, roots)


async def by_import(folder: Path, roots: Mapping[str, str]) -> Found:
    async with house_at(folder / "here") as house:
        await lived(house)
        for root, to in roots.items():
            await imported(house, (await exported(house, root))[1], to)
        return await found_at(house, roots)


async def to_another_machine(folder: Path, roots: Mapping[str, str]) -> Found:
    """Nothing is known there of the paths that rules here are about, and changes need nobody's yes."""
    async with house_at(folder / "here") as house:
        await lived(house)
        files = {to: (await exported(house, root))[1] for root, to in roots.items()}
    async with house_at(folder / "there", (), FREE) as house:
        for to, data in files.items():
            await imported(house, data, to)
        return await found_at(house, roots)


async def by_backup(folder: Path, roots: Mapping[str, str]) -> Found:
    home = Home(folder / "here")
    async with house_at(home.path) as house:
        await lived(house)
    make(home, folder / "backup")
    (folder / "there").mkdir(mode=0o700)
    restoring.restore(folder / "backup", Home(folder / "there"), str, force=False, now_ms=1_800_000_000_000)
    async with house_at(folder / "there") as house:
        return await found_at(house, roots)


async def by_taking_back(folder: Path, roots: Mapping[str, str]) -> Found:
    """All below it has ended with it, and is taken back by hand."""
    async with house_at(folder / "here") as house:
        await lived(house)
        below = [each.path for each in await house.store.agents.find(user="ann", limit=1_000)]
        for root in roots:
            agent = await house.daemon.directory.at(root)
            await house.store.agents.set_state(agent.id, "dead", "ended")
        await trio.sleep(600)
        for path in below:
            if await house.daemon.directory.find(path) is None:
                await house.store.agents.revive(path, 0)
        return await found_at(house, roots)


async def by_staying(folder: Path, roots: Mapping[str, str]) -> Found:
    async with house_at(folder / "here") as house:
        await lived(house)
        return await found_at(house, roots)


@dataclass(frozen=True)
class Way:
    """How things come to be elsewhere, and which do not come; `keeps`: also what an export leaves out."""

    go: Callable[[Path, Mapping[str, str]], Awaitable[Found]]
    roots: Mapping[str, str]
    stays: tuple[str, ...] = ()
    keeps: bool = False


ALL_JOBS = tuple(JOBS)  # of one name there is one, and it is the first one's
STAYS = Way(by_staying, SAME, keeps=True)
WAYS = {
    "clone for the same user": Way(by_clone, TWINS, ALL_JOBS),
    "clone for another user": Way(by_clone, BOBS),
    "import for the same user": Way(by_import, TWINS, ALL_JOBS),
    "import for another user": Way(by_import, BOBS),
    "import on another machine at the same path": Way(to_another_machine, SAME),
    "import on another machine at another path": Way(to_another_machine, TWINS),
    "import on another machine for another user": Way(to_another_machine, BOBS),
    "restore of a backup": Way(by_backup, SAME, keeps=True),
    "taking back what has ended": Way(by_taking_back, SAME, ("reminder",), keeps=True),
}


@cache
def found(way: str) -> Found:
    """Go a way, once for all tests; "" stays."""

    async def go() -> Found:
        with TemporaryDirectory() as folder:
            it = WAYS[way] if way else STAYS
            return await it.go(Path(folder), it.roots)

    result: Found = trio.run(go, clock=patient_clock())
    return result


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("thing", THINGS)
def test_nothing_may_do_more_for_having_moved(thing: str, way: str) -> None:
    before, after = found("")[0][thing], found(way)[0][thing]
    assert before is not None
    assert (after is None) == (thing in WAYS[way].stays), "what comes, and what does not, is said in the table"
    if after is None:
        return
    assert after.beyond(before) == {}
    assert after.tools and after.model == before.model
    if WAYS[way].keeps:
        assert after == before


@pytest.mark.parametrize("way", WAYS)
def test_rights_and_open_work_do_not_move(way: str) -> None:
    assert all(found("")[1].values())
    left = found(way)[1]
    assert set(left.values()) == {0} or WAYS[way].keeps, left


def test_what_is_compared_is_narrowed_at_all() -> None:
    """The table would hold of agents that may do everything, too."""

    async def free() -> Rights:
        with TemporaryDirectory() as folder:
            async with house_at(Path(folder) / "here", (), FREE) as house:
                await house.agent(WORK)
                return await rights_at(house, WORK, WORK)

    everything = trio.run(free, clock=patient_clock())
    for thing, its in found("")[0].items():
        assert its is not None
        more = everything.beyond(its)
        assert more.keys() >= {"tools", "actions"}, f"{thing}: {more}"


# -- what is carried, and what is refused ------------------------------------------------------------------------------


async def test_a_copy_is_narrowed_by_rules_of_its_own_and_follows_those_that_hold_for_both(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with house_at(tmp_path / "here") as house:
        await house.agent(WORK)
        await exports_of(house).clone(WORK, "/ann/agent/twin", progress=ExportProgress())
        twin = await house.daemon.directory.at("/ann/agent/twin")
        told = [str(rule) for rule in twin.config.permissions.rules]
        assert told == [
            "deny message to /ann/agent/bank",
            "deny tool:remind to all",
            "ask read_history to all",  # of a helper that is not there, so it counts for all
            "deny message to /ann/agent/safe",
            "ask write_memory to all",  # as [approvals.work] says
        ]
        set_rules(house)
        verdict = await house.daemon.permissions.may(twin.path, "kill", "/ann/agent/bank")
        assert verdict.decision is Decision.ALLOW, "what was said of all of Ann's is not frozen in the copy"
        verdict = await house.daemon.permissions.may(twin.path, "message", "/ann/agent/bank")
        assert verdict.decision is Decision.DENY, "what was said of the first one's path is"


@pytest.mark.parametrize(
    ("source", "to"),
    [
        ("/ann/subuser/kid", "/ann/agent/twin"),
        ("/ann/app/notes", "/ann/agent/twin"),
        ("/ann/task/move", "/ann/agent/twin"),
        ("/ann/cron/news", "/ann/agent/twin"),
        (f"{WORK}/sub/0", "/ann/agent/twin"),
        (WORK, "/ann/task/twin"),
    ],
)
async def test_an_agent_does_not_become_one_of_a_kind_that_may_more(
    tmp_path: Path, autojump_clock: object, source: str, to: str
) -> None:
    async with house_at(tmp_path / "here") as house:
        work = await house.agent(WORK)
        await house.daemon.directory.spawn(work, Kind.SUB, origin=Origin.AGENT)
        if await house.daemon.directory.find(source) is None:
            await house.agent(source)
        with pytest.raises(ConflictError, match="may do more") as refused:
            await exports_of(house).clone(source, to, progress=ExportProgress())
        assert refused.value.code == "COPY_KIND" and refused.value.hint
        with pytest.raises(ConflictError, match="may do more"):
            await imported(house, (await exported(house, source))[1], to)
        assert await house.store.agents.at(to) is None


async def test_a_conversation_becomes_a_lasting_agent_and_back(tmp_path: Path, autojump_clock: object) -> None:
    async with house_at(tmp_path / "here") as house:
        await house.talk("hello")
        await exports_of(house).clone("/ann/direct", "/ann/agent/twin", progress=ExportProgress())
        bobs = await house.daemon.directory.at("/bob/direct")
        await house.store.agents.set_state(bobs.id, "dead", "ended")
        await exports_of(house).clone("/ann/agent/twin", "/bob/direct", progress=ExportProgress())


GUARD = Rule(action="read_history", decision=Decision.DENY, object=f"{WORK}/**")


@pytest.mark.parametrize(
    ("more", "to"),
    [
        (Rule(action="read_history", decision=Decision.DENY, object="/ann/agent/twin/**"), "/ann/agent/twin"),
        (Rule(action="*", decision=Decision.DENY, object="/ann/**"), "/ann/agent/twin"),
        (Rule(action="read_history", decision=Decision.DENY, object="/bob/agent/x/**"), "/bob/agent/x"),
        (Rule(action="read_history", decision=Decision.DENY), "/bob/agent/x"),
    ],
)
@pytest.mark.parametrize("way", ["clone", "import"])
async def test_what_others_may_not_read_is_copied_only_to_where_they_may_not_either(
    tmp_path: Path, autojump_clock: object, more: Rule, to: str, way: str
) -> None:
    async def copy(house: TestDaemon) -> None:
        if way == "clone":
            await exports_of(house).clone(WORK, to, progress=ExportProgress())
        else:
            await imported(house, (await exported(house))[1], to)

    async with house_at(tmp_path / "here", (GUARD,)) as house:
        await house.agent(WORK)
        with pytest.raises(ConflictError, match="keeps others from it") as refused:
            await copy(house)
        assert refused.value.code == "COPY_GUARDED"
        assert refused.value.hint.endswith(f'action = "read_history", decision = "deny", object = "{to}/**"')
        assert await house.store.agents.at(to) is None
        weaker = replace(more, decision=Decision.ASK)
        set_rules(house, GUARD, weaker)
        with pytest.raises(ConflictError, match="keeps others from it"):
            await copy(house)
        set_rules(house, GUARD, more)
        await copy(house)


@pytest.mark.parametrize(
    ("default", "policy", "copied"),
    [
        (Consent.AUTO, Consent.ALWAYS, Consent.ALWAYS),
        (Consent.AUTO, Consent.SESSION, Consent.SESSION),
        (Consent.ALWAYS, Consent.SESSION, Consent.ALWAYS),
        (Consent.ALWAYS, Consent.AUTO, None),
        (Consent.AUTO, None, None),
    ],
)
async def test_a_copy_asks_as_often_as_the_first_and_as_others_here(
    tmp_path: Path, autojump_clock: object, default: Consent, policy: Consent | None, copied: Consent | None
) -> None:
    section = ApprovalsSection(memory_write=default, memory_append=default, memory_delete=default)
    async with house_at(tmp_path / "here", (), section) as house:
        await house.agent(WORK, AgentConfig(approvals=policy))
        await exports_of(house).clone(WORK, "/bob/agent/x", progress=ExportProgress())
        assert (await house.daemon.directory.at("/bob/agent/x")).config.approvals is copied


async def test_a_budget_that_is_there_is_only_narrowed(tmp_path: Path, autojump_clock: object) -> None:
    there = BudgetRow(path="/ann/agent/twin", limits={"day.calls": 10, "day.usd": 7, "month.usd": -1})
    async with house_at(tmp_path / "here") as house:
        await house.agent(WORK)
        await house.store.of(BudgetRows).put(BudgetRow(path=WORK, limits=LIMITS))
        await house.store.of(BudgetRows).put(there)
        await house.daemon.budgets.rows()
        await exports_of(house).clone(WORK, "/ann/agent/twin", progress=ExportProgress())
        row = (await house.daemon.budgets.rows())["/ann/agent/twin"]
        assert row.limits == {"day.calls": 10, "day.usd": 7, "month.usd": 2_000_000}


# -- archives edited by hand -------------------------------------------------------------------------------------------


async def edited(tmp_path: Path, part: str, change: Callable[[list[Any]], object]) -> bytes:
    """Return the export of a narrowed agent with its job, edited."""
    async with house_at(tmp_path / "here") as house:
        await house.agent(WORK, AgentConfig(tools=("now", "cron_add", "memory_append_daily")))
        spec = CronSpec(cron="0 7 * * *", prompt="what is new?")
        await house.daemon.cron.controls.add("ann", "news", spec, source="agent", by=WORK)
        members = unpacked((await exported(house))[1])
    lines(part, change)(members)
    return packed(members)


async def test_a_job_of_an_older_export_is_bound_as_its_maker(tmp_path: Path, autojump_clock: object) -> None:
    def older(found: list[Any]) -> None:
        for name in ("bounds", "narrowed", "limits"):
            found[0].pop(name, None)

    data = await edited(tmp_path, "jobs.jsonl", older)
    members = of_version(1, unpacked(data))
    async with house_at(tmp_path / "there") as house:
        await imported(house, packed(members), "/bob/agent/x")
        [job] = await house.store.of(CronRows).find("bob")
        assert set(job.bounds.tools or "everything") == {"now", "cron_add", "memory_append_daily", "task_progress"}


async def test_bounds_that_were_taken_out_are_those_of_the_maker_still(tmp_path: Path, autojump_clock: object) -> None:
    data = await edited(tmp_path, "jobs.jsonl", with_(0, bounds={"tools": ["now", "kill_all"], "approvals": "auto"}))
    async with house_at(tmp_path / "there") as house:
        await imported(house, data, "/bob/agent/x")
        [job] = await house.store.of(CronRows).find("bob")
        assert (job.bounds.tools, job.bounds.approvals, job.paused) == (("now",), None, True)


FLYING = {"rules": [{"action": "fly", "decision": "deny"}]}
ALLOWING = {"rules": [{"action": "kill", "decision": "allow"}]}


@pytest.mark.parametrize(
    ("part", "change", "told"),
    [
        ("jobs.jsonl", with_(0, agent=-1), "a person made it, and it is for none of these agents"),
        ("jobs.jsonl", with_(0, bounds={"behaviour": "x/y"}), "unknown field `behaviour`"),
        ("jobs.jsonl", with_(0, bounds={"permissions": FLYING}), "expected one of message"),
        ("jobs.jsonl", with_(0, bounds={"permissions": ALLOWING}), "allow"),
        ("jobs.jsonl", with_(0, limits={"day.usd": -1}), "Expected `int` >= 0"),
        ("agents.jsonl", with_(0, limits={"week.usd": 1}), "week.usd"),
        ("agents.jsonl", with_(0, narrowed=[{"action": "kill", "decision": "allow"}]), "allow"),
        ("agents.jsonl", with_(0, config={"behaviour": "lists/notes"}), "only an app has a behaviour"),
    ],
)  # fmt: skip
async def test_what_an_edited_archive_may_not_say_is_refused(
    tmp_path: Path, autojump_clock: object, part: str, change: Callable[[list[Any]], object], told: str
) -> None:
    data = await edited(tmp_path, part, change)
    async with house_at(tmp_path / "there") as house:
        with pytest.raises(InvalidError, match=told) as refused:
            await imported(house, data, "/bob/agent/x")
        assert refused.value.code == "EXPORT_INVALID"
        assert await house.store.agents.at("/bob/agent/x") is None and await house.store.of(CronRows).find("bob") == []


@pytest.mark.parametrize("target", ["", "/ann/agent/bank"])
async def test_a_job_that_its_maker_may_not_schedule_here_is_left_out(
    tmp_path: Path, autojump_clock: object, target: str
) -> None:
    data = await edited(tmp_path, "jobs.jsonl", lambda found: found[0]["spec"].update(target=target))
    about = target.replace("/ann/", "/bob/") or "/bob/cron/news"
    no = Rule(action="schedule", decision=Decision.DENY, subject="/bob/**", object=about)
    async with house_at(tmp_path / "there", (no,)) as house:
        report = await imported(house, data, "/bob/agent/x")
        [why] = [each.why for each in report.left_out if each.what == "scheduled jobs"]
        assert "may not schedule" in why and "rule 1 of config.toml" in why
        assert await house.store.of(CronRows).find("bob") == []
