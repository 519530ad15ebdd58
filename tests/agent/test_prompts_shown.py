"""What a model was shown can be read afterwards: byte for byte, as long as nothing of it was forgotten."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from daycare.base.documents import Attribution, Layer, NewVersion, Place
from daycare.base.errors import ConflictError, InvalidError, NotFoundError
from daycare.base.messages import Message, Origin
from daycare.config import Config, ModelsSection, ProviderSection
from daycare.features.history.prompt_records import ShownToModel
from daycare.features.history.prompt_rows import PromptRows
from daycare.features.history.prompts import PromptHistory
from daycare.features.history.rows import HistoryRows
from daycare.features.memory.documents.rows import DocumentRows
from daycare.ops.purging import purge
from daycare.plugin import InferRequest
from daycare.store.home import Home
from daycare.store.records import AgentConfig, User
from daycare.testing.daemon import TestDaemon, open_daemon
from daycare.testing.openai_server import FakeOpenAI
from daycare.testing.scripted import Scripted, call, say

SECRET = "the garden gate opens with 4711"


@asynccontextmanager
async def house_at(folder: Path, model: Scripted | None = None) -> AsyncIterator[TestDaemon]:
    async with open_daemon(folder, model, location="daycare.db") as house:
        yield house


def prompts(house: TestDaemon) -> PromptHistory:
    daemon = house.daemon
    return PromptHistory(house.store, daemon.contexts, daemon.memory.recalled_again, daemon.prompts.base_mark)


async def turns(house: TestDaemon) -> list[int]:
    """Return the turns in which a model was shown something."""
    agents = await house.store.agents.find(include_dead=True)
    pages = [await house.store.of(HistoryRows).page(agent.id, before=2**62, limit=200) for agent in agents]
    rows = house.store.of(PromptRows)
    return sorted([turn.turn for page in pages for turn in page.turns if await rows.find(turn.turn)])


async def last_turn(house: TestDaemon) -> int:
    return (await turns(house))[-1]


async def shown(house: TestDaemon, turn: int, call: int | None = None) -> ShownToModel:
    seen = prompts(house)
    return await seen.of(await seen.turn(turn), call)


def spoken(it: ShownToModel) -> list[tuple[str, Any]]:
    told = [each for group in it.conversation for each in group.messages]
    return [(each.role, each.parts) for each in msgspec.convert(told, list[Message])]


def check(it: ShownToModel, sent: InferRequest) -> None:
    """What is shown is what the model has received, byte for byte."""
    assert it.exact and it.changed == ""
    assert "\n\n".join(section.text for section in it.sections) == sent.system
    assert spoken(it) == [(message.role, message.parts) for message in sent.messages]
    assert msgspec.json.encode(it.tools) == msgspec.json.encode(sent.tools)


async def write(house: TestDaemon, name: str, text: str, layer: Layer = Layer.USER, owner: str = "ann") -> None:
    by = Attribution(origin=Origin.PERSON, author="direct:ann")
    await house.store.of(DocumentRows).write(NewVersion(place=Place(layer, owner, name), user="ann", by=by, text=text))


async def test_it_is_what_the_model_received(tmp_path: Path, autojump_clock: object) -> None:
    async with house_at(tmp_path) as house:
        await house.talk("hello")
        check(await shown(house, await last_turn(house)), house.model.history[-1])
        await house.talk("and again")
        it = await shown(house, await last_turn(house))
        check(it, house.model.history[-1])
        assert [section.name for section in it.sections][:2] == ["base", "identity"]
        assert [len(group.messages) for group in it.conversation] == [2, 1]
        assert it.tokens > 0 and all(section.tokens > 0 for section in it.sections)


async def test_each_call_of_a_turn_with_tools_can_be_shown(tmp_path: Path, autojump_clock: object) -> None:
    async with house_at(tmp_path) as house:
        daily = call(("memory_append_daily", {"text": "Ann spoke of her dog"}))
        house.model.enqueue(daily, call(("now", {})), say("done"))
        await house.talk("remember my dog")
        turn = await last_turn(house)
        for number, sent in enumerate(house.model.history, 1):
            it = await shown(house, turn, number)
            assert (it.call, it.calls, it.kept_calls) == (number, 3, (1, 2, 3))
            check(it, sent)
        assert len(await house.store.of(PromptRows).find(turn)) == 1, "they differ by the turn's own messages only"


async def test_merged_messages_stand_in_it_as_one_turn(tmp_path: Path, autojump_clock: object) -> None:
    async with house_at(tmp_path) as house:
        house.model.enqueue(5.0, say("first"))
        receipts = [await house.say("one")]
        await trio.sleep(1)
        receipts += [await house.say("two"), await house.say("three")]
        for receipt in receipts:
            await house.hear(receipt)
        it = await shown(house, await last_turn(house))
        check(it, house.model.history[-1])
        assert len(it.conversation[-1].messages) == 2


async def test_it_stays_what_it_was_when_documents_and_sessions_change(tmp_path: Path, autojump_clock: object) -> None:
    async with house_at(tmp_path) as house:
        for number in range(4):
            await write(house, "SOUL.md", f"You are number {number}.")
            if number == 2:
                await house.talk("/reset")
            await house.talk(f"hello {number}")
        await house.store.people.change("ann", name="Anna", zone="Asia/Tokyo")
        await house.talk("in Tokyo")
        sent = house.model.history
        for turn, request in zip(await turns(house), sent, strict=True):
            check(await shown(house, turn), request)


async def test_what_was_recalled_stands_in_it_and_is_named(tmp_path: Path, autojump_clock: object) -> None:
    async with house_at(tmp_path) as house:
        await house.talk(SECRET)
        while await house.daemon.memory.conversation_log.catch_up():
            pass
        await trio.sleep(60)
        await house.talk("/reset")
        await house.talk("which number opens the garden gate?")
        it = await shown(house, await last_turn(house))
        check(it, house.model.history[-1])
        assert it.sections[-1].name == "memory:log" and SECRET in it.sections[-1].text
        assert [SECRET in each.text for each in it.recalled] == [True] * len(it.recalled) and it.recalled
        await house.store.people.change("ann", name="Ann", zone="Asia/Tokyo")
        check(await shown(house, await last_turn(house)), house.model.history[-1])


async def test_it_is_the_same_after_a_restart(tmp_path: Path, autojump_clock: object) -> None:
    async with house_at(tmp_path) as house:
        await house.talk("hello")
        first, sent = await last_turn(house), house.model.history[-1]
    async with house_at(tmp_path) as house:
        check(await shown(house, first), sent)
        await house.talk("again", key="again")
        check(await shown(house, await last_turn(house)), house.model.history[-1])
        check(await shown(house, first), sent)


async def _kept(house: TestDaemon) -> dict[str, int]:
    rows = house.store.of(PromptRows)
    tables = ("prompts", "prompt_layouts", "prompt_texts")
    return {table: rows._number(f"SELECT count(*) FROM {table}") or 0 for table in tables}


async def test_what_stays_the_same_is_kept_once(tmp_path: Path, autojump_clock: object) -> None:
    async with house_at(tmp_path) as house:
        await house.talk("hello 0")
        before = await _kept(house)
        for number in range(1, 10):
            await house.talk(f"hello {number}")
        await house.talk("/reset")
        await house.talk("hello")
        after = await _kept(house)
        assert after == before | {"prompts": before["prompts"] + 10}
        await write(house, "SOUL.md", "You are short.")
        await house.talk("hello")
        changed = await _kept(house)
        assert changed["prompt_texts"] == after["prompt_texts"] + 1, "one section is new"
        assert changed["prompt_layouts"] == after["prompt_layouts"] + 1


async def test_a_prompt_without_a_change_takes_few_bytes(tmp_path: Path, autojump_clock: object) -> None:
    async with house_at(tmp_path) as house:
        await house.talk("hello")
        rows = house.store.of(PromptRows)
        size = "SELECT sum(pgsize) FROM dbstat WHERE name = 'prompts'"
        for number in range(200):
            await house.talk(f"hello {number}")
        each = (rows._number(size) or 0) / 201
        assert 0 < each < 70, f"{each:.0f} bytes a turn"


async def test_what_plugins_and_helpers_read_is_shown_too(tmp_path: Path, autojump_clock: object) -> None:
    async with house_at(tmp_path) as house:
        house.model.enqueue(call(("spawn", {"task": "count to three"})), say("asked"))
        await house.talk("let somebody count")
        await trio.sleep(60)
        assert len(await turns(house)) == 2, "one of each"
        for turn in await turns(house):
            it = await shown(house, turn)
            [sent] = [each for each in house.model.history if spoken(it) == [(m.role, m.parts) for m in each.messages]]
            check(it, sent)


async def test_a_call_that_failed_or_was_stopped_is_shown_too(tmp_path: Path, autojump_clock: object) -> None:
    async with house_at(tmp_path) as house:
        house.model.enqueue(call(("clock", {})), InvalidError("MODEL_REFUSED", "no"))
        with pytest.raises(ConflictError, match="given up"):
            await house.talk("this fails")
        it = await shown(house, await last_turn(house))
        check(it, house.model.history[-1])
        assert it.calls == 2 and spoken(it)[-1][0] == "tool"
        house.model.enqueue(1_000.0)
        asked = await house.say("this is stopped")
        await trio.sleep(5)
        await house.talk("/stop")
        await house.hear(asked)
        check(await shown(house, await last_turn(house)), house.model.history[-1])


async def test_what_a_memory_worker_read_last_is_shown_too(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, location="daycare.db", curates=True) as house:
        await house.talk("My sister Clara lives in Bern.")
        await trio.sleep(3 * 3_600)
        it = await shown(house, await last_turn(house))
        assert it.path == "/ann/direct/memory" and "Clara" in str(spoken(it))
        check(it, house.model.history[-1])


async def test_a_turn_without_a_model_says_so(tmp_path: Path, autojump_clock: object) -> None:
    async with house_at(tmp_path) as house:
        await house.talk("/help")
        seen = prompts(house)
        with pytest.raises(NotFoundError, match="none that has ended"):
            await seen.turn(4711)
        await house.talk("hello")
        turn = await seen.turn(await last_turn(house))
        with pytest.raises(NotFoundError, match="is not kept"):
            await seen.of(turn, 2)


async def test_what_was_forgotten_is_in_no_prompt(tmp_path: Path, autojump_clock: object) -> None:
    async with house_at(tmp_path) as house:
        agent = await house.agent("/ann/direct", AgentConfig())
        await write(house, "MEMORY.md", "# Memory\n- Ann has a garden.\n", Layer.AGENT, agent.id)
        await house.talk(SECRET)
        await house.talk("the weather is fine")
        first, second = await turns(house)
        assert SECRET in str(await shown(house, second))
        controls = house.daemon.memory.controls
        while await house.daemon.memory.conversation_log.catch_up():
            pass
        await trio.sleep(60)
        found = [each.label for each in await controls.search(agent, SECRET) if SECRET in each.text]
        assert found
        await controls.forget(agent, await controls.plan(agent, found), "direct:ann")
        assert (await _kept(house))["prompt_texts"] == 0
        for turn in (first, second):
            it = await shown(house, turn)
            assert it.sections == () and "forgotten" in it.changed
            assert SECRET not in str(it) and not it.exact and it.changed
        for file in tmp_path.glob("daycare.db*"):
            assert SECRET.encode() not in file.read_bytes()
        await trio.sleep(1)
        await house.talk("hello")
        it = await shown(house, await last_turn(house))
        check(it, house.model.history[-1])


async def test_a_turn_that_read_what_is_forgotten_meanwhile_keeps_no_prompt(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with house_at(tmp_path) as house:
        await house.talk(SECRET)
        while await house.daemon.memory.conversation_log.catch_up():
            pass
        await trio.sleep(60)
        controls, agent = house.daemon.memory.controls, await house.agent("/ann/direct")
        label = (await controls.search(agent, SECRET))[0].label
        await house.agent("/ann/agent/scribe")
        house.model.enqueue(30.0, say("late"))
        receipt = await house.say("hello", path="/ann/agent/scribe")
        await trio.sleep(10)  # its prompt is made, and the model thinks
        await controls.forget(agent, await controls.plan(agent, [label]), "direct:ann")
        assert await house.hear(receipt) == "late"
        assert (await _kept(house))["prompt_texts"] == 0


async def test_it_is_what_came_over_the_wire(tmp_path: Path, nursery: trio.Nursery) -> None:
    async with FakeOpenAI.serve(nursery) as server:
        config = Config(
            models=ModelsSection(default="box/fake-large"),
            providers={"box": ProviderSection(base_url=server.base_url, key="box")},
        )
        server.api_key = key = "sk-test-0123456789abcdef"
        async with open_daemon(tmp_path, config=config) as house:
            await house.store.secrets.put("box", "ann", house.daemon.vault.seal(key))
            for number in range(3):
                await write(house, "SOUL.md", f"You are number {number // 2}.")
                await house.talk(f"hello {number}, [a] <b> \u00fc \U0001f600 \u2028 'quoted'")
            await house.daemon.pool.aclose()
            received = [each.body for each in server.history if each.path.endswith("/chat/completions")]
            kept = await turns(house)
            assert len(kept) == len(received) == 3
            for turn, sent in zip(kept, received, strict=True):
                it = await shown(house, turn)
                system, *said = [(each["role"], each["content"]) for each in sent["messages"]]
                assert it.exact and system == ("system", "\n\n".join(section.text for section in it.sections))
                assert said == [(role, parts[0].text) for role, parts in spoken(it)]
                assert [each["function"]["name"] for each in sent["tools"]] == [tool.name for tool in it.tools]


async def test_what_is_kept_expires_with_the_journal_and_what_is_in_use_stays(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with house_at(tmp_path) as house:
        await write(house, "SOUL.md", "You are old.")
        await house.talk("hello")
        old = await last_turn(house)
        await trio.sleep(1_000)
        await write(house, "SOUL.md", "You are new.")
        await house.talk("hello again")
        before = await _kept(house)
        await trio.sleep(1_000)
        now_ms = house.daemon.clock.now_ms()
        while await house.store.ledger.expire(now_ms - 1_500_000):  # between the two
            pass
        assert await _kept(house) == before | {"prompts": before["prompts"] - 1}
        await house.talk("and now")
        while await house.store.ledger.expire(now_ms - 500_000):
            pass
        assert await _kept(house) == {
            "prompts": 1,
            "prompt_layouts": before["prompt_layouts"] - 1,
            "prompt_texts": before["prompt_texts"] - 1,
        }
        with pytest.raises(NotFoundError, match="is not kept"):
            await shown(house, old)
        check(await shown(house, await last_turn(house)), house.model.history[-1])


async def test_of_an_agent_nobody_talks_to_any_more_no_layout_is_kept(tmp_path: Path, autojump_clock: object) -> None:
    async with house_at(tmp_path) as house:
        await write(house, "SOUL.md", "You are old.")
        await house.talk("hello")
        await write(house, "SOUL.md", "You are new.")
        await house.talk("hello again")
        await trio.sleep(1_000)
        while await house.store.ledger.expire(house.daemon.clock.now_ms() - 500_000):
            pass
        assert set((await _kept(house)).values()) == {0}
        await house.talk("and again")
        check(await shown(house, await last_turn(house)), house.model.history[-1])


async def test_a_layout_that_another_node_let_go_is_missed_for_an_hour_at_most(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with house_at(tmp_path) as house:
        await house.talk("hello")
        await house.store.of(PromptRows)._write(lambda tx: tx.run("DELETE FROM prompt_layouts"))
        await trio.sleep(3_601)
        await house.talk("hello again")
        check(await shown(house, await last_turn(house)), house.model.history[-1])


async def test_of_a_person_who_is_removed_for_good_nothing_is_kept(tmp_path: Path, autojump_clock: object) -> None:
    async with house_at(tmp_path) as house:
        await house.store.people.add(User(id="ben", name="Ben", keys=("direct:ben",)))
        await house.talk("hello", user="ben")
        assert (await _kept(house))["prompt_texts"] > 0
        await house.store.people.remove("ben")
    purge(Home(tmp_path), "ben", 2_000_000_000_000)
    async with house_at(tmp_path) as house:
        assert set((await _kept(house)).values()) == {0}
