"""What memory workers do when something is in the way: a small model, one that is away, a crash, another worker."""

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import trio
from msgspec.structs import replace

from daycare.agent import tokens
from daycare.base.errors import InvalidError, UnavailableError
from daycare.base.memories import Tier
from daycare.config import Config
from daycare.features.budgets.rows import BudgetRows
from daycare.features.memory.store.records import StoredMemory
from daycare.features.memory.store.rows import MemoryRows
from daycare.plugin import Completion, InferRequest
from daycare.settings import ModelSection, ModelsSection, ProviderSection, with_offline
from daycare.testing.clock import EPOCH_MS, VirtualClock
from daycare.testing.crash import Doom, live
from daycare.testing.daemon import TestDaemon, open_daemon
from daycare.testing.scripted import Scripted, say

_LINE = re.compile(r"^(\d+) \[[^\]]*\] Ann: (.*)$", re.MULTILINE)
_ITEM = re.compile(r"\bitem (\d+)\b")


def lines_of(request: InferRequest) -> list[tuple[int, str]]:
    """Return what Ann said in a request to distil, with the lines' numbers."""
    return [(int(number), text) for number, text in _LINE.findall(request.messages[-1].text)]


def fact(statement: str, line: int, attribute: str = "", value: str = "") -> dict[str, object]:
    plain = {"subject": "Ann", "kind": "fact", "confidence": 0.9, "valid_from": "", "valid_until": ""}
    return plain | {"statement": statement, "sources": [line], "attribute": attribute, "value": value}


def distil(request: InferRequest) -> Completion:
    """Make a fact of each item that somebody spoke of, and an entity of Clara."""
    found = [(line, item) for line, text in lines_of(request) for item in _ITEM.findall(text)]
    facts = [fact(f"Ann has item {item}", line) for line, item in found]
    people = [line for line, text in lines_of(request) if "Clara" in text]
    clara = {"name": "Clara", "kind": "person", "aliases": [], "description": "", "sources": people}
    return say(json.dumps({"facts": facts, "entities": [clara] if people else []}))


def brain(think: Callable[[InferRequest], Completion] = distil) -> Scripted:
    return Scripted(lambda request: say("I see.") if request.output is None else think(request))


def config(**model: Any) -> Config:
    section = ProviderSection(kind="scripted", models={"model": ModelSection(**model)})
    return Config(models=ModelsSection(default="scripted/model"), providers=with_offline({"scripted": section}))


async def kept(house: TestDaemon, tier: Tier = Tier.FACT) -> list[StoredMemory]:
    found = await house.store.of(MemoryRows).find("ann", tier, living=False, limit=1_000)
    return sorted(found, key=lambda memory: memory.no)


async def process(house: TestDaemon) -> int:
    await trio.sleep(5)
    woken = await house.daemon.memory.controls.process()
    await trio.sleep(120)
    return woken


async def say_items(house: TestDaemon, count: int, words: str = "and it is as nice as all the others ") -> None:
    for number in range(count):
        await house.talk(f"I have item {number} {words * 6}")


def items(facts: Sequence[StoredMemory]) -> list[int]:
    return [int(found[1]) for each in facts if (found := _ITEM.search(each.text))]


@pytest.mark.parametrize("words", ["and it is as nice as all the others ", "和其他所有东西一样好我非常喜欢它们"])
async def test_a_small_model_is_asked_about_what_has_room_in_its_window(
    words: str, tmp_path: Path, autojump_clock: object
) -> None:
    model = brain()
    async with open_daemon(tmp_path, model, config=config(context_tokens=8_192, output_tokens=4_096)) as house:
        await say_items(house, 60, words * 2)
        await process(house)
        learned = house.events("memory.learned")
        found = items(await kept(house))
    asked = [request for request in model.history if request.output is not None]
    assert len(asked) > 1
    for request in asked:
        size = tokens.of_text(request.system) + tokens.of_text(request.messages[-1].text)
        assert size + (request.max_output_tokens or 0) < 8_192
    assert found == list(range(60))
    assert {event["by"] for event in learned} == {"scripted/model"}
    assert sum(int(str(event["facts"])) for event in learned) == 60


