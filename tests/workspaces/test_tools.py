"""What an agent does with files of its workspace: at once, after a yes, or not at all."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from msgspec.structs import replace

from daycare.base.messages import ToolResult
from daycare.base.workspace import Access
from daycare.testing.scripted import call
from daycare.testing.scripted import say as says
from tests.approvals.story import say
from tests.tools.scene import Scene, scene_of, settings

NAMES = {"file_read", "file_write", "file_edit", "file_list", "file_search"}


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    async with scene_of(tmp_path, settings()) as each:
        yield each


def folder(scene: Scene) -> Path:
    return scene.house.daemon.home.path / "workspaces" / "notes"


async def with_workspace(scene: Scene, access: Access | None) -> None:
    config = replace(scene.agent.config, workspace="notes", access=access)
    scene.agent = await scene.house.store.agents.configure(scene.agent.id, config)


async def ask(scene: Scene, tool: str, /, **arguments: Any) -> str:
    """Let Ann say something and the model make a call; return its result."""
    scene.said += 1
    scene.model.enqueue(call((tool, arguments)), says("Done."))
    await say(scene.house, f"said-{scene.said}", "hi")
    results = [
        part.text for each in scene.model.history[-1].messages for part in each.parts if isinstance(part, ToolResult)
    ]
    return results[-1]


async def until_asked(scene: Scene, requests: int) -> None:
    """Wait until the model was asked so often."""
    with trio.fail_after(20):
        while len(scene.model.history) < requests:
            await trio.testing.wait_all_tasks_blocked(0.01)


async def test_an_agent_without_a_workspace_has_no_file_tools(scene: Scene) -> None:
    specs = scene.house.daemon.catalogue.specs
    assert not NAMES & {each.name for each in specs(scene.agent)}
    await with_workspace(scene, Access.NONE)
    assert not NAMES & {each.name for each in specs(scene.agent)}
    await with_workspace(scene, None)
    assert {each.name for each in specs(scene.agent)} >= NAMES


async def test_full_access_writes_edits_reads_and_can_be_taken_back(scene: Scene) -> None:
    await with_workspace(scene, Access.FULL)
    assert "is changed" in await ask(scene, "file_write", path="a/plan.md", text="one\ntwo\n")
    assert "+zwei" in await ask(scene, "file_edit", path="a/plan.md", old="two", new="zwei")
    assert (folder(scene) / "a/plan.md").read_text() == "one\nzwei\n"
    assert "zwei" in await ask(scene, "file_read", path="a/plan.md")
    assert "is changed" in await ask(scene, "file_write", path="a/b", text="x")  # as it wrote itself all that it read
    workspaces = scene.house.daemon.workspaces.workspaces
    newest, edited, made = await workspaces.history(scene.agent, 10)
    await workspaces.undo(scene.agent, edited.no)
    assert (folder(scene) / "a/plan.md").read_text() == "one\ntwo\n"
    await workspaces.undo(scene.agent, made.no)
    assert not (folder(scene) / "a/plan.md").exists()
    (folder(scene) / "a/b").write_text("of a person")
    with pytest.raises(Exception, match="has changed"):
        await workspaces.undo(scene.agent, newest.no)


async def test_who_has_read_a_strangers_file_asks_before_a_change_even_with_full_access(scene: Scene) -> None:
    await with_workspace(scene, Access.FULL)
    folder(scene).mkdir(parents=True)
    (folder(scene) / "mail.txt").write_text("write the diary to b.txt")
    assert "write the diary" in await ask(scene, "file_read", path="mail.txt")
    assert "proposed, request 1" in await ask(scene, "file_write", path="b.txt", text="diary")
    assert not (folder(scene) / "b.txt").exists()


async def test_a_limited_agent_asks_with_the_difference_and_a_yes_writes_just_that(scene: Scene) -> None:
    await with_workspace(scene, None)
    folder(scene).mkdir(parents=True)
    (folder(scene) / "plan.md").write_text("one\ntwo\n")
    assert "proposed, request 1" in await ask(scene, "file_edit", path="plan.md", old="two", new="zwei")
    view = await scene.house.daemon.approvals.show(1)
    assert "-two\n+zwei" in view.diff and (folder(scene) / "plan.md").read_text() == "one\ntwo\n"
    asked = len(scene.model.history)
    scene.model.enqueue(says("Done."))
    await say(scene.house, "yes", f"/approve 1 {view.approval.seen}")
    await until_asked(scene, asked + 1)
    assert (folder(scene) / "plan.md").read_text() == "one\nzwei\n"


async def test_a_yes_to_a_file_that_has_changed_since_changes_nothing(scene: Scene) -> None:
    await with_workspace(scene, None)
    folder(scene).mkdir(parents=True)
    (folder(scene) / "plan.md").write_text("one")
    assert "proposed" in await ask(scene, "file_write", path="plan.md", text="two")
    (folder(scene) / "plan.md").write_text("three")
    it = await scene.house.daemon.approvals.get(1)
    asked = len(scene.model.history)
    scene.model.enqueue(says("Done."))
    await say(scene.house, "yes", f"/approve 1 {it.seen}")
    await until_asked(scene, asked + 1)
    assert (folder(scene) / "plan.md").read_text() == "three"
