"""The tree of agents: a branch at a time, each agent in one of them, and found by what it is called."""

import random
from collections import Counter

from msgspec.structs import replace

from daycare.features.roster.rows import RosterRows, branch_of
from daycare.store.records import AgentConfig
from daycare.store.sqlite.store import Store
from tests.chance import SEED
from tests.store.samples import new_agent

ROOTS = ("direct", "telegram", "agent/a", "agent/a-b", "agent/a0", "agent/ab", "cron/a", "task/1", "subuser/zoe")


async def grow(store: Store, *paths: str) -> None:
    for path in paths:
        await store.agents.create(new_agent(path, user=path.split("/")[1], kind="agent"))


async def pages(store: Store, under: str, limit: int) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    after = ""
    while True:
        page, after = await store.of(RosterRows).branches(under, after, limit)
        assert len(page) <= limit
        found += page
        if not after:
            return found


async def test_what_fits_is_shown_whole_and_what_does_not_by_its_branches(store: Store) -> None:
    await grow(store, "/ann/direct", "/ann/direct/sub/0", "/ann/direct/sub/1", "/bob/agent/cook")
    assert await pages(store, "", 4) == [
        (path, 0) for path in ("/ann/direct", "/ann/direct/sub/0", "/ann/direct/sub/1", "/bob/agent/cook")
    ]
    assert await pages(store, "", 3) == [("/ann", 3), ("/bob", 1)]
    assert await pages(store, "/ann", 2) == [("/ann/direct", 2)]
    assert await pages(store, "/ann/direct", 2) == [("/ann/direct/sub/0", 0), ("/ann/direct/sub/1", 0)]
    assert await pages(store, "/zoe", 2) == []


async def test_page_by_page_each_agent_is_there_once_in_whatever_tree(store: Store) -> None:
    draw = random.Random(SEED)
    print(f"SEED={SEED}")
    paths = {f"/{user}/{draw.choice(ROOTS)}" for user in ("ann", "ann-b", "ann0", "bob") for _ in range(6)}
    for path in sorted(paths):
        paths |= {f"{path}/sub/{n}" for n in range(draw.randrange(4))} | {f"{path}/memory"}
    await grow(store, *paths)
    for under in ("", "/ann", "/bob", min(paths)):
        inside = {path for path in paths if path.startswith(f"{under}/")}
        for limit in (1, 2, 5, 1_000):
            found = await pages(store, under, limit)
            below = Counter(branch_of(path, under) for path in inside)
            below.subtract(inside & below.keys())  # stand there themselves
            whole = len(inside) <= limit
            assert len(found) == len(dict(found)), "none is there twice"
            assert dict(found) == (dict.fromkeys(inside, 0) if whole else below)


async def test_agents_are_found_by_path_name_and_description_whatever_their_case(store: Store) -> None:
    await grow(store, "/ann/agent/cook", "/bob/direct")
    for path, config in (
        ("/ann/agent/x", AgentConfig(name="The COOK")),
        ("/bob/agent/y", AgentConfig(description="cooks, and cleans")),
        ("/bob/agent/z", AgentConfig(system_prompt="you cook")),
    ):
        await store.agents.create(replace(new_agent(path, user=path.split("/")[1], kind="agent"), config=config))
    rows = store.of(RosterRows)
    assert await rows.named("Cook", "", "", 10) == ["/ann/agent/cook", "/ann/agent/x", "/bob/agent/y"]
    assert await rows.named("cook", "", "/ann/agent/cook", 1) == ["/ann/agent/x"]
    assert await rows.named("cook", "/bob", "", 10) == ["/bob/agent/y"]
    assert await rows.named("%", "", "", 10) == []
    [cook] = [each for each in await store.agents.find() if each.path == "/ann/agent/cook"]
    await store.agents.set_state(cook.id, "parked")
    assert await rows.parked("", 5) == ["/ann/agent/cook"] and await rows.parked("/bob", 5) == []
    await store.agents.set_state(cook.id, "dead")
    assert await rows.named("cook", "/ann", "", 10) == ["/ann/agent/x"]