@pytest.mark.parametrize("how", ["refused", "cut"])
async def test_a_model_for_which_it_was_too_much_is_asked_about_half(
    how: str, tmp_path: Path, autojump_clock: object
) -> None:
    def think(request: InferRequest) -> Completion:
        if len(lines_of(request)) <= 10:
            return distil(request)
        if how == "refused":
            raise InvalidError("CONTEXT_OVERFLOW", "this is too long")
        return replace(say('{"facts": [{"statement": "Ann ha'), finish="length")

    model = brain(think)
    async with open_daemon(tmp_path, model, config=config()) as house:
        await say_items(house, 40)
        await process(house)
        learned = house.events("memory.learned")
        found = items(await kept(house))
        spent = await house.store.of(BudgetRows).total("ann")
    assert found == list(range(40))
    assert {event["by"] for event in learned} == {"scripted/model"}
    asked = [request for request in model.history if request.output is not None]
    assert len(asked) < 12, "what a model takes is remembered within a turn"
    answered = len(model.history) - (sum(len(lines_of(it)) > 10 for it in asked) if how == "refused" else 0)
    assert spent["input_tokens"] == 10 * answered, "what was cut costs as well"


async def test_a_worker_that_waits_for_its_model_or_gives_up_bothers_nobody_and_loses_nothing(
    tmp_path: Path, autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daycare.actors.failures.OUTAGE_MAX_S", 3_600)  # a day, which takes its time here
    away = True

    def think(request: InferRequest) -> Completion:
        if away:
            raise UnavailableError("PROVIDER_UNREACHABLE", "the connection failed")
        return distil(request)

    evening = VirtualClock(EPOCH_MS + 21 * 3_600_000)
    only_theirs = replace(config(), models=ModelsSection(memory="scripted/model"))
    async with open_daemon(tmp_path, brain(think), config=only_theirs, curates=True, clock=evening) as house:
        await say_items(house, 3)
        await trio.sleep(2_000)
        await house.talk("I have item 3")
        await trio.sleep(2_000)
        worker = await house.daemon.directory.at("/ann/direct/memory")
        told = [event for event in house.events("turn.failed") if event["path"] == worker.path]
        assert told and told[0]["code"] == "PROVIDER_AWAY"
        assert (await house.daemon.memory.controls.counts()).uncurated == 8
        assert len(await house.store.inbox.waiting(worker.id)) == 1, "they do not pile up"
        await trio.sleep(4_000)
        assert [letter.path for letter in await house.store.dead.find()] == [worker.path]
        away = False
        await trio.sleep(4_000)
        assert items(await kept(house)) == [0, 1, 2, 3], "on the next day"
        assert (await house.daemon.memory.controls.counts()).uncurated == 0
        notices = [str(event["text"]) for event in house.events("notice")]
        assert all("provider scripted is" in text for text in notices), "of the provider, which others need as well"
        assert not any("/memory" in row.text for row in await house.store.outbox.unread("/ann/direct"))


async def test_what_was_given_up_is_looked_at_when_somebody_asks(
    tmp_path: Path, autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_daemon(tmp_path, brain(), config=config()) as house:
        await say_items(house, 1)
        with monkeypatch.context() as patched:
            patched.setattr(house.store.of(MemoryRows), "mark", None)  # what a worker does first breaks
            assert await process(house) == 1
        [letter] = await house.store.dead.find()
        assert letter.path == "/ann/direct/memory"
        assert await process(house) == 1, "on the same day"
        assert items(await kept(house)) == [0]
        assert await process(house) == 0
        assert house.events("notice") == []


async def test_agents_of_one_person_who_learn_at_the_same_time_learn_of_the_same_people(
    tmp_path: Path, autojump_clock: object
) -> None:
    model = brain()
    async with open_daemon(tmp_path, model, config=config()) as house:
        paths = ["/ann/direct", *(f"/ann/agent/a{number}" for number in range(4))]
        for path in paths[1:]:
            await house.agent(path)
        for number, path in enumerate(paths):
            await house.talk(f"Clara has item {number}", path=path)
        model.enqueue(*[5.0] * len(paths))  # all of them think at the same time
        await process(house)
        [clara] = await kept(house, Tier.ENTITY)
        found = items(await kept(house))
    assert clara.entity is not None
    assert clara.entity.mentions == len(clara.sources) == len(paths)
    assert sorted(found) == list(range(len(paths)))


async def test_a_turn_that_was_interrupted_between_two_pieces_charges_all_its_calls(
    tmp_path: Path, autojump_clock: object
) -> None:
    """A small window makes pieces; the crash comes after the first was learned."""

    async def story(house: TestDaemon) -> None:
        await say_items(house, 40)
        await process(house)

    small = config(context_tokens=4_096, output_tokens=1_024)
    model = brain()
    doom = Doom(
        when="SELECT 1 FROM memory_marks WHERE through < newest AND (SELECT count(*) FROM spend s"
        " JOIN agents a ON a.id = s.agent_id WHERE a.kind = 'memory') = 1"
    )
    assert await live(tmp_path, model, doom, story, config=small, clock=VirtualClock())
    async with open_daemon(tmp_path, model, config=small, location="daycare.db") as house:
        await process(house)
        found = items(await kept(house))
        [(calls,)] = house.store._db.execute(
            "SELECT count(*) FROM spend JOIN agents a ON a.id = agent_id WHERE a.kind = 'memory'"
        ).fetchall()
    assert found == list(range(40))
    asked = [request for request in model.history if request.output is not None]
    assert calls == len(asked) > 1


async def test_a_fact_is_superseded_however_much_was_learned_since(tmp_path: Path, autojump_clock: object) -> None:
    def think(request: InferRequest) -> Completion:
        facts: list[dict[str, object]] = []
        for line, text in lines_of(request):
            colour = text.partition("colour is now ")[2].rstrip(".")
            if colour:
                facts.append(fact(f"Ann's favourite colour is {colour}", line, "favourite colour", colour))
            facts += [
                fact(f"Ann {text} to {chr(97 + n // 26)}{chr(97 + n % 26)}", line)
                for n in range(150)
                if "walks" in text
            ]
        return say(json.dumps({"facts": facts}))

    async with open_daemon(tmp_path, brain(think), config=config()) as house:
        for text in (
            "My favourite colour is now teal.",
            "walks 0-149",
            "walks 0-149 again",
            "My favourite colour is now red.",
        ):
            await house.talk(text)
            await process(house)
        facts = await kept(house)
    teal, red = [each for each in facts if each.fact and each.fact.attribute]
    assert len(facts) == 302
    assert teal.fact is not None and teal.fact.superseded_by == red.no
    assert red.fact is not None and red.fact.valid_until_ms is None


@pytest.mark.parametrize("by", ["scripted/model", "rules"])
async def test_no_fact_is_passed_over_where_there_are_more_than_one_piece_may_have(
    by: str, tmp_path: Path, autojump_clock: object
) -> None:
    model = brain() if by != "rules" else brain(lambda request: say("no JSON"))
    async with open_daemon(tmp_path, model, config=config()) as house:
        for number in range(110):
            await house.talk(
                f"Remember that item {number} is nice. My favourite colour is {number}. I love item {number}."
            )
        await process(house)
        found = {number for each in await kept(house) for number in map(int, _ITEM.findall(each.text))}
        learned = house.events("memory.learned")
    assert found == set(range(110))
    assert {event["by"] for event in learned} == {by}
