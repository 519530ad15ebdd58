"""What every store promises of agents, people and secrets."""

from typing import Any

import pytest
import trio
from msgspec.structs import replace

from daycare.base.errors import BusyError, ConflictError, DaycareError, InvalidError, NotFoundError
from daycare.base.limits import AGENT_CONFIG_MAX_BYTES
from daycare.base.messages import EnvelopeKind, Lane, Origin
from daycare.store.records import Agent, AgentConfig, NewAgent, Policy, User
from daycare.store.sqlite.store import Store
from tests.store.samples import PATH, answer, begin, commits, new_agent, post, timer


def child(number: int) -> NewAgent:
    return new_agent(PATH, agent_id=f"child-{number}", kind="sub")


async def test_creating_twice_returns_the_living_agent(store: Store) -> None:
    config = AgentConfig(name="Ada", policy=Policy.COLLECT, tools=("search",))
    new = NewAgent(
        id="a", path=PATH, kind="connector", role="user", user="u1", origin=Origin.GROUP, parent="p", config=config
    )
    first = await store.agents.create(new)
    assert first == await store.agents.create(new_agent(agent_id="b"))
    assert (first.id, first.config, first.origin, first.parent) == ("a", config, Origin.GROUP, "p")
    assert (first.state, first.incarnation, first.session) == ("living", 1, 1)
    assert await store.agents.get("a") == await store.agents.at(PATH) == first
    assert await store.agents.get("b") is None


async def test_a_path_of_another_user_is_refused(store: Store) -> None:
    await store.agents.create(new_agent())
    with pytest.raises(ConflictError) as caught:
        await store.agents.create(new_agent(agent_id="b", user="u2"))
    assert caught.value.code == "PATH_TAKEN"


async def test_concurrent_children_get_distinct_consecutive_indexes(store: Store) -> None:
    parent = await store.agents.create(new_agent())
    made: list[Agent] = []

    async def spawn(number: int) -> None:
        made.append(await store.agents.create_child(parent.id, "sub", child(number)))

    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(spawn, number)
    assert sorted(agent.path for agent in made) == sorted(f"{PATH}/sub/{n}" for n in range(20))
    assert {agent.parent for agent in made} == {parent.id}
    assert len({agent.id for agent in made}) == 20
    search = await store.agents.create_child(parent.id, "search", child(20))
    assert search.path == f"{PATH}/search/0", "searches have a counter of their own"


async def test_a_new_incarnation_does_not_get_the_old_ones_child_for_a_new_one(store: Store) -> None:
    old = await store.agents.create(new_agent())
    orphan = await store.agents.create_child(old.id, "sub", child(0))
    await store.agents.set_state(old.id, "dead")
    new = await store.agents.create(new_agent(agent_id="second"))
    fresh = await store.agents.create_child(new.id, "sub", child(1))
    assert (fresh.id, fresh.parent, fresh.path) == ("child-1", new.id, f"{PATH}/sub/1")
    assert orphan.path == f"{PATH}/sub/0"


async def test_a_dead_parent_has_no_more_children(store: Store) -> None:
    parent = await store.agents.create(new_agent())
    await store.agents.set_state(parent.id, "dead")
    with pytest.raises(NotFoundError):
        await store.agents.create_child(parent.id, "sub", child(0))


async def test_burial_frees_the_path_ends_the_turn_and_keeps_the_messages_as_dead_letters(store: Store) -> None:
    agent, _, rows = await begin(store, "a", "b")
    await store.timers.add(timer(agent, "t", 1))
    seen = commits(store)
    dead = await store.agents.set_state(agent.id, "dead", "dismissed")
    assert (dead.state, dead.reason) == ("dead", "dismissed")
    assert await store.agents.at(PATH) is None
    assert await store.turns.open_turn(agent.id) is None
    assert await store.timers.find() == []
    letters = await store.dead.find()
    assert [(it.seq, it.code, it.reason) for it in letters] == [
        (row.seq, "AGENT_DEAD", "dismissed") for row in reversed(rows)
    ]
    assert seen[-1].completed == [(row.seq, None) for row in rows]
    assert [it.no for it in seen[-1].dead] == [it.no for it in reversed(letters)]
    with pytest.raises(ConflictError):
        await store.agents.set_state(agent.id, "living")
    with pytest.raises(ConflictError):
        await store.turns.begin(agent, rows)
    second = await store.agents.create(new_agent(agent_id="second"))
    assert second.incarnation == 2


