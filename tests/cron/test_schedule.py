"""Jobs run when they are due, their answers reach people, and the ledger says what became of each time."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import trio

from daycare.base.cron import SILENCE, CronSpec
from daycare.base.errors import BusyError, ConflictError, InvalidError, NotFoundError
from daycare.base.fence import fence
from daycare.base.messages import Origin
from daycare.features.cron.rows import CronRows
from daycare.store.records import AgentConfig, User
from daycare.testing.clock import EPOCH_MS, VirtualClock
from daycare.testing.daemon import open_daemon
from daycare.testing.scripted import Scripted, call, say
from tests.cron.helpers import DAY_S, TEN_S, clock_of, delivered, ledger, ms, schedule, states


async def test_a_job_runs_when_it_is_due_and_its_answer_reaches_the_last_conversation(
    tmp_path: Path, autojump_clock: object
) -> None:
    model = Scripted()
    async with open_daemon(tmp_path, model) as house:
        await house.talk("hello")
        await schedule(house, cron="10 1 * * *", zone="Europe/Berlin")
        model.enqueue(say("Two letters, one from Ben."))
        await trio.sleep(TEN_S)
        [run] = await ledger(house)
        assert (clock_of(run.due_at), run.state, run.count, run.attempt) == ("00:10", "ran", 1, 1)
        assert run.started_at == run.ended_at == run.due_at == ms("2027-01-01T00:10")
        assert (run.tokens, run.answer, run.delivery) == (15, "Two letters, one from Ben.", "waiting")
        assert await delivered(house) == ["echo: hello", "Two letters, one from Ben."]
        assert run.outbox is not None
        await house.store.outbox.sent([run.outbox], "shown")
        [run] = await ledger(house)
        assert (run.delivery, run.receipt, run.connector) == ("sent", "shown", "direct") and run.delivered_at
        [message] = model.history[-1].messages
        assert message.origin is Origin.CRON
        assert "Scheduled job /ann/cron/sum, due Fri 2027-01-01 01:10 CET" in message.text
        assert message.text.endswith("\nsum it up")


async def test_an_answer_reaches_somebody_who_has_not_said_a_word_yet(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    async with open_daemon(tmp_path, model) as house:
        await schedule(house)
        model.enqueue(say("Two letters."))
        await trio.sleep(TEN_S)
        [run] = await ledger(house)
        assert (run.state, run.delivery, run.connector) == ("ran", "waiting", "direct")
        assert await delivered(house) == ["Two letters."]


async def test_the_agent_that_talks_with_the_user_knows_what_they_were_told(
    tmp_path: Path, autojump_clock: object
) -> None:
    model = Scripted()
    async with open_daemon(tmp_path, model) as house:
        await house.talk("hello")
        await schedule(house)
        model.enqueue(say("Two letters."))
        await trio.sleep(TEN_S)
        await house.talk("read me the second")
        told = [message.text for message in model.history[-1].messages if "/ann/cron/sum" in message.text]
        assert len(told) == 1 and told[0].splitlines()[-2] == "Two letters."
        assert len(model.history) == 3  # to know it has cost no call


async def test_nobody_is_written_to_when_there_is_nothing_to_tell(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    async with open_daemon(tmp_path, model) as house:
        await house.talk("hello")
        await schedule(house)
        model.enqueue(say(f"{SILENCE}\n"))
        await trio.sleep(TEN_S)
        [run] = await ledger(house)
        assert (run.state, run.reason, run.delivery) == ("ran", "nothing to tell", "")
        assert await delivered(house) == ["echo: hello"]


async def test_each_run_has_a_fresh_session_and_knows_its_last_answer(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted(lambda request: say(f"answer {len(model.history)} >>>"))
    async with open_daemon(tmp_path, model) as house:
        await schedule(house)
        await trio.sleep(2 * TEN_S)
        [message] = model.history[1].messages
        assert "Your answer of Fri 2027-01-01 00:10 UTC" in message.text
        assert message.text.endswith(f"for comparison:\n{fence('earlier-answer', 'answer 1 >>>')}")


async def test_a_job_may_go_on_with_one_conversation(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted(lambda request: say(f"answer {len(model.history)}"))
    async with open_daemon(tmp_path, model) as house:
        await schedule(house, session="continue")
        await trio.sleep(3 * TEN_S)
        assert [message.role for message in model.history[2].messages] == ["user", "assistant"] * 2 + ["user"]
        assert "Your answer of" not in model.history[2].messages[-1].text


async def test_parameters_stand_where_the_prompt_names_them(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    async with open_daemon(tmp_path, model) as house:
        parameters: dict[str, Any] = {"city": "Bonn", "days": 2, "rain": True}
        await schedule(house, prompt="The weather in {{city}} for {{ days }} days", parameters=parameters)
        await trio.sleep(TEN_S)
        assert model.history[0].messages[0].text.endswith("The weather in Bonn for 2 days\n\nParameters:\n- rain: true")
        await house.daemon.cron.controls.run("/ann/cron/sum", {"city": "Kiel"})
        await trio.sleep(60)
        assert "The weather in Kiel for 2 days" in model.history[1].messages[0].text
        with pytest.raises(InvalidError, match="no parameter town"):
            await house.daemon.cron.controls.run("/ann/cron/sum", {"town": "Kiel"})


async def test_another_agent_gets_the_prompt_and_the_user_its_answer(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        await house.talk("hello")
        await house.agent("/ann/agent/scribe", AgentConfig())
        await schedule(house, target="/ann/agent/scribe")
        await trio.sleep(TEN_S)
        [run] = await ledger(house)
        assert run.state == "ran" and run.delivery == "waiting"
        assert run.agent_id == (await house.daemon.directory.at("/ann/agent/scribe")).id
        assert await house.daemon.directory.find("/ann/cron/sum") is None


async def test_a_conversation_gets_the_prompt_itself_when_it_is_the_target(
    tmp_path: Path, autojump_clock: object
) -> None:
    model = Scripted()
    async with open_daemon(tmp_path, model) as house:
        await house.talk("hello")
        await schedule(house, target="/ann/direct")
        model.enqueue(say("Two letters."))
        await trio.sleep(TEN_S)
        assert await delivered(house) == ["echo: hello", "Two letters."]
        assert [run.delivery for run in await ledger(house)] == ["waiting"]
        model.enqueue(say(SILENCE))
        await trio.sleep(TEN_S)
        assert await delivered(house) == ["echo: hello", "Two letters."]


async def test_an_answer_may_be_kept_in_the_ledger_alone(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        await house.talk("hello")
        await schedule(house, deliver="none")
        await trio.sleep(TEN_S)
        [run] = await ledger(house)
        assert run.state == "ran" and run.answer and not run.delivery
        assert await delivered(house) == ["echo: hello"]


async def test_whoever_nobody_can_reach_finds_the_answer_in_the_ledger(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        await house.store.people.unlink("direct:ann")  # and has no other account
        await schedule(house)
        await trio.sleep(TEN_S)
        [run] = await ledger(house)
        assert run.state == "ran" and run.answer and not run.delivery


async def test_what_helpers_cost_is_counted_with_their_run(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    async with open_daemon(tmp_path, model) as house:
        await schedule(house)
        model.enqueue(call(("spawn", {"task": "look"})), say("seen"), say("done"))
        await trio.sleep(1_199)
        run = (await ledger(house))[0]
        assert (run.state, run.answer, run.tokens) == ("ran", "done", 45)


# -- single times ----------------------------------------------------------------------------------------------------


async def test_a_single_time_runs_once(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        job = await schedule(house, at="2027-01-01T01:20", zone="Europe/Berlin")
        assert job.next_at == ms("2027-01-01T00:20")
        await trio.sleep(4 * TEN_S)
        assert await states(house) == [("00:20", "ran")]
        assert (await house.daemon.cron.controls.at("/ann/cron/sum")).next_at is None


async def test_a_job_that_is_to_go_after_its_run_goes_with_its_agent_and_leaves_its_ledger(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with open_daemon(tmp_path) as house:
        await house.talk("hello")
        await schedule(house, at="2027-01-01T00:10", delete_after_run=True)
        await trio.sleep(4 * TEN_S)
        assert await states(house) == [("00:10", "ran")]
        assert await house.store.of(CronRows).find() == []
        assert await house.daemon.directory.find("/ann/cron/sum") is None
        assert len(await delivered(house)) == 2
        assert await house.store.dead.count() == 0


async def test_a_single_time_in_the_past_is_refused(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        with pytest.raises(ConflictError, match="that is over"):
            await schedule(house, at="2026-12-31T23:00")


# -- overlap, failure, retries ---------------------------------------------------------------------------------------


async def test_a_run_is_skipped_while_the_one_before_it_goes_on(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    async with open_daemon(tmp_path, model) as house:
        await schedule(house, cron="* * * * *")
        model.enqueue(100.0, say("slow"))
        await trio.sleep(250)
        assert await states(house) == [("00:01", "ran"), ("00:02", "skipped"), ("00:03", "ran"), ("00:04", "ran")]
        assert "overlap: skip" in (await ledger(house))[1].reason


async def test_runs_queue_where_that_is_wished_and_not_without_end(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    async with open_daemon(tmp_path, model) as house:
        await schedule(house, cron="* * * * *", overlap="queue")
        for _ in range(40):
            model.enqueue(115.0, say("slow"))
        await trio.sleep(25.5 * 60)
        found = [run.state for run in await ledger(house)]
        assert len(found) == 25 and found[:2] == ["ran", "ran"] and "late" in found and "skipped" in found
        assert found.count("due") <= 10


async def test_a_run_whose_turn_is_given_up_has_failed_and_the_user_is_told(
    tmp_path: Path, autojump_clock: object
) -> None:
    model = Scripted()
    async with open_daemon(tmp_path, model) as house:
        await house.talk("hello")
        await schedule(house, at="2027-01-01T00:10")
        model.enqueue(*[BusyError("BAD", "no model today") for _ in range(5)])
        await trio.sleep(4 * TEN_S)
        [run] = await ledger(house)
        assert run.state == "failed" and "no model today" in run.reason
        assert any("/ann/cron/sum could not finish" in text for text in await delivered(house))
        assert [event["reason"] for event in house.events("cron.failed")] == [run.reason]


async def test_a_failed_run_is_tried_again_as_often_as_the_job_says_with_growing_pauses(
    tmp_path: Path, autojump_clock: object
) -> None:
    model = Scripted()
    async with open_daemon(tmp_path, model) as house:
        await house.talk("hello")
        await schedule(house, at="2027-01-01T00:10", retry=2)
        model.enqueue(*[BusyError("BAD", "no model today") for _ in range(10)], say("at last"))
        await trio.sleep(4 * TEN_S)
        [run] = await ledger(house)
        assert (run.state, run.attempt, run.answer) == ("late", 3, "at last")
        assert run.ended_at is not None and run.ended_at > ms("2027-01-01T00:25")
        failed = house.events("cron.failed")
        assert len(failed) == 2 and all(event["again_at"] for event in failed)


async def test_a_target_that_died_fails_the_run_and_not_the_schedule(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        await house.talk("hello")
        agent = await house.agent("/ann/agent/scribe")
        await schedule(house, target="/ann/agent/scribe")
        await house.store.agents.set_state(agent.id, "dead", "ended")
        await trio.sleep(2 * TEN_S + 1)
        found = await ledger(house)
        assert [run.state for run in found] == ["failed", "failed"]
        assert "sum could not run" in (await delivered(house))[-1]
        assert "no such agent" in found[0].reason


# -- changes ---------------------------------------------------------------------------------------------------------


async def test_an_edit_takes_effect_at_once(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        controls = house.daemon.cron.controls
        await schedule(house, cron="0 12 * * *")
        await trio.sleep(1)
        await controls.change("/ann/cron/sum", {"cron": "*/5 * * * *"})
        await trio.sleep(11 * 60)
        assert await states(house) == [("00:05", "ran"), ("00:10", "ran")]
        await controls.change("/ann/cron/sum", {"enabled": "false"})
        await trio.sleep(TEN_S)
        assert len(await ledger(house)) == 2
        await controls.change("/ann/cron/sum", {"enabled": None, "cron": None, "at": "2027-01-01T00:40"})
        await trio.sleep(2 * TEN_S)
        assert (await states(house))[2:] == [("00:40", "ran")]


async def test_a_paused_job_rests_and_goes_on_from_when_it_is_told_to(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        controls = house.daemon.cron.controls
        await schedule(house)
        await controls.pause("/ann/cron/sum", paused=True)
        await trio.sleep(2 * TEN_S + 60)
        await controls.pause("/ann/cron/sum", paused=False)
        await trio.sleep(TEN_S)
        assert await states(house) == [("00:30", "ran")]


async def test_a_removed_job_runs_no_more_and_its_name_is_free(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        controls = house.daemon.cron.controls
        first = await schedule(house)
        await trio.sleep(TEN_S)
        await controls.remove("/ann/cron/sum")
        await trio.sleep(2 * TEN_S)
        assert await states(house) == [("00:10", "ran")]
        with pytest.raises(NotFoundError):
            await controls.at("/ann/cron/sum")
        second = await schedule(house)
        assert second.no != first.no
        await trio.sleep(TEN_S)
        assert await states(house) == [("00:10", "ran"), ("00:40", "ran")]


async def test_removing_a_job_stops_its_run(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    async with open_daemon(tmp_path, model) as house:
        await schedule(house)
        model.enqueue(1_000.0, say("slow"))
        await trio.sleep(TEN_S + 10)
        await house.daemon.cron.controls.remove("/ann/cron/sum")
        await trio.sleep(10)
        [run] = await ledger(house)
        assert (run.state, run.reason) == ("failed", "stopped")
        assert await house.daemon.directory.find("/ann/cron/sum") is None


async def test_a_job_runs_by_hand_beside_its_schedule(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        await schedule(house)
        await trio.sleep(60)
        run = await house.daemon.cron.controls.run("/ann/cron/sum")
        await trio.sleep(TEN_S)
        found = await ledger(house)
        assert [(each.by_hand, each.state) for each in found] == [(True, "ran"), (False, "ran")]
        assert found[0].no == run.no


# -- absence and clocks ----------------------------------------------------------------------------------------------


async def away(folder: Path, hours: float, clock: VirtualClock, jobs: dict[str, dict[str, Any]]) -> None:
    """Add jobs, each hour unless said otherwise, run for a minute, and be away."""
    async with open_daemon(folder, location="daycare.db", clock=clock) as house:
        await house.talk("hello")
        for name, fields in jobs.items():
            await schedule(house, name, **({"cron": "0 * * * *"} | fields))
        await trio.sleep(60)
    await trio.sleep(hours * 3_600 - 60)


async def test_after_an_absence_each_policy_decides_and_every_time_is_in_the_ledger(
    tmp_path: Path, autojump_clock: object
) -> None:
    clock = VirtualClock()
    jobs = {
        "never": {"misfire": "skip"},
        "once": {"misfire": "run_once"},
        "soon": {"misfire": "within 60"},
        "older": {"misfire": "within 5"},
        "daily": {"cron": "0 1 * * *", "misfire": "run_once"},
        "stale": {"cron": "0 1 * * *", "misfire": "within 60"},
    }
    await away(tmp_path, 3.5, clock, jobs)
    async with open_daemon(tmp_path, location="daycare.db", clock=clock) as house:
        await trio.sleep(10 * 60)
        assert await states(house, "never") == [("01:00", "missed"), ("02:00", "missed"), ("03:00", "missed")]
        assert await states(house, "once") == [("01:00", "missed"), ("02:00", "missed"), ("03:00", "late")]
        assert await states(house, "soon") == [("01:00", "missed"), ("02:00", "missed"), ("03:00", "late")]
        assert await states(house, "older") == [("01:00", "missed"), ("02:00", "missed"), ("03:00", "missed")]
        assert await states(house, "daily") == [("01:00", "late")]
        assert await states(house, "stale") == [("01:00", "missed")]
        for name, fields in jobs.items():
            assert all(str(fields["misfire"]) in run.reason for run in await ledger(house, name))
        heard = await delivered(house)
        late = [text for text in heard if "Scheduled job" in text]
        assert len(late) == 3 and any("2 h 30 min late" in text for text in late)
        told = sorted(text.split()[3] for text in heard if "did not run" in text)
        assert told == ["older", "stale"]  # who would have run it is told that it is too late


async def test_catching_up_is_spread_over_time(tmp_path: Path, autojump_clock: object) -> None:
    clock = VirtualClock()
    await away(tmp_path, 2.5, clock, {f"job{n}": {"misfire": "run_once"} for n in range(12)})
    async with open_daemon(tmp_path, location="daycare.db", clock=clock) as house:
        begin = clock.now_ms()
        await trio.sleep(70)
        runs = [run for run in await house.store.of(CronRows).runs(limit=1000) if run.state == "late"]
        assert len(runs) == 12
        began = sorted((run.started_at or 0) - begin for run in runs)
        assert all(later - earlier >= 4_900 for earlier, later in pairwise(began))


async def test_what_is_on_time_does_not_wait_for_what_is_late(tmp_path: Path, autojump_clock: object) -> None:
    clock = VirtualClock()
    jobs = {f"job{n}": {"misfire": "run_once"} for n in range(24)} | {"due": {"cron": "31 3 * * *"}}
    await away(tmp_path, 3.5, clock, jobs)
    async with open_daemon(tmp_path, location="daycare.db", clock=clock) as house:
        await trio.sleep(70)
        [run] = await ledger(house, "due")
        assert run.state == "ran" and run.started_at == run.due_at


async def test_a_short_stop_makes_nothing_late(tmp_path: Path, autojump_clock: object) -> None:
    clock = VirtualClock()
    await away(tmp_path, 1 + 50 / 3600, clock, {"sum": {"misfire": "skip"}})
    async with open_daemon(tmp_path, location="daycare.db", clock=clock) as house:
        await trio.sleep(60)
        assert await states(house) == [("01:00", "ran")]


async def test_a_long_absence_is_recorded_in_bounded_form(tmp_path: Path, autojump_clock: object) -> None:
    clock = VirtualClock()
    await away(tmp_path, 24 * 30, clock, {"sum": {"cron": "* * * * *", "misfire": "run_once"}})
    clock.shift(30)
    async with open_daemon(tmp_path, location="daycare.db", clock=clock) as house:
        await trio.sleep(25)
        found = await ledger(house)
        assert sum(run.count for run in found) == 30 * 24 * 60
        assert found[-1].state == "ran"  # half a minute is not late
        missed = [run for run in found if run.state == "missed"]
        assert len(missed) == 101 and [run.count > 1 for run in missed] == [False] * 100 + [True]
        assert len({run.reason for run in missed}) == 1
        assert missed[-1].until_at == found[-1].due_at - 60_000


@pytest.mark.parametrize("jump_s", [-1_500.0, -60.0, 3_600.0, 864_000.0])
async def test_a_clock_that_is_set_neither_repeats_nor_loses_a_time(
    tmp_path: Path, autojump_clock: object, jump_s: float
) -> None:
    clock = VirtualClock()
    async with open_daemon(tmp_path, clock=clock) as house:
        await schedule(house, misfire="skip")
        await trio.sleep(4 * TEN_S)
        clock.shift(jump_s)
        await trio.sleep(max(-jump_s, 0) + 2 * TEN_S)
        found = await ledger(house)
        times = [at for run in found for at in range(run.due_at, run.until_at + 1, 600_000)]
        assert times == list(range(EPOCH_MS + 600_000, clock.now_ms() + 1, 600_000))
        assert sum(run.count for run in found) == len(times)
        missed = sum(run.count for run in found if run.state == "missed")
        assert missed == (0 if jump_s < 0 else int(jump_s // 600) - 1)  # the last of them is not late yet


async def test_a_glitch_of_the_clock_costs_no_time_that_comes_again(tmp_path: Path, autojump_clock: object) -> None:
    clock = VirtualClock()
    async with open_daemon(tmp_path, clock=clock) as house:
        await schedule(house, misfire="skip")
        await trio.sleep(TEN_S + 100)
        clock.shift(10 * DAY_S)
        await trio.sleep(120)
        assert len(await ledger(house)) == 1 + 101
        clock.shift(-10 * DAY_S)
        await trio.sleep(2 * TEN_S)
        assert await states(house) == [("00:10", "ran"), ("00:20", "ran"), ("00:30", "ran")]


async def test_a_glitch_that_ended_while_nobody_was_there_costs_none_either(
    tmp_path: Path, autojump_clock: object
) -> None:
    clock = VirtualClock()
    async with open_daemon(tmp_path, location="daycare.db", clock=clock) as house:
        await schedule(house, misfire="skip")
        await trio.sleep(100)
        clock.shift(10 * DAY_S)
        await trio.sleep(120)
    clock.shift(-10 * DAY_S)
    async with open_daemon(tmp_path, location="daycare.db", clock=clock) as house:
        await trio.sleep(2 * TEN_S)
        found = [run for run in await ledger(house) if run.due_at < EPOCH_MS + DAY_S * 1000]
        assert [(clock_of(run.due_at), run.state) for run in found] == [("00:10", "ran"), ("00:20", "ran")]


async def test_the_jobs_of_a_user_who_was_removed_go_with_them(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        await house.store.people.add(User(id="ben", name="Ben", keys=("direct:ben",)))
        controls = house.daemon.cron.controls
        await controls.add("ben", "sum", CronSpec(cron="*/10 * * * *", prompt="x"), source="cli")
        await house.store.people.remove("ben")
        await trio.sleep(TEN_S)
        assert (await house.store.of(CronRows).find("ben"), await house.store.of(CronRows).runs(user="ben")) == ([], [])
        assert house.events("cron.broken") == []


async def test_observers_hear_what_became_of_each_time(tmp_path: Path, autojump_clock: object) -> None:
    clock = VirtualClock()
    await away(tmp_path, 3.5, clock, {"sum": {"misfire": "run_once"}})
    async with open_daemon(tmp_path, location="daycare.db", clock=clock) as house:
        await trio.sleep(60)
        assert [event["due_at"] for event in house.events("cron.missed")] == [
            ms("2027-01-01T01:00"),
            ms("2027-01-01T02:00"),
        ]
        assert len(house.events("cron.due")) == 1
        [ran] = house.events("cron.ran")
        assert (ran["state"], ran["path"], ran["due_at"]) == ("late", "/ann/cron/sum", ms("2027-01-01T03:00"))
