"""A scheduled job of a real daemon: its answer appears in the terminal, and the ledger has its receipt."""

import json
import time
from datetime import UTC, datetime, timedelta

from tests.cli.conftest import Daycare
from tests.terminal import PROMPT, Terminals


def test_the_answer_of_a_job_appears_in_an_open_chat(daycare: Daycare, terminals: Terminals) -> None:
    daycare("init", "--yes")
    person = terminals("chat")
    person.sees(PROMPT)
    person.types("what is 3*4?\r")
    person.sees("3*4 = 12")
    at = (datetime.now(UTC) + timedelta(seconds=4)).isoformat(timespec="seconds")
    added = daycare("cron", "add", "soon", at, "what is 20+3?")
    assert added.returncode == 0, added.stderr
    person.sees("20+3 = 23")
    deadline = time.monotonic() + 20
    while (run := json.loads(daycare("cron", "history", "soon", "--json").stdout)["runs"][0])["delivery"] != "sent":
        assert time.monotonic() < deadline, run
    assert (run["state"], run["answer"], run["connector"]) == ("ran", "20+3 = 23", "direct")
    assert run["receipt"] and run["delivered_at"] >= run["ended_at"] >= run["due_at"]
    person.types("/cron\r")
    person.sees("soon [at", "last ran")
    person.presses_ctrl_d()
    person.leaves()
