"""Dialogues with questions whose evidence is known, in the form of LoCoMo (Maharana et al., ACL 2024).

Its licence is CC BY-NC 4.0: it is read where it lies, for measuring, and is no part of this project.
"""

import json
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple

from daycare.base.memories import NewMemory, Tier
from daycare.base.messages import Origin
from daycare.features.memory.store.records import EndedTurn
from daycare.features.memory.store.rows import MemoryRows
from daycare.store.sqlite.store import Store

from . import population

_SESSION: Final = re.compile(r"session_(\d+)")
_WHEN: Final = "%I:%M %p on %d %B, %Y"
_BETWEEN_MS: Final = 30_000  # two turns of a session: of a session the file tells the beginning only
_DAY_MS: Final = 86_400_000
ADVERSARIAL: Final = 5  # the category of questions that name the wrong speaker
CATEGORIES: Final = {1: "multi-hop", 2: "time", 3: "open", 4: "single-hop"}


class Said(NamedTuple):
    """A turn of a dialogue."""

    id: str
    session: int
    speaker: str
    text: str
    at_ms: int


class Asked(NamedTuple):
    """A question, and the places of the turns that answer it."""

    text: str
    category: int
    evidence: tuple[int, ...]


class Dialogue(NamedTuple):
    """A dialogue of two people over months. It is asked about at `asked_ms`, a day after its end."""

    id: str
    said: tuple[Said, ...]
    asked: tuple[Asked, ...]

    @property
    def asked_ms(self) -> int:
        return max(turn.at_ms for turn in self.said) + _DAY_MS


def read(data: Path) -> list[Dialogue]:
    """Return the dialogues of a file; questions without evidence are left out."""
    return [_dialogue(sample) for sample in json.loads(data.read_text(encoding="utf-8"))["samples"]]


def _dialogue(sample: dict[str, Any]) -> Dialogue:
    conversation = sample["conversation"]
    sessions = sorted(int(found[1]) for key in conversation if (found := _SESSION.fullmatch(key)))
    said = []
    for session in sessions:
        begin = datetime.strptime(conversation[f"session_{session}_date_time"], _WHEN).replace(tzinfo=UTC)
        at_ms = int(begin.timestamp() * 1000)
        for number, turn in enumerate(conversation[f"session_{session}"]):
            shown = f" [shares {turn['blip_caption']}]" if turn.get("blip_caption") else ""
            text = f"{turn['text']}{shown}"
            said.append(Said(turn["dia_id"], session, turn["speaker"], text, at_ms + number * _BETWEEN_MS))
    places = {turn.id: place for place, turn in enumerate(said)}
    asked = [
        Asked(each["question"], each["category"], tuple(places[turn] for turn in each["evidence"]))
        for each in sample["qa"]
        if each["evidence"]
    ]
    return Dialogue(sample["sample_id"], tuple(said), tuple(asked))


def joined(dialogues: Sequence[Dialogue]) -> Dialogue:
    """Return all dialogues as one, which is as long as they are together."""
    said: list[Said] = []
    asked: list[Asked] = []
    for dialogue in dialogues:
        begin, sessions = len(said), said[-1].session if said else 0
        said += [turn._replace(session=sessions + turn.session) for turn in dialogue.said]
        asked += [each._replace(evidence=tuple(begin + place for place in each.evidence)) for each in dialogue.asked]
    return Dialogue("+".join(dialogue.id for dialogue in dialogues), tuple(said), tuple(asked))


async def keep(store: Store, dialogues: Sequence[Dialogue]) -> list[list[int]]:
    """Log the dialogues, each in a scope of its own, as what was said in turns 1 and up; return their numbers.

    `memories.open_turns` has made the turns.
    """
    turns = count(1)
    return [await _keep(store, dialogue, turns) for dialogue in dialogues]


async def _keep(store: Store, dialogue: Dialogue, turns: Iterator[int]) -> list[int]:
    agent_id = population.agent_id(0)
    entries = [
        NewMemory(
            tier=Tier.LOG,
            scope=dialogue.id,
            user=population.USER,
            agent_id=agent_id,
            path=population.path(0),
            origin=Origin.PERSON,
            text=each.text,
            at_ms=each.at_ms,
            session=each.session,
            turn=next(turns),
            speaker=each.speaker,
            role="user",
        )
        for each in dialogue.said
    ]
    ended = [
        EndedTurn(turn=it.turn, agent_id=agent_id, session=it.session, ended_at=it.at_ms, trace="", messages=())
        for it in entries
    ]
    return await store.of(MemoryRows).log(ended, entries)
