"""A builder proposes an agent whole; one yes makes all of it, once, and exactly what was shown."""

from pathlib import Path

import msgspec
import pytest

from daycare.base.documents import Layer, Place
from daycare.base.errors import InvalidError
from daycare.base.messages import Origin, ToolResult
from daycare.features.approvals.call_patterns import CallPattern, PatternWish, check_wish
from daycare.features.approvals.records import CallAction
from daycare.features.builder.records import AgentProposal
from daycare.features.memory.documents.rows import DocumentRows
from daycare.rules.document_paths import SOUL
from daycare.store.records import AgentConfig, Policy
from daycare.testing.scripted import call, say
from tests.builder.conftest import PATH, SCRIBE, approve, as_it_is, builder, built, requests, results, told


async def test_one_yes_makes_all_that_was_shown(tmp_path: Path, autojump_clock: object) -> None:
    async with built(tmp_path) as house:
        said = await told(house, "agent_propose", SCRIBE)
        assert said.startswith("proposed, request 1: agent_propose is not done yet"), said
        assert await as_it_is(house, "scribe") is None
        [it] = await requests(house)
        assert "is there, as it was approved" in await approve(house, said)
        now = await as_it_is(house, "scribe")
        assert now is not None
        assert now.text == it.action.text


async def test_what_was_made_has_its_own_rights_words_and_times(tmp_path: Path, autojump_clock: object) -> None:
    async with built(tmp_path) as house:
        await approve(house, await told(house, "agent_propose", SCRIBE))
        agent = await house.daemon.directory.at("/ann/agent/scribe")
        assert agent.origin is Origin.PERSON, "a person has read every word of it"
        assert {spec.name for spec in house.daemon.catalogue.specs(agent)} == {"remind", "memory_append", "skill"}
        rows = house.store.of(DocumentRows)
        versions = await rows.find(Layer.AGENT, agent.id)
        assert [each.place.name for each in versions] == ["SOUL.md", "STYLE.md", "skills/minutes.md"]
        assert {(each.by.author, each.by.approver) for each in versions} == {(PATH, "direct:ann")}
        [job] = await house.daemon.cron.controls.find("ann")
        assert (job.path, job.spec.target, job.source_ref) == ("/ann/cron/weekly", "/ann/agent/scribe", PATH)
        assert (await house.daemon.budgets.rows())["/ann/agent/scribe"].limits == {"day.usd": 1_000_000}
        await house.talk("hello")  # in Ann's own conversation, where it answers from now on
        system = house.model.history[-1].system
        assert "<soul>\nYou write minutes. You add nothing.\n</soul>" in system


