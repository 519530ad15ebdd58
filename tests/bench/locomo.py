"""Dialogues with questions whose evidence is known, in the form of LoCoMo (Maharana et al., ACL 2024).

Its licence is CC BY-NC 4.0: it is read where it lies, for measuring, and is no part of this project.
"""

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple

from daycare.base.messages import Origin
from daycare.store.contract import Store
from daycare.store.records_memories import EndedTurn, NewMemory, Tier

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
        return self.said[-1].at_ms + _DAY_MS


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


async def keep(store: Store, dialogues: Sequence[Dialogue], *, together: bool = False) -> list[list[int]]:
    """Log the dialogues as what was said in turns 1 and up, each in a scope of its own; return their numbers.

    `together`: all in one scope, each as another agent's conversation. `memories.open_turns` has made the turns.
    """
    turns = count(1)
    return [
        await _keep(store, dialogue, next(iter(dialogues)).id if together else dialogue.id, agent, turns)
        for agent, dialogue in enumerate(dialogues)
    ]


async def _keep(store: Store, dialogue: Dialogue, scope: str, agent: int, turns: Any) -> list[int]:
    agent_id, path = population.agent_id(agent), population.path(agent)
    entries = [
        NewMemory(
            tier=Tier.LOG,
            scope=scope,
            user=population.USER,
            agent_id=agent_id,
            path=path,
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
    numbers: list[int] = await store.memories.log(ended, entries)
    return numbers
