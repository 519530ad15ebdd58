"""`/context` and `/compact` in a chat."""

import re
from pathlib import Path

from daycare.config import Config, ModelSection, ModelsSection, ProviderSection
from daycare.features.budgets.rows import BudgetRows
from daycare.plugin import Completion, InferRequest
from daycare.testing.daemon import open_daemon
from daycare.testing.scripted import Scripted, say
from tests.agent.helpers import facts, grow, mind, prompts, small, stored, summaries_asked


def _numbers(table: str) -> dict[str, int]:
    rows = re.findall(r"^(\w[\w ]*?) +([\d,]+)(?:  .*)?$", table, re.MULTILINE)
    return {name: int(count.replace(",", "")) for name, count in rows}


async def test_context_shows_where_the_tokens_go_and_they_add_up(tmp_path: Path, autojump_clock: object) -> None:
    model = mind()
    async with open_daemon(tmp_path, model, config=small()) as house:
        before = _numbers(await house.talk("/context"))
        assert list(before) == [
            "system", "tools", "summary", "history", "this turn", "answer", "reserve", "window",
        ]  # fmt: skip
        assert before["window"] == 8_000 == sum(before.values()) - before["window"]
        assert before["history"] == before["summary"] == 0 < before["tools"]
        await grow(house, 7)
        table = await house.talk("/context")
        after = _numbers(table)
        assert after["history"] > 1_000 and after["summary"] > 0
        assert sum(after.values()) - after["window"] == 8_000
        assert "scripted/model" in table and "$" not in table, "no price is known"
        assert len(model.history) == 7 + len(summaries_asked(model)), "it asks no model"


async def test_context_tells_what_the_conversation_has_cost(tmp_path: Path, autojump_clock: object) -> None:
    priced = ModelSection(input_usd=1_000.0, output_usd=2_000.0)
    config = Config(
        models=ModelsSection(default="scripted/model"),
        providers={"scripted": ProviderSection(kind="scripted", models={"model": priced})},
    )
    async with open_daemon(tmp_path, mind(), config=config) as house:
        await house.talk("hello")
        assert "cost $0.0200" in await house.talk("/context")
        await house.talk("/reset")
        assert "$" not in await house.talk("/context")


async def test_compact_sums_up_now_and_tells_what_it_saved(tmp_path: Path, autojump_clock: object) -> None:
    model = mind()
    async with open_daemon(tmp_path, model) as house:
        await house.talk("FACT Miso is my cat")
        await grow(house, 5)
        answer = await house.talk("/compact the names of cats")
        found = re.search(r"Compacted (\d+) turns: ([\d,]+) tokens before, ([\d,]+) now", answer)
        assert found and int(found[1]) == 4
        assert int(found[2].replace(",", "")) > int(found[3].replace(",", "")) + 2_000
        assert "the names of cats" in summaries_asked(model)[0].messages[0].text
        await house.talk("hello")
        assert len(prompts(model)[-1].messages) == 1 + 4 + 1
        assert "Miso" in prompts(model)[-1].messages[0].text
        spent = await house.store.of(BudgetRows).total()
        assert spent["output_tokens"] == 5 * 8


async def test_compact_has_nothing_to_do_twice(tmp_path: Path, autojump_clock: object) -> None:
    model = mind()
    async with open_daemon(tmp_path, model) as house:
        assert "nothing to compact" in await house.talk("/compact")
        await grow(house, 4)
        assert "Compacted 2 turns" in await house.talk("/compact")
        assert "nothing to compact" in await house.talk("/compact")
        assert len(summaries_asked(model)) == 1


async def test_compact_says_why_it_failed_and_changes_nothing(tmp_path: Path, autojump_clock: object) -> None:
    model = mind(lambda request: say("no"))
    async with open_daemon(tmp_path, model) as house:
        await grow(house, 4)
        assert "has no <summary>" in await house.talk("/compact")
        assert await stored(house) == []
        await house.talk("hello")
        assert len(prompts(model)[-1].messages) == 9


async def test_what_compact_keeps_in_particular_is_for_that_time_only(tmp_path: Path, autojump_clock: object) -> None:
    asked: list[str] = []

    def sums(request: InferRequest) -> Completion:
        asked.append(request.messages[0].text)
        return facts(request)

    model: Scripted = mind(sums)
    async with open_daemon(tmp_path, model) as house:
        await grow(house, 4)
        await house.talk("/compact cats")
        await grow(house, 4)
        await house.talk("/compact")
        assert ["in particular" in text for text in asked] == [True, False]
