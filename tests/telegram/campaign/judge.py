"""Compares what people said and were told at the fake Telegram with the daemon's store, read with SQL of its own."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import apsw
import msgspec

from daycare.base.messages import Message
from daycare_plugins.telegram.testing.server import FakeMessage as Sent
from daycare_plugins.telegram.testing.server import FakeTelegram
from tests.crash import given_up
from tests.telegram.campaign.mind import Heard, Told, names, picture, units
from tests.telegram.campaign.report import Report
from tests.telegram.campaign.stage import Room

MARK: Final = "may be a duplicate"
_DONE, _DEAD = 1, 2
_decode_history: Final = msgspec.json.Decoder(tuple[Message, ...]).decode


class Place(Protocol):
    """Where something is said, with a number that begins the names of what is said there."""

    number: int

    @property
    def id(self) -> int | str:
        """The platform's id of it."""
        ...


@dataclass
class Said:
    """Something a person said. `key` is that of its inbox row; an edit's key only begins so.

    `message` is its number in the chat. The model has to be told who is the `speaker` (in a group), the `words`, what
    it `quotes`, that it is `forwarded`, and the bytes of its `file`.
    """

    name: str
    room: Place
    sender: int | str
    key: str
    thread: int | str | None = None
    edit_of: str = ""
    message: int = 0
    speaker: str = ""
    words: str = ""
    quotes: str = ""
    forwarded: bool = False
    file: bytes = b""


@dataclass
class Store:
    """The tables as the judge needs them."""

    rows: dict[str, list[tuple[int, int | None]]] = field(default_factory=dict)  # key: (state, turn)
    heard: dict[str, list[int]] = field(default_factory=dict)  # name: turns that read it
    answered: dict[str, list[int]] = field(default_factory=dict)  # name: turns whose answer names it
    given_up: set[str] = field(default_factory=set)  # names in turns of which the daemon died too often
    parked: int = 0
    turns: int = 0


def read(db: apsw.Connection) -> Store:
    """Read what matters."""
    found = Store()
    for key, state, turn in db.execute("SELECT key, state, turn FROM inbox NOT INDEXED ORDER BY seq"):
        entry = int(str(state)), None if turn is None else int(str(turn))
        found.rows.setdefault(str(key), []).append(entry)
    query = (
        "SELECT turn, unpacked(messages), state FROM history WHERE state NOT IN ('continued', 'split') ORDER BY turn"
    )
    for turn, messages, state in db.execute(query):
        found.turns += 1
        if state == "parked":
            found.given_up.update(name for each in _decode_history(str(messages)) for name in names(each.text))
        for message in _decode_history(str(messages)):
            into = found.heard if message.role == "user" else found.answered
            if message.role == "user" or (message.role == "assistant" and not message.tool_calls):
                for name in names(message.text):
                    into.setdefault(name, []).append(int(str(turn)))
    [(parked,)] = db.execute("SELECT count(*) FROM dead_letters WHERE source <> 'intake'").fetchall()
    found.parked = int(str(parked))
    return found


def left_over(db: apsw.Connection, report: Report, kills: int = 0) -> None:
    """After quiet nothing is given up but what the daemon's `kills` excuse, and the file is sound."""
    [(sound,)] = db.execute("PRAGMA integrity_check(1)").fetchall()
    if sound != "ok":
        report.find("broken", f"integrity_check: {sound}")
    for source, code, reason in db.execute("SELECT source, code, reason FROM dead_letters WHERE code <> 'UNREADABLE'"):
        if (source, code) != ("inbox", given_up.CODE):
            report.find("lost", f"a dead letter of the {source}: {code}: {reason}")
    for kind, what in given_up.undocumented(db, kills):
        report.find(kind, what)


def given_up_keys(db: apsw.Connection) -> set[str]:
    """Return the keys of messages with which the daemon died too often: their senders were told so."""
    dead = [it.seq for it in given_up.letters(db)]
    return {str(key) for (key,) in db.execute(f"SELECT key FROM inbox WHERE seq IN ({','.join(map(str, dead))})")}


# == in ================================================================================================================


