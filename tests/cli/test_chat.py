"""The chat in a real terminal, and in a pipe."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Daycare
from tests.cli.fake_daemon import FakeDaemon
from tests.terminal import ALT_ENTER, CTRL_C, PROMPT, Terminal, Terminals


@pytest.fixture
def terminal(fake: FakeDaemon, terminals: Terminals) -> Terminal:
    return terminals("chat")


def test_pipe_sends_each_line_and_prints_each_answer(fake: FakeDaemon, daycare: Daycare) -> None:
    done = daycare("chat", stdin="one\n\ntwo\n/quit\nthree\n")
    assert (done.returncode, done.stdout) == (0, "echo: one\necho: two\n"), done.stderr
    assert fake.unconfirmed == []


def test_pipe_with_json_prints_one_document_a_line(fake: FakeDaemon, daycare: Daycare) -> None:
    lines = daycare("chat", "--json", "/ann/agent/x", stdin="one\ntwo\n").stdout.splitlines()
    assert [json.loads(line)["result"] for line in lines] == ["echo: one", "echo: two"]


def test_reply_is_shown_once_and_confirmed(fake: FakeDaemon, terminal: Terminal) -> None:
    fake.tools = ["weather"]
    terminal.sees(PROMPT)
    terminal.types("hello\r")
    terminal.sees("· weather", "· weather: ok", "echo: hello")
    fake.wait_for(lambda: fake.outbox and not fake.unconfirmed)
    terminal.types("again\r")
    terminal.sees("echo: again")
    assert "echo: hello" not in terminal.child.before
    terminal.presses_ctrl_d()
    terminal.leaves()
    keys = [body["key"] for _, body in fake.called("POST", "/v1/messages")]
    assert len(set(keys)) == 2


def test_what_came_while_away_is_shown_with_its_time(fake: FakeDaemon, terminals: Terminals) -> None:
    fake.reply("your train leaves at six")
    person = terminals("chat")
    person.sees("(2023-11-14 22:13:20)", "your train leaves at six")
    fake.wait_for(lambda: not fake.unconfirmed)
    person.types("/exit\r")
    person.leaves()


def test_reminder_that_arrives_at_the_open_prompt_is_shown(fake: FakeDaemon, terminal: Terminal) -> None:
    terminal.sees(PROMPT)
    terminal.types("half a sent")
    terminal.sees("half a sent")
    fake.reply("stand up", turn=77)
    fake.emit("turn.finished", turn=77, reply="stand up", seqs=[])
    terminal.sees("stand up", "half a sent")
    terminal.types("ence\r")
    terminal.sees("echo: half a sentence")


def test_the_label_of_a_choice_says_what_stands_behind_it(fake: FakeDaemon, terminal: Terminal) -> None:
    terminal.sees(PROMPT)
    row = fake.reply("a request", turn=77)
    row["choices"] = [{"label": "Approve", "says": "/approve 1 0a1b2c3d"}, {"label": "Reject", "says": "/reject 1"}]
    fake.emit("turn.finished", turn=77, reply="a request", seqs=[])
    terminal.sees("answer with: Approve | Reject")
    terminal.types("approve\r")
    terminal.sees("command /approve 1 0a1b2c3d")


def test_chat_command_is_sent_as_it_is(fake: FakeDaemon, terminal: Terminal) -> None:
    terminal.sees(PROMPT)
    terminal.types("/help\r")
    terminal.sees("command /help")
    fake.wait_for(lambda: fake.outbox and not fake.unconfirmed)


def test_ctrl_c_stops_the_turn_and_the_program_stays(fake: FakeDaemon, terminal: Terminal) -> None:
    fake.held = True
    terminal.sees(PROMPT)
    terminal.types("think long\r")
    fake.wait_for(lambda: fake.messages)
    terminal.sees("…")
    terminal.types(CTRL_C)
    terminal.sees_in_any_order("(stopped)", "command /stop")  # an event and an answer race
    fake.wait_for(lambda: not fake.unconfirmed)
    terminal.presses_ctrl_c("Ctrl-D to leave")
    terminal.presses_ctrl_d()
    terminal.leaves()


def test_alt_enter_begins_a_new_line_of_the_same_message(fake: FakeDaemon, terminal: Terminal) -> None:
    terminal.sees(PROMPT)
    terminal.types(f"one{ALT_ENTER}two\r")
    fake.wait_for(lambda: fake.messages)
    assert [message["text"] for message in fake.messages.values()] == ["one\ntwo"]


def test_history_is_private(fake: FakeDaemon, home: Path, terminal: Terminal) -> None:
    terminal.sees(PROMPT)
    terminal.types("hello\r")
    terminal.sees("echo: hello")
    assert (home / "history").stat().st_mode & 0o777 == 0o600


def test_chat_goes_on_after_a_restart_of_the_daemon(fake: FakeDaemon, home: Path, terminal: Terminal) -> None:
    terminal.sees(PROMPT)
    terminal.types("before\r")
    terminal.sees("echo: before")
    fake.stop()
    terminal.sees("(the daemon went away, looking for it again)")
    fake.reply("said while nobody looked")
    fake.start()
    terminal.sees("(connected again)", "said while nobody looked")
    terminal.types("after\r")
    terminal.sees("echo: after")


def test_message_sent_while_the_daemon_is_away_arrives_once(fake: FakeDaemon, terminal: Terminal) -> None:
    terminal.sees(PROMPT)
    fake.stop()
    terminal.sees("(the daemon went away")
    terminal.types("patience\r")
    terminal.sees("patience")
    fake.start()
    terminal.sees("echo: patience")
    assert len(fake.messages) == 1


def test_key_typed_at_the_prompt_is_not_echoed(fake: FakeDaemon, terminals: Terminals) -> None:
    fake.canned["PUT", "/v1/keys/openai"] = (200, {})
    person = terminals("keys", "add", "openai")
    person.sees("value of openai (not shown): ")
    person.types("s3cret\r")
    person.sees("stored openai")
    assert "s3cret" not in person.child.before
    person.leaves()
    assert fake.called("PUT", "/v1/keys/openai") == [({}, {"value": "s3cret"})]
