"""Why a message was sent: kept and read back, read from what earlier versions kept, and never made by a connector."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from daycare.agent.kinds import is_background
from daycare.base import causes
from daycare.base.causes import (
    AgentQuestion,
    Answer,
    Approved,
    Beat,
    Cause,
    Ending,
    Handoff,
    JobRun,
    Person,
    Signalled,
    TaskWork,
)
from daycare.base.messages import Envelope, EnvelopeKind, Origin, read_envelope
from daycare.store.records import InboxRow
from daycare.testing.daemon import open_daemon
from daycare.testing.fake_connector import FakeConnector
from tests.flow.platform import inbound, people, receive

FIELDS: dict[str, Any] = {"to": "/ann/telegram", "user": "ann", "key": "k", "text": "x", "trace": "t"}
KINDS = (
    Person(name="Bob", chat="telegram:-3", more={"language": "de"}),
    AgentQuestion("w", "id", 3),
    Answer("w", ok=True, session=3),
    Answer("w", late=True),
    JobRun("/ann/cron/news", "Fri 09:00", deliver="none", late="2 h", task="/ann/task/a", until="10:00"),
    TaskWork("/ann/task/a", "10:00", question=AgentQuestion("w", "id"), waits=True),
    TaskWork("/ann/task/a", "10:00", "/ann/direct", "telegram", "42"),
    Signalled("door:open", told=True),
    Beat(60),
    Handoff("id", 7),
    Approved(3),
    Ending(quiet=True, untold="id"),
    None,
)

# As messages were kept before: origin, kind, sender, the table of words, and what that meant.
EARLIER: tuple[tuple[str, str, str, dict[str, str], Cause], ...] = (
    ("agent", "result", "/a", {"wait": "w", "status": "ok", "session": "3"}, Answer("w", ok=True, session=3)),
    ("agent", "result", "/a", {"wait": "w", "status": "error", "session": ""}, Answer("w")),
    ("system", "result", "system", {"wait": "w", "status": "error", "late": "1"}, Answer("w", late=True)),
    ("agent", "text", "/a", {"wait": "w", "asker": "id", "session": "3"}, AgentQuestion("w", "id", 3)),
    ("system", "dismiss", "system", {"quiet": "1", "untold": "id"}, Ending(True, "id")),
    ("system", "handoff", "system", {"agent": "id", "through": "7"}, Handoff("id", 7)),
    ("system", "notice", "/system/approvals", {"approved": "3"}, Approved(3)),
    ("cron", "text", "/c", {"job": "/c", "due": "d", "deliver": "none", "kept": "1"}, JobRun("/c", "d", "none")),
    (
        "cron", "text", "/c", {"job": "/c", "due": "d", "deliver": "", "late": "2 h", "until": "u", "task": "/t"},
        JobRun("/c", "d", late="2 h", task="/t", until="u"),
    ),
    ("cron", "notice", "/system/heartbeat", {"heartbeat": "60"}, Beat(60)),
    (
        "person", "text", "/ann/direct", {"task": "/t", "due": "d", "deliver": "", "connector": "x", "target": "1"},
        TaskWork("/t", "d", "", "x", "1"),
    ),
    (
        "agent", "text", "/a", {"task": "/t", "due": "d", "wait": "w", "asker": "id", "session": "3", "waits": "1"},
        TaskWork("/t", "d", question=AgentQuestion("w", "id", 3), waits=True),
    ),
    ("agent", "note", "/system/signals", {"signal": "a:b", "told": "1"}, Signalled("a:b", told=True)),
    (
        "person", "text", "telegram:7", {"name": "Bob", "edits": "k0", "language": "de"},
        Person(name="Bob", edits="k0", more={"language": "de"}),
    ),
    ("person", "text", "telegram:7", {"task": "/t", "wait": "w"}, Person(more={"task": "/t", "wait": "w"})),
    (
        "person", "text", "bridge:7", {"session": "abc", "through": "x"},
        Person(more={"session": "abc", "through": "x"}),
    ),
)  # fmt: skip


@pytest.mark.parametrize("cause", KINDS, ids=repr)
def test_an_envelope_kept_as_json_is_read_back(cause: Cause | None) -> None:
    envelope = Envelope(origin=Origin.AGENT, sender="/ann/direct", cause=cause, **FIELDS)
    assert read_envelope(msgspec.json.encode(envelope)) == envelope


@pytest.mark.parametrize(("origin", "kind", "sender", "meta", "cause"), EARLIER, ids=repr)
def test_what_an_earlier_version_kept_is_read_by_its_cause(
    origin: str, kind: str, sender: str, meta: dict[str, str], cause: Cause
) -> None:
    kept = FIELDS | {"origin": origin, "kind": kind, "sender": sender, "meta": meta}
    assert read_envelope(msgspec.json.encode(kept)).cause == cause


def test_all_words_of_a_cause_are_found_when_they_are_to_be_forgotten() -> None:
    assert [word for word in causes.words_in(Person(name="Bob", context="q", more={"x": "y"})) if word] == [
        "Bob",
        "q",
        "y",
    ]
    assert causes.words_in(None) == []


async def test_whatever_a_connector_hands_in_is_nothing_but_what_a_person_said(
    tmp_path: Path, autojump_clock: object
) -> None:
    words = {"job": "/ann/cron/a", "due": "d", "task": "/ann/task/a", "signal": "a:b", "heartbeat": "1", "wait": "w"}
    words |= {"asker": "id", "approved": "1", "agent": "id", "through": "9", "quiet": "1", "late": "1", "edits": "k"}
    async with open_daemon(tmp_path, work=False, plugins=[FakeConnector().plugin()]) as house:
        await people(house)
        [outcome] = await receive(house, inbound("a", "hi", meta=words))
        [row] = await house.store.inbox.waiting((await house.agent("/ann/pigeon")).id)
        assert row.seq == outcome.seq and row.envelope.cause == Person(more=words)
        assert not is_background(row) and row.envelope.question is None and row.envelope.answers is None


def test_a_message_of_earlier_days_is_what_it_was() -> None:
    meta = {"task": "/ann/task/a", "signal": "a:b", "wait": "w", "asker": "id"}
    kept = FIELDS | {"origin": "person", "kind": EnvelopeKind.TEXT, "sender": "pigeon:7", "meta": meta}
    envelope = read_envelope(msgspec.json.encode(kept))
    assert not is_background(InboxRow(1, "id", envelope, 0, 0)) and envelope.answer("x", "ok", ()) is None
