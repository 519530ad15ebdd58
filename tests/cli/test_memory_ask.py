"""`daycare memory ask` against a real daemon, from the command to the search agent and back."""

import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from daycare.api.client import Client, new_key
from daycare.base.errors import BusyError, InvalidError
from daycare.cli.main import app
from daycare.ops.setup import initialise
from daycare.process import EmbeddedDaemon
from daycare.store.home import Home

CLARA = "My sister Clara lives in Bern."


@pytest.fixture
def house(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home with a daemon in this process, which has been told something."""
    initialise(home, user_name="Ann")
    monkeypatch.setenv("TMPDIR", str(home))
    monkeypatch.setattr("tempfile.tempdir", str(home))
    with EmbeddedDaemon(home, work=True):
        yield home


@pytest.fixture
def client(house: Path) -> Iterator[Client]:
    """A client of that daemon, which has remembered what it was told."""
    client = Client(Home(house).socket)
    client.ask(CLARA, timeout_s=30, key="told")
    client.call("POST", "/v1/memories/process", {})
    yield client
    client.close()


def ask(capsys: pytest.CaptureFixture[str], home: Path, *words: str) -> str:
    app(["memory", "ask", *words, "--home", str(home)], standalone_mode=False)
    return capsys.readouterr().out


def test_the_answer_is_printed_with_its_sources(
    house: Path, client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = ask(capsys, house, "where", "does", "Clara", "live?")
    assert shown.startswith("This is what memory has on it:\n- ")
    said = re.search(r"Ann: My sister Clara lives in Bern\. \[(\d+)\]\n", shown)
    assert said is not None and re.search(rf"^{said[1]} +log +", shown, re.MULTILINE), "its number stands before it"
    assert shown.count("My sister Clara lives in Bern.") == 2, "in the answer, and as a source"
    found = json.loads(ask(capsys, house, "where does Clara live?", "--json"))
    assert found["sources"][0]["text"] in (CLARA, "Ann's sister Clara lives in Bern")
    assert {each["label"] for each in found["sources"]} >= {said[1]} and found["documents"] == []
    assert "Sources:" not in found["answer"] and "Looked at" not in found["answer"]
    nothing = json.loads(ask(capsys, house, "what is helium?", "--json"))
    assert nothing["sources"] == [] and nothing["answer"].startswith("Memory has nothing on this")
    assert client.replies("/ann/direct") != [], "of what was told"
    assert all("memory" not in reply["text"] for reply in client.replies("/ann/direct")), "answered here, not there"


def test_without_a_daemon_it_is_answered_all_the_same(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    initialise(home, user_name="Ann")
    with EmbeddedDaemon(home, work=True):
        told = Client(Home(home).socket)
        told.ask(CLARA, timeout_s=30, key="told")
        told.close()
    assert CLARA in ask(capsys, home, "where does Clara live?", "--timeout", "20")
    app(["memory", "process", "--home", str(home)], standalone_mode=False)
    assert "no daemon runs: they begin as soon as" in capsys.readouterr().out


def test_a_repeat_asks_once_and_another_question_does_not_wait(house: Path, client: Client) -> None:
    wish = {"question": "where does Clara live?", "key": new_key(), "wait_s": 20}
    first, again = (client.call("POST", "/v1/memories/ask", wish) for _ in range(2))
    assert first["seq"] == again["seq"] and again["duplicate"] and first["answer"] == again["answer"]
    queued = client.call("POST", "/v1/memories/ask", {"question": "Clara?"})
    assert queued["state"] == "waiting" and "answer" not in queued
    paths = [each["path"] for each in client.call("GET", "/v1/agents")["agents"]]
    assert not any(path.endswith("/search/0") for path in paths), "it has ended"


def test_what_cannot_be_asked_is_refused(client: Client) -> None:
    with pytest.raises(InvalidError):
        client.call("POST", "/v1/memories/ask", {"question": ""})
    with pytest.raises(InvalidError, match="1 to 2000"):
        client.call("POST", "/v1/memories/ask", {"question": "  "})
    with pytest.raises(InvalidError, match="no person talks with it"):
        client.call("POST", "/v1/memories/ask", {"question": "?", "agent": "/ann/direct/memory"})


def test_who_does_not_want_to_wait_any_longer_is_told_that_the_question_is_kept(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    initialise(home, user_name="Ann")
    monkeypatch.setenv("TMPDIR", str(home))
    monkeypatch.setattr("tempfile.tempdir", str(home))
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}/v1"
        provider = f'[models]\nmemorySearch = "deaf/m"\n\n[providers.deaf]\nbase_url = "{url}"\n'
        Home(home).config.write_text(provider)
        with EmbeddedDaemon(home, work=True):
            with pytest.raises(BusyError, match="stays queued"):
                ask(capsys, home, "--timeout", "1", "where does Clara live?")
            deaf.close()  # else the daemon waits for it when it ends