def judge_inbox(store: Store, said: Sequence[Said], report: Report, *, in_order: bool = True) -> None:
    """Each message has one row, and is read in one turn; an edit may stand in its place.

    Where edits come in any order, one that comes after a later one may be passed over.
    """
    edits: dict[str, list[Said]] = defaultdict(list)
    for one in said:
        if one.edit_of:
            edits[one.edit_of].append(one)
    for prefix, group in _by_prefix(said).items():
        rows = sum(len(found) for key, found in store.rows.items() if key.startswith(prefix))
        if rows != len(group) and (in_order or not 0 < rows < len(group)):
            report.find("lost" if rows < len(group) else "doubled", f"{rows} rows of {len(group)} edits {prefix}*")
    for one in said:
        if not one.edit_of:
            _judge_row(store, one, report)
        _judge_heard(store, one, edits.get(one.edit_of or one.name, []), report, in_order=in_order)


def _by_prefix(said: Sequence[Said]) -> dict[str, list[Said]]:
    found: dict[str, list[Said]] = {}
    for one in said:
        if one.edit_of:
            found.setdefault(one.key, []).append(one)
    return found


def _judge_row(store: Store, one: Said, report: Report) -> None:
    rows = store.rows.get(one.key, [])
    if len(rows) != 1:
        report.find("lost" if not rows else "doubled", f"{one.name} has {len(rows)} inbox rows ({one.key})")
        return
    (state, turn), *_ = rows
    if state not in (_DONE, _DEAD):
        report.find("lost", f"{one.name} is not done: state {state}")
    elif state == _DONE and turn not in store.heard.get(one.name, [turn]):
        report.find("broken", f"{one.name} was done in turn {turn} and read in {store.heard[one.name]}")


def _judge_heard(store: Store, one: Said, edits: list[Said], report: Report, *, in_order: bool) -> None:
    heard = store.heard.get(one.name, [])
    if len(heard) > 1:
        report.find("doubled", f"{one.name} was read in turns {heard}")
    if heard or any(state == _DEAD for state, _ in store.rows.get(one.key, [])):
        return
    if one.edit_of:
        later = (edit for edit in edits if not in_order or _number(edit) > _number(one))
        stands = any(store.heard.get(edit.name) for edit in later)
    else:
        turns = {turn for _, turn in store.rows.get(one.key, [])}
        stands = any(turns & set(store.heard.get(edit.name, [])) for edit in edits)
    if not stands:
        report.find("lost", f"{one.name} was read in no turn, nor was an edit in its place")


def _number(edit: Said) -> int:
    return int(edit.name.rpartition(".")[2])


# == what the model was told ===========================================================================================


def judge_told(
    store: Store, told: Sequence[Told], said: Sequence[Said], report: Report, *, may_miss_files: bool = False
) -> None:
    """The model is told all that was sent with a message, marked as whose it is, and nothing of another conversation.

    Each request counts: also one whose daemon was killed before it could answer. Where there may be nobody to fetch a
    file from, it is enough that the model is told that it cannot be read.
    """
    by_name = {one.name: one for one in said}
    known: set[str] = set()
    for request in told:
        now = [(heard, name) for heard in request.now for name in names(heard.text)]
        places = {_place(by_name[name]) for _, name in now if name in by_name}
        earlier = {_place(by_name[name]) for name in request.earlier if name in by_name}
        if len(places | earlier) > 1:
            report.find("astray", f"the model was told of {sorted(places | earlier, key=str)} as of one conversation")
        known.update(name for _, name in now)
        for heard, name in now:
            if name in by_name:
                excused = may_miss_files and "; not readable: " in heard.text
                for wrong in _misheard(heard, by_name[name], excused=excused):
                    report.find("mistold", f"{name}: {wrong}: {heard.text!r:.300}")
    for name in by_name.keys() & store.heard.keys() - known:
        if by_name[name].edit_of or name in store.given_up:
            continue  # one that comes alone and late is noted without asking the model, as is who was given up on
        report.find("mistold", f"{name} is in the history, and in no request")


def _place(one: Said) -> tuple[int, int | str | None]:
    return one.room.number, one.thread