async def test_what_ended_an_earlier_life_is_no_repeat_in_the_next(store: Store) -> None:
    agent = await store.agents.create(new_agent())
    bye: dict[str, Any] = {"kind": EnvelopeKind.DISMISS, "lane": Lane.CONTROL, "agent_id": agent.id}
    seqs = []
    for _ in range(3):
        ending = await post(store, "bye", **bye)
        seqs.append(ending.seq)
        assert not ending.duplicate and (await post(store, "bye", **bye)).duplicate, "within a life it is one"
        await store.agents.set_state(agent.id, "dead", "dismissed")
        await store.agents.revive(PATH, 0)
    assert [it.state for seq in seqs if (it := await store.inbox.receipt(seq))] == ["done"] * 3
    said = await post(store, "a", agent_id=agent.id)
    await store.agents.set_state(agent.id, "dead")
    await store.agents.revive(PATH, 0)
    assert await post(store, "a") == replace(said, duplicate=True, state="dead", result="its agent ended")


async def test_a_parked_agent_keeps_its_path_and_its_messages(store: Store) -> None:
    receipt = await post(store, "a")
    parked = await store.agents.set_state(receipt.agent_id, "parked", "crashed")
    assert await store.agents.at(PATH) == parked
    assert (await post(store, "b")).agent_id == receipt.agent_id
    assert (await store.agents.set_state(receipt.agent_id, "living")).state == "living"
    assert len(await store.inbox.waiting(receipt.agent_id)) == 2
    assert await store.agents.count() == {"living": 1}


async def test_configuring_replaces_the_settings_and_refuses_too_many(store: Store) -> None:
    agent = await store.agents.create(new_agent())
    seen = commits(store)
    changed = await store.agents.configure(agent.id, AgentConfig(model="large"))
    assert changed.config == AgentConfig(model="large")
    assert seen[-1].agents == {agent.id}
    with pytest.raises(InvalidError):
        await store.agents.configure(agent.id, AgentConfig(system_prompt="x" * AGENT_CONFIG_MAX_BYTES))
    assert await store.agents.get(agent.id) == changed
    with pytest.raises(NotFoundError):
        await store.agents.configure("nobody", AgentConfig())


async def test_finding_agents_filters_and_pages_in_the_order_of_paths(store: Store) -> None:
    for number in (2, 0, 1):
        await store.agents.create(new_agent(f"/u1/agent/a{number}", kind="agent"))
    await store.agents.create(new_agent())
    await store.agents.create(new_agent("/u2/telegram", user="u2"))
    await store.agents.set_state("id-u1-agent-a1", "dead")
    found = await store.agents.find(user="u1", limit=2)
    found += await store.agents.find(user="u1", after=found[-1].path)
    assert [agent.path for agent in found] == ["/u1/agent/a0", "/u1/agent/a2", PATH]
    kinds = await store.agents.find(kinds=("agent", "task"), include_dead=True)
    assert [agent.path for agent in kinds] == [f"/u1/agent/a{n}" for n in range(3)]


async def test_recency_is_the_number_of_the_last_turn(store: Store) -> None:
    first = await answer(store, "a", to=PATH)
    second = await answer(store, "b", to="/u1/direct")
    await store.agents.create(new_agent("/u1/slack"))
    recency = {agent.path: last for agent, last in await store.agents.recency("u1", "connector")}
    assert recency == {PATH: first.turn, "/u1/direct": second.turn, "/u1/slack": 0}


async def test_a_user_is_found_by_each_key_until_removed(store: Store) -> None:
    group = User(id="g", name="Band", zone="Europe/Berlin", kind="group", keys=("telegram:-7",))
    assert await store.people.add(User(id="a", name="Ada", operator=True, keys=("telegram:1", "slack:U1")))
    assert await store.people.add(group) == group
    assert [user.id for user in await store.people.find()] == ["a", "g"]
    linked = await store.people.link("telegram:2", "a")
    assert linked == await store.people.link("telegram:2", "a") == await store.people.by_key("telegram:2")
    assert linked.keys == ("slack:U1", "telegram:1", "telegram:2")
    await store.people.unlink("telegram:2")
    assert await store.people.by_key("telegram:2") is None
    with pytest.raises(NotFoundError):
        await store.people.unlink("telegram:2")
    changed = await store.people.change("a", name="Ada L.", zone="Europe/London")
    assert changed == await store.people.get("a") == await store.people.change("a", name="Ada L.", zone="Europe/London")
    assert (changed.name, changed.zone, changed.operator, len(changed.keys)) == ("Ada L.", "Europe/London", True, 2)
    with pytest.raises(NotFoundError):
        await store.people.change("nobody", name="x", zone="UTC")
    await store.people.remove("g")
    assert (await store.people.get("g"), await store.people.by_key("telegram:-7")) == (None, None)
    assert (await store.people.add(User(id="g", name="New", parent="a"))).parent == "a"


