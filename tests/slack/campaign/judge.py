"""Compares what people said and were told in the fake workspace with the daemon's store."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from daycare_plugins.slack.testing.server import FakeWorkspace
from daycare_plugins.slack.testing.world import Message
from tests.slack.campaign.stage import SlackRoom
from tests.telegram.campaign.judge import MARK, Said, Store, room_of
from tests.telegram.campaign.mind import units
from tests.telegram.campaign.report import Report

KINDS: Final = (  # each must be 0
    *("lost", "doubled", "reordered", "astray", "mistold", "left", "confirmed_early", "strangers_in", "broken"),
)


@dataclass
class SlackDelivered:
    """What came of the answers in all rooms."""

    messages: int = 0
    marked: int = 0
    repeats: list[tuple[str, Message]] = field(default_factory=list)  # (channel, message) that says nothing new
    first: dict[str, tuple[int, Message]] = field(default_factory=dict)  # by unit: which message of its room it is
    there: dict[str, set[str]] = field(default_factory=dict)  # by channel: the messages that nobody has deleted


def delivered(
    slack: FakeWorkspace, rooms: Sequence[SlackRoom], report: Report, *, replied: Mapping[str, int] | None = None
) -> SlackDelivered:
    """Look at what the app sent: each unit in its own room, nothing twice without the mark, no status that stays.

    `replied` says how many replies name a file: a turn that is given up hands out those that it had made.
    """
    found = SlackDelivered()
    for room in rooms:
        unmarked: Counter[str] = Counter()
        found.there[room.id] = set(slack.channels[room.id].messages)
        for number, message in enumerate(slack.sent(room.id)):
            if "metadata" not in message and not message.get("files") and units(message["text"]):
                report.find("left", f"room {room.number} still shows {message['text'][:80]!r}")
                continue
            said = units(_words(slack, message))
            if not said:
                continue
            found.messages += 1
            if astray := [unit for unit in said if room_of(unit) != room.number]:
                report.find("astray", f"room {room.number} was sent {astray[:3]}")
            marked = MARK in message["text"]
            found.marked += marked
            known = [unit for unit in said if unit in found.first]
            if len(known) == len(said):
                found.repeats.append((room.id, message))
            elif known:
                report.find("doubled", f"room {room.number}: parts overlap: {known[:3]} of {len(said)} came before")
            for unit in said:
                found.first.setdefault(unit, (number, message))
            if not marked:
                unmarked.update(set(said))
        for unit, times in unmarked.items():
            if times > max(1, (replied or {}).get(unit, 1)):
                report.find("doubled", f"room {room.number}: {unit} came {times} times without a mark")
    return found


def _words(slack: FakeWorkspace, message: Message) -> str:
    """Return what a message says, or the name of its file."""
    files = [slack.files[each["id"]].name for each in message.get("files", ())]
    return " ".join([message["text"], *files])


def judge_answers(store: Store, found: SlackDelivered, said: Sequence[Said], report: Report, *, in_order: bool) -> None:
    """Every answer that a turn gave has arrived, each name is in the answers of one turn, and in its thread.

    Where the message that began a thread was deleted, an answer is said in the channel.
    """
    for name, turns in store.answered.items():
        if len(turns) > 1:
            report.find("doubled", f"{name} was answered in turns {turns}")
        if name not in found.first:
            report.find("lost", f"the answer to {name}")
    newest: dict[object, tuple[int, str]] = defaultdict(lambda: (-1, ""))
    for one in said:
        if one.name not in found.first:
            continue
        number, message = found.first[one.name]
        thread = message.get("thread_ts", "")
        gone = not thread and one.thread not in found.there[str(one.room.id)]
        if one.thread is not None and thread != one.thread and not gone:
            report.find("astray", f"{one.name} of thread {one.thread} was answered in {thread or 'none'}")
        if not in_order or one.edit_of or one.name.endswith("b"):
            continue
        place = (one.room.id, one.thread, one.sender)
        if number < newest[place][0]:
            report.find("reordered", f"{one.name} was answered before {newest[place][1]}")
        newest[place] = max(newest[place], (number, one.name))


def judge_deleted(store: Store, names: Sequence[str], report: Report) -> None:
    """What its people took back was read once at most, and answered only if it was read."""
    for name in names:
        heard, answered = store.heard.get(name, []), store.answered.get(name, [])
        if len(heard) > 1 or len(answered) > len(heard):
            report.find("doubled", f"{name} was deleted, read in turns {heard} and answered in {answered}")
