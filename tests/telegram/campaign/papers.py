"""What the store says of requests and documents, read with SQL of our own, and held against what people did and saw."""

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import apsw
import msgspec

from daycare.base.messages import Message
from daycare.testing.scripted import bare
from daycare_plugins.telegram.testing.server import FakeMessage as Sent
from daycare_plugins.telegram.testing.server import FakeTelegram
from tests.telegram.campaign.judge import MARK
from tests.telegram.campaign.phone import Deed, answered, as_sent, has_button
from tests.telegram.campaign.proposer import TOLD, fact
from tests.telegram.campaign.report import Report
from tests.telegram.campaign.stage import BOT

KINDS: Final = (  # of findings; each must be 0
    "applied_twice",
    "lost",
    "follow_ups_missing",
    "history_broken",
    "doubled",
    "astray",
    "unanswered",
    "broken",
)
_PROPOSED: Final = re.compile(r"\bp(\d+)-\d+")  # what is to be remembered; its number is that of the room
_DONE: Final = ("approved", "edited")
_SENDER: Final = "/system/approvals"
_SENT, _DEAD = 2, 3
_decode_history: Final = msgspec.json.Decoder(tuple[Message, ...]).decode


@dataclass
class Request:
    """A request as its row says."""

    no: int
    path: str
    state: str
    decided_by: str
    edited_by: str
    version: int | None
    undone: int | None
    place: tuple[str, str, str]
    text: str


@dataclass
class Version:
    """A version of a document with its text; None is a deletion."""

    version: int
    author: str
    approver: str
    hash: str
    base_hash: str
    text: str | None


@dataclass
class Papers:
    """The tables as the judge needs them. `documents` have their versions in order."""

    requests: dict[int, Request] = field(default_factory=dict)
    documents: dict[tuple[str, str, str], list[Version]] = field(default_factory=dict)
    heard: dict[tuple[str, int], list[str]] = field(default_factory=dict)  # (path, no): what its agent read of it
    posted: Counter[str] = field(default_factory=Counter)  # by key: what the desk has posted
    sent: list[tuple[str, list[int]]] = field(default_factory=list)  # (user, message numbers) of each reply

    def of(self, name: str) -> list[Request]:
        """Return the requests that were made for something to remember."""
        return [it for it in self.requests.values() if re.search(rf"\b{name}\b", it.text)]

    def standing(self, name: str) -> str:
        """Return how far it is with something to remember."""
        states = ["undone" if it.undone is not None else it.state for it in self.of(name)]
        return ", ".join(states) or "nothing"


def read(db: apsw.Connection) -> Papers:
    """Read what matters."""
    found = Papers()
    rows: Any = db.execute(
        "SELECT no, path, state, decided_by, edited_by, version, undone, action FROM approvals ORDER BY no"
    )
    for no, path, state, decided_by, edited_by, version, undone, action in rows:
        wish = msgspec.json.decode(action)
        where = wish["place"]
        place = (where["layer"], where["owner"], where["name"])
        found.requests[no] = Request(no, path, state, decided_by, edited_by, version, undone, place, wish["text"])
    rows = db.execute(
        "SELECT layer, owner, name, tail, version, author, approver, hash, base_hash, text FROM documents ORDER BY no"
    )
    for layer, owner, name, tail, *version, text in rows:
        known = found.documents.setdefault((layer, owner, name), [])
        whole = f"{known[-1].text}{text}" if tail else text  # the row has what was added to the version before
        known.append(Version(*version, whole))  # type: ignore[call-arg]
    rows = db.execute(
        "SELECT a.path, unpacked(h.messages) FROM history h JOIN agents a ON a.id = h.agent_id ORDER BY h.turn"
    )
    for path, messages in rows:
        for message in _decode_history(messages):
            if message.role == "user" and message.sender == _SENDER:
                [no] = re.findall(r"^Request (\d+) ", message.text, re.MULTILINE)
                found.heard.setdefault((path, int(no)), []).append(bare(message.text).splitlines()[-1])
    for (key,) in db.execute("SELECT key FROM inbox WHERE sender = ?", (_SENDER,)):
        found.posted[str(key)] += 1
    rows = db.execute("SELECT user, receipt FROM outbox WHERE connector = ? AND state = ? ORDER BY seq", (BOT, _SENT))
    found.sent = [(user, [int(number) for number in receipt.split()]) for user, receipt in rows]
    return found