async def test_taken_ids_and_keys_are_refused_and_change_nothing(store: Store) -> None:
    await store.people.add(User(id="a", name="Ada", keys=("telegram:1",)))
    refused: list[tuple[User, type[DaycareError]]] = [
        (User(id="a", name="Other"), ConflictError),
        (User(id="b", name="Bob", keys=("telegram:2", "telegram:1")), ConflictError),
        (User(id="b", name="Bob", parent="nobody"), NotFoundError),
    ]
    for user, error in refused:
        with pytest.raises(error):
            await store.people.add(user)
    assert [user.id for user in await store.people.find()] == ["a"]
    assert await store.people.by_key("telegram:2") is None
    await store.people.add(User(id="b", name="Bob"))
    with pytest.raises(ConflictError):
        await store.people.link("telegram:1", "b")
    with pytest.raises(NotFoundError):
        await store.people.link("telegram:3", "nobody")


async def test_the_last_operator_stays(store: Store) -> None:
    await store.people.add(User(id="a", name="Ada", operator=True))
    with pytest.raises(ConflictError):
        await store.people.remove("a")
    await store.people.add(User(id="b", name="Bob", operator=True))
    await store.people.remove("a")
    with pytest.raises(ConflictError):
        await store.people.remove("b")


async def test_a_secret_is_replaced_and_removed_by_name(store: Store) -> None:
    await store.secrets.put("openai", "u1", b"\0one")
    await store.secrets.put("anthropic", "u1", b"x")
    await store.secrets.put("openai", "u1", b"two")
    assert store.secrets.get("openai") == b"two"
    assert [name for name, _ in await store.secrets.find()] == ["anthropic", "openai"]
    assert (await store.secrets.remove("openai"), await store.secrets.remove("openai")) == (True, False)
    assert store.secrets.get("openai") is None


async def test_a_lasting_agent_is_made_once_for_each_call_and_never_in_anothers_place(store: Store) -> None:
    new = replace(new_agent("/u1/agent/x", kind="agent"), born="call-1")
    first = await store.agents.create_permanent(new, 2)
    assert (await store.agents.create_permanent(replace(new, id="other"), 2)).id == first.id
    with pytest.raises(ConflictError) as taken:
        await store.agents.create_permanent(replace(new, id="b", born="call-2"), 2)
    assert taken.value.code == "AGENT_EXISTS"
    second = replace(new_agent("/u1/agent/y", kind="agent"), born="call-3")
    await store.agents.create_permanent(second, 2)
    for path, user in (("/u1/agent/z", "u1"), ("/u2/agent/z", "u2")):
        more = replace(new_agent(path, kind="agent", user=user), born=f"call-{user}")
        if user == "u2":
            await store.agents.create_permanent(more, 2)  # others have their own room
            continue
        with pytest.raises(BusyError, match="u1 has 2 permanent agents"):
            await store.agents.create_permanent(more, 2)
    await store.agents.set_state(first.id, "dead", "for the test")
    assert (await store.agents.create_permanent(replace(new, id="c", born="call-4"), 2)).incarnation == 2


async def test_concurrent_calls_do_not_go_over_the_number_of_lasting_agents(store: Store) -> None:
    made: list[str] = []
    refused: list[str] = []

    async def make(number: int) -> None:
        new = replace(new_agent(f"/u1/agent/a{number}", kind="agent"), born=f"call-{number}")
        try:
            made.append((await store.agents.create_permanent(new, 5)).path)
        except BusyError as error:
            refused.append(error.code)

    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(make, number)
    assert (len(made), refused) == (5, ["LASTING_AGENTS_MAX"] * 15)