async def test_a_change_shows_what_changes_and_touches_nothing_else(tmp_path: Path, autojump_clock: object) -> None:
    async with built(tmp_path) as house:
        await approve(house, await told(house, "agent_propose", SCRIBE))
        change = {
            "name": "scribe",
            "reason": "shorter, and later",
            "style": "One line.",
            "schedule": [{"name": "weekly", "cron": "0 18 * * FRI", "text": "Send the minutes of this week."}],
            "budget": [],
            "connector": "",
        }
        said = await told(house, "agent_propose", change)
        [it, _] = await requests(house)
        diff = (await house.daemon.approvals.show(it.no)).diff
        changed = [line for line in diff.splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")]
        assert changed == [
            "-answers in: direct",
            "-budget: 1usd a day",
            "-schedule weekly: 0 17 * * FRI: Send the minutes of this week.",
            "+schedule weekly: 0 18 * * FRI: Send the minutes of this week.",
            "-Short lines.",
            "+One line.",
        ]
        assert "is changed, as it was approved" in await approve(house, said)
        now = await as_it_is(house, "scribe")
        assert now is not None and now.text == it.action.text
        agent = await house.daemon.directory.at("/ann/agent/scribe")
        history = await house.store.of(DocumentRows).history(Place(Layer.AGENT, agent.id, SOUL))
        assert len(history) == 1, "what stays as it is gets no version"
        assert "it is just so" in await told(house, "agent_propose", change)


async def test_what_a_person_has_set_up_is_changed_in_the_same_way(tmp_path: Path, autojump_clock: object) -> None:
    async with built(tmp_path) as house:
        await house.agent("/ann/agent/cook", AgentConfig(system_prompt="You cook.", policy=Policy.FOLLOWUP))
        said = await told(house, "agent_propose", {"name": "cook", "reason": "greener", "instructions": "No meat."})
        await approve(house, said)
        agent = await house.daemon.directory.at("/ann/agent/cook")
        assert agent.config == AgentConfig(system_prompt="No meat.", policy=Policy.FOLLOWUP)


async def test_what_has_changed_since_it_was_shown_is_not_made(tmp_path: Path, autojump_clock: object) -> None:
    async with built(tmp_path) as house:
        await house.agent("/ann/agent/cook", AgentConfig(system_prompt="You cook."))
        edit = await told(house, "agent_propose", {"name": "cook", "reason": "greener", "instructions": "No meat."})
        new = await told(house, "agent_propose", SCRIBE)
        cook = await house.daemon.directory.at("/ann/agent/cook")
        await house.store.agents.configure(cook.id, AgentConfig(system_prompt="You bake."))
        await house.agent("/ann/agent/scribe", AgentConfig(system_prompt="Mine."))
        for said in (edit, new):
            assert "it was changed meanwhile, and nothing was done" in await approve(house, said)
        assert (await house.daemon.directory.at("/ann/agent/cook")).config.system_prompt == "You bake."
        assert (await house.daemon.directory.at("/ann/agent/scribe")).config == AgentConfig(system_prompt="Mine.")
        assert await house.daemon.cron.controls.find("ann") == []


async def test_a_repeat_of_the_approved_call_makes_nothing_again(tmp_path: Path, autojump_clock: object) -> None:
    async with built(tmp_path) as house:
        await approve(house, await told(house, "agent_propose", SCRIBE))
        [it] = await requests(house)
        maker = await house.daemon.directory.at(PATH)
        assert isinstance(it.action, CallAction)
        again = msgspec.convert(it.action.arguments, AgentProposal)
        before = await house.store.of(DocumentRows).last()
        assert "is as it was approved" in await builder(house).builder.make(maker, again, it)
        assert await house.store.of(DocumentRows).last() == before
        assert len(await house.daemon.cron.controls.find("ann")) == 1


async def test_nobody_approves_proposals_in_advance(tmp_path: Path, autojump_clock: object) -> None:
    async with built(tmp_path) as house:
        await told(house, "agent_propose", SCRIBE)
        [it] = await requests(house)
        assert it.alone
        everything = PatternWish(scope="always", pattern=CallPattern(tool="agent_propose", free=tuple(SCRIBE)))
        with pytest.raises(InvalidError, match="each such call is asked for"):
            check_wish(everything, it)


async def test_a_trial_asks_the_model_as_the_agent_and_does_nothing(tmp_path: Path, autojump_clock: object) -> None:
    async with built(tmp_path) as house:
        trial = {**SCRIBE, "message": "We met."}
        del trial["reason"]
        house.model.enqueue(call(("agent_try", trial)), call(("remind", {"after_s": 60, "text": "minutes"})))
        house.model.enqueue(say("Noted: you met."), say("It would say: Noted: you met."))
        receipt = await house.say("try it", path=PATH)
        assert "Noted: you met." in await house.hear(receipt)
        as_agent, goes_on = house.model.history[-3:-1]
        assert "<soul>\nYou write minutes. You add nothing.\n</soul>" in as_agent.system
        assert "Your address is /ann/agent/scribe." in as_agent.system
        assert {spec.name for spec in as_agent.tools} == {"remind", "memory_append", "skill"}
        [answered] = goes_on.messages[-1].parts
        assert isinstance(answered, ToolResult) and "This is a trial: nothing was done." in answered.text
        [result] = await results(house)
        assert result.startswith("A trial of scribe; nothing was done, and nothing is kept.\n> We met.")
        assert "[would use remind: " in result and result.endswith("Noted: you met.")
        [file] = [part for each in await house.store.outbox.unread(PATH) for part in each.files]
        assert file.name == "trial-scribe.md", "the person reads it word for word, whatever the builder says"
        assert await as_it_is(house, "scribe") is None
        assert await house.store.timers.find((await house.daemon.directory.at(PATH)).id, 10) == []


async def test_a_conversation_goes_on_after_a_restart(tmp_path: Path, autojump_clock: object) -> None:
    async with built(tmp_path, location="file.db") as house:
        await house.talk("I need somebody for minutes", path=PATH)
        said = await told(house, "agent_propose", SCRIBE)
    async with built(tmp_path, location="file.db") as house:
        assert "is there, as it was approved" in await approve(house, said)
        asked = house.model.history[-1].messages
        assert any("I need somebody for minutes" in message.text for message in asked)
        assert await as_it_is(house, "scribe") is not None
