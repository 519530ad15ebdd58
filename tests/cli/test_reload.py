"""`daycare config reload` and SIGHUP against the real daemon."""

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests import program
from tests.cli.conftest import Daycare, wait_until_it_works


def test_a_daemon_takes_its_file_anew_when_asked(daycare: Daycare, home: Path, request: pytest.FixtureRequest) -> None:
    daycare("init", "--yes")
    away = daycare("config", "reload")
    assert away.returncode == 69 and "none runs" in away.stderr
    file = home / "config.toml"
    good = file.read_text()

    def config() -> Any:
        return json.loads(daycare("status", "--json").stdout)["config"]

    daemon: program.Started = request.getfixturevalue("running")  # without a terminal, as under systemd
    wait_until_it_works(home)
    assert daycare("send", "--wait", "what is 2+3?").stdout == "2+3 = 5\n"
    assert daycare("config", "reload").stdout == "nothing has changed\n"
    file.write_text(good + "[agents]\ndefualt = 1\n")
    refused = daycare("config", "reload")
    assert refused.returncode == 78
    assert "agents.defualt: unknown key; did you mean `default`?" in refused.stderr
    assert "this was not taken" in daycare("status").stdout and daycare("health").returncode == 1
    file.write_text(good + "[daemon]\nbreaker = false\n[plugins.telegram]\npoll_s = 3\n")
    daemon.send_signal(signal.SIGHUP)
    give_up = time.monotonic() + 20
    while not (now := config())["pending"]:
        assert time.monotonic() < give_up
    assert now["pending"] == ["daemon.breaker"] and now["refused"] == ""
    file.write_text(good)
    done = json.loads(daycare("config", "reload", "--json").stdout)
    seen = {"changed": ["daemon.breaker", "plugins.telegram"], "restarted": ["telegram"], "pending": []}
    assert done in (seen, {"changed": [], "restarted": [], "pending": []})  # or it was seen by itself before
    assert config()["pending"] == []
    daemon.send_signal(signal.SIGTERM)
    assert daemon.wait(10) == 0
    assert "daemon.stopped" in daycare("logs").stdout, "cut off: somebody waited for the watch"
