"""Which tools a prompt shows: few, others by group once they were asked for, and all where an agent has a list."""

from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from daycare.agent import tokens
from daycare.base.messages import ToolResult
from daycare.config import Config, ModelsSection, ProviderSection, ToolsSection
from daycare.plugin import InferRequest
from daycare.testing.daemon import open_daemon
from daycare.testing.scripted import Scripted, call, say
from daycare.tools.offer import MORE

DEFAULTS_MAX_TOKENS = 1_500


def names(request: InferRequest) -> set[str]:
    return {spec.name for spec in request.tools}


async def test_an_agent_with_the_defaults_is_shown_tools_of_1500_tokens_at_most_which_name_all_others(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with open_daemon(tmp_path) as house:
        await house.talk("hello")
        [asked] = house.model.history
        agent = await house.store.agents.at("/ann/direct")
        assert agent is not None
        all_names = {spec.name for spec in house.daemon.catalogue.specs(agent)} - {MORE}
        assert len(all_names) > 30
    assert tokens.of_tools(asked.tools) <= DEFAULTS_MAX_TOKENS
    [more] = [spec for spec in asked.tools if spec.name == MORE]
    told = set(more.description.replace(",", " ").replace(";", " ").replace(".", " ").split())
    assert all_names <= names(asked) | told
    assert "cron_add" not in names(asked) and "memory_search" in names(asked)


async def test_a_group_that_was_asked_for_is_shown_from_then_on_and_its_text_tells_what_the_tools_do(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with open_daemon(tmp_path) as house:
        house.model.enqueue(call((MORE, {"group": "schedule"})), say("done"), say("again"))
        await house.talk("what is scheduled?")
        await house.talk("and now?")
        before, after, later = house.model.history
    assert {"cron_add", "cron_list"} <= names(after) == names(later)
    assert {"cron_add", "cron_list"}.isdisjoint(names(before))
    assert "task_start" not in names(after)
    [result] = [part for part in after.messages[-1].parts if isinstance(part, ToolResult)]
    assert "cron_list: List the scheduled jobs" in result.text


async def test_what_is_shown_is_the_same_after_a_restart(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    model.enqueue(call((MORE, {"group": "tasks"})), say("done"))
    async with open_daemon(tmp_path, model, location="daycare.db") as house:
        await house.talk("hello")
    async with open_daemon(tmp_path, model, location="daycare.db") as house:
        await house.talk("again")
    assert "task_start" in names(model.history[-1])


async def test_a_tool_that_is_not_shown_may_be_called_and_brings_its_group(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with open_daemon(tmp_path) as house:
        house.model.enqueue(call(("cron_list", {})), say("none"))
        await house.talk("what is scheduled?")
        _, after = house.model.history
    assert "there are none" in str(after.messages[-1].parts)
    assert "cron_add" in names(after)


async def test_a_group_that_there_is_not_is_told_with_those_there_are(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        house.model.enqueue(call((MORE, {"group": "cooking"})), say("done"))
        await house.talk("hello")
    assert "no group 'cooking'; there are: " in str(house.model.history[-1].messages[-1].parts)


async def test_an_agent_with_a_list_of_tools_is_shown_all_of_it(tmp_path: Path, autojump_clock: object) -> None:
    listed = ("now", "cron_add", "cron_list", "task_start", "spawn", "memory_write", "memory_search", "agent_create")
    seen = await _shown(tmp_path, lambda config: replace(config, tools=ToolsSection(user=listed, shown_max_tokens=0)))
    assert names(seen) == set(listed)


async def test_a_wide_bound_shows_all_tools(tmp_path: Path, autojump_clock: object) -> None:
    seen = await _shown(tmp_path, lambda config: replace(config, tools=ToolsSection(shown_max_tokens=100_000)))
    assert {"cron_add", "spawn", "memory_search"} <= names(seen) and MORE not in names(seen)


async def _shown(folder: Path, change: Callable[[Config], Config]) -> InferRequest:
    config = Config(
        models=ModelsSection(default="scripted/model"), providers={"scripted": ProviderSection(kind="scripted")}
    )
    async with open_daemon(folder, config=change(config)) as house:
        await house.talk("hello")
        return house.model.history[-1]
