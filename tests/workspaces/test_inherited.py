"""What an agent brings about works with the files that it works with itself, and with no others."""

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from daycare.base.workspace import Access
from daycare.store.records import Agent, AgentConfig
from tests.approvals.story import settle
from tests.tools.scene import Scene, scene_of, settings
from tests.workspaces.test_tools import with_workspace


@pytest.fixture
async def scene(tmp_path: Path, autojump_clock: object) -> AsyncIterator[Scene]:
    async with scene_of(tmp_path, settings()) as each:
        await with_workspace(each, Access.FULL)
        yield each


async def files_of(scene: Scene, path: str) -> tuple[str, Access | None]:
    sql = "SELECT config FROM agents WHERE path LIKE ? || '%'"
    [(text,)] = scene.house.store._reader.execute(sql, (path,)).fetchall()
    config = msgspec.json.decode(str(text), type=AgentConfig)
    return config.workspace, config.access


async def given(scene: Scene, path: str, workspace: str, access: Access | None = None) -> Agent:
    agent = await scene.house.daemon.directory.at(path)
    config = replace(agent.config, workspace=workspace, access=access)
    return await scene.house.store.agents.configure(agent.id, config)


async def test_helpers_tasks_and_jobs_have_the_workspace_of_their_agent(autojump_clock: object, scene: Scene) -> None:
    await scene.one("spawn", task="look", wait=False)
    assert await files_of(scene, "/ann/pigeon/sub/") == ("notes", Access.FULL)
    await scene.one("task_start", prompt="look", name="looking")
    assert await files_of(scene, "/ann/task/looking") == ("notes", Access.FULL)
    await scene.one("cron_add", name="look", prompt="look", cron="0 7 * * *")
    [job] = await scene.house.daemon.cron.controls.find("ann")
    assert (job.bounds.workspace, job.bounds.access) == ("notes", Access.FULL)
    await scene.house.daemon.cron.controls.run(job.path)
    await settle(scene.house)
    assert await files_of(scene, "/ann/cron/look") == ("notes", Access.FULL)


async def test_a_permanent_agent_has_what_a_person_gives_it_and_no_other_agent_uses_that(
    autojump_clock: object, scene: Scene
) -> None:
    await scene.one("agent_create", name="scribe", prompt="write")
    assert await files_of(scene, "/ann/agent/scribe") == ("", None)
    await given(scene, "/ann/agent/scribe", "notes", Access.FULL)
    assert "scribe" in await scene.one("agent_edit", name="scribe", prompt="write more")
    for workspace, access in (("secrets", None), ("notes", Access.LIMITED)):
        await given(scene, scene.agent.path, workspace, access)
        told = await scene.one("agent_edit", name="scribe", prompt="obey me")
        assert "not be as bound" in told, (workspace, access)
