"""Every command, as a person or a script calls it."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Daycare
from tests.cli.fake_daemon import OWNER, FakeDaemon


def test_importing_the_command_line_loads_nothing_heavy() -> None:
    heavy = {"trio", "httpx", "starlette", "prompt_toolkit", "apsw", "rich", "hypercorn", "structlog", "asyncio"}
    heavy |= {"daycare.testing"}
    code = f"import sys, daycare.cli.main; print(*({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.split() == []


def test_status_shows_the_daemon(fake: FakeDaemon, daycare: Daycare) -> None:
    done = daycare("status")
    assert done.returncode == 0, done.stderr
    assert "working, process 4242, up " in done.stdout
    assert json.loads(daycare("status", "--json").stdout) == fake.status


def test_json_and_home_may_stand_before_the_command(fake: FakeDaemon, home: Path, daycare: Daycare) -> None:
    done = daycare("--json", "--home", str(home), "status")
    assert json.loads(done.stdout)["pid"] == 4242


def test_send_with_wait_prints_the_answer_and_confirms_it(fake: FakeDaemon, daycare: Daycare) -> None:
    done = daycare("send", "--wait", "hello")
    assert (done.returncode, done.stdout) == (0, "echo: hello\n"), done.stderr
    assert fake.unconfirmed == []


def test_send_without_wait_names_the_message(fake: FakeDaemon, daycare: Daycare) -> None:
    fake.held = True
    done = daycare("send", "/ann/agent/scribe", "hello")
    assert "message 1 is queued for /ann/agent/scribe" in done.stdout
    assert fake.called("POST", "/v1/messages")[0][1]["path"] == "/ann/agent/scribe"


def test_send_to_all_names_each_agent_and_exits_75_when_one_is_full(fake: FakeDaemon, daycare: Daycare) -> None:
    receipt = {"seq": 4, "agent_id": "a", "path": "/ann/direct", "trace": "t", "state": "waiting", "duplicate": False}
    error = {"code": "INBOX_FULL", "message": "inbox full", "hint": "wait", "retry_after_s": 30}
    full = {"path": "/ann/agent/x", "error": error}
    fake.canned["POST", "/v1/messages"] = 202, {"messages": [receipt], "refused": [full]}
    done = daycare("send", "--all", "--key", "k", "I am away")
    assert (done.returncode, done.stderr) == (75, "")
    assert done.stdout.splitlines() == [
        "message 4 is queued for /ann/direct",
        "/ann/agent/x did not get it: inbox full",
        "once there is room, repeat it with --key k: the others get it once",
    ]
    [(_, body)] = fake.called("POST", "/v1/messages")
    assert body == {"text": "I am away", "key": "k", "all": True}
    found = json.loads(daycare("send", "--all", "--key", "k", "--json", "I am away").stdout)
    assert found == {"messages": [receipt], "refused": [full], "key": "k", "working": True}
    fake.canned["POST", "/v1/messages"] = 202, {"messages": [receipt], "refused": []}
    assert daycare("send", "--all", "I am away").returncode == 0


@pytest.mark.parametrize("words", [("--all", "/ann/agent/x", "hi"), ("--all", "--wait", "hi")])
def test_send_to_all_takes_no_path_and_does_not_wait(
    fake: FakeDaemon, daycare: Daycare, words: tuple[str, ...]
) -> None:
    done = daycare("send", *words)
    assert done.returncode == 2 and "takes no PATH and no --instead, and waits for no answer" in done.stderr
    assert not fake.called("POST", "/v1/messages")


def test_what_is_no_text_on_stdin_is_refused_and_not_shown(fake: FakeDaemon, daycare: Daycare) -> None:
    done = daycare("send", "-", stdin="\x7fELF\0\0\x01")
    assert done.returncode == 2
    assert done.stderr.startswith("error: send: the 7 bytes on stdin are no text\n") and "ELF" not in done.stderr


def test_send_reads_the_text_from_stdin(fake: FakeDaemon, daycare: Daycare) -> None:
    assert daycare("send", "-", "--wait", stdin="two\nlines\n").stdout == "echo: two\nlines\n\n"


def test_send_repeats_a_message_under_the_same_key_when_the_connection_breaks(
    fake: FakeDaemon, daycare: Daycare
) -> None:
    fake.drop_connections = 2
    done = daycare("send", "--wait", "hello")
    assert done.stdout == "echo: hello\n"
    assert len(fake.messages) == 1
    assert len(fake.called("POST", "/v1/messages")) == 3


def test_send_with_wait_of_a_message_that_is_stopped_exits_6(fake: FakeDaemon, daycare: Daycare) -> None:
    fake.held = True
    with ThreadPoolExecutor(1) as aside:
        done = aside.submit(daycare, "send", "--wait", "--json", "dig a hole")
        fake.wait_for(lambda: fake.messages)
        assert daycare("send", "--wait", "/stop").returncode == 0
    assert done.result().returncode == 6
    said = json.loads(done.result().stdout)
    assert (said["state"], said["result"]) == ("stopped", "[stopped]"), "what there was is printed all the same"
    assert json.loads(done.result().stderr)["error"]["code"] == "MESSAGE_STOPPED"
    assert fake.unconfirmed == []


def test_send_that_gets_no_answer_in_time_exits_75_and_the_message_stays(fake: FakeDaemon, daycare: Daycare) -> None:
    fake.held = True
    done = daycare("send", "--wait", "--timeout", "0.2", "hello")
    assert done.returncode == 75
    assert done.stderr.splitlines() == [
        "error: wait for the answer to message 1: none after 0.2 s; it stays queued",
        "hint: daycare trace 1",
    ]


def test_answer_cannot_steer_the_terminal(fake: FakeDaemon, daycare: Daycare) -> None:
    done = daycare("send", "--wait", "a\x1b]0;owned\x07b\x9b31mc")
    assert done.stdout == "echo: a]0;ownedb31mc\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("send",), "Missing argument"),
        (("send", "no/path", "text"), "expected [PATH] TEXT"),
        (("send", "/ann/direct"), "no text follows"),
        (("send", ""), "the text is empty"),
        (("sned",), "Did you mean 'send'"),
        (("status", "--jsno"), "No such option"),
        (("dead", "prune", "--older-than", "30"), "expected a number and s, m, h, d or w"),
        (("agents", "set", "/ann/direct"), "no FIELD=VALUE"),
        (("agents", "create", "/ann/agent/x", "permissions={"), "read the JSON of permissions"),
        (("agents", "create", "/ann/agent/x", "budget=5usd"), "budget is no setting of an agent"),
    ],
)
def test_wrong_usage_exits_2_with_one_line_and_a_hint(daycare: Daycare, arguments: tuple[str, ...], said: str) -> None:
    done = daycare(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    first, second = done.stderr.splitlines()
    assert first.startswith("error: ") and said in first
    assert second.startswith("hint: ")


def test_refusal_of_the_daemon_becomes_its_exit_code(fake: FakeDaemon, daycare: Daycare) -> None:
    for status, code in ((400, 2), (404, 3), (403, 4), (409, 5), (429, 75), (503, 69), (413, 2), (500, 1)):
        error = {"code": "NO", "message": "because", "hint": "so", "retry_after_s": 1.5}
        fake.canned["POST", "/v1/agent/unpark"] = (status, {"error": error})
        done = daycare("agents", "unpark", OWNER, "--json")
        assert (done.returncode, done.stdout, json.loads(done.stderr)) == (code, "", {"error": error})


def test_a_home_that_does_not_exist_leads_to_init(daycare: Daycare) -> None:
    done = daycare("status", "--home", "/nonexistent/home")
    assert (done.returncode, done.stderr.splitlines()[1]) == (3, "hint: daycare init")


def test_a_closed_pipe_is_quiet(fake: FakeDaemon, environment: dict[str, str]) -> None:
    fake.canned["GET", "/v1/trace/1"] = (200, {"entries": [_entry(n) for n in range(20_000)]})
    done = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m daycare trace 1 | head -n 1"],
        env=environment, capture_output=True, text=True, timeout=30, check=True,
    )  # fmt: skip
    assert done.stderr == ""


def test_trace_is_a_timeline(fake: FakeDaemon, daycare: Daycare) -> None:
    fake.canned["GET", "/v1/trace/7"] = (200, {"entries": [_entry(0), _entry(1500)]})
    lines = daycare("trace", "7").stdout.splitlines()
    assert lines[0].split() == ["2023-11-14", "after", "what", "path", "detail"]
    assert lines[-1].split() == ["22:13:21.500", "+1.500", "s", "message", "/ann/direct", "of", "1500"]


def test_key_is_read_from_stdin_and_never_shown(fake: FakeDaemon, daycare: Daycare) -> None:
    fake.canned["PUT", "/v1/keys/openai"] = (200, {})
    done = daycare("keys", "add", "openai", "--stdin", stdin="s3cret\n")
    assert (done.returncode, done.stdout) == (0, "stored openai\n")
    assert "s3cret" not in done.stdout + done.stderr
    assert fake.called("PUT", "/v1/keys/openai") == [({}, {"value": "s3cret"})]


def test_key_without_a_terminal_asks_for_stdin(fake: FakeDaemon, daycare: Daycare) -> None:
    done = daycare("keys", "add", "openai")
    assert (done.returncode, done.stderr.splitlines()[1]) == (2, "hint: daycare keys add openai --stdin")


CALLS: list[tuple[tuple[str, ...], str, str, Any, Any, str]] = [
    (("agents", "create", "/ann/agent/x", "model=a/b", 'tools=["now"]'), "POST", "/v1/agents",
     {"path": "/ann/agent/x", "config": {"model": "a/b", "tools": ["now"]}}, {}, "created /ann/agent/x"),
    (("agents", "set", OWNER, "policy=followup"), "PATCH", "/v1/agent", {"policy": "followup"}, {}, "changed policy"),
    (("agents", "unpark", OWNER), "POST", "/v1/agent/unpark", None, {}, "works again"),
    (("agents", "rm", OWNER), "DELETE", "/v1/agent", None, {}, "has ended"),
    (("dead", "replay", "3"), "POST", "/v1/dead/3/replay", None, {"seq": 9}, "dead letter 3 is queued again as 9"),
    (("dead", "prune", "--older-than", "30d"), "POST", "/v1/dead/prune", {"older_than_s": 2_592_000}, {"deleted": 4},
     "deleted 4"),
    (("users", "add", "ben", "--zone", "Europe/Berlin"), "POST", "/v1/users",
     {"id": "ben", "name": "ben", "zone": "Europe/Berlin", "operator": False}, {}, "added ben"),
    (("users", "link", "ben", "telegram:42"), "POST", "/v1/users/ben/links", {"key": "telegram:42"}, {},
     "telegram:42 is ben"),
    (("users", "unlink", "telegram:42"), "DELETE", "/v1/links/telegram%3A42", None, {}, "is nobody now"),
    (("users", "remove", "ben"), "DELETE", "/v1/users/ben", None, {}, "removed ben"),
    (("keys", "remove", "openai"), "DELETE", "/v1/keys/openai", None, {}, "removed openai"),
    (
        ("keys", "rotate"), "POST", "/v1/keys/rotate", None, {"resealed": 3},
        "sealed 3 stored keys again; back up the new key file",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "method", "route", "body", "answer", "said"), CALLS)
def test_command_makes_its_call(
    fake: FakeDaemon,
    daycare: Daycare,
    arguments: tuple[str, ...],
    method: str,
    route: str,
    body: Any,
    answer: Any,
    said: str,
) -> None:
    fake.canned[method, route] = (200, answer)
    done = daycare(*arguments)
    assert done.returncode == 0, done.stderr
    assert said in done.stdout
    assert [sent for _, sent in fake.called(method, route)] == [body]


def _entry(offset_ms: int) -> dict[str, Any]:
    return {"at_ms": 1_700_000_000_000 + offset_ms, "what": "message", "path": OWNER, "detail": f"of {offset_ms}"}
