"""Compares what people said and were told at the fake Telegram with the daemon's store, read with SQL of its own."""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import apsw
import msgspec

from daycare.base.messages import Message
from daycare.testing.telegram_server import FakeTelegram
from daycare.testing.telegram_server import Message as Sent
from tests.telegram.campaign.mind import names, units
from tests.telegram.campaign.report import Report
from tests.telegram.campaign.stage import Room

MARK: Final = "may be a duplicate"
_DONE, _DEAD = 1, 2
_decode_history: Final = msgspec.json.Decoder(tuple[Message, ...]).decode


@dataclass
class Said:
    """Something a person said. `key` is that of its inbox row; an edit's key only begins so."""

    name: str
    room: Room
    sender: int
    key: str
    thread: int | None = None
    edit_of: str = ""


@dataclass
class Store:
    """The tables as the judge needs them."""

    rows: dict[str, list[tuple[int, int | None]]] = field(default_factory=dict)  # key: (state, turn)
    heard: dict[str, list[int]] = field(default_factory=dict)  # name: turns that read it
    answered: dict[str, list[int]] = field(default_factory=dict)  # name: turns whose answer names it
    parked: int = 0
    turns: int = 0


def read(db: apsw.Connection) -> Store:
    """Read what matters."""
    found = Store()
    for key, state, turn in db.execute("SELECT key, state, turn FROM inbox NOT INDEXED ORDER BY seq"):
        entry = int(str(state)), None if turn is None else int(str(turn))
        found.rows.setdefault(str(key), []).append(entry)
    query = "SELECT turn, messages FROM history WHERE state NOT IN ('continued', 'split') ORDER BY turn"
    for turn, messages in db.execute(query):
        found.turns += 1
        for message in _decode_history(str(messages)):
            into = found.heard if message.role == "user" else found.answered
            if message.role == "user" or (message.role == "assistant" and not message.tool_calls):
                for name in names(message.text):
                    into.setdefault(name, []).append(int(str(turn)))
    [(parked,)] = db.execute("SELECT count(*) FROM dead_letters WHERE source <> 'intake'").fetchall()
    found.parked = int(str(parked))
    return found


def left_over(db: apsw.Connection, report: Report) -> None:
    """After quiet nothing waits, and the file is sound."""
    [(sound,)] = db.execute("PRAGMA integrity_check(1)").fetchall()
    if sound != "ok":
        report.find("broken", f"integrity_check: {sound}")
    for source, code, reason in db.execute("SELECT source, code, reason FROM dead_letters WHERE code <> 'UNREADABLE'"):
        report.find("lost", f"a dead letter of the {source}: {code}: {reason}")


# == in ================================================================================================================


def judge_inbox(store: Store, said: Sequence[Said], report: Report) -> None:
    """Each message has one row, and is read in one turn; an edit may stand in its place."""
    edits: dict[str, list[Said]] = defaultdict(list)
    for one in said:
        if one.edit_of:
            edits[one.edit_of].append(one)
    for prefix, group in _by_prefix(said).items():
        rows = sum(len(found) for key, found in store.rows.items() if key.startswith(prefix))
        if rows != len(group):
            report.find("lost" if rows < len(group) else "doubled", f"{rows} rows of {len(group)} edits {prefix}*")
    for one in said:
        if not one.edit_of:
            _judge_row(store, one, report)
        _judge_heard(store, one, edits.get(one.edit_of or one.name, []), report)


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


def _judge_heard(store: Store, one: Said, edits: list[Said], report: Report) -> None:
    heard = store.heard.get(one.name, [])
    if len(heard) > 1:
        report.find("doubled", f"{one.name} was read in turns {heard}")
    if heard or any(state == _DEAD for state, _ in store.rows.get(one.key, [])):
        return
    if one.edit_of:
        stands = any(_number(edit) > _number(one) and store.heard.get(edit.name) for edit in edits)
    else:
        turns = {turn for _, turn in store.rows.get(one.key, [])}
        stands = any(turns & set(store.heard.get(edit.name, [])) for edit in edits)
    if not stands:
        report.find("lost", f"{one.name} was read in no turn, nor was an edit in its place")


def _number(edit: Said) -> int:
    return int(edit.name.rpartition(".")[2])


# == out ===============================================================================================================


@dataclass
class Delivered:
    """What came of the answers in all chats."""

    messages: int = 0
    marked: int = 0
    repeats: list[Sent] = field(default_factory=list)  # messages that say nothing new
    first: dict[str, Sent] = field(default_factory=dict)  # by unit


def delivered(server: FakeTelegram, rooms: Sequence[Room], report: Report) -> Delivered:
    """Look at what the bot sent: nothing twice without the mark, and each room's units in order."""
    found = Delivered()
    for room in rooms:
        unmarked: Counter[str] = Counter()
        for message in server.sent(room.id):
            said = [unit for unit in units(message.text) if not _is_preview(message)]
            if not said:
                continue
            found.messages += 1
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


def judge_answers(store: Store, found: Delivered, said: Sequence[Said], report: Report) -> None:
    """Every answer that a turn gave has arrived, each name is in the answers of one turn, and in the senders' order."""
    for name, turns in store.answered.items():
        if len(turns) > 1:
            report.find("doubled", f"{name} was answered in turns {turns}")
        if name not in found.first:
            report.find("lost", f"the answer to {name}")
    newest: dict[tuple[int, int | None, int], tuple[int, str]] = {}
    for one in said:
        message = found.first.get(one.name)
        if one.edit_of or one.name.endswith("b") or message is None:
            continue
        place = (one.room.id, one.thread, one.sender)
        before = newest.get(place, (0, ""))
        if message.id < before[0]:
            report.find("reordered", f"{one.name} was answered before {before[1]}")
        newest[place] = max(before, (message.id, one.name))
