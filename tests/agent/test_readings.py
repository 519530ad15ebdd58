"""What conversations have read: each turn is looked at once, and what is told is what the whole history tells."""

import random
from pathlib import Path

import pytest
from msgspec.structs import replace

from daycare.agent import readings
from daycare.agent.readings import Looked, Readings, look
from daycare.base.limits import SESSION_LOOKED_AT_MAX
from daycare.base.messages import Message, Origin, Text, Told, ToolResult
from daycare.features import open_store
from daycare.features.memory.store.rows import MemoryRows
from daycare.store.records import Turn
from daycare.testing.daemon import open_daemon
from tests.store.samples import EPOCH_MS, HandClock, begin, end, said

TRUSTED = frozenset({"now"})


async def test_each_turn_is_looked_at_twice_however_long_the_conversation(
    tmp_path: Path, autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[int] = []

    def counted(messages: list[Message], trusted: frozenset[str]) -> Looked:
        looked.append(len(messages))
        return look(messages, trusted)

    monkeypatch.setattr(readings, "look", counted)
    async with open_daemon(tmp_path) as house:
        for number in range(40):
            await house.talk(f"{number}")
    assert sum(looked) == 2 * 39, "of each but the last, when the next one ends"


async def test_what_is_told_is_what_the_whole_history_tells_whatever_ends_in_whatever_order() -> None:
    for seed in range(12):
        dice = random.Random(seed)
        async with open_store("memory:", HandClock()) as store:
            kept = Readings(store.summaries, TRUSTED)
            running: list[Turn] = []
            for number in range(30):
                agent, turn, _ = await begin(store, f"{seed}:{number}")
                running.append(turn)
                while running and dice.random() < 0.7:
                    ended = running.pop(dice.randrange(len(running)))
                    history = tuple(anything(dice) for _ in range(dice.choice((0, 1, 2, 50))))
                    await store.turns.finish(agent, ended, end(ended, history=history))
                found = await kept.of(agent.id, 1)
                whole = await store.turns.history(agent.id, 1, SESSION_LOOKED_AT_MAX)
                assert found == look(whole, TRUSTED), f"seed {seed}, {number}"


async def test_what_was_forgotten_is_looked_at_again(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        await house.talk("my secret is Miso")
        agent = await house.agent("/ann/direct")
        known = house.daemon.provenance.readings
        await known.of(agent.id, 1)
        assert known._known
        newest = {"after": 0, "before": 2**62, "max_chars": 1_000_000}
        [turn] = (await house.store.summaries.newest(agent.id, 1, **newest)).turns
        await house.store.of(MemoryRows).forget("ann", [], turns=[(agent.id, turn.turn)])
        assert not known._known


def anything(dice: random.Random) -> Message:
    """Return something that somebody or something said."""
    words = dice.choice(("hello", "Memories: 3, 4; words of: file, group\nDocuments: a.md, b.md"))
    kind = dice.choice(("user", "forward", "assistant", "told", "tool", "memory"))
    at_ms = EPOCH_MS + dice.randrange(1_000)
    match kind:
        case "assistant":
            return Message("assistant", (Text(words),), at_ms)
        case "told":
            return Message("assistant", (Text(words),), at_ms, origins=(dice.choice(list(Origin)),))
        case "tool" | "memory":
            name = "memory_search" if kind == "memory" else dice.choice(("now", "fetch"))
            result = ToolResult(call_id="c1", name=name, text=words)
            if kind == "memory" and dice.random() < 0.5:  # as earlier versions kept it otherwise
                result = replace(result, text="", told=Told(paths=("a.md",), origins=(Origin.FILE,)))
            return Message("tool", (result,), at_ms)
    origin = Origin.FORWARD if kind == "forward" else Origin.PERSON
    return replace(said(words), at_ms=at_ms, origin=origin)
