"""Packages that daycare has never seen, installed beside it: one that works, and one that breaks in every way."""

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from daycare.testing.openai_server import FakeOpenAI, ScriptedCall
from tests import program
from tests.plugins.packages import LODGER, ROWDY, install


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two installed packages of plugins."""
    site, work = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("work")
    install(site, work, {"daycare-lodger": {"lodger": LODGER}, "daycare-rowdy": ROWDY})
    return site


@pytest.fixture
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="dc-") as folder:
        yield Path(folder)


@dataclass
class Installation:
    """A real daemon process with the packages on its path, and a scripted model server."""

    env: dict[str, str]
    home: Path
    server: FakeOpenAI
    process: program.Started

    async def daycare(self, *arguments: str, stdin: str = "") -> str:
        done = await run(self.env, *arguments, stdin=stdin)
        assert done.returncode == 0, (done.stdout, done.stderr)
        return done.stdout

    async def talk(self, text: str) -> str:
        return (await self.daycare("send", "--wait", "--timeout", "60", text)).strip()

    async def plugins(self) -> dict[str, dict[str, Any]]:
        listed = json.loads(await self.daycare("plugins", "list", "--json"))["plugins"]
        return {each["name"]: each for each in listed}

    async def ended(self) -> int:
        return await trio.to_thread.run_sync(self.process.wait, 60)

    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.home / "daycare.log").read_text().splitlines()]


async def run(env: dict[str, str], *arguments: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
    return await trio.to_thread.run_sync(partial(program.call, arguments, env=env, stdin=stdin, deadline_s=90))


@asynccontextmanager
async def installation(home: Path, site: Path, config: str) -> AsyncIterator[Installation]:
    env = {name: value for name, value in os.environ.items() if name in ("PATH", "VIRTUAL_ENV")}
    env |= {"PYTHONPATH": str(site), "DAYCARE_HOME": str(home), "HOME": str(home), "TZ": "UTC", "LANG": "C.UTF-8"}
    async with FakeOpenAI.serve() as server:
        assert (await run(env, "init", "--yes")).returncode == 0
        (home / "config.toml").write_text(
            f'{config}\n[models]\ndefault = "fake/fake-large"\n[providers.fake]\nbase_url = "{server.base_url}"\n'
        )
        with program.start(["run"], env=env) as process, trio.fail_after(90):
            while '"mode": "run"' not in (await run(env, "status", "--json")).stdout:
                assert process.poll() is None, process.said()
            yield Installation(env, home, server, process)


LODGING = """
[plugins]
disable = ["rowdy-deaf", "rowdy-leak"]
[plugins.lodger]
drink = "tea"
[plugins.rowdy-settings]
city = 5
"""


async def test_installed_package_is_found_configured_run_and_used_in_a_turn(home: Path, site: Path) -> None:
    async with installation(home, site, LODGING) as house:
        await house.daycare("keys", "add", "lodger", "--stdin", stdin="12345678")
        house.server.enqueue(tool_calls=(ScriptedCall("lodger_order", {"cups": 2}),))
        house.server.enqueue(text="Here you are.")
        assert await house.talk("tea for two") == "Here you are."
        assert house.server.history[-1].body["messages"][-1]["content"] == "2 cups of tea, key 8"
        lodger = (await house.plugins())["lodger"]
        assert (lodger["version"], lodger["source"], lodger["state"]) == ("1.2.3", "installed", "running")
        assert lodger["health"] == "serves tea"
        assert lodger["provides"] == {"tools": ["lodger_order"], "hooks": ["turn:end"]}
        table = await house.daycare("plugins", "list")
        assert "serves tea" in table and "refuses to be imported" in table
        await house.daycare("stop")
        assert (home / "plugins" / "lodger" / "life").read_text() == "born\ngone\n"
        assert (home / "plugins" / "lodger" / "turns").read_text() == "1\n"


async def test_broken_packages_are_left_out_told_of_and_harm_nobody(home: Path, site: Path) -> None:
    async with installation(home, site, LODGING) as house:
        told = await house.plugins()
        left_out = {name: each["problem"] for name, each in told.items() if each["state"] == "left out"}
        expected = {
            "rowdy-import": "refuses to be imported",
            "rowdy-exit": "SystemExit: 3",
            "rowdy-contract": "speaks version 99 of the contract",
            "rowdy-collide": "the tool remind is that of the plugin tools",
            "rowdy-settings": "config.toml:7: plugins.rowdy-settings.city: expected `str`, got `int`",
            "rowdy-setup": "KeyError: 'setup'",
        }
        assert left_out.keys() == expected.keys()
        assert [name for name, words in expected.items() if words not in left_out[name]] == [], left_out
        assert told["rowdy-start"]["state"] == "failed" and "no luck" in told["rowdy-start"]["problem"]
        assert await house.talk("are you there?")  # the server's own default answer
        house.server.enqueue(tool_calls=(ScriptedCall("rowdy_tool", {}),))
        house.server.enqueue(text="That did not work.")
        assert await house.talk("use the bad tool") == "That did not work."
        house.server.enqueue(tool_calls=(ScriptedCall("lodger_order", {"cups": 1}),))
        house.server.enqueue(text="Cheers.")
        assert await house.talk("one more") == "Cheers."
        doctor = await run(house.env, "doctor")
        assert "rowdy-collide: " in doctor.stdout
        failures = [line for line in house.log() if line["event"] == "plugin.failed"]
        assert set(expected) | {"rowdy-start"} <= {line["plugin"] for line in failures}
        assert (await run(house.env, "stop")).returncode == 0
        assert await house.ended() == 0


async def test_deaf_and_leaking_plugins_cost_neither_answers_nor_the_end(home: Path, site: Path) -> None:
    quiet = [name.replace("_", "-") for name in ROWDY if name not in ("rowdy_deaf", "rowdy_leak")]
    async with installation(home, site, f"[plugins]\ndisable = {json.dumps(quiet)}\n") as house:
        house.server.enqueue(text="Hello.")
        assert await house.talk("hello") == "Hello."
        told = await house.plugins()
        assert told["rowdy-deaf"]["health"].startswith("unhealthy")
        assert "looks like a leak" in told["rowdy-leak"]["problem"]
        assert told["lodger"]["health"] == "serves water"
        house.process.send_signal(signal.SIGTERM)
        assert await house.ended() == 0, "it was asked to leave, and did, without the deaf one"
        assert (home / "plugins" / "lodger" / "life").read_text().endswith("gone\n")
        assert any(line["event"] == "plugin.failed" and line["part"] == "stop" for line in house.log())


async def test_name_that_the_owner_typed_stops_the_start(home: Path, site: Path) -> None:
    (home / "config.toml").write_text('[plugins]\nload = ["ldoger:plugin"]\n')
    env = {**os.environ, "PYTHONPATH": str(site), "DAYCARE_HOME": str(home)}
    done = await run(env, "run")
    assert done.returncode == 78
    assert "ldoger" in done.stderr and "[plugins] load" in done.stderr
