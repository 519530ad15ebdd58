"""The tool by which an agent runs commands: only where that is switched on, and never unasked after others' words."""

from pathlib import Path

import trio
import trio.testing
from msgspec.structs import replace

from daycare.base.workspace import Access, ShellSection
from tests.approvals.story import only, say
from tests.skills.folders import pdf, put
from tests.tools.scene import Scene, scene_of, settings
from tests.workspaces.test_tools import ask, with_workspace


def _has_it(scene: Scene, tool: str = "shell") -> bool:
    return tool in {each.name for each in scene.house.daemon.catalogue.specs(scene.agent)}


async def test_it_is_there_once_it_is_on_and_asks_after_it_has_read_what_a_command_printed(tmp_path: Path) -> None:
    async with scene_of(tmp_path, settings()) as scene:
        await with_workspace(scene, Access.FULL)
        assert not _has_it(scene)
        live = scene.house.daemon.live
        live.take(replace(live.now, shell=ShellSection(enabled=True, seconds=20)))
        with trio.fail_after(30):
            while not _has_it(scene):
                await trio.testing.wait_all_tasks_blocked(0.05)
        printed = await ask(scene, "shell", command="echo hello | tee said.txt; exit 3")
        assert printed.startswith("hello\n") and "exit code 3" in printed
        assert (scene.house.daemon.home.path / "workspaces/notes/said.txt").read_text() == "hello\n"
        assert "proposed, request 1" in await ask(scene, "shell", command="echo again > said.txt")
        [event] = scene.house.events("command.run")
        assert event["code"] == 3


async def test_an_agent_with_limited_access_asks_before_each_command_and_a_yes_runs_it_once(
    tmp_path: Path,
) -> None:
    async with scene_of(tmp_path, settings()) as scene:
        await with_workspace(scene, Access.LIMITED)
        live = scene.house.daemon.live
        live.take(replace(live.now, shell=ShellSection(enabled=True, seconds=20)))
        with trio.fail_after(30):
            while not _has_it(scene):
                await trio.testing.wait_all_tasks_blocked(0.05)
        asked = await ask(scene, "shell", command="echo x >> said.txt")
        assert "request 1" in asked and "limited access" in asked
        said = scene.house.daemon.home.path / "workspaces/notes/said.txt"
        assert not said.exists()
        it = await only(scene.house)
        await say(scene.house, "yes", f"/approve {it.no} {it.seen}")
        with trio.fail_after(30):
            while not scene.house.events("command.run"):
                await trio.testing.wait_all_tasks_blocked(0.05)
        assert said.read_text() == "x\n"


async def test_a_command_goes_on_in_the_background_until_it_is_stopped_or_its_agent_ends(tmp_path: Path) -> None:
    async with scene_of(tmp_path, settings()) as scene:
        await with_workspace(scene, Access.FULL)
        live = scene.house.daemon.live
        live.take(replace(live.now, shell=ShellSection(enabled=True)))
        assert "[shell] background = 2" in await ask(scene, "shell", command="sleep 7301", background=True)
        assert not _has_it(scene, "shell_runs")
        live.take(replace(live.now, shell=ShellSection(enabled=True, background=1)))
        assert "command 1 runs in the background" in await ask(scene, "shell", command="sleep 7301", background=True)
        assert "1 of this agent run" in await ask(scene, "shell", command="sleep 7302", background=True)
        assert "1: sleep 7301 (runs)" in await ask(scene, "shell_runs")
        assert "there is none" in await ask(scene, "shell_runs", run=9)
        assert "stopped: its agent has stopped it" in await ask(scene, "shell_stop", run=1)
        told = await ask(scene, "shell", command="touch began; echo hello; sleep 7303", background=True)
        assert "command 2 runs" in told
        with trio.fail_after(30):
            while not (scene.house.daemon.home.path / "workspaces/notes/began").exists():
                await trio.testing.wait_all_tasks_blocked(0.05)
            while "hello" not in await ask(scene, "shell_runs", run=2):
                await trio.testing.wait_all_tasks_blocked(0.05)
            while not _running("7303"):
                await trio.testing.wait_all_tasks_blocked(0.05)
            assert not _running("7301")
            await scene.house.store.agents.set_state(scene.agent.id, "dead", "it is over")
            while _running("7303"):
                await trio.testing.wait_all_tasks_blocked(0.05)


def _running(word: str) -> bool:
    def said(file: Path) -> bytes:
        try:
            return file.read_bytes()
        except OSError:
            return b""

    return any(f"sleep\0{word}".encode() in said(each) for each in Path("/proc").glob("[0-9]*/cmdline"))


async def test_scripts_of_approved_skills_are_there_just_as_they_were_approved_and_no_others(tmp_path: Path) -> None:
    put(tmp_path / "skills/pdf", pdf(**{"scripts/fill.py": "import sys; print('filled', sys.argv[1])\n"}))
    put(tmp_path / "skills/evil", pdf())
    async with scene_of(tmp_path, settings()) as scene:
        await with_workspace(scene, Access.FULL)
        live = scene.house.daemon.live
        live.take(replace(live.now, shell=ShellSection(enabled=True, seconds=20)))
        skills = scene.house.daemon.skills.skills
        skill, _ = await skills.get(None, "pdf")
        await skills.approve(None, "pdf", None, skill.hash, "ann", "direct:ann")
        with trio.fail_after(30):
            while not _has_it(scene):
                await trio.testing.wait_all_tasks_blocked(0.05)
        assert "[`shell` finds them in /skills/pdf/]" in await ask(scene, "skill", name="pdf")
        command = "python3 /skills/pdf/scripts/fill.py form; echo x >> /skills/pdf/SKILL.md; ls /skills"
        printed = await ask(scene, "shell", command=command)
        assert printed.startswith("filled form\n") and "denied" in printed and "\npdf\n" in printed
        await scene.house.talk("/new", path=scene.agent.path)
        refused = await ask(scene, "shell", command="sh /skills/evil/scripts/fill.py")
        assert "nobody has approved it" in refused
