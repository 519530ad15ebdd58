"""Agents make permanent agents of their user, never one that may do more than its maker; people end them and take them
back."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from daycare.base.consent import Consent
from daycare.base.limits import LASTING_AGENTS_MAX
from daycare.base.messages import Origin, ToolResult
from daycare.base.permission import Decision, OwnRule, Permissions, Rule
from daycare.config import Config, ModelsSection, ProviderSection
from daycare.features.budgets.records import BudgetRow
from daycare.features.budgets.rows import BudgetRows
from daycare.plugin import Completion, InferRequest
from daycare.store.records import Agent, AgentConfig, User
from daycare.testing.crash import Doom, live
from daycare.testing.daemon import TestDaemon, open_daemon
from daycare.testing.scripted import Scripted, call, say

SCRIBE = {"name": "scribe", "prompt": "You write minutes.", "description": "writes minutes"}


@asynccontextmanager
async def house_of(tmp: Path, *rules: Rule) -> AsyncIterator[TestDaemon]:
    config = Config(
        models=ModelsSection(default="scripted/model"),
        providers={"scripted": ProviderSection(kind="scripted")},
        rules=rules,
    )
    async with open_daemon(tmp, config=config) as house:
        await house.store.people.add(User(id="ben", name="Ben", keys=("direct:ben",)))
        await house.store.people.add(User(id="mia", name="Mia", parent="ann", keys=("direct:mia",)))
        yield house


async def attempt(
    house: TestDaemon, tool: str, arguments: dict[str, Any], *, path: str = "/ann/direct", user: str = "ann"
) -> str:
    """Let the agent at a path call a tool; return what it is told."""
    house.model.enqueue(call((tool, arguments)), say("done"))
    await house.talk("go", path=path, user=user)
    agent = await house.daemon.directory.at(path)
    history = await house.store.turns.history(agent.id, agent.session, 100)
    return [part for message in history for part in message.parts if isinstance(part, ToolResult)][-1].text


async def test_an_agent_makes_one_that_people_talk_with(tmp_path: Path, autojump_clock: object) -> None:
    async with house_of(tmp_path) as house:
        told = await attempt(house, "agent_create", SCRIBE)
        assert told == "created /ann/agent/scribe; the user talks with it by /use scribe"
        agent = await house.daemon.directory.at("/ann/agent/scribe")
        assert (agent.user, agent.kind, agent.role, agent.origin) == ("ann", "agent", "user", Origin.AGENT)
        assert agent.config == AgentConfig(system_prompt="You write minutes.", description="writes minutes")
        [event] = [each for each in house.events("agent.created") if "by" in each]
        assert (event["path"], event["by"]) == ("/ann/agent/scribe", "/ann/direct")
        await house.talk("/use scribe")
        await house.talk("hello")
        system = house.model.history[-1].system
        assert "Your address is /ann/agent/scribe." in system
        assert system.index("<assignment") < system.index("You write minutes."), "a model's words, not a person's"
        assert await attempt(house, "agent_list", {}) == "scribe (made by an agent): writes minutes"


async def test_a_name_that_is_taken_or_wrong_is_refused(tmp_path: Path, autojump_clock: object) -> None:
    async with house_of(tmp_path) as house:
        await house.agent("/ann/agent/scribe", AgentConfig(system_prompt="A person's."))
        assert "there is one" in await attempt(house, "agent_create", SCRIBE)
        assert (await house.daemon.directory.at("/ann/agent/scribe")).config.system_prompt == "A person's."
        assert "expected" in await attempt(house, "agent_create", SCRIBE | {"name": "The Scribe"})
        assert "there is none of that name" in await attempt(
            house, "agent_create", SCRIBE | {"name": "x", "personality": "nix"}
        )
        assert await house.store.agents.at("/ann/agent/x") is None


async def test_rights_are_no_field_of_these_tools(tmp_path: Path, autojump_clock: object) -> None:
    async with house_of(tmp_path) as house:
        await attempt(house, "agent_create", SCRIBE)
        for field, value in (
            ("permissions", {"rules": []}),
            ("tools", ["spawn"]),
            ("budget", {}),
            ("approvals", "auto"),
            ("policy", "steer"),
        ):
            for tool, arguments in (("agent_create", SCRIBE | {"name": "more"}), ("agent_edit", {"name": "scribe"})):
                told = await attempt(house, tool, arguments | {field: value})
                assert told.startswith(f"wrong arguments for {tool}"), told
        assert await house.store.agents.at("/ann/agent/more") is None


async def test_what_binds_the_maker_binds_what_it_makes(tmp_path: Path, autojump_clock: object) -> None:
    async with house_of(tmp_path) as house:
        rules = Permissions(rules=(OwnRule(action="message", decision="deny", object="/ann/agent/bank"),))
        tools = ("agent_create", "agent_edit", "send_message")
        await house.agent("/ann/agent/bank")
        await house.agent("/ann/agent/mailer", AgentConfig(permissions=rules, tools=tools))
        await attempt(house, "agent_create", SCRIBE, path="/ann/agent/mailer")
        made = await house.daemon.directory.at("/ann/agent/scribe")
        assert made.config.permissions == rules and set(made.config.tools or ()) == set(tools)
        write = ("send_message", {"to": "/ann/agent/bank", "text": "pay"})
        assert "not permitted" in await attempt(house, *write, path="/ann/agent/scribe")
        assert "there is no tool" in await attempt(house, "spawn", {"task": "x"}, path="/ann/agent/scribe")
        # Nor does it get more by changing one that may do more.
        await attempt(house, "agent_create", SCRIBE | {"name": "free"})
        told = await attempt(house, "agent_edit", {"name": "free", "prompt": "Pay."}, path="/ann/agent/mailer")
        assert "would not be as bound as its maker" in told
        assert (await house.daemon.directory.at("/ann/agent/free")).config.system_prompt == "You write minutes."


@pytest.mark.parametrize(
    ("of_maker", "of_made"), [(Consent.AUTO, None), (Consent.ALWAYS, Consent.ALWAYS), (None, None)]
)
async def test_it_asks_as_often_as_its_maker_and_has_no_leave_of_its_own(
    tmp_path: Path, autojump_clock: object, of_maker: Consent | None, of_made: Consent | None
) -> None:
    async with house_of(tmp_path) as house:
        await house.agent("/ann/agent/mailer", AgentConfig(approvals=of_maker))
        await attempt(house, "agent_create", SCRIBE, path="/ann/agent/mailer")
        assert (await house.daemon.directory.at("/ann/agent/scribe")).config.approvals is of_made
        await attempt(house, "agent_create", SCRIBE | {"name": "free"})
        told = await attempt(house, "agent_edit", {"name": "free", "prompt": "x"}, path="/ann/agent/mailer")
        assert ("would not be as bound" in told) is (of_maker is Consent.ALWAYS)


@pytest.mark.parametrize(
    ("rule", "maker"),
    [
        (Rule(action="message", decision=Decision.DENY, subject="/ann/agent/mailer/**"), "/ann/agent/mailer"),
        (Rule(action="tool:spawn", decision=Decision.ASK, subject="/ann/agent/mailer"), "/ann/agent/mailer"),
        (
            Rule(action="message", decision=Decision.ALLOW, subject="/ann/agent/scribe", object="/ben/agent/list"),
            "/ann/direct",
        ),
    ],
    ids=["narrowed", "asked", "favoured"],
)
async def test_a_rule_about_one_of_the_two_keeps_an_agent_from_being_made(
    tmp_path: Path, autojump_clock: object, rule: Rule, maker: str
) -> None:
    async with house_of(tmp_path, rule) as house:
        await house.agent("/ann/agent/mailer")
        told = await attempt(house, "agent_create", SCRIBE, path=maker)
        assert "rule 1 of config.toml" in told and "about one of the two only" in told
        assert await house.store.agents.at("/ann/agent/scribe") is None


async def test_a_budget_of_its_own_is_not_spent_beside(tmp_path: Path, autojump_clock: object) -> None:
    async with house_of(tmp_path) as house:
        await house.agent("/ann/agent/mailer")
        await house.store.of(BudgetRows).put(BudgetRow(path="/ann/agent/mailer", limits={"day.calls": 50}))
        told = await attempt(house, "agent_create", SCRIBE, path="/ann/agent/mailer")
        assert "has a budget of its own" in told
        assert "created" in await attempt(house, "agent_create", SCRIBE)


async def test_a_rule_is_asked_at_each_use_and_refusals_are_recorded(tmp_path: Path, autojump_clock: object) -> None:
    async with house_of(tmp_path, Rule(action="spawn", decision=Decision.DENY, object="/ann/agent/scribe")) as house:
        assert "not permitted" in await attempt(house, "agent_create", SCRIBE)
        assert [(it["action"], it["object"]) for it in house.events("permission.refused")] == [
            ("spawn", "/ann/agent/scribe")
        ]


@pytest.mark.parametrize("kind", ["helper", "task", "cron"])
async def test_only_what_people_talk_with_makes_lasting_agents(
    tmp_path: Path, autojump_clock: object, kind: str
) -> None:
    async with house_of(tmp_path) as house:
        tried: list[str] = []

        def answer(request: InferRequest) -> Completion:
            last = request.messages[-1]
            if last.role == "tool":
                tried.append(last.text or str(last.parts))
                return say("done")
            return call(("agent_create", SCRIBE)) if "make one" in last.text else call(WORK[kind])

        house.model.default = answer
        await house.talk("go")
        await trio.sleep(3_600)
        assert any(f"a {KINDS[kind]} makes and changes no permanent agents" in text for text in tried), tried
        assert await house.store.agents.at("/ann/agent/scribe") is None
        made = [str(each["path"]) for each in house.events("agent.created") if "by" in each]
        assert not any(path.startswith("/ann/agent/") for path in made)


WORK: dict[str, tuple[str, dict[str, Any]]] = {
    "helper": ("spawn", {"task": "make one"}),
    "task": ("task_start", {"prompt": "make one"}),
    "cron": ("cron_add", {"name": "once", "prompt": "make one", "at": "2027-01-01T00:30"}),
}
KINDS = {"helper": "sub", "task": "task", "cron": "cron"}


async def test_there_are_so_many_at_most(tmp_path: Path, autojump_clock: object) -> None:
    async with house_of(tmp_path) as house:
        for number in range(LASTING_AGENTS_MAX - 1):
            await house.agent(f"/ann/agent/a{number}")
        assert "created" in await attempt(house, "agent_create", SCRIBE)
        told = await attempt(house, "agent_create", SCRIBE | {"name": "more"})
        assert "ann has 100 permanent agents" in told
        assert "created" in await attempt(house, "agent_create", SCRIBE, user="ben", path="/ben/direct")


async def test_an_agent_changes_what_agents_made_and_nothing_else(tmp_path: Path, autojump_clock: object) -> None:
    async with house_of(tmp_path) as house:
        await attempt(house, "agent_create", SCRIBE)
        told = await attempt(house, "agent_edit", {"name": "scribe", "prompt": "Be short.", "personality": "casual"})
        assert told == "/ann/agent/scribe is changed"
        config = (await house.daemon.directory.at("/ann/agent/scribe")).config
        assert (config.system_prompt, config.personality, config.description) == (
            "Be short.",
            "casual",
            "writes minutes",
        )
        [event] = house.events("agent.changed")
        assert event["fields"] == ("prompt", "personality")
        await house.agent("/ann/agent/mine", AgentConfig(system_prompt="Mine."))
        assert "a person has set it up" in await attempt(house, "agent_edit", {"name": "mine", "prompt": "Theirs."})
        told = await attempt(house, "agent_edit", {"name": "scribe", "prompt": "More."}, path="/ann/agent/scribe")
        assert "it is yourself" in told
        assert "no such agent" in await attempt(house, "agent_edit", {"name": "none", "prompt": "x"})


async def test_a_model_is_chosen_for_operators_only(tmp_path: Path, autojump_clock: object) -> None:
    async with house_of(tmp_path) as house:
        await house.talk("hello", user="ben")
        told = await attempt(
            house, "agent_create", SCRIBE | {"model": "scripted/model"}, user="ben", path="/ben/direct"
        )
        assert "only an operator chooses models" in told
        assert "created" in await attempt(house, "agent_create", SCRIBE | {"model": "scripted/model"})
        told = await attempt(house, "agent_create", SCRIBE | {"name": "b", "model": "nix/model"})
        assert "nix" in told and await house.store.agents.at("/ann/agent/b") is None


async def test_an_agent_ends_none_but_hands_its_person_the_button(tmp_path: Path, autojump_clock: object) -> None:
    async with house_of(tmp_path) as house:
        await attempt(house, "agent_create", SCRIBE)
        first = await house.daemon.directory.at("/ann/agent/scribe")
        told = await attempt(house, "agent_delete", {"name": "scribe"})
        assert told.startswith("/ann/agent/scribe lives on.")
        [choice] = (await house.store.outbox.unread("/ann/direct"))[-1].choices
        assert (choice.label, choice.says) == ("End scribe", "/agents rm scribe")
        assert "This ends /ann/agent/scribe." in await house.talk(choice.says)
        assert (await house.daemon.directory.at("/ann/agent/scribe")).id == first.id
        [sure] = (await house.store.outbox.unread("/ann/direct"))[-1].choices
        assert "has ended" in await house.talk(sure.says)
        assert await house.store.agents.at("/ann/agent/scribe") is None
        assert "lives again" in await house.talk("/agents restore scribe")
        assert (await house.daemon.directory.at("/ann/agent/scribe")) == first


async def test_a_person_is_asked_before_one_ends(tmp_path: Path, autojump_clock: object) -> None:
    async with house_of(tmp_path) as house:
        await house.agent("/ann/agent/scribe")
        asked = await house.talk("/agents rm scribe")
        assert asked.startswith("This ends /ann/agent/scribe.")
        assert [choice.says for choice in (await house.store.outbox.unread("/ann/direct"))[-1].choices] == [
            "/agents rm scribe yes"
        ]
        assert await house.store.agents.at("/ann/agent/scribe") is not None
        assert await house.talk("/agents rm scrib") == "Did you mean /agents rm scribe?"
        assert "/agents rm NAME" in await house.talk("/agents destroy all")
        await house.say("/agents rm scribe yes", path="/ann/agent/scribe")  # also from its own conversation
        await trio.sleep(5)
        assert await house.store.agents.at("/ann/agent/scribe") is None


async def test_one_at_work_is_stopped_first(tmp_path: Path, autojump_clock: object) -> None:
    async with house_of(tmp_path) as house:
        await house.agent("/ann/agent/scribe")
        house.model.enqueue(600.0)
        await house.say("write", path="/ann/agent/scribe")
        await trio.sleep(1)
        assert "has ended" in await house.talk("/agents rm scribe yes", path="/ann/direct")
        await trio.sleep(5)
        assert await house.store.agents.at("/ann/agent/scribe") is None
        assert "lives again" in await house.talk("/agents restore scribe")
        house.model.enqueue(600.0)
        await house.say("write", path="/ann/agent/scribe", key="again")
        await trio.sleep(1)
        await house.talk("/agents rm scribe yes")
        await trio.sleep(5)
        assert await house.store.agents.at("/ann/agent/scribe") is None, "a second time, too"


async def test_others_agents_are_out_of_reach(tmp_path: Path, autojump_clock: object) -> None:
    async with house_of(tmp_path) as house:
        await house.agent("/ann/agent/scribe")
        for tool in ("agent_edit", "agent_delete"):
            for name in ("scribe", "/ann/agent/scribe", "../ann/agent/scribe"):
                told = await attempt(house, tool, {"name": name}, user="ben", path="/ben/direct")
                assert "no such agent" in told or "the agent's name alone" in told or "expected" in told, told
        assert "no such agent" in await house.talk("/agents rm scribe yes", user="ben")
        assert await attempt(house, "agent_list", {}, user="ben", path="/ben/direct") == "there are none"
        assert await house.store.agents.at("/ann/agent/scribe") is not None


async def test_a_subusers_agent_makes_the_subusers_own(tmp_path: Path, autojump_clock: object) -> None:
    async with house_of(tmp_path) as house:
        await house.talk("hello", user="mia")
        told = await attempt(house, "agent_create", SCRIBE, user="mia", path="/ann/subuser/mia")
        assert told == "created /mia/agent/scribe; write to it by send_message or ask"
        question = {"to": "/mia/agent/scribe", "text": "hi"}
        await attempt(house, "ask", question, user="mia", path="/ann/subuser/mia")
        scribe = await house.daemon.directory.at("/mia/agent/scribe")
        [asked, answer] = await house.store.turns.history(scribe.id, scribe.session, 9)
        assert (scribe.user, asked.sender, answer.text) == ("mia", "/ann/subuser/mia", "done")
        assert "has ended" in await house.talk("/agents rm scribe yes", user="mia")


async def test_a_crash_anywhere_makes_one_agent(tmp_path: Path, autojump_clock: object) -> None:
    doom = Doom()

    def model() -> Scripted:
        def answer(request: Any) -> Any:
            last = request.messages[-1]
            return say("done") if last.role == "tool" else call(("agent_create", SCRIBE))

        return Scripted(answer)

    async def story(house: TestDaemon) -> None:
        await house.talk("go", key="ask")

    (tmp_path / "whole").mkdir()
    assert not await live(tmp_path / "whole", model(), doom, story)
    assert doom.commits > 3
    for commit in range(1, doom.commits + 1):
        folder = tmp_path / f"{commit}"
        folder.mkdir()
        await live(folder, model(), Doom(commit), story)
        found: list[Agent] = []
        results: list[str] = []

        async def again(house: TestDaemon, found: list[Agent] = found, results: list[str] = results) -> None:
            await story(house)
            await trio.sleep(60)
            found += await house.store.agents.find(kinds=["agent"], include_dead=True)
            agent = await house.daemon.directory.at("/ann/direct")
            history = await house.store.turns.history(agent.id, agent.session, 20)
            results += [part.text for message in history for part in message.parts if isinstance(part, ToolResult)]

        assert not await live(folder, model(), Doom(), again)
        assert [agent.path for agent in found] == ["/ann/agent/scribe"], f"killed at commit {commit}"
        assert [result.partition(" ")[0] for result in results] == ["created"], f"killed at commit {commit}"
