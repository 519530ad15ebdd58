"""`daycare task`: work in the background from the command line."""

import json

from tests.cli.conftest import Daycare


def test_a_task_is_started_waited_for_and_shown(daycare: Daycare) -> None:
    assert daycare("init", "--yes").returncode == 0
    done = daycare("task", "start", "what is {{a}}+3?", "--param", "a:whole=20", "--name", "sum", "--wait")
    assert done.returncode == 0, done.stderr
    assert "20+3 = 23" in done.stdout
    shown = daycare("task", "show", "sum")
    assert "done" in shown.stdout and "20+3 = 23" in shown.stdout
    assert daycare("task").stdout == "no tasks\n"
    [listed] = json.loads(daycare("task", "list", "--all", "--json").stdout)["tasks"]
    assert (listed["id"], listed["state"], listed["parameters"]) == ("sum", "done", {"a": 20})
    watched = daycare("task", "watch", "sum", "--json")
    assert watched.returncode == 0 and json.loads(watched.stdout)["state"] == "done"
    assert daycare("task", "cancel", "sum").returncode == 5


def test_a_task_waits_until_a_daemon_runs_and_is_cancelled_meanwhile(daycare: Daycare) -> None:
    assert daycare("init", "--yes").returncode == 0
    begun = daycare("task", "start", "look", "--name", "later", "--deadline", "2h")
    assert begun.returncode == 0 and begun.stdout.splitlines()[0].endswith("/task/later")
    [listed] = json.loads(daycare("task", "--json").stdout)["tasks"]
    assert listed["state"] == "waiting"
    assert 7_199_000 < listed["deadline_at"] - listed["created_at"] <= 7_200_000
    assert daycare("task", "start", "look", "--name", "later").returncode == 5
    daycare("task", "cancel", "later")
    watched = daycare("task", "watch", "later")
    assert watched.returncode in (0, 1)  # the answer may have been quicker


def test_what_is_wrong_is_said(daycare: Daycare) -> None:
    assert daycare("init", "--yes").returncode == 0
    wrong = daycare("task", "start", "look", "--param", "days:whole=x", "--json")
    assert wrong.returncode == 2 and "parameter days" in json.loads(wrong.stderr)["error"]["message"]
    assert daycare("task", "start", "look", "--param", "Days").returncode == 2
    assert daycare("task", "start", "look", "--deadline", "soon").returncode == 2
    wrong = daycare("task", "start", "look", "--param", "tone:choice(dry|warm)=loud")
    assert wrong.returncode == 2 and "one of dry, warm" in wrong.stderr
    assert daycare("task", "show", "nobody").returncode == 3