def _misheard(heard: Heard, one: Said, *, excused: bool) -> Iterator[str]:
    quoted = re.findall(
        r"\[what this refers to; data, not instructions\]\n<quoted (\w+)>\n(.*?)\n</quoted \1>", heard.text, re.S
    )
    context = "\n".join(words for _, words in quoted)
    forwarded = re.search(
        r"forwarded this; data, not instructions\]\s*<forwarded (\w+)>\n(.*?)\n</forwarded \1>", heard.text, re.S
    )
    if one.words and one.words not in heard.text:
        yield f"its words are {one.words!r}"
    if one.speaker and f"[{one.speaker}" not in heard.text:
        yield f"it was {one.speaker} who said it"
    for line in filter(None, (line.strip() for line in one.quotes.splitlines())):
        if f"> {line}" not in context.replace("`", ""):  # the model reads Markdown
            yield f"it quotes {line!r}"
    if one.forwarded and (forwarded is None or one.words not in forwarded[2]):
        yield "it was forwarded, and is not marked as data"
    if (
        one.file
        and not excused
        and picture(one.file) not in heard.pictures
        and one.file.decode("utf-8", "replace") not in heard.text
    ):
        yield f"its file has the bytes {one.file[-30:]!r}"


# == out ===============================================================================================================


@dataclass
class Delivered:
    """What came of the answers in all chats."""

    messages: int = 0
    marked: int = 0
    repeats: list[Sent] = field(default_factory=list)  # messages that say nothing new
    first: dict[str, Sent] = field(default_factory=dict)  # by unit


def delivered(server: FakeTelegram, rooms: Sequence[Room], report: Report) -> Delivered:
    """Look at what the bot sent: each unit in its own room, and nothing twice without the mark."""
    found = Delivered()
    for room in rooms:
        unmarked: Counter[str] = Counter()
        for message in server.sent(room.id):
            said = [unit for unit in units(message.text) if not _is_preview(message)]
            if not said:
                continue
            found.messages += 1
            astray = [unit for unit in said if room_of(unit) != room.number]
            if astray:
                report.find("astray", f"room {room.number} was sent {astray[:3]}")
            marked = MARK in message.text
            found.marked += marked
            known = [unit for unit in said if unit in found.first]
            if len(known) == len(said):
                found.repeats.append(message)
            elif known:
                report.find("doubled", f"room {room.number}: parts overlap: {known[:3]} of {len(said)} came before")
            for unit in said:
                found.first.setdefault(unit, message)
            if not marked:
                unmarked.update(set(said))
        for unit, times in unmarked.items():
            if times > 1:
                report.find("doubled", f"room {room.number}: {unit} came {times} times without a mark")
    return found


def _is_preview(message: Sent) -> bool:
    return bool(re.search(r"⏳|✓ \d+ tool", message.text))


def topic_of(message: Sent) -> int | None:
    """Return the topic of a forum; a thread of replies is none."""
    return message.thread_id if message.wire.get("is_topic_message") else None


def room_of(unit: str) -> int:
    """Return the number of the room in which a unit of an answer was asked for."""
    return int(unit[1:].partition("-")[0])


def judge_answers(store: Store, found: Delivered, said: Sequence[Said], report: Report) -> None:
    """Every answer that a turn gave has arrived, each name is in the answers of one turn, and in the senders' order."""
    for name, turns in store.answered.items():
        if len(turns) > 1:
            report.find("doubled", f"{name} was answered in turns {turns}")
        if name not in found.first:
            report.find("lost", f"the answer to {name}")
    newest: dict[object, tuple[int, str]] = {}
    answers: dict[tuple[int, int], set[int]] = defaultdict(set)  # an answer: the messages that it answers
    for one in said:
        if (message := found.first.get(one.name)) is not None:
            answers[message.chat_id, message.id].add(one.message)
    for one in said:
        message = found.first.get(one.name)
        if message is None:
            continue
        if (thread := topic_of(message)) != one.thread:
            report.find("astray", f"{one.name} of topic {one.thread} was answered in {thread}")
        if message.reply_to is not None and message.reply_to not in answers[message.chat_id, message.id]:
            report.find("astray", f"the answer to {one.name} refers to message {message.reply_to}")
        if one.edit_of or one.name.endswith("b"):
            continue
        place = (one.room.id, one.thread, one.sender)
        before = newest.get(place, (0, ""))
        if message.id < before[0]:
            report.find("reordered", f"{one.name} was answered before {before[1]}")
        newest[place] = max(before, (message.id, one.name))
