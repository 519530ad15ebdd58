"""Commands about the daemon as a process, its log, its events, its health."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Daycare
from tests.cli.fake_daemon import OWNER, FakeDaemon


def in_background(act: Callable[[], None]) -> None:
    threading.Thread(target=act, daemon=True).start()


def test_stop_returns_when_the_daemon_is_gone(fake: FakeDaemon, daycare: Daycare) -> None:
    def leave() -> None:
        fake.wait_for(lambda: fake.on_shutdown)
        fake.stop()

    in_background(leave)
    done = daycare("stop")
    assert (done.returncode, done.stdout) == (0, "stopped\n"), done.stderr
    assert not fake.socket.exists()
    assert fake.on_shutdown == [{"reason": "daycare stop"}]


def test_stop_without_a_daemon_exits_69(daycare: Daycare) -> None:
    done = daycare("stop")
    assert (done.returncode, done.stderr.splitlines()[1]) == (69, "hint: daycare run")


def test_restart_waits_for_the_new_daemon_not_for_the_old_one(fake: FakeDaemon, daycare: Daycare) -> None:
    def renew() -> None:
        fake.wait_for(lambda: fake.on_shutdown)
        asked = len(fake.called("GET", "/v1/status"))
        fake.wait_for(lambda: len(fake.called("GET", "/v1/status")) > asked)  # the old one still answers
        fake.stop()
        fake.status = fake.status | {"started_at": fake.status["started_at"] + 5_000}
        fake.start()

    in_background(renew)
    done = daycare("restart")
    assert (done.returncode, done.stdout) == (0, "restarted: process 4242\n"), done.stderr


def test_logs_shows_the_last_lines_for_people_or_as_stored(home: Path, daycare: Daycare) -> None:
    lines = [json.dumps({"at": f"T{n}", "level": "info", "event": "turn.finished", "turn": n}) for n in range(300)]
    (home / "daycare.log").write_text("\n".join([*lines, "plain \x1b[31mtext"]) + "\n")
    assert daycare("logs", "-n", "2").stdout == "T299 info    turn.finished turn=299\nplain [31mtext\n"
    assert daycare("logs", "-n", "2", "--json").stdout.splitlines()[0] == lines[299]
    assert len(daycare("logs", "-n", "0").stdout) == 0
    assert len(daycare("logs", "-n", "999").stdout.splitlines()) == 301


def test_logs_follows_over_a_rotation(home: Path, environment: dict[str, str]) -> None:
    log = home / "daycare.log"
    log.write_text("one\n")
    command = [sys.executable, "-m", "daycare", "logs", "-f"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        try:
            assert running.stdout.readline() == "one\n"
            with log.open("a") as stream:
                stream.write("two\n")
            assert running.stdout.readline() == "two\n"
            log.rename(home / "daycare.log.1")
            log.write_text("three\n")
            assert running.stdout.readline() == "three\n"
        finally:
            running.terminate()


def test_logs_without_a_log_exits_3(home: Path, daycare: Daycare) -> None:
    assert daycare("logs").returncode == 3


def test_tail_goes_on_behind_the_last_event_after_a_restart(fake: FakeDaemon, environment: dict[str, str]) -> None:
    command = [sys.executable, "-m", "daycare", "tail", "--json", "--types", "agent.woke,agent.slept"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as tail:
        assert tail.stdout is not None
        try:
            fake.wait_for(lambda: fake.called("GET", "/v1/events"))
            fake.emit("agent.woke")
            fake.emit("turn.started", turn=1, attempt=1, messages=1)
            assert json.loads(tail.stdout.readline()) == {
                "event": "agent.woke", "cursor": "1", "at_ms": fake.now_ms, "path": OWNER,
            }  # fmt: skip
            fake.stop()
            fake.emit("agent.slept")  # while nobody is connected
            fake.start()
            assert json.loads(tail.stdout.readline())["cursor"] == "3"
        finally:
            tail.terminate()


def test_interrupt_exits_130(fake: FakeDaemon, environment: dict[str, str]) -> None:
    with subprocess.Popen([sys.executable, "-m", "daycare", "tail"], env=environment, stderr=subprocess.PIPE) as tail:
        fake.wait_for(lambda: fake.called("GET", "/v1/events"))
        tail.send_signal(2)
        assert tail.wait(10) == 130


def test_config_check_names_file_line_and_key(home: Path, daycare: Daycare) -> None:
    (home / "config.toml").write_text('[daemon]\nlog_level = "loud"\n\nlog_levle = 1\n')
    done = daycare("config", "check", "--json")
    assert done.returncode == 78
    problems = json.loads(done.stdout)["problems"]
    assert [(each["line"], each["key"]) for each in problems] == [(2, "daemon.log_level"), (4, "daemon.log_levle")]
    assert f"{home}/config.toml:2: daemon.log_level: " in daycare("config", "check").stdout
    (home / "config.toml").write_text("")
    assert daycare("config", "check").returncode == 0
    assert daycare("config", "path").stdout == f"{home}/config.toml\n"


def test_doctor_of_a_healthy_home_exits_0(fake: FakeDaemon, home: Path, daycare: Daycare) -> None:
    fake.socket.chmod(0o600)
    done = daycare("doctor")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ok    daemon     process 4242 answers" in done.stdout


@pytest.mark.parametrize(
    ("damage", "about"),
    [
        (lambda home: home.chmod(0o755), "home"),
        (lambda home: (home / "config.toml").write_text("[models"), "config"),
        (lambda home: (home / "daycare.db").write_text("no database" * 100), "database"),
        (lambda home: ((home / "daycare.key").touch(), (home / "daycare.key").chmod(0o644)), "keys"),
    ],
)
def test_doctor_finds_damage_and_exits_1(
    home: Path, daycare: Daycare, damage: Callable[[Path], None], about: str
) -> None:
    damage(home)
    done = daycare("doctor", "--json")
    assert done.returncode == 1, done.stdout + done.stderr
    assert about in [each["about"] for each in json.loads(done.stdout)["findings"] if each["level"] == "fail"]


def test_doctor_without_a_home_leads_to_init(daycare: Daycare) -> None:
    done = daycare("doctor", "--home", "/nonexistent/home")
    assert done.returncode == 1
    assert "hint: daycare init" in done.stdout


def test_tail_needs_a_running_daemon(daycare: Daycare) -> None:
    done = daycare("tail")
    assert (done.returncode, done.stderr.splitlines()[1]) == (69, "hint: start one with: daycare run")