# == at any moment =====================================================================================================


def of_one_mind(papers: Papers) -> Iterator[tuple[str, str]]:
    """Yield what must not be, whenever the daemon died: half of a decision, a history that is no straight line."""
    yield from _lines(papers)
    for it in papers.requests.values():
        versions = papers.documents.get(it.place, [])
        by_it = [each for each in versions if _gained(versions, each, it.text)]
        done = it.state in _DONE
        if len(by_it) != done:
            kind = "applied_twice" if len(by_it) > 1 else "broken"
            yield kind, f"request {it.no} is {it.state}, and in versions {[each.version for each in by_it]}"
        elif done:
            author = it.edited_by or it.path
            if (by_it[0].version, by_it[0].author, by_it[0].approver) != (it.version, author, it.decided_by):
                yield "history_broken", f"request {it.no} and its version {by_it[0]} disagree"
        if it.undone is not None and not _is_undone(versions, it):
            yield "history_broken", f"version {it.undone} does not take request {it.no} back"
        for key, wanted in ((f"approval:{it.no}", it.state != "pending"), (f"approval:{it.no}:undone", it.undone)):
            if papers.posted[key] != bool(wanted):
                times = papers.posted[key]
                yield "follow_ups_missing", f"request {it.no} is {it.state}: {key} was posted {times} times"


def _lines(papers: Papers) -> Iterator[tuple[str, str]]:
    for place, versions in papers.documents.items():
        before = ""
        for number, each in enumerate(versions, 1):
            digest = "" if each.text is None else hashlib.sha256(each.text.encode()).hexdigest()
            if (each.version, each.base_hash, each.hash) != (number, before, digest):
                yield "history_broken", f"{place}: version {each.version} in place {number} does not follow"
            before = each.hash
            if not each.author:
                yield "history_broken", f"{place}: version {number} has no author"


def _gained(versions: Sequence[Version], each: Version, text: str) -> bool:
    """Return whether a version has a text once more than the one before."""
    before = versions[each.version - 2].text if each.version > 1 else None
    return (each.text or "").count(text) > (before or "").count(text)


def _is_undone(versions: Sequence[Version], it: Request) -> bool:
    assert it.undone is not None and it.version is not None
    before = versions[it.version - 2].text if it.version > 1 else None
    return it.undone == it.version + 1 and versions[it.undone - 1].text == before


# == at the end ========================================================================================================


def judge(papers: Papers, deeds: Sequence[Deed], server: FakeTelegram, report: Report) -> Counter[str]:
    """Judge what became of all that was to be remembered; return how often what."""
    counted: Counter[str] = Counter()
    for kind, what in of_one_mind(papers):
        report.find(kind, what)
    for deed in deeds:
        if deed.stuck:
            report.find("lost", f"{deed.name} ({deed.plan}): {deed.stuck}"[:500])
        counted.update(_judge_deed(papers, deed, server, report))
    rooms = {deed.user: deed.room.id for deed in deeds}
    counted["marked"] = _judge_phones(papers, rooms, server, report)
    return counted


def _judge_deed(papers: Papers, deed: Deed, server: FakeTelegram, report: Report) -> Iterator[str]:
    found = papers.of(deed.name)
    if len(found) != 1:
        report.find("lost" if not found else "doubled", f"{deed.name} has {len(found)} requests")
        return
    [it] = found
    yield "proposals"
    newest = papers.documents[it.place][-1].text or ""
    times = newest.count(it.text)
    if times > 1:
        report.find("applied_twice", f"{deed.name} stands {times} times in {it.place}")
    if times != (it.state in _DONE and it.undone is None):
        report.find("broken", f"{deed.name} is {it.state}, undone {it.undone}, and {times} times in its document")
    if it.edited_by and f"{fact(deed.name)}\n" in newest:
        report.find("broken", f"what was proposed of {deed.name} is there beside what was written instead")
    if deed.plan == "stale" and deed.by_others not in newest:
        report.find("lost", f"what somebody else wrote of {deed.name} was overwritten")
    state = "undone" if it.undone is not None else it.state
    yield state
    if it.state in _DONE:
        yield "applied_once"
    if deed.plan == "race":
        yield f"won by {it.decided_by.partition(':')[0]}"
        _judge_race(deed, it, report)
    elif deed.ended and deed.plan != "ignore" and deed.verdict != state:
        report.find("broken", f"{deed.name} is {state}, and the phone was told: {deed.verdict}")
    if deed.shown_again:
        yield "shown_again"
    if it.state != "pending":
        _judge_follow_up(papers, deed, it, server, report)


