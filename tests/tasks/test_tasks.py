"""Tasks work in the background, end once, and whoever asked hears what came of them."""

from pathlib import Path

import pytest
import trio

from daycare.base.cron import SILENCE
from daycare.base.errors import BusyError, ConflictError, ForbiddenError, InvalidError, NotFoundError
from daycare.base.messages import Origin
from daycare.features.tasks.rows import TaskRows
from daycare.store.records import AgentConfig
from daycare.testing.daemon import open_daemon
from daycare.testing.scripted import call, say
from tests.tasks.helpers import Working, delivered, ended, lives, start, task


async def test_the_answer_of_a_task_reaches_the_last_conversation_whose_agent_knows_it(
    tmp_path: Path, autojump_clock: object
) -> None:
    model = Working()
    async with open_daemon(tmp_path, model) as house:
        await house.talk("hello")
        model.task.enqueue(say("Three keyboards."))
        begun = await start(house, "compare keyboards")
        assert (begun.state, begun.path, begun.asker) == ("waiting", "/ann/task/sum", "")
        it = await ended(house)
        assert (it.state, it.result, it.delivery, it.told_by) == ("done", "Three keyboards.", "waiting", "direct")
        assert it.tokens == 15 and it.started_at and it.ended_at
        assert await delivered(house) == ["echo: hello", "Three keyboards."]
        [message] = model.task.history[-1].messages
        assert message.origin is Origin.PERSON
        assert ("Background task /ann/task/sum, given by the user, to be done by 2027-01-02T") in message.text
        assert message.text.endswith("\ncompare keyboards")
        await house.talk("which ones?")
        told = [message.text for message in model.history[-1].messages if "/ann/task/sum" in message.text]
        assert len(told) == 1 and told[0].splitlines()[-2] == "Three keyboards."


