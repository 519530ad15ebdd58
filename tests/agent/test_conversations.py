"""Conversations as prompts show them: each turn is read and stamped once, and what is shown is what the store has."""

import random
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from msgspec.structs import replace

from daycare.agent import conversations, prompt
from daycare.agent.conversations import Conversations
from daycare.base.messages import Message
from daycare.features import open_store
from daycare.features.memory.store.rows import MemoryRows
from daycare.store.records import Turn
from daycare.testing.daemon import open_daemon
from daycare.testing.scripted import Scripted
from tests.store.samples import EPOCH_MS, HandClock, begin, end, said
from tests.vm import counted

ALL = {"after": 0, "before": 2**62, "max_chars": 1_000_000}


def heard(text: str) -> Message:
    """Return what a person says, with the time of it."""
    return replace(said(text), at_ms=EPOCH_MS)


async def test_each_message_of_a_conversation_is_stamped_once_in_its_turn_and_once_after_it(
    tmp_path: Path, autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    stamp, stamps = prompt._stamp, 0

    def count(message: Message, zone: ZoneInfo) -> Message:
        nonlocal stamps
        stamps += 1
        return stamp(message, zone)

    monkeypatch.setattr(prompt, "_stamp", count)
    async with open_daemon(tmp_path) as house:
        for number in range(40):
            await house.talk(f"{number}")
        assert stamps == 2 * 40 - 1
        assert len(house.model.history[-1].messages) == 2 * 40 - 1


@pytest.mark.parametrize("known", [False, True], ids=["read", "known"])
async def test_the_hundredth_turn_of_a_conversation_takes_no_more_steps_to_read_than_the_tenth(
    tmp_path: Path, autojump_clock: object, known: bool
) -> None:
    steps = {}
    async with open_daemon(tmp_path) as house:
        for number in range(1, 101):
            if not known:
                house.store._tails._tails.clear()
            with counted(house.store) as found:
                await house.talk(f"{number}")
            steps[number] = sum(count for sql, count in found.items() if "LEFT JOIN history" in sql)
    assert steps[100] == steps[10] and (steps[100] == 0) == known, "what was committed here is not read again"


async def test_a_prompt_is_the_same_whether_the_conversation_was_read_before_or_not(
    tmp_path: Path, autojump_clock: object
) -> None:
    model = Scripted()
    async with open_daemon(tmp_path, model, location="daycare.db") as house:
        for number in range(5):
            await house.talk(f"{number}")
        house.daemon.contexts.conversations.forget()
        await house.talk("last")
        [once, again] = (request.messages for request in model.history[-2:])
        assert once == again[: len(once)]


async def test_a_turn_is_stamped_again_when_its_person_moves_to_another_zone(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with open_daemon(tmp_path) as house:
        await house.talk("first")
        ann = await house.store.people.get("ann")
        assert ann is not None
        await house.store.people.change("ann", name=ann.name, zone="Asia/Tokyo")
        await house.talk("second")
        assert all("JST" in message.text for message in house.model.history[-1].messages if message.role == "user")


async def test_what_is_read_is_what_is_stored_whatever_ends_in_whatever_order(tmp_path: Path) -> None:
    for seed in range(60):
        dice = random.Random(seed)
        async with open_store("memory:", HandClock()) as store:
            kept = Conversations(store.summaries)
            running: list[Turn] = []
            after = 0
            for number in range(25):
                agent, turn, _ = await begin(store, f"{seed}:{number}")
                running.append(turn)
                while running and dice.random() < 0.6:
                    history = (heard("x" * dice.choice((1, 50, 400))),) if dice.random() < 0.8 else ()
                    ended = running.pop(dice.randrange(len(running)))
                    await store.turns.finish(agent, ended, end(ended, history=history))
                if dice.random() < 0.1:
                    after = dice.randint(0, number)  # a summary, or one that was forgotten
                wanted = {"after": after, "before": turn.turn, "max_chars": dice.choice((300, 1_000, 1_000_000))}
                if dice.random() < 0.2:
                    wanted["before"] = 2**62
                found = await kept.newest(agent.id, 1, "UTC", **wanted)
                fresh = await Conversations(store.summaries).newest(agent.id, 1, "UTC", **wanted)
                stored = await Conversations(store.summaries).newest(
                    agent.id, 1, "UTC", **(wanted | {"max_chars": 10**9})
                )
                why = f"seed {seed}, {number}: {wanted}"
                assert found.turns == stored.turns[len(stored.turns) - len(found.turns) :], why
                assert not found.whole or len(found.turns) == len(stored.turns), why
                assert len(found.turns) >= len(fresh.turns), why  # which counts turns that said nothing as well
                chars = sum(turn.past.chars for turn in found.turns)
                assert chars <= wanted["max_chars"] or len(found.turns) == 1, why


async def test_what_was_forgotten_is_in_no_later_prompt(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        await house.talk("my secret is Miso")
        agent = await house.agent("/ann/direct")
        [turn] = (await house.store.summaries.newest(agent.id, 1, **ALL)).turns
        await house.talk("hello")
        await house.store.of(MemoryRows).forget("ann", [], turns=[(agent.id, turn.turn)])
        await house.talk("again")
        assert "Miso" not in str(house.model.history[-1].messages)


async def test_the_conversations_read_last_are_kept_up_to_a_bound(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(conversations, "KNOWN_MAX_CHARS", 10_000)
    async with open_store("memory:", HandClock()) as store:
        kept = Conversations(store.summaries)
        for number in range(10):
            path = f"/u1/agent/a{number}"
            agent, turn, _ = await begin(store, f"{number}", to=path)
            await store.turns.finish(agent, turn, end(turn, history=(heard("x" * 3_000),)))
            assert len((await kept.newest(agent.id, 1, "UTC", **ALL)).turns) == 1
        assert len(kept._known) == 2 and kept._size == sum(known.size for known in kept._known.values())
