"""The bridge's process without WhatsApp's servers, which cannot be reached from a test: what it says and keeps."""

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from daycare.base import bridge
from daycare.base.spool import SentKeys, Spool
from daycare_plugins.whatsapp.identities import Me, NotYetError
from daycare_plugins.whatsapp.process import WhatsApp
from tests.judges.bridge import faults
from tests.whatsapp.library import ANN, ME, event, jid, needs_library, text

COMMAND = [sys.executable, "-m", "daycare_plugins.whatsapp"]


class Running:
    """A process to talk with."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            COMMAND, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self.heard: list[dict[str, Any]] = []

    def tell(self, **frame: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(frame).encode() + b"\n")
        self._process.stdin.flush()

    def until(self, **fields: Any) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            assert faults("from_bridge", line) == []
            frame: dict[str, Any] = json.loads(line)
            self.heard.append(frame)
            if all(frame.get(name) == value for name, value in fields.items()):
                return frame
        raise AssertionError(f"it ended; it said {self.heard}")

    def end(self) -> int:
        assert self._process.stdin is not None
        self.tell(type="stop")
        return self._process.wait(10)

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


@contextmanager
def running(folder: Path) -> Iterator[Running]:
    process = Running(folder)
    try:
        yield process
    finally:
        process.close()


@needs_library
def test_a_failed_dial_is_a_state_with_its_reason_and_is_tried_again_with_backoff(tmp_path: Path) -> None:
    with running(tmp_path) as process:
        assert process.until(type="hello")["version"] == bridge.VERSION
        process.until(type="state", state="pairing")
        process.tell(type="login", id="l")
        process.until(type="result", id="l")
        first = process.until(type="state", state="unreachable")
        second = process.until(type="state", state="unreachable")
        assert "cannot be reached" in first["reason"]
        assert (first["retry_in_s"], second["retry_in_s"]) == (1.0, 2.0)
        process.tell(type="ping", id="p")
        assert process.until(type="result", id="p")["state"] == "unreachable"
        process.tell(type="send", id="s", key="k", to=ANN[0], text="hi")
        assert process.until(id="s")["code"] == "away"
        assert process.end() == 0


@needs_library
def test_its_files_are_its_own(tmp_path: Path) -> None:
    with running(tmp_path) as process:
        process.until(type="state", state="pairing")
        assert process.end() == 0
    assert {file.name for file in tmp_path.iterdir()} >= {"session.db", "spool.jsonl", "sent.jsonl"}
    for file in tmp_path.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file


def test_without_the_library_it_says_so_and_stays(tmp_path: Path) -> None:
    if not needs_library.args[0]:
        pytest.skip("neonize is installed and works here")
    with running(tmp_path) as process:
        assert "neonize cannot be used" in process.until(type="state", state="unreachable")["reason"]
        process.tell(type="ping", id="p")
        assert process.until(type="result", id="p")["state"] == "unreachable"
        assert process.end() == 0


# == what comes in, with an account that needs no servers ==============================================================


class StandIn:
    """An account as far as messages need one."""

    me = Me(phone=ME[0], lid=ME[1])
    state = bridge.CONNECTED

    def __init__(self) -> None:
        self.sent: list[tuple[str, str, Any]] = []
        self.read_ids: list[str] = []
        self.fail = ""

    def is_connected(self) -> bool:
        return True

    def phone_of(self, lid: str) -> str:
        if self.state != bridge.CONNECTED:
            raise NotYetError
        return ""

    def group_name(self, group: str) -> str:
        return "Family"

    def send(self, user: str, server: str, message: Any) -> str:
        if self.fail:
            raise RuntimeError(self.fail)
        self.sent.append((user, server, message))
        return f"ID{len(self.sent)}"

    def read(self, message: str, chat: Any, sender: Any) -> None:
        self.read_ids.append(message)

    def stop(self) -> None:
        pass


class Table:
    """A bridge in this process, and what it says."""

    def __init__(self, folder: Path, room: int = 10) -> None:
        self._read, out = os.pipe()
        os.set_blocking(self._read, False)
        self.whatsapp = WhatsApp(folder, out)
        self.account = StandIn()
        self.whatsapp._account = self.account
        self.whatsapp._pool = ThreadPoolExecutor(1)
        self.whatsapp._room = room
        self._lines = bridge.Lines()

    def said(self) -> list[Any]:
        self.whatsapp._pool.submit(int).result()  # what was begun before is done then
        try:
            data = os.read(self._read, 1 << 20)
        except BlockingIOError:
            return []
        lines = self._lines.feed(data)
        assert [wrong for line in lines for wrong in faults("from_bridge", line)] == []
        return [bridge.from_bridge(line) for line in lines]

    def ask(self, frame: bridge.Request) -> Any:
        self.whatsapp._answer(frame)
        return self.said()[-1]

    def close(self) -> None:
        self.whatsapp._pool.shutdown()
        self.whatsapp._spool.close()
        self.whatsapp._sent.close()
        self.whatsapp._out.close()
        os.close(self._read)


@contextmanager
def table(folder: Path, room: int = 10) -> Iterator[Table]:
    made = Table(folder, room)
    try:
        yield made
    finally:
        made.close()


@needs_library
def test_an_event_is_on_disk_when_the_callback_returns_and_until_it_is_acknowledged(tmp_path: Path) -> None:
    with table(tmp_path) as first:
        first.whatsapp.heard(event(text("one"), id_="A"))
        first.whatsapp.heard(event(text("one"), id_="A"))  # the platform delivers it again
        assert len((tmp_path / "spool.jsonl").read_text().splitlines()) == 1
        (offered,) = first.said()
    with table(tmp_path) as second:  # the first one was killed
        second.whatsapp._offer()
        (again,) = second.said()
        assert again == offered
        second.whatsapp._acknowledged((again.id,))
        second.whatsapp._pool.shutdown()
        assert second.account.read_ids == ["A"]  # the ticks become blue only now
    with table(tmp_path) as third:
        third.whatsapp._offer()
        assert not third.said()


@needs_library
def test_what_means_nothing_is_forgotten_and_what_cannot_be_mapped_is_refused(tmp_path: Path) -> None:
    with table(tmp_path) as one:
        one.whatsapp.heard(event(text("x"), chat=jid("status", "broadcast"), id_="S"))
        one.whatsapp.heard(event(text("x"), sender=jid("999", "lid"), id_="L"))
        note, refused = one.said()
        assert isinstance(note, bridge.Note)
        assert isinstance(refused, bridge.Unread)
        assert [id_ for id_, _ in one.whatsapp._spool.waiting()] == [refused.id]


@needs_library
def test_who_cannot_be_looked_up_yet_is_not_refused_but_waits_and_with_them_what_came_later(tmp_path: Path) -> None:
    with table(tmp_path) as one:
        one.account.state = bridge.UNREACHABLE
        one.whatsapp.heard(event(text("x"), sender=jid("999", "lid"), id_="L"))
        one.whatsapp.heard(event(text("y"), id_="M"))
        assert not one.said()
        one.account.state = bridge.CONNECTED
        one.whatsapp._offer()
        assert [type(frame) for frame in one.said()] == [bridge.Note, bridge.Unread, bridge.Said]


@needs_library
def test_a_batch_that_waited_while_we_were_away_comes_in_order_and_bounded(tmp_path: Path) -> None:
    with table(tmp_path, room=3) as one:
        for number in range(7):
            one.whatsapp.heard(event(text(f"m{number}"), id_=f"N{number}"))
        first = one.said()
        assert [frame.text for frame in first] == ["m0", "m1", "m2"]
        one.whatsapp._acknowledged(tuple(frame.id for frame in first))
        assert [frame.text for frame in one.said()] == ["m3", "m4", "m5"]


@needs_library
def test_one_key_is_sent_once_and_what_is_not_known_gets_a_mark(tmp_path: Path) -> None:
    send = bridge.Send(id="1", key="k", to=ANN[0], text="**hi**", mark="(again)")
    with table(tmp_path) as one:
        assert one.ask(send).receipt == "ID1/me"
        assert one.ask(send).receipt == "ID1/me"
        assert [message.conversation for _, _, message in one.account.sent] == ["*hi*"]
        one.account.fail = "timed out waiting for an answer"
        unsure = bridge.Send(id="2", key="u", to=ANN[0], text="x", mark="(again)")
        assert one.ask(unsure).code == bridge.UNKNOWN
        one.account.fail = "websocket not connected"
        surely = bridge.Send(id="3", key="n", to=ANN[0], text="y", mark="(again)")
        assert one.ask(surely).code == bridge.NOT_SENT
    with table(tmp_path) as two:
        two.ask(send)
        two.ask(unsure)
        two.ask(surely)
        assert [message.conversation for _, _, message in two.account.sent] == ["(again)\nx", "y"]


@needs_library
def test_answers_quote_and_changes_name_what_they_change(tmp_path: Path) -> None:
    with table(tmp_path) as one:
        one.ask(bridge.Send(id="1", key="a", to="120-3@g.us", text="yes", reply_to=f"A/{ANN[0]}@s.whatsapp.net"))
        one.ask(bridge.React(id="2", to="120-3@g.us", message=f"A/{ANN[0]}@s.whatsapp.net", emoji="👍"))
        one.ask(bridge.Edit(id="3", to=ANN[0], message="ID1/me", text="no"))
        one.ask(bridge.Delete(id="4", to=ANN[0], message="ID1/me"))
        wrong = one.ask(bridge.Delete(id="5", to=ANN[0], message=f"A/{ANN[0]}@s.whatsapp.net"))
        assert wrong.code == bridge.INVALID
        assert one.ask(bridge.Send(id="6", key="b", to="ann", text="x")).code == bridge.INVALID
        quoted, reacted, edited, deleted = (message for _, _, message in one.account.sent)
    context = quoted.extendedTextMessage.contextInfo
    assert (context.stanzaID, context.participant) == ("A", f"{ANN[0]}@s.whatsapp.net")
    key = reacted.reactionMessage.key
    assert (key.ID, key.fromMe, key.participant, key.remoteJID) == (
        "A",
        False,
        f"{ANN[0]}@s.whatsapp.net",
        "120-3@g.us",
    )
    change = edited.editedMessage.message.protocolMessage
    assert (change.key.ID, change.key.fromMe, change.editedMessage.conversation) == ("ID1", True, "no")
    assert deleted.protocolMessage.key.ID == "ID1"


# == what is kept on disk ==============================================================================================


def test_a_torn_line_is_left_out_and_the_rest_is_kept(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "s")
    assert spool.put("a", {"n": 1})
    assert not spool.put("a", {"n": 1})
    spool.put("b", {"n": 2})
    spool.close()
    with (tmp_path / "s").open("ab") as file:
        file.write(b'{"id":"c","in":{"n"')
    spool = Spool(tmp_path / "s")
    assert spool.waiting() == [("a", {"n": 1}), ("b", {"n": 2})]
    spool.put("d", {"n": 4})
    spool.close()
    again = Spool(tmp_path / "s")
    assert [id_ for id_, _ in again.waiting()] == ["a", "b", "d"]
    again.close()


def test_a_spool_that_has_grown_is_written_anew(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "s")
    for number in range(3_000):
        spool.put(f"id{number}", {"text": "x" * 500})
        if number >= 5:
            spool.done((f"id{number}",))
    assert (tmp_path / "s").stat().st_size < 1_200_000
    assert len(spool.waiting()) == 5
    spool.close()
    again = Spool(tmp_path / "s")
    assert len(again.waiting()) == 5
    again.close()


def test_keys_are_bounded_and_the_last_are_kept(tmp_path: Path) -> None:
    keys = SentKeys(tmp_path / "k", keys_max=3)
    for number in range(5):
        keys.begin(f"k{number}")
        keys.sent(f"k{number}", f"r{number}")
    keys.begin("open")
    keys.begin("not")
    keys.undo("not")
    keys.close()
    again = SentKeys(tmp_path / "k", keys_max=3)
    assert [again.get(key) for key in ("k0", "k4", "open", "not")] == [None, "r4", "", None]
    again.close()
