"""An agent that has ended and was taken back is ended like any other, by whoever ended it before."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
import trio

from daycare.api.app import build
from daycare.base.cron import CronSpec
from daycare.base.limits import CHILD_IDLE_S
from daycare.base.messages import Origin, dismissal
from daycare.base.path import Kind
from daycare.features.upkeep.service import CHILD_LOOK_S
from daycare.store.records import Agent
from daycare.testing.daemon import TestDaemon, open_daemon

SCRIBE = "/ann/agent/scribe"
LIVES = 3
Client = httpx.AsyncClient


@asynccontextmanager
async def api(house: TestDaemon) -> AsyncIterator[Client]:
    """Yield a client of the house's own API."""
    transport = httpx.ASGITransport(app=build(house.daemon.services))
    async with httpx.AsyncClient(transport=transport, base_url="http://daycare") as client:
        yield client


async def is_dead(house: TestDaemon, agent: Agent) -> bool:
    return (await house.daemon.directory.get(agent.id)).state == "dead"


async def test_an_awake_agent_is_ended_over_the_api_in_each_of_its_lives(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with open_daemon(tmp_path) as house, api(house) as client:
        agent = await house.agent(SCRIBE)
        for life in range(LIVES):
            assert await house.talk(f"hello {life}", path=SCRIBE) == f"echo: hello {life}"
            assert agent.id in house.daemon.supervisor.awake
            ended = await client.delete("/v1/agent", params={"path": SCRIBE})
            assert (ended.status_code, ended.json()["state"]) == (200, "dead"), f"in life {life}"
            assert await is_dead(house, agent) and agent.id not in house.daemon.supervisor.awake
            assert (await client.post("/v1/agent/restore", params={"path": SCRIBE})).json()["id"] == agent.id
        assert await house.talk("still there?", path=SCRIBE) == "echo: still there?"


async def by_its_person(house: TestDaemon, agent: Agent, parent: Agent) -> None:
    async with api(house) as client:
        await client.delete("/v1/agent", params={"path": agent.path})


async def by_its_parents_end(house: TestDaemon, agent: Agent, parent: Agent) -> None:
    await house.store.agents.set_state(parent.id, "dead", "ended")
    await house.store.agents.revive(parent.path, 0)


async def by_idling(house: TestDaemon, agent: Agent, parent: Agent) -> None:
    await trio.sleep(CHILD_IDLE_S + CHILD_LOOK_S + 1)


async def by_the_same_message(house: TestDaemon, agent: Agent, parent: Agent) -> None:
    path, key = agent.path, "once"
    message = dismissal(path, agent.id, agent.user, key=key, reason="done", trace="t", by="/ann/direct")
    await house.daemon.router.post(message)


@pytest.mark.parametrize("end", [by_its_person, by_its_parents_end, by_idling, by_the_same_message])
async def test_a_helper_is_ended_in_each_of_its_lives(
    tmp_path: Path, autojump_clock: object, end: Callable[[TestDaemon, Agent, Agent], Awaitable[None]]
) -> None:
    async with open_daemon(tmp_path) as house:
        parent = await house.agent(SCRIBE)
        helper = await house.daemon.directory.spawn(parent, Kind.SUB, origin=Origin.AGENT)
        for life in range(LIVES):
            await house.hear(await house.post(helper.path, "work", sender=SCRIBE, key=f"work {life}"))
            assert helper.id in house.daemon.supervisor.awake
            await end(house, helper, parent)
            await trio.sleep(5)
            assert await is_dead(house, helper), f"in life {life}"
            await house.store.agents.revive(helper.path, 0)


async def test_an_idle_helper_that_nobody_uses_after_its_return_ends_again(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with open_daemon(tmp_path) as house:
        parent = await house.agent(SCRIBE)
        helper = await house.daemon.directory.spawn(parent, Kind.SUB, origin=Origin.AGENT)
        await house.hear(await house.post(helper.path, "work", sender=SCRIBE, key="work"))
        for life in range(LIVES):
            await trio.sleep(CHILD_IDLE_S + CHILD_LOOK_S + 1)
            assert await is_dead(house, helper), f"in life {life}"
            await house.store.agents.revive(helper.path, 0)


async def test_the_agent_of_a_removed_job_is_ended_in_each_of_its_lives(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        cron = house.daemon.cron.controls
        for life in range(LIVES):
            job = await cron.add("ann", "news", CronSpec(cron="0 7 * * *", prompt="news?"), source="cli")
            if life:
                await house.store.agents.revive(job.path, 0)
            await cron.run(job.path)
            await trio.sleep(5)
            agent = await house.daemon.directory.at(job.path)
            await cron.remove(job.path)
            await trio.sleep(3_600)
            assert await is_dead(house, agent), f"in life {life}"


async def test_a_parent_hears_of_each_end_of_its_helper(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house, api(house) as client:
        parent = await house.agent(SCRIBE)
        helper = await house.daemon.directory.spawn(parent, Kind.SUB, origin=Origin.AGENT)
        for life in range(LIVES):
            await house.hear(await house.post(helper.path, "work", sender=SCRIBE, key=f"work {life}"))
            await client.delete("/v1/agent", params={"path": helper.path})
            await trio.sleep(5)
            read = await house.store.turns.history(parent.id, parent.session, 100)
            words = [message for message in read if f"{helper.path} has ended" in message.text]
            assert len([message for message in words if message.role == "user"]) == life + 1
            await house.store.agents.revive(helper.path, 0)
