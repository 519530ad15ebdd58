"""The program against the real daemon: one evening of somebody who changes their mind a lot."""

from contextlib import closing
from pathlib import Path

import apsw
import pytest

from tests import program
from tests.cli.conftest import Daycare, wait_until_it_works
from tests.terminal import PROMPT, Terminals


def test_first_question_is_answered_from_nothing(daycare: Daycare, home: Path) -> None:
    done = daycare(stdin="what is 2+3?\n", deadline_s=60)
    assert (done.returncode, done.stdout) == (0, "2+3 = 5\n"), done.stderr
    assert (home / "daycare.db").exists()


def test_message_sent_without_a_daemon_is_answered_by_the_next_one(daycare: Daycare) -> None:
    daycare("init", "--yes")
    assert "no daemon runs" in daycare("send", "--key", "k", "what is 4*4?").stdout
    assert daycare("send", "--key", "k", "--wait", "what is 4*4?").stdout == "4*4 = 16\n"


def test_second_daemon_of_a_home_is_refused_in_words_or_json(
    daycare: Daycare, running: program.Started, home: Path
) -> None:
    wait_until_it_works(home)
    assert '"mode": "run"' in daycare("status", "--json").stdout
    refused = daycare("run")
    assert (refused.returncode, refused.stdout) == (75, "")
    assert f"in use by daycare run (pid {running.pid})" in refused.stderr, "the process that was started is the daemon"
    assert '"code": "HOME_LOCKED"' in daycare("run", "--json").stderr


def test_chat_goes_on_through_takeover_restart_and_stop(
    daycare: Daycare, terminals: Terminals, request: pytest.FixtureRequest
) -> None:
    daycare("init", "--yes")
    person = terminals("chat", module="tests.cli.anew")
    person.sees(PROMPT)
    person.types("what is 3*4?\r")
    person.sees("3*4 = 12")
    process: program.Started = request.getfixturevalue("running")
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


def test_a_database_that_is_removed_under_a_daemon_costs_nothing_that_was_acknowledged(
    daycare: Daycare, request: pytest.FixtureRequest, home: Path
) -> None:
    daycare("init", "--yes")
    process: program.Started = request.getfixturevalue("running")
    wait_until_it_works(home)
    assert daycare("send", "--wait", "what is 4*4?").stdout == "4*4 = 16\n"
    for file in home.glob("daycare.db*"):
        file.unlink()
    refused = daycare("send", "what is 5*5?")
    assert refused.returncode == 69 and "removed or replaced" in refused.stderr
    health = daycare("health")
    assert health.returncode == 1 and "BAD  store" in health.stdout
    assert "removed or replaced" in daycare("status").stdout
    assert daycare("stop").returncode == 0
    assert process.wait(10) == 0
    again = daycare("status")
    [rescued] = home.glob("daycare.db.rescued-*")
    assert again.returncode == 78 and f"mv {rescued}" in again.stderr
    rescued.rename(home / "daycare.db")
    with closing(apsw.Connection(str(home / "daycare.db"))) as db:
        assert any("4*4 = 16" in str(messages) for (messages,) in db.execute("SELECT unpacked(messages) FROM history"))
    assert daycare("send", "--wait", "what is 6*6?").stdout == "6*6 = 36\n"
