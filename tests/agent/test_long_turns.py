"""Tools in prompts that are too long: pairs of call and result stay together, and long turns come to their end."""

import random
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import msgspec
import pytest

from daycare.agent.tokens import of_messages
from daycare.base.messages import Message, ToolResult
from daycare.base.tool import READS
from daycare.plugin import Completion, InferRequest, Plugin, StructTool, ToolContext
from daycare.testing.daemon import open_daemon
from daycare.testing.scripted import call, say
from tests.agent.helpers import LONG, facts, me, mind, prompts, script, small, stored


class Read(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Read some characters."""

    chars: Annotated[int, msgspec.Meta(ge=0)]


async def _read(context: ToolContext, arguments: Read) -> str:
    return f"begin {'x' * arguments.chars} end"


plugin = Plugin(name="reading", tools=(StructTool("read", Read, _read, idempotent=True, **READS),))


def results(messages: tuple[Message, ...]) -> list[ToolResult]:
    """Return the results in a prompt, in order."""
    return [part for message in messages for part in message.parts if isinstance(part, ToolResult)]


def judge(messages: tuple[Message, ...]) -> None:
    """Assert that each call stands right before its results and none alone."""
    assert messages[0].role == "user"
    open_calls: list[str] = []
    for message in messages:
        answered = [part.call_id for part in message.parts if isinstance(part, ToolResult)]
        if message.role == "tool":
            for call_id in answered:
                assert open_calls and open_calls.pop(0) == call_id
        else:
            assert not open_calls, "a call without its result"
            open_calls = [part.id for part in message.tool_calls]
    assert not open_calls


@pytest.mark.parametrize("seed", range(20))
async def test_no_prompt_has_a_call_without_its_result_or_the_other_way_round(
    tmp_path: Path, autojump_clock: object, seed: int
) -> None:
    print("seed", seed)
    dice = random.Random(seed)

    def sums(request: InferRequest) -> Completion:
        return say("no") if dice.random() < 0.4 else facts(request)

    def answers(request: InferRequest) -> Completion:
        if not request.tools or dice.random() < 0.4:
            return say("words " * dice.choice((1, 50, 500)))
        many = dice.randint(1, 3)
        return call(*(("read", {"chars": dice.choice((0, 300, 3_000, 12_000))}) for _ in range(many)))

    model = mind(sums, answers)
    context = dice.choice((6_000, 8_000, 20_000))
    async with open_daemon(tmp_path, model, config=small(context), plugins=[plugin]) as house:
        for number in range(12):
            await house.talk(f"{number} " + "word " * dice.choice((1, 100, 600)))
        for request in prompts(model):
            judge(request.messages)
        assert house.events("context.compacted") or house.events("context.trimmed")
        agent = await me(house)
        whole = tuple(await house.store.turns.history(agent.id, 1, 10_000))
        judge(whole)
        assert sum(message.role == "user" for message in whole) == 12


async def test_a_turn_that_is_too_long_by_itself_shows_its_oldest_results_by_their_ends(
    tmp_path: Path, autojump_clock: object
) -> None:
    reads = [call(("read", {"chars": 6_000 + number})) for number in range(8)]
    model = mind(otherwise=script(*reads, say("done")))
    async with open_daemon(tmp_path, model, config=small(), plugins=[plugin]) as house:
        assert await house.talk("read all") == "done"
        shown = results(model.history[-1].messages)
        assert [len(result.text) > 5_000 for result in shown][-1], "the newest one the model has not read yet"
        assert len(shown[0].text) < 1_000 and shown[0].text.startswith("begin x") and shown[0].text.endswith("x end")
        assert all(of_messages(request.messages) < 6_600 for request in model.history)
        agent = await me(house)
        kept = results(tuple(await house.store.turns.history(agent.id, 1, 100)))
        assert [len(result.text) for result in kept] == [6_010 + number for number in range(8)], "kept whole"
        events = house.events("context.trimmed")
        assert events and events[-1]["results"] == sum(len(result.text) < 1_000 for result in shown)


async def test_what_is_shortened_stays_so_and_can_be_read_again(tmp_path: Path, autojump_clock: object) -> None:
    again = call(("read_result", {"file": 1}))
    reads = [call(("read", {"chars": 6_000})) for _ in range(6)]
    model = mind(otherwise=script(*reads, again, say("done")))
    async with open_daemon(tmp_path, model, config=small(), plugins=[plugin]) as house:
        assert await house.talk("read all") == "done"
        asked = prompts(model)
        shown = results(asked[-1].messages)
        assert "read_result, file 1, from offset 0" in shown[0].text
        assert shown[-1].text == f"begin {'x' * 6_000} end"
        moved = sum(now.messages[: len(before.messages)] != before.messages for before, now in pairwise(asked))
        assert 0 < moved < 6, "some room is made at a time"


async def test_a_long_turn_after_a_long_conversation_compacts_it(tmp_path: Path, autojump_clock: object) -> None:
    reads = [call(("read", {"chars": 4_000})) for _ in range(3)]
    model = mind(otherwise=script(say(LONG), say(LONG), say(LONG), *reads, say("done")))
    async with open_daemon(tmp_path, model, config=small(), plugins=[plugin]) as house:
        for _ in range(3):
            await house.talk(LONG)
        assert await stored(house) == []
        assert await house.talk("FACT Miso. read") == "done"
        assert await stored(house)
        judge(model.history[-1].messages)
