"""What every store promises of a user's removal: all of theirs and below ends together, and of others nothing."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from daycare.base.causes import TaskWork
from daycare.base.cron import CronSpec
from daycare.base.documents import Layer, Place
from daycare.base.errors import ConflictError, ForbiddenError, NotFoundError
from daycare.base.messages import EnvelopeKind, Origin
from daycare.features import open_store
from daycare.features.approvals.records import ApprovalState, Grant
from daycare.features.approvals.rows import ApprovalRows
from daycare.features.budgets.records import BudgetRow
from daycare.features.budgets.rows import BudgetRows
from daycare.features.cron.model import NewCronJob
from daycare.features.cron.rows import CronRows
from daycare.features.signals.records import NewSignal
from daycare.features.signals.rows import SignalRows
from daycare.features.tasks.records import NewTask
from daycare.features.tasks.rows import TaskRows
from daycare.store.records import Agent, NewAgent, NewTimer, Reply, User
from daycare.store.sqlite.store import Store
from tests.budgets.test_migration import of_version
from tests.store.samples import EPOCH_MS, HandClock, commits, letter, new_agent, tool_step
from tests.store.test_approvals import hidden
from tests.store.test_approvals import wish as request_of
from tests.store.test_budgets import ceiling
from tests.store.test_budgets import wish as reservation_of
from tests.store.test_cron import due
from tests.store.test_intake import BOT, arrival

CLUB = User(id="club", name="Club", kind="group", keys=("telegram:-42",))
TOPIC = User(id="club-t7", name="Cars", kind="group", parent="club", keys=("telegram:-42:7",))
OTHER = User(id="other", name="Other", keys=("telegram:1",))
OPERATOR = User(id="op", name="Op", operator=True, keys=("direct:op",))


def child_of(agent: Agent) -> NewAgent:
    return NewAgent(
        id=f"{agent.id}-sub", path=agent.path, kind="sub", role="subagent", user=agent.user, origin=Origin.AGENT
    )


async def furnish(store: Store, user: str) -> None:
    """Let a user have something of everything that goes on."""
    path = f"/{user}/telegram"
    agent = await store.agents.create(new_agent(path, user=user))
    letters = [letter(f"{user}-{n}", path, user=user) for n in range(3)]
    await store.inbox.post(letters[0])
    [row] = await store.inbox.waiting(agent.id)
    aside = await store.turns.begin(agent, [row])
    asked = tool_step(aside, 1, state="waiting", wait=f"wait-{user}", wait_until=EPOCH_MS + 9_000)
    await store.turns.journal([asked])
    await store.turns.set_aside(agent, aside, [asked])
    await store.inbox.post(letters[1])
    await store.turns.begin(agent, await store.inbox.waiting(agent.id))
    await store.inbox.post(letters[2])
    first = letter(f"{user}-task", path, user=user, kind=EnvelopeKind.TEXT, origin=Origin.AGENT, sender=path)
    await store.agents.spawn(agent, "sub", replace(child_of(agent), born=f"{user}:1"), first)
    await store.timers.add(NewTimer(agent_id=agent.id, key="t", due_at=EPOCH_MS + 5, envelope=letter("t", path)))
    job_path = f"/{user}/cron/look"
    spec = CronSpec(cron="0 * * * *", prompt="look", retry=3)
    job = await store.of(CronRows).add(
        NewCronJob(path=job_path, user=user, source="cli", source_ref="", spec=spec, next_at=EPOCH_MS + 1)
    )
    await store.of(CronRows).fire([_as(user, due(job, EPOCH_MS + 1))])
    await store.of(TaskRows).start(
        NewTask(
            user=user,
            id="sum",
            key=f"task-{user}",
            prompt="sum up",
            create=new_agent(f"/{user}/task/sum", user=user, kind="task"),
            message=letter(f"{user}-sum", user=user, cause=TaskWork()),
            deadline_at=EPOCH_MS + 99_000,
        )
    )
    await store.of(SignalRows).subscribe(agent, "deploy:*", silent=False, origin=Origin.PERSON)
    await store.of(SignalRows).send(_signal(user))
    request = request_of(
        f"{user}:1", agent_id=agent.id, path=path, user=user, decider="op", place=Place(Layer.AGENT, agent.id, "A.md")
    )
    await store.of(ApprovalRows).request(request, hidden)
    await store.of(ApprovalRows).grant(
        Grant(agent_id=agent.id, kind="memory", user="op", by="op", until=EPOCH_MS + 10**9)
    )
    await store.of(BudgetRows).put(BudgetRow(path=f"/{user}", limits={"day.calls": 1}))
    await store.of(BudgetRows).put(BudgetRow(path=path, limits={"day.calls": 1}))
    await store.of(BudgetRows).reserve(reservation_of(path, user), [])
    await store.outbox.add(agent, Reply(connector="telegram", text="words", target="somewhere"), "trace")


def _as(user: str, firing: Any) -> Any:
    [run] = firing.runs
    create = replace(run.post.create, id=f"{user}-job", user=user)
    post = replace(run.post, envelope=replace(run.post.envelope, user=user), create=create)
    return replace(firing, runs=(replace(run, post=post),))


def _signal(user: str) -> NewSignal:
    return NewSignal(
        user=user, origin=Origin.PERSON, type="deploy:done", data="", sender="", sender_id="", trace="t", via=(),
        key="", call=f"signal-{user}", due_at=EPOCH_MS + 10**6,
    )  # fmt: skip


async def going_on(store: Store, user: str) -> dict[str, int]:
    """Return how much of everything goes on for a user."""
    agents = await store.agents.find(user=user)
    dead = await store.agents.find(user=user, include_dead=True)
    ids = {agent.id for agent in dead}
    signals = [it for it in await store.of(SignalRows).find(user=user) if it.state == "waiting"]
    budgets = [row for row in await store.of(BudgetRows).find() if f"{row.path}/".startswith(f"/{user}/")]
    requests = [it for it in await store.of(ApprovalRows).find(states=[ApprovalState.PENDING]) if it.user == user]
    return {
        "keys": len(user_.keys) if (user_ := await store.people.get(user)) else 0,
        "agents": len(agents),
        "messages": sum([len(await store.inbox.waiting(agent_id)) for agent_id in ids]),
        "turns": sum([await store.turns.open_turn(agent_id) is not None for agent_id in ids]),
        "aside": sum([len(await store.turns.aside(agent_id)) for agent_id in ids]),
        "timers": sum([len(await store.timers.find(agent_id)) for agent_id in ids]),
        "jobs": len(await store.of(CronRows).find(user)),
        "runs": sum([run.state in ("waiting", "due") for run in await store.of(CronRows).runs(user=user)]),
        "tasks": len(await store.of(TaskRows).find(user=user, is_open=True)),
        "untold": sum([task.user == user for task in await store.of(TaskRows).unsettled(100)]),
        "subscriptions": len(await store.of(SignalRows).subscriptions(user=user)),
        "signals": len(signals),
        "requests": len(requests),
        "grants": sum([len(await store.of(ApprovalRows).grants(agent_id)) for agent_id in ids]),
        "budgets": len(budgets),
        "reserved": (await store.of(BudgetRows).standings([ceiling(f"/{user}")]))[0].reserved,
        "replies": len(await store.outbox.unread(f"/{user}/telegram")),
    }  # fmt: skip


async def test_all_of_a_user_and_below_ends_and_nothing_of_others_does(store: Store) -> None:
    for user in (OPERATOR, CLUB, TOPIC, OTHER):
        await store.people.add(user)
    for user in (CLUB, TOPIC, OTHER):
        await furnish(store, user.id)
    before = await going_on(store, "other")
    assert [what for what, many in before.items() if not many] == ["untold"], "there is something of each other kind"
    assert {**await going_on(store, "club"), "reserved": 0} == {**before, "reserved": 0}
    seen = commits(store)
    assert await store.people.remove("club") == ["club", "club-t7"]
    for gone in ("club", "club-t7"):
        assert await going_on(store, gone) == dict.fromkeys(before, 0)
    assert await going_on(store, "other") == before
    commit = seen[0]
    assert commit.people and len(commit.cut_off) == 8, "in one commit: a conversation, a helper, a job's, a task's each"
    letters = await store.dead.find()
    assert {letter.user for letter in letters} == {"club", "club-t7"}
    assert {letter.reason for letter in letters} == {"its user was removed"}
    assert {(letter.source, letter.code) for letter in letters} == {("inbox", "AGENT_DEAD"), ("outbox", "USER_REMOVED")}
    assert [(run.state, run.reason) for run in await store.of(CronRows).runs(user="club")] == [
        ("failed", "its user was removed")
    ]
    [standing] = await store.of(BudgetRows).standings([ceiling("/club")])
    assert standing.used == 200, "what running calls had reserved counts: nobody knows what they cost"
    assert [user.id for user in await store.people.find()] == ["op", "other"]


async def test_a_removal_is_whole_or_not_at_all(store: Store) -> None:
    for user in (OPERATOR, replace(OTHER, parent="op")):
        await store.people.add(user)
    await furnish(store, "other")
    before = await going_on(store, "other")
    with pytest.raises(ConflictError):
        await store.people.remove("op")
    assert await going_on(store, "other") == before
    with pytest.raises(NotFoundError):
        await store.people.remove("nobody")


async def test_no_agent_comes_into_being_or_back_for_a_removed_user_until_they_are_let_in_again(store: Store) -> None:
    for user in (OPERATOR, CLUB):
        await store.people.add(user)
    await store.agents.create(new_agent("/club/telegram", user="club"))
    await store.people.remove("club")
    late = letter("late", "/club/telegram", user="club")
    for attempt in (
        store.agents.create(new_agent("/club/agent/a", user="club")),
        store.agents.revive("/club/telegram", 0),
        store.inbox.post(late, new_agent("/club/telegram", agent_id="again", user="club")),
    ):
        with pytest.raises(ForbiddenError) as refused:
            await attempt
        assert refused.value.code == "USER_REMOVED"
    await store.people.add(CLUB)
    receipt = await store.inbox.post(late, new_agent("/club/telegram", agent_id="again", user="club"))
    agent = await store.agents.get(receipt.agent_id)
    assert agent is not None and agent.incarnation == 2


async def test_a_dead_agent_asks_for_no_approval(store: Store) -> None:
    """Its turn may have been at it when its user was removed."""
    await store.people.add(OPERATOR)
    await store.people.add(OTHER)
    agent = await store.agents.create(new_agent("/other/telegram", user="other"))
    await store.people.remove("other")
    with pytest.raises(ConflictError):
        await store.of(ApprovalRows).request(request_of(agent_id=agent.id, path=agent.path, user="other"), hidden)


async def test_what_a_removed_person_was_to_decide_is_decided_by_nobody_and_its_agent_hears_so(store: Store) -> None:
    for user in (OPERATOR, OTHER):
        await store.people.add(user)
    agent = await store.agents.create(new_agent("/op/telegram", user="op"))
    place = Place(Layer.AGENT, agent.id, "A.md")
    await store.of(ApprovalRows).request(
        request_of(agent_id=agent.id, path=agent.path, user="op", decider="other", place=place), hidden
    )
    await store.people.remove("other")
    [it] = await store.of(ApprovalRows).find()
    assert (it.state, it.why) == (ApprovalState.STALE, "the person who was to decide it was removed")
    [row] = await store.inbox.waiting(agent.id)
    assert "cannot be decided any more" in row.envelope.text and row.envelope.kind is EnvelopeKind.NOTICE


async def test_unlinking_a_chat_closes_the_doors_of_its_topics(store: Store) -> None:
    for user in (CLUB, TOPIC, replace(OTHER, keys=("telegram:-421",))):
        await store.people.add(user)
    await store.people.unlink("telegram:-42")
    assert [await store.people.by_key(key) for key in ("telegram:-42", "telegram:-42:7")] == [None, None]
    assert await store.people.by_key("telegram:-421") is not None, "another chat, however alike its number"


async def test_a_topic_of_a_removed_group_is_a_strangers(store: Store) -> None:
    """Whether its user was known already or would come into being with this message."""
    for user in (OPERATOR, CLUB, TOPIC):
        await store.people.add(user)
    known = arrival("a", to="/club-t7/telegram", user=None)
    known = replace(known, envelope=replace(known.envelope, user="club-t7"))
    new = arrival("b", to="/club-t8/telegram", user=replace(TOPIC, id="club-t8", keys=("telegram:-42:8",)))
    await store.people.remove("club")
    taken = await store.intake.take(BOT, [known, new])
    assert [each.stranger for each in taken] == [True, True]
    assert (await store.dead.find(), await store.agents.find()) == ([], [])
    assert [user.id for user in await store.people.find()] == ["op"]


async def test_what_was_left_below_people_who_were_removed_before_ends_with_an_upgrade(tmp_path: Path) -> None:
    file = tmp_path / "daycare.db"
    db = of_version(file, 9)
    for id_, parent, removed in (("club", None, 5), ("club-t7", "club", None), ("ann", None, None)):
        db.execute(
            "INSERT INTO users (id, name, zone, kind, parent, origin, created_at, removed_at)"
            " VALUES (?1, ?1, 'UTC', 'group', ?2, 'person', 1, ?3)",
            (id_, parent, removed),
        )
        db.execute(
            "INSERT INTO agents (id, path, kind, role, user, origin, state, config, incarnation, created_at)"
            " VALUES (?1, '/' || ?1 || '/telegram', 'connector', 'user', ?1, 'person', 'living', '{}', 1, 1)",
            (id_,),
        )
        db.execute(
            "INSERT INTO user_connector_keys (connector_key, user, origin, created_at)"
            " VALUES ('telegram:' || ?1, ?1, 'person', 1)",
            (id_,),
        )
    db.close()
    async with open_store(str(file), HandClock()) as store:
        assert [user.id for user in await store.people.find()] == ["ann"]
        assert [agent.user for agent in await store.agents.find()] == ["ann"]
        found = [await store.people.by_key(f"telegram:{id_}") for id_ in ("club", "club-t7", "ann")]
        assert [user is not None for user in found] == [False, False, True]