async def test_its_agent_dies_after_the_answer_and_its_history_stays(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        it = await start(house)
        assert await lives(house)
        await ended(house)
        await trio.sleep(1)
        assert not await lives(house)
        dead = await house.store.agents.get(it.agent_id)
        assert dead is not None and (dead.state, dead.role) == ("dead", "task")
        history = await house.store.turns.history(it.agent_id, dead.session, 10)
        assert [message.role for message in history] == ["user", "assistant"]
        assert await house.store.timers.find() == []
        assert await house.store.dead.count() == 0


async def test_silence_is_told_to_nobody(tmp_path: Path, autojump_clock: object) -> None:
    model = Working()
    async with open_daemon(tmp_path, model) as house:
        await house.talk("hello")
        model.task.enqueue(say(SILENCE))
        await start(house)
        it = await ended(house)
        assert (it.state, it.reason, it.delivery) == ("done", "nothing to tell", "")
        assert await delivered(house) == ["echo: hello"]


async def test_the_answer_is_kept_only_if_that_is_wanted(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        await house.talk("hello")
        await start(house, deliver="none")
        it = await ended(house)
        assert it.state == "done" and it.result and it.delivery == ""
        assert await delivered(house) == ["echo: hello"]


async def test_names_are_made_or_given_and_free_again_after_the_end(tmp_path: Path, autojump_clock: object) -> None:
    model = Working()
    async with open_daemon(tmp_path, model) as house:
        model.task.enqueue(30.0)
        first = await start(house)
        with pytest.raises(ConflictError, match="is at work"):
            await start(house, key="again")
        assert (await start(house)).no == first.no  # the same call
        made = await start(house, name="", key="made")
        assert made.path == f"/ann/task/{made.no}"
        with pytest.raises(InvalidError, match="name"):
            await start(house, name="Keyboards!", key="wrong")
        await ended(house)
        await trio.sleep(1)
        second = await start(house, key="again")
        assert second.no != first.no and (await task(house)).no == second.no
        with pytest.raises(NotFoundError):
            await task(house, "nobody")


async def test_a_task_runs_beside_the_conversation_that_asked(tmp_path: Path, autojump_clock: object) -> None:
    model = Working()
    async with open_daemon(tmp_path, model) as house:
        model.task.enqueue(600.0, say("late answer"))
        assert "has begun" in await house.talk("/task look into it")
        assert await house.talk("and meanwhile?") == "echo: and meanwhile?"
        [begun] = await house.store.of(TaskRows).find()
        assert (begun.state, begun.deliver, begun.connector) == ("running", "/ann/direct", "direct")
        assert f"{begun.no} look into it: running" in await house.talk("/task")
        assert "running, until 2027-" in await house.talk("/task list")
        await trio.sleep(700)
        assert (await delivered(house))[-1] == "late answer"


async def test_a_chat_command_cancels_a_task_and_its_person_gets_what_it_had(
    tmp_path: Path, autojump_clock: object
) -> None:
    model = Working()
    async with open_daemon(tmp_path, model) as house:
        await house.talk("hello")
        progress = call(("task_progress", {"text": "read 3 of 9"}), text="I begin.")
        model.task.enqueue(progress, 600.0)
        await house.talk("/task read nine letters")
        await trio.sleep(10)
        [running] = await house.store.of(TaskRows).find()
        assert [line.text for line in running.progress] == ["read 3 of 9"]
        assert house.events("task.progress")[0]["text"] == "read 3 of 9"
        assert "is being stopped" in await house.talk(f"/task cancel {running.id}")
        it = await ended(house, running.id)
        assert (it.state, it.reason, it.result) == ("cancelled", "cancelled by the user", "I begin.\nread 3 of 9")
        assert (await delivered(house))[-1] == f"The task {it.id} was cancelled. What it had:\nI begin.\nread 3 of 9"
        assert "is cancelled" in await house.talk(f"/task cancel {running.id}")
        await trio.sleep(1)
        assert not await lives(house, it.id)
        assert [event["state"] for event in house.events("task.ended")] == ["cancelled"]
        assert len(house.events("task.started")) == 1


async def test_a_deadline_stops_a_task_with_what_it_had(tmp_path: Path, autojump_clock: object) -> None:
    model = Working()
    async with open_daemon(tmp_path, model) as house:
        await house.talk("hello")
        model.task.enqueue(call(("task_progress", {"text": "half done"})), 4_000.0)
        await start(house, deadline_s=60.0)
        it = await ended(house)
        assert (it.state, it.reason, it.result) == ("expired", "its deadline has passed", "half done")
        assert it.ended_at == it.deadline_at
        assert (await delivered(house))[-1] == (
            "The task sum was stopped, its deadline has passed. What it had:\nhalf done"
        )


async def test_a_deadline_ends_a_task_that_waits_for_another_agent(tmp_path: Path, autojump_clock: object) -> None:
    model = Working()
    async with open_daemon(tmp_path, model) as house:
        await house.talk("hello")
        model.task.enqueue(call(("spawn", {"task": "help"}), text="I ask a helper."))
        model.enqueue(4_000.0)
        await start(house, deadline_s=60.0)
        it = await ended(house)
        assert (it.state, it.result) == ("expired", "I ask a helper.")
        await trio.sleep(60)
        assert await house.store.agents.at("/ann/task/sum/sub/0") is None


async def test_a_task_whose_turns_fail_is_told_of(tmp_path: Path, autojump_clock: object) -> None:
    model = Working()
    async with open_daemon(tmp_path, model) as house:
        await house.talk("hello")
        model.task.enqueue(*[BusyError("MODEL_BROKEN", "no model today")] * 5)
        await start(house)
        it = await ended(house)
        assert it.state == "failed" and "no model today" in it.reason
        said = await delivered(house)
        assert len(said) == 2 and said[-1].startswith("The task sum failed: ") and "no model today" in said[-1]
        await trio.sleep(1)
        assert not await lives(house)


async def test_an_agent_gets_the_answer_as_a_message(tmp_path: Path, autojump_clock: object) -> None:
    model = Working()
    async with open_daemon(tmp_path, model) as house:
        model.enqueue(call(("task_start", {"prompt": "look", "name": "sum"})), say("I look."), say("It is found."))
        model.task.enqueue(5.0, say("found"))
        assert await house.talk("look it up") == "I look."
        it = await ended(house)
        assert (it.asker, it.waits, it.state, it.result, it.delivery) == ("/ann/direct", False, "done", "found", "")
        await trio.sleep(5)
        assert await delivered(house) == ["I look.", "It is found."]
        assert "given by the agent /ann/direct (not the user)" in model.task.history[0].messages[0].text
        assert "/ann/task/sum" in model.history[2].messages[-1].text


async def test_a_new_conversation_does_not_lose_the_answer(tmp_path: Path, autojump_clock: object) -> None:
    model = Working()
    async with open_daemon(tmp_path, model) as house:
        model.enqueue(call(("task_start", {"prompt": "look", "name": "sum"})), say("I look."))
        model.task.enqueue(60.0, say("found"))
        await house.talk("look it up")
        await house.talk("/new")
        assert (await ended(house)).state == "done"
        await trio.sleep(5)
        assert "found" in (await delivered(house))[-1]


async def test_silence_of_a_task_costs_the_agent_that_asked_no_turn(tmp_path: Path, autojump_clock: object) -> None:
    model = Working()
    async with open_daemon(tmp_path, model) as house:
        model.enqueue(call(("task_start", {"prompt": "look", "name": "sum"})), say("I look."))
        model.task.enqueue(say(SILENCE))
        await house.talk("look it up")
        await ended(house)
        await trio.sleep(60)
        assert len(model.history) == 2


async def test_an_agent_that_waits_gets_the_answer_as_the_result_of_its_call(
    tmp_path: Path, autojump_clock: object
) -> None:
    model = Working()
    async with open_daemon(tmp_path, model) as house:
        model.enqueue(call(("task_start", {"prompt": "look", "wait": True})), say("It is found."))
        model.task.enqueue(say("found"), say(SILENCE))
        assert await house.talk("look it up") == "It is found."
        model.enqueue(call(("task_start", {"prompt": "look", "wait": True})), say("Nothing there."))
        assert await house.talk("and again") == "Nothing there."
        assert "[nothing to tell]" in str(model.history[-1].messages[-1].parts)


async def test_an_agent_that_waits_hears_of_the_deadline(tmp_path: Path, autojump_clock: object) -> None:
    model = Working()
    async with open_daemon(tmp_path, model) as house:
        wish = {"prompt": "look", "wait": True, "deadline_s": 60}
        model.enqueue(call(("task_start", wish)))
        model.task.enqueue(call(("task_progress", {"text": "half"})), 4_000.0)
        answer = await house.talk("look it up")
        assert "its deadline has passed. What it had:\\nhalf" in str(model.history[-1].messages[-1].parts), answer


async def test_an_agent_that_cancels_its_task_is_not_told_what_it_knows(tmp_path: Path, autojump_clock: object) -> None:
    model = Working()
    async with open_daemon(tmp_path, model) as house:
        model.enqueue(call(("task_start", {"prompt": "look", "name": "sum"})), say("I look."))
        model.task.enqueue(600.0)
        await house.talk("look it up")
        await trio.sleep(10)
        model.enqueue(call(("task_cancel", {"name": "sum"})), say("Stopped."))
        assert await house.talk("never mind") == "Stopped."
        it = await ended(house)
        assert (it.state, it.reason) == ("cancelled", "cancelled by /ann/direct")
        await trio.sleep(60)
        assert await delivered(house) == ["I look.", "Stopped."]


async def test_a_task_starts_no_others_and_only_tasks_tell_of_progress(tmp_path: Path, autojump_clock: object) -> None:
    model = Working()
    async with open_daemon(tmp_path, model) as house:
        model.task.enqueue(call(("task_start", {"prompt": "more"})))
        await house.talk("hello")
        await start(house)
        await ended(house)
        assert "a task starts no others" in str(model.task.history[1].messages[-1].parts)
        assert "task_progress" in [tool.name for tool in model.task.history[0].tools]
        assert "task_progress" not in [tool.name for tool in model.history[-1].tools]


async def test_a_task_may_do_no_more_than_the_agent_that_asked(tmp_path: Path, autojump_clock: object) -> None:
    model = Working()
    async with open_daemon(tmp_path, model) as house:
        await house.agent("/ann/agent/narrow", AgentConfig(tools=("task_start", "now")))
        model.enqueue(call(("task_start", {"prompt": "look", "name": "sum"})), say("I look."))
        model.task.enqueue(60.0)
        await house.talk("look it up", path="/ann/agent/narrow")
        agent = await house.store.agents.at("/ann/task/sum")
        assert agent is not None and set(agent.config.tools or ()) == {"task_start", "now", "task_progress"}
        await ended(house)


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        ({"days": {"value": "three", "type": "whole"}}, "parameter days: expected a whole number"),
        ({"days": {"value": 3.5, "type": "whole"}}, "parameter days: expected a whole number"),
        ({"days": {"value": "x", "type": "number"}}, "parameter days: expected a number"),
        ({"days": {"value": "perhaps", "type": "yes_no"}}, "parameter days: expected yes or no"),
        ({"days": {"value": "c", "type": "choice", "choices": ["a", "b"]}}, "parameter days: expected one of a, b"),
        ({"days": {"value": 3, "type": "text"}}, "parameter days: expected a text"),
        ({}, "prompt names {{days}}"),
    ],
)
async def test_a_wrong_parameter_is_named(
    tmp_path: Path, autojump_clock: object, parameters: dict[str, object], field: str
) -> None:
    model = Working()
    async with open_daemon(tmp_path, model) as house:
        model.enqueue(call(("task_start", {"prompt": "for {{days}} days", "parameters": parameters})))
        await house.talk("plan")
        assert field in str(model.history[-1].messages[-1].parts)
        assert await house.store.of(TaskRows).find() == []


async def test_parameters_of_all_types_stand_in_the_prompt(tmp_path: Path, autojump_clock: object) -> None:
    model = Working()
    async with open_daemon(tmp_path, model) as house:
        parameters = {
            "days": {"value": "3", "type": "whole"},
            "price": {"value": "2.5", "type": "number"},
            "rain": {"value": "yes", "type": "yes_no"},
            "tone": {"value": "dry", "type": "choice", "choices": ["dry", "warm"]},
            "city": "Bonn",
        }
        prompt = "{{days}} {{price}} {{rain}} {{tone}} {{city}}"
        model.enqueue(call(("task_start", {"prompt": prompt, "name": "sum", "parameters": parameters})))
        await house.talk("plan")
        assert (await ended(house)).parameters == {"days": 3, "price": 2.5, "rain": True, "tone": "dry", "city": "Bonn"}
        asked = [message.text for request in model.task.history for message in request.messages]
        assert any(text.endswith("\n3 2.5 true dry Bonn") for text in asked)


async def test_the_command_of_a_stranger_to_the_tasks_is_refused(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        with pytest.raises(ForbiddenError, match="another user"):
            await start(house, deliver="/ben/direct")
        with pytest.raises(NotFoundError, match="no such user"):
            await start(house, user="nobody")
