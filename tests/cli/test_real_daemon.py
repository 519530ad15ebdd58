"""The program against the real daemon: one evening of somebody who changes their mind a lot."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Daycare
from tests.cli.test_chat import PROMPT, Terminal


@pytest.fixture
def running(environment: dict[str, str], home: Path) -> Iterator[subprocess.Popen[str]]:
    """`daycare run` of the home; what it logs is shown when the test fails."""
    command = [sys.executable, "-m", "daycare", "run"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        yield process
        process.terminate()
        print(process.communicate(timeout=30)[1][-5_000:])


def test_first_question_is_answered_from_nothing(daycare: Daycare, home: Path) -> None:
    done = daycare(stdin="what is 2+3?\n", deadline_s=60)
    assert (done.returncode, done.stdout) == (0, "2+3 = 5\n"), done.stderr
    assert (home / "daycare.db").exists()


def test_message_sent_without_a_daemon_is_answered_by_the_next_one(daycare: Daycare) -> None:
    daycare("init", "--yes")
    assert "no daemon runs" in daycare("send", "--key", "k", "what is 4*4?").stdout
    assert daycare("send", "--key", "k", "--wait", "what is 4*4?").stdout == "4*4 = 16\n"


def test_second_daemon_of_a_home_is_refused_in_words_or_json(
    daycare: Daycare, running: subprocess.Popen[str], home: Path
) -> None:
    give_up = time.monotonic() + 20
    while '"mode": "run"' not in daycare("status", "--json").stdout:
        assert time.monotonic() < give_up
    refused = daycare("run")
    assert (refused.returncode, refused.stdout) == (75, "")
    assert f"in use by daycare run (pid {running.pid})" in refused.stderr, "the process that was started is the daemon"
    assert '"code": "HOME_LOCKED"' in daycare("run", "--json").stderr


def test_chat_goes_on_through_takeover_restart_and_stop(
    daycare: Daycare, environment: dict[str, str], request: pytest.FixtureRequest
) -> None:
    daycare("init", "--yes")
    person = Terminal(environment, "chat")
    person.sees(PROMPT)
    person.types("what is 3*4?\r")
    person.sees("3*4 = 12")
    process: subprocess.Popen[str] = request.getfixturevalue("running")
    person.sees("(connected again)")
    assert '"mode": "run"' in daycare("status", "--json").stdout
    person.types("what is 5*5?\r")
    person.sees("5*5 = 25")
    assert daycare("restart").returncode == 0
    person.sees("(connected again)")
    person.types("what is 6*6?\r")
    person.sees("6*6 = 36")
    assert daycare("stop").returncode == 0
    assert process.wait(10) == 0
    person.sees("(this window runs the agents now", "(connected again)")
    person.types("/bogus\r")
    person.sees("I do not know /bogus")
    person.presses_ctrl_d()
    person.leaves()
    assert '"outbox_waiting": 0' in daycare("status", "--json").stdout
