"""What a model proposes that there is not, that is wrong, or that is not for its person to give: all of it is told at
once, nobody is asked, and what has become too much by the time of the yes is not made."""

from pathlib import Path
from typing import Any

import pytest

from daycare.base.permission import Decision, OwnRule, Permissions, Rule
from daycare.features.budgets.records import BudgetRow
from daycare.features.budgets.rows import BudgetRows
from daycare.store.records import AgentConfig
from tests.builder.conftest import PATH, SCRIBE, approve, as_it_is, builder, built, requests, told

WILD: dict[str, Any] = {
    "name": "wild",
    "reason": "to do everything",
    "soul": "You do everything. " * 2_000,
    "style": " ",
    "description": "a\nb" + "c" * 300,
    "personality": "grumpy",
    "model": "gpt-99",
    "tools": ["remnd", "web_search", "shell", "launch_rockets", "spawn"],
    "skills": [{"name": "No Name", "description": "", "instructions": "x"}, {"name": "unheard-of"}],
    "schedule": [
        {"name": "a", "cron": "61 * * * *", "text": "x"},
        {"name": "b", "cron": "* * * * *", "text": "x"},
        {"name": "c", "cron": "0 8 * * *", "text": "x", "zone": "Mars/Olympus"},
        {"name": "d", "cron": "0 8 * * *", "text": " "},
    ],
    "connector": "telegram",
    "budget": ["1000usd a day", "lots"],
}


async def test_all_that_is_wrong_is_told_at_once_and_nobody_is_asked(tmp_path: Path, autojump_clock: object) -> None:
    spawning = Rule(action="tool:spawn", decision=Decision.DENY, subject="/ben/**")
    async with built(tmp_path, spawning) as house:
        await house.store.of(BudgetRows).put(BudgetRow(path="/ben", limits={"day.usd": 2_000_000}))
        said = await told(house, "agent_propose", WILD, user="ben")
        for part in (
            "soul: it has about",
            "style: it says nothing",
            "description: it has 303 characters, at most 200",
            "description: it is one line",
            "personality: ",
            "model: gpt-99: only an operator chooses models",
            "tools: there is no remnd; did you mean remind?",
            "tools: there is no web_search: it is there once search in [plugins.web]",
            "tools: shell is not for ben to give: it is there once the agent has a workspace",
            "tools: there is no launch_rockets",
            "tools: spawn is not for ben to give: ",
            "skills: No Name ",
            "skills: it needs the tool skill to read any",
            "skills: there is no unheard-of",
            "schedule: a: ",
            "schedule: b: ",
            "every 10 minutes at most",
            "schedule: c: ",
            "schedule: d: ",
            "connector: ben has no conversation at telegram; there are: direct",
            "budget: 1000usd a day is more than /ben may use",
            "budget: ",
            "mend all of them",
        ):
            assert part in said, (part, said)
        assert await requests(house) == []
        assert await as_it_is(house, "wild", "ben") is None


@pytest.mark.parametrize("name", ["../ann/agent/x", "Wild", "", "builder", "a" * 65])
async def test_a_name_leads_nowhere_else(tmp_path: Path, autojump_clock: object, name: str) -> None:
    async with built(tmp_path) as house:
        assert "PROPOSAL" in (said := await told(house, "agent_propose", {**SCRIBE, "name": name})) or "name: " in said
        assert await requests(house) == []


async def test_what_may_no_longer_be_given_at_the_yes_is_not_made(tmp_path: Path, autojump_clock: object) -> None:
    async with built(tmp_path) as house:
        said = await told(house, "agent_propose", {**SCRIBE, "budget": ["1usd a day"]}, user="ben")
        await house.store.of(BudgetRows).put(BudgetRow(path="/ben", limits={"day.usd": 500_000}))
        assert "more than /ben may use" in await approve(house, said, "ben")
        assert await as_it_is(house, "scribe", "ben") is None
        assert await house.daemon.cron.controls.find("ben") == []


async def test_who_is_no_operator_gives_an_agent_no_more_than_it_has(tmp_path: Path, autojump_clock: object) -> None:
    async with built(tmp_path) as house:
        config = AgentConfig(
            tools=("remind",), permissions=Permissions(rules=(OwnRule(action="kill", decision="deny"),))
        )
        await house.agent("/ben/agent/clerk", config)
        await house.store.of(BudgetRows).put(BudgetRow(path="/ben/agent/clerk", limits={"day.usd": 1}, set_by="ann"))
        more = {"name": "clerk", "reason": "more", "tools": ["remind", "spawn"], "budget": ["1usd a day"]}
        said = await told(house, "agent_propose", more, user="ben")
        assert "tools: spawn: only an operator gives an agent more than it has" in said
        assert "budget: somebody else has set what /ben/agent/clerk may use" in said
        fewer = {"name": "clerk", "reason": "fewer", "tools": []}
        await approve(house, await told(house, "agent_propose", fewer, user="ben"), "ben")
        agent = await house.daemon.directory.at("/ben/agent/clerk")
        assert (agent.config.tools, agent.config.permissions) == ((), config.permissions)


async def test_what_narrows_the_builder_narrows_what_it_makes(tmp_path: Path, autojump_clock: object) -> None:
    async with built(tmp_path) as house:
        rules = Permissions(rules=(OwnRule(action="message", decision="deny", object="/ann/agent/bank"),))
        mine = await house.daemon.directory.at(PATH)
        await house.store.agents.configure(mine.id, AgentConfig(tools=mine.config.tools, permissions=rules))
        await approve(house, await told(house, "agent_propose", SCRIBE))
        assert (await house.daemon.directory.at("/ann/agent/scribe")).config.permissions == rules
        await builder(house).builder.open("ann")
        assert (await house.daemon.directory.at(PATH)).config.permissions == rules, "opening it again keeps them"


async def test_a_rule_keeps_the_builder_from_making_any(tmp_path: Path, autojump_clock: object) -> None:
    rule = Rule(action="spawn", decision=Decision.DENY, subject=PATH)
    async with built(tmp_path, rule) as house:
        assert "name: making a helper of /ann/agent/scribe: it is not permitted" in await told(
            house, "agent_propose", SCRIBE
        )


async def test_nobody_else_has_these_tools(tmp_path: Path, autojump_clock: object) -> None:
    async with built(tmp_path) as house:
        for path in ("/ann/direct", "/ben/direct"):
            agent = await house.daemon.directory.at(path)
            assert not {"agent_parts", "agent_try", "agent_propose"} & {
                spec.name for spec in house.daemon.catalogue.specs(agent)
            }
        mine = await house.daemon.directory.at(PATH)
        assert {spec.name for spec in house.daemon.catalogue.specs(mine)} == set(mine.config.tools or ())


async def test_it_knows_what_there_is_and_what_is_missing(tmp_path: Path, autojump_clock: object) -> None:
    async with built(tmp_path) as house:
        said = await told(house, "agent_parts", {}, user="ben")
        assert "- remind: " in said
        assert "- web_search: search in [plugins.web] of config.toml names" in said
        assert "May choose models: no" in said and "Conversations: direct" in said
        assert "template diary: asks how the day was" in await told(house, "agent_parts", {"name": "diary"})
        assert "there is no template nix" in await told(house, "agent_parts", {"name": "nix"})
        assert "address: /ann/agent/builder" in await told(house, "agent_parts", {"name": "builder"})
