"""People below others schedule and start tasks of their own, and reach nobody else's."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from daycare.base.cron import CronSpec
from daycare.base.errors import ForbiddenError
from daycare.base.messages import ToolResult
from daycare.features.cron.rows import CronRows
from daycare.features.tasks.records import TaskSpec
from daycare.store.records import User
from daycare.testing.daemon import TestDaemon, open_daemon
from daycare.testing.scripted import Scripted, call, say
from tests.cron.helpers import delivered

MIA = "/ann/subuser/mia"
JOB = {"name": "plants", "prompt": "water the plants", "cron": "0 9 * * *"}


@asynccontextmanager
async def family(tmp: Path, model: Scripted | None = None) -> AsyncIterator[TestDaemon]:
    async with open_daemon(tmp, model) as house:
        await house.store.people.add(User(id="mia", name="Mia", parent="ann", keys=("direct:mia",)))
        await house.talk("hello", user="mia")
        await house.talk("hello")
        yield house


async def attempt(house: TestDaemon, tool: str, arguments: dict[str, Any], user: str = "mia") -> ToolResult:
    """Let a person's agent call a tool; return what it is told."""
    house.model.enqueue(call((tool, arguments)), say("done"))
    await house.talk("go", user=user)
    agent = await house.daemon.directory.at(MIA if user == "mia" else f"/{user}/direct")
    history = await house.store.turns.history(agent.id, agent.session, 100)
    return [part for message in history for part in message.parts if isinstance(part, ToolResult)][-1]


async def test_a_subusers_agent_schedules_its_own_jobs_and_they_hear_of_them(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with family(tmp_path) as house:
        added = await attempt(house, "cron_add", JOB)
        assert added.status == "ok", added.text
        job = await house.daemon.cron.controls.at("/mia/cron/plants")
        assert (job.user, job.source, job.source_ref) == ("mia", "agent", MIA)
        assert "plants" in (await attempt(house, "cron_list", {})).text
        assert (await attempt(house, "cron_pause", {"name": "plants"})).status == "ok"
        assert (await attempt(house, "cron_pause", {"name": "plants", "paused": False})).status == "ok"
        house.model.default = lambda request: say("They are dry.")
        await trio.sleep(10 * 3600)
        [run] = await house.store.of(CronRows).runs(user="mia")
        assert (run.state, run.answer) == ("ran", "They are dry.")
        assert (await delivered(house, MIA))[-1] == "They are dry."
        assert "They are dry." not in await delivered(house, "/ann/direct")
        assert (await attempt(house, "cron_remove", {"name": "plants"})).status == "ok"
        assert house.events("permission.refused") == []


async def test_a_job_goes_to_a_subusers_conversation_by_its_address(tmp_path: Path, autojump_clock: object) -> None:
    async with family(tmp_path) as house:
        add = house.daemon.cron.controls.add
        spec = CronSpec(cron="0 9 * * *", prompt="x", target=MIA, deliver=MIA)
        assert (await add("mia", "own", spec, source="agent", by=MIA)).spec.deliver == MIA
        with pytest.raises(ForbiddenError, match="another user"):
            await add("ann", "hers", CronSpec(cron="0 9 * * *", prompt="x", deliver=MIA), source="cli")
        with pytest.raises(ForbiddenError, match="another user"):
            spec = CronSpec(cron="0 9 * * *", prompt="x", deliver="/ann/direct")
            await add("mia", "theirs", spec, source="cli")


async def test_neither_schedules_for_the_others_jobs_and_each_refusal_is_recorded(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with family(tmp_path) as house:
        controls = house.daemon.cron.controls
        spec = CronSpec(cron="0 9 * * *", prompt="x")
        await controls.add("mia", "hers", spec, source="cli")
        await controls.add("ann", "mine", spec, source="cli")
        attempts = [
            (MIA, "/ann/cron/mine"),
            ("/ann/direct", "/mia/cron/hers"),
        ]
        for by, path in attempts:
            with pytest.raises(ForbiddenError):
                await controls.pause(path, paused=True, by=by)
            with pytest.raises(ForbiddenError):
                await controls.run(path, by=by)
            with pytest.raises(ForbiddenError):
                await controls.change(path, {"prompt": "y"}, by=by)
            with pytest.raises(ForbiddenError):
                await controls.remove(path, by=by)
        with pytest.raises(ForbiddenError):
            await controls.add("ann", "new", spec, source="agent", by=MIA)
        refused = [(event["path"], event["object"]) for event in house.events("permission.refused")]
        assert refused == [pair for pair in attempts for _ in range(4)] + [(MIA, "/ann/cron/new")]


async def test_a_subusers_agent_starts_tasks_and_hears_what_came_of_them(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with family(tmp_path) as house:
        started = await attempt(house, "task_start", {"prompt": "look", "name": "look"})
        assert started.status == "ok", started.text
        await trio.sleep(10)
        task = await house.daemon.tasks.controls.at("/mia/task/look")
        assert (task.user, task.state, task.asker) == ("mia", "done", MIA)
        agent = await house.daemon.directory.at(MIA)
        heard = [each.text for each in await house.store.turns.history(agent.id, agent.session, 50)]
        assert any("/mia/task/look" in text for text in heard)
        assert "has begun" in await house.talk("/task look again", user="mia")
        await trio.sleep(10)
        assert "look again" in (await delivered(house, MIA))[-1]


async def test_neither_cancels_the_others_tasks(tmp_path: Path, autojump_clock: object) -> None:
    async with family(tmp_path) as house:
        house.model.default = lambda request: call(("task_progress", {"text": "on"}))
        controls = house.daemon.tasks.controls
        theirs = await controls.start("ann", TaskSpec(prompt="x"), key="a", name="mine")
        with pytest.raises(ForbiddenError):
            await controls.cancel(theirs.path, by=MIA)
        assert house.events("permission.refused")[-1]["action"] == "kill"
        with pytest.raises(ForbiddenError, match="another user"):
            await controls.start("ann", TaskSpec(prompt="x"), key="b", name="b", deliver=MIA)
        assert (await controls.start("mia", TaskSpec(prompt="x"), key="c", name="c", deliver=MIA)).deliver == MIA
