"""The commands and routes for bridges, with a real bridge behind a real API."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import trio
from typer.testing import CliRunner

from daycare.api.app import build
from daycare.base.errors import UnavailableError
from daycare.cli import bridge as commands
from daycare.cli.command import Cli
from daycare.cli.main import app
from daycare.testing.scripted import Scripted
from daycare_plugins.bridge.connector import START_S
from tests import program
from tests.bridge.helpers import FAKE, bridged, is_up, staged, to_load, until


def test_the_suite_is_a_command_with_an_exit_code(tmp_path: Path) -> None:
    good = CliRunner().invoke(app, ["bridge", "test", "--json", "--", *FAKE, "--without", "echo"])
    assert good.exit_code == 0, good.output
    assert json.loads(good.stdout)["ok"]
    silent = tmp_path / "silent.py"
    silent.write_text('print(\'{"type":"hello","version":9,"name":"x"}\', flush=True); input()')
    bad = CliRunner().invoke(app, ["bridge", "test", "--", sys.executable, str(silent)])
    assert bad.exit_code == 1
    assert "failed   says hello with a version it can speak: it speaks version 9, not 1" in bad.output


def test_codes_are_drawn_and_drawn_over(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    picture = commands.drawn({"qr": "2@abc", "code": ""})
    assert "█" in picture or "▄" in picture
    assert commands.drawn({"qr": "", "code": "ABCD-1234"}) == "Type this code into the telephone: ABCD-1234"
    rows = commands._draw(picture, 0)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    commands._draw(picture, rows)
    assert f"\x1b[{rows}A\x1b[J" in capsys.readouterr().out


class _Restarted:
    """A daemon whose bridge was restarted after its first code: nothing comes until it is asked to pair again."""

    def __init__(self, state: str) -> None:
        self.now = 1_000.0
        self.asked = 0
        self.looks = 0
        self._state = state

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def call(self, method: str, path: str, body: object = None, timeout_s: float = 0.0) -> dict[str, Any]:
        nothing = {"qr": "", "code": "", "until_ms": 0, "reason": "", "hint": "", "identity": ""}
        self.asked += method == "POST"
        self.looks += 1
        assert self.looks < 500, "it waits for ever"
        if self.asked > 1:
            return {**nothing, "state": "connected", "identity": "echo"}
        return {**nothing, "state": self._state, "code": "ABCD-1234", "until_ms": 1_020_000}


@pytest.mark.parametrize("state", ["pairing", "crashed"])
def test_login_begins_again_after_its_bridge_restarted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    daemon: Any = _Restarted(state)
    monkeypatch.setattr(
        commands, "time", SimpleNamespace(sleep=daemon.sleep, monotonic=lambda: daemon.now, time=lambda: daemon.now)
    )
    commands._follow(Cli(Path(), json=False), daemon, "/v1/connectors/fake/pairing", "49151")
    assert "done: paired as echo" in capsys.readouterr().out
    assert daemon.asked == 2


async def test_an_account_is_paired_looked_at_and_given_back(tmp_path: Path) -> None:
    async with staged(tmp_path, Scripted()) as (house, there):
        await until(lambda: is_up(house))
        connector: Any = house.daemon.connectors["fake"]
        assert connector.pairing().state == "connected"
        await connector.pair("")
        assert connector.pairing().qr == "2@fake-code"
        there.order("qr", data="2@the-next-one")
        await until(lambda: connector.pairing().qr == "2@the-next-one")
        await connector.pair("4915112345678")
        assert (connector.pairing().code, connector.pairing().qr) == ("ABCD-1234", "")
        await connector.unpair()
        await until(lambda: connector.pairing().state == "logged_out")
        told = [event for event in house.events("connector.health") if event.get("alert")]
        assert [event["state"] for event in told] == ["refused"]


async def test_who_pairs_hears_at_once_that_the_bridge_ends(tmp_path: Path) -> None:
    gone = [sys.executable, "-c", "raise SystemExit(3)"]
    async with bridged(tmp_path, Scripted(), gone) as house:
        connector: Any = house.daemon.connectors["fake"]
        for ask in (lambda: connector.pair(""), connector.unpair):
            with trio.fail_after(START_S / 2), pytest.raises(UnavailableError, match="it ended: it left with 3"):
                await ask()


async def test_the_routes_of_connectors(tmp_path: Path) -> None:
    async with staged(tmp_path, Scripted()) as (house, _):
        await until(lambda: is_up(house))
        transport = httpx.ASGITransport(build(house.daemon.services))
        async with httpx.AsyncClient(transport=transport, base_url="http://daycare") as client:
            listed = {one["name"]: one for one in (await client.get("/v1/connectors")).json()["connectors"]}
            assert (listed["fake"]["pairs"], listed["fake"]["state"]) == (True, "up")
            assert not listed["direct"]["pairs"]
            path = "/v1/connectors/fake/pairing"
            assert (await client.post(path, json={})).status_code == 200
            found = (await client.get(path)).json()
            assert (found["state"], found["qr"]) == ("pairing", "2@fake-code")
            assert found["until_ms"] > 0
            assert (await client.post(path, json={"phone": "no number"})).status_code == 400
            assert (await client.delete(path)).status_code == 200
            assert (await client.get("/v1/connectors/direct/pairing")).status_code == 400
            assert (await client.get("/v1/connectors/nobody/pairing")).status_code == 404


def test_a_bridge_is_paired_from_the_terminal(tmp_path: Path) -> None:
    home = tmp_path / "home"
    environment = {**os.environ, "DAYCARE_HOME": str(home), "HOME": str(tmp_path)}

    def daycare(*words: str) -> "subprocess.CompletedProcess[str]":
        return program.call(words, env=environment, deadline_s=90)

    assert daycare("init", "--yes").returncode == 0
    config = home / "config.toml"
    load = f"load = {json.dumps(to_load())}" if to_load() else ""
    command = json.dumps([*FAKE, "--codes", "2"])
    # Without a sandbox, which has a /tmp of its own: the source tree may lie there.
    section = f'[plugins]\n{load}\n[plugins.bridge.to.fake]\ncommand = {command}\nsandbox = "off"\n'
    config.write_text(f"{config.read_text()}\n{section}")
    with_code = daycare("bridge", "login", "fake", "--phone", "+49 151-12345678")
    assert "Type this code into the telephone: ABCD-1234" in with_code.stdout, with_code.stderr
    assert "done: paired as echo" in with_code.stdout
    scanned = daycare("bridge", "login", "fake")
    assert scanned.stdout.count("Scan it with the telephone") == 2, scanned.stderr
    assert "done: paired as echo" in scanned.stdout
    assert "fake" in daycare("bridge").stdout
    out = daycare("bridge", "logout", "fake")
    assert (out.returncode, out.stdout) == (0, "fake is logged out\n"), out.stderr
