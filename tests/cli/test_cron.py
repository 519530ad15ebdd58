"""`daycare cron`: jobs from the command line, and when an expression is due without any daemon."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Daycare

BERLIN = ("--zone", "Europe/Berlin")


def test_next_prints_one_line_of_local_times_and_needs_neither_daemon_nor_home(daycare: Daycare, home: Path) -> None:
    done = daycare("cron", "next", "30 2 * * *", *BERLIN, "--after", "2027-03-27T12:00", "--count", "2", "--json")
    assert done.stdout == '["2027-03-28T03:00:00+02:00", "2027-03-29T02:30:00+02:00"]\n'
    assert list(home.iterdir()) == []


@pytest.mark.parametrize(
    ("expression", "after", "first"),
    [
        ("@daily", "2027-10-30T23:00+02:00", "2027-10-31T00:00:00+02:00"),
        ("*/30 * * * *", "2027-10-31T02:30", "2027-10-31T02:00:00+01:00"),
        ("0 0 29 feb *", "2027-01-01", "2028-02-29T00:00:00+01:00"),
        ("15 10 * * mon-fri", "2027-01-01T10:15", "2027-01-04T10:15:00+01:00"),
    ],
)
def test_next_begins_behind_the_given_time(daycare: Daycare, expression: str, after: str, first: str) -> None:
    done = daycare("cron", "next", expression, *BERLIN, "--after", after, "--count", "1", "--json")
    assert json.loads(done.stdout) == [first]


def test_next_says_what_is_wrong(daycare: Daycare) -> None:
    done = daycare("cron", "next", "0 25 * * *", "--json")
    assert done.returncode == 2 and json.loads(done.stderr)["error"]["code"] == "CRON_EXPRESSION"
    assert daycare("cron", "next", "0 2 * * *", "--zone", "Mars", "--json").returncode == 2
    assert daycare("cron", "next", "0 2 * * *", "--after", "soon", "--json").returncode == 2


def test_jobs_are_kept_without_a_daemon(daycare: Daycare, home: Path) -> None:
    assert daycare("init", "--yes").returncode == 0
    done = daycare("cron", "add", "morning", "30 7 * * MON-FRI", "Sum up {{topic}}", "--set", "topic=mail", *BERLIN)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].endswith("/cron/morning") and "T07:30:00+0" in done.stdout
    assert (
        daycare("cron", "add", "call", "2099-03-01 15:00", "-", "--delete-after-run", stdin="Call Ben").returncode == 0
    )
    found = json.loads(daycare("cron", "list", "--json").stdout)["jobs"]
    assert [(job["id"], job["spec"].get("cron"), job["spec"].get("at")) for job in found] == [
        ("call", None, "2099-03-01 15:00"),
        ("morning", "30 7 * * MON-FRI", None),
    ]
    assert found[1]["spec"]["parameters"] == {"topic": "mail"}
    shown = daycare("cron").stdout
    assert "Sum up {{topic}}" in shown and "call" in shown
    assert daycare("cron", "edit", "morning", "retry=2", "cron=0 8 * * *").returncode == 0
    assert "0 8 * * *" in daycare("cron", "show", "morning").stdout
    assert "is paused" in daycare("cron", "pause", "morning").stdout
    assert "goes on" in daycare("cron", "resume", "morning").stdout
    assert daycare("cron", "next", "morning", "--json", "--count", "1").stdout.count("T08:00:00") == 1
    assert "runs now" in daycare("cron", "run", "morning", "--set", "topic=news").stdout
    [run] = json.loads(daycare("cron", "history", "morning", "--json").stdout)["runs"]
    assert (run["state"], run["by_hand"], run["parameters"]) == ("waiting", True, {"topic": "news"})
    assert "waiting" in daycare("cron", "history").stdout
    assert "removed" in daycare("cron", "rm", "morning").stdout
    long = ("cron", "add", "weekly", "0 18 * * SUN", "Compare", "--task", "weekly", "--deadline", "2h")
    assert daycare(*long).returncode == 0
    spec = json.loads(daycare("cron", "show", "weekly", "--json").stdout)["spec"]
    assert (spec["task"], spec["deadline_s"]) == ("weekly", 7200.0)
    refused = daycare(*long[:2], "other", *long[3:7], "--session", "continue", "--task", "weekly")
    assert refused.returncode == 2 and "session does not go with task" in refused.stderr
    assert daycare("cron", "show", "morning").returncode == 3
