"""Commands without a running daemon: they bring their own for as long as they last."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from daycare.api.client import Client
from daycare.base.errors import BusyError
from daycare.cli.chat_link import EventFollower
from daycare.cli.chat_screen import Screen
from daycare.cli.home import connect
from daycare.store.home import Home, HomeLock
from tests import program
from tests.cli import stand_in
from tests.cli.fake_daemon import OWNER, FakeDaemon
from tests.terminal import PROMPT, Terminals

Alone = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def alone(environment: dict[str, str]) -> Alone:
    def run(*arguments: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
        return program.call(arguments, env=environment, stdin=stdin, module="tests.cli.stand_in", deadline_s=40)

    return run


def embedded(home: Path) -> list[str]:
    return (home / "embedded").read_text().split() if (home / "embedded").exists() else []


def test_send_without_a_daemon_commits_and_says_when_it_is_answered(home: Path, alone: Alone) -> None:
    done = alone("send", "hello")
    assert done.returncode == 0, done.stderr
    number = done.stdout.split()[1]
    assert done.stdout.splitlines() == [
        f"message {number} is queued for /ann/direct",
        "no daemon runs: it is answered as soon as `daycare run` or `daycare chat` does",
    ]
    assert embedded(home) == ["tool"]
    assert not (home / "daycare.sock").exists()


def test_send_with_wait_and_no_daemon_takes_the_turn_itself(home: Path, alone: Alone) -> None:
    assert alone("send", "--wait", "hello").stdout == "echo: hello\n"
    assert embedded(home) == ["chat"]


def test_running_daemon_is_used_and_none_started(fake: FakeDaemon, home: Path, alone: Alone) -> None:
    assert alone("send", "--wait", "hello").stdout == "echo: hello\n"
    assert embedded(home) == []


def test_wait_for_an_answer_outlasts_the_daemon_of_a_short_command(home: Path, alone: Alone) -> None:
    """A daemon that takes no turns is no daemon to wait with; it is gone in a moment."""
    short = FakeDaemon(home, working=False)
    short.start()

    def leave() -> None:
        short.wait_for(lambda: len(short.called("GET", "/v1/status")) >= 2)
        short.stop()

    threading.Thread(target=leave, daemon=True).start()
    assert alone("send", "--wait", "hello").stdout == "echo: hello\n"
    assert short.messages == {}
    assert embedded(home) == ["chat"]


def test_home_that_another_process_keeps_is_busy_and_names_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, module in stand_in.modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    lock = HomeLock(Home(home))
    lock.acquire("run", 0)
    with lock, pytest.raises(BusyError, match=rf"in use by daycare run \(pid {os.getpid()}\)"):  # noqa: SIM117
        with connect(home, work=False, patience_s=0.3):
            pass


def test_run_gives_the_daemons_exit_code(home: Path, alone: Alone) -> None:
    done = alone("run")
    assert (done.returncode, done.stdout) == (7, f"runs {home}, errors in words\n")


def test_init_with_yes_asks_nothing_and_a_second_one_is_refused(home: Path, alone: Alone) -> None:
    done = alone("init", "--yes", "--user", "ann", "--user-name", "Ann", "--zone", "Europe/Berlin")
    assert done.returncode == 0, done.stderr
    assert (home / "config.toml").read_text() == "# Bo|Ann|ann|dry|default|Europe/Berlin\n"
    assert alone("init", "--yes").returncode == 5


def test_first_run_without_a_terminal_takes_defaults(home: Path, alone: Alone) -> None:
    done = alone(stdin="hello\n")
    assert (done.returncode, done.stdout) == (0, "echo: hello\n"), done.stderr
    assert (home / "config.toml").exists()


def test_first_run_in_a_terminal_asks_five_questions_and_opens_the_chat(home: Path, terminals: Terminals) -> None:
    person = terminals(module="tests.cli.stand_in")
    person.sees("called?")
    person.types("Cy\r")
    person.sees("call you?")
    person.types("Ann\r")
    person.sees("speak?", "[dry]")
    person.types("\r")
    person.sees("creative?", "[default]")
    person.types("casual\r")
    person.sees("zone?")
    person.types("\r")
    person.sees(PROMPT)
    person.types("hello\r")
    person.sees("echo: hello")
    person.presses_ctrl_d()
    person.leaves()
    asked = (home / "config.toml").read_text().removeprefix("# ").strip().split("|")
    assert asked == ["Cy", "Ann", "None", "dry", "casual", "Europe/Paris"]


def test_window_runs_the_agents_itself_when_its_daemon_stays_away(
    fake: FakeDaemon, home: Path, terminals: Terminals
) -> None:
    person = terminals("chat", module="tests.cli.stand_in")
    person.sees(PROMPT)
    person.types("one\r")
    person.sees("echo: one")
    fake.stop()
    person.sees("(the daemon went away", "(this window runs the agents now", "(connected again)")
    person.types("two\r")
    person.sees("echo: two")
    person.presses_ctrl_d()
    person.leaves()
    assert embedded(home) == ["chat"]
    assert not (home / "daycare.sock").exists()


def test_window_gives_up_with_the_name_of_who_is_in_the_way(
    fake: FakeDaemon, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, module in stand_in.modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    failed = threading.Event()

    def changed() -> None:
        if follower.failure:
            failed.set()

    screen = Screen(OWNER, color=False, write=lambda _: None)
    follower = EventFollower(
        home, Client(fake.socket), screen, watched="/ann/direct", changed=changed, adopt_s=0.1, give_up_s=0.5
    )
    follower.start(10)
    lock = HomeLock(Home(home))
    lock.acquire("run", 0)  # somebody holds the home and never serves it
    with lock:
        fake.stop()
        assert failed.wait(10)
    follower.stop()
    assert isinstance(follower.failure, BusyError)
    assert "daycare run (pid" in follower.failure.message


def test_window_that_is_terminated_stops_its_daemon_in_order(home: Path, terminals: Terminals) -> None:
    person = terminals("chat", module="tests.cli.stand_in")
    person.sees(PROMPT)
    assert (home / "daycare.sock").exists()
    person.process.send_signal(signal.SIGTERM)
    person.leaves(128 + signal.SIGTERM)
    assert not (home / "daycare.sock").exists()