def _judge_race(deed: Deed, it: Request, report: Report) -> None:
    """One of two deciders has won, and each was told which."""
    by_phone = it.decided_by.startswith("telegram:")
    phone = it.state if by_phone else f"{it.state} already"
    terminal = "APPROVAL_DECIDED" if by_phone else it.state
    if deed.ended and (deed.verdict, deed.terminal) != (phone, terminal):
        what = f"{deed.name} is {it.state} by {it.decided_by}; phone: {deed.verdict}, terminal: {deed.terminal}"
        report.find("broken", what)


def _judge_follow_up(papers: Papers, deed: Deed, it: Request, server: FakeTelegram, report: Report) -> None:
    heard = papers.heard.get((it.path, it.no), [])
    if len(heard) != 1 + (it.undone is not None):
        kind = "follow_ups_missing" if len(heard) < 1 + (it.undone is not None) else "doubled"
        report.find(kind, f"{it.path} read {len(heard)} times of request {it.no}: {heard}")
    on_phone = server.sent(deed.room.id)
    if not any(f"{TOLD} {it.no} was" in message.text for message in on_phone):
        report.find("follow_ups_missing", f"the phone was not told what became of request {it.no}")
    if deed.presses and not any(answered(message, it.no) for message in on_phone):
        report.find("lost", f"who pressed a button of request {it.no} was not answered")


def buttons_left(papers: Papers, deeds: Sequence[Deed], server: FakeTelegram) -> list[int]:
    """Return the decided requests of which a delivered message can still be decided on its phone."""
    delivered = {(user, number) for user, numbers in papers.sent for number in numbers}
    return [
        no
        for no, user, chat in ((deed.no, deed.user, deed.room.id) for deed in deeds)
        if no in papers.requests and papers.requests[no].state != "pending"
        for message in server.sent(chat)
        if (user, message.id) in delivered and f"Request {no}: /" in message.text and has_button(message, "Approve")
    ]


def _judge_phones(papers: Papers, rooms: dict[str, int], server: FakeTelegram, report: Report) -> int:
    """All that was sent is on its phone, and what came twice is marked; return how many messages are marked.

    An unmarked message is the first to arrive of a reply of its own.
    """
    marked = 0
    replies: dict[str, list[list[int]]] = defaultdict(list)
    for user, numbers in papers.sent:
        replies[user].append(numbers)
    for user, chat in rooms.items():
        for message in server.sent(chat):
            others = {name for name in _PROPOSED.findall(message.text) if f"c{name}" != user}
            if others:
                report.find("astray", f"{user} was sent what is for {sorted(others)}: {message.text[:200]!r}")
        shown = {message.id: message for message in server.sent(chat)}
        wanted: Counter[str] = Counter()
        for numbers in replies[user]:
            gone = [number for number in numbers if number not in shown]
            if gone:
                report.find("lost", f"messages {gone} of {user} are not on the phone")
            wanted.update(_plain(shown[number]) for number in numbers if number in shown)
        again = [number for number, each in shown.items() if MARK in as_sent(each)]
        marked += len(again)
        unmarked = Counter(
            _plain(each) for number, each in shown.items() if number not in again and not _is_status(each)
        )
        for text, times in unmarked.items():
            if times > wanted[text]:
                report.find("doubled", f"{user}: {times} unmarked of {wanted[text]} replies: {text[:200]!r}")
    return marked


def _plain(message: Sent) -> str:
    return as_sent(message).removeprefix(f"(this {MARK})\n")


def _is_status(message: Sent) -> bool:
    return message.silent and not message.keyboard


def left_over(db: apsw.Connection, report: Report) -> None:
    """After quiet the file is sound, and nothing was given up."""
    [(sound,)] = db.execute("PRAGMA integrity_check(1)").fetchall()
    if sound != "ok":
        report.find("broken", f"integrity_check: {sound}")
    for seq, text in db.execute("SELECT seq, text FROM outbox WHERE state = ?", (_DEAD,)):
        report.find("lost", f"reply {seq} was given up: {str(text)[:200]}")
    for source, code, reason in db.execute("SELECT source, code, reason FROM dead_letters"):
        report.find("lost", f"a dead letter of the {source}: {code}: {reason}")
