"""What every store promises of scheduled jobs: each due time once, its end with the end of its message."""

import pytest

from daycare.base.cron import CronSpec
from daycare.base.errors import BusyError, ConflictError, NotFoundError
from daycare.base.limits import CRON_JOBS_MAX
from daycare.base.messages import Envelope, Message, Origin, Text, Usage
from daycare.features.budgets.rows import BudgetRows
from daycare.features.cron.ledger import CRON_MISSED_ROWS
from daycare.features.cron.model import CronFiring, CronJob, CronPost, CronRun, NewCronJob, NewCronRun
from daycare.features.cron.rows import CRON_RUNS_KEPT, CronRows
from daycare.store.records import ForwardedReply, NewAgent, Reply, Spend, TurnEnd
from daycare.store.sqlite.store import Store
from tests.store.samples import EPOCH_MS, HandClock, new_agent

HOURLY = CronSpec(cron="0 * * * *", prompt="look")
HOUR_MS = 3_600_000


def new_job(name: str = "look", *, key: str = "", source: str = "cli", spec: CronSpec = HOURLY) -> NewCronJob:
    return NewCronJob(
        path=f"/u1/cron/{name}",
        user="u1",
        source=source,  # type: ignore[arg-type]
        source_ref=f"cron/{name}.md" if source == "file" else "",
        spec=spec,
        next_at=EPOCH_MS + HOUR_MS,
        key=key,
    )


def message(job: CronJob, due_at: int, attempt: int = 0, *, fresh: bool = False) -> CronPost:
    envelope = Envelope(
        to=job.path,
        user="u1",
        origin=Origin.CRON,
        sender=job.path,
        key=f"cron:{job.no}:{due_at}:{attempt}",
        text=job.spec.prompt,
        trace=f"trace-{due_at}-{attempt}",
    )
    new = NewAgent(id=f"id-{job.id}", path=job.path, kind="cron", role=None, user="u1", origin=Origin.CRON)
    return CronPost(envelope=envelope, create=new, fresh=fresh)


def due(job: CronJob, due_at: int, next_at: int | None = None, *, fresh: bool = False) -> CronFiring:
    run = NewCronRun(due_at=due_at, state="due", post=message(job, due_at, fresh=fresh))
    return CronFiring(job=job, runs=(run,), next_at=next_at or due_at + HOUR_MS)


async def job_of(store: Store, name: str = "look") -> CronJob:
    job = await store.of(CronRows).at(f"/u1/cron/{name}")
    assert job is not None
    return job


async def fire(store: Store, name: str = "look") -> CronRun:
    """Fire a job at its next time and return the entry."""
    job = await job_of(store, name)
    assert job.next_at is not None
    [run] = await store.of(CronRows).fire([due(job, job.next_at)])
    return run


async def finish(store: Store, run: CronRun, result: str = "done", *, reply: bool = False, cost: int = 0) -> None:
    agent = await store.agents.at(run.path)
    assert agent is not None and run.seq is not None
    [row] = await store.inbox.rows([run.seq])
    turn = await store.turns.begin(agent, [row])
    spend = Spend(
        agent_id=agent.id,
        user="u1",
        turn=turn.turn,
        provider="p",
        model="m",
        usage=Usage(10, 5),
        cost_micros=cost,
    )
    deliveries: tuple[ForwardedReply, ...] = ()
    if reply:
        person = await store.agents.create(new_agent())
        deliveries = (ForwardedReply(agent=person, reply=Reply(connector="telegram", text=result)),)
    end = TurnEnd(
        turn=turn.turn,
        state="done",
        seqs=turn.seqs,
        history=(Message("assistant", (Text(result),)),),
        result=result,
        deliveries=deliveries,
    )
    await store.of(BudgetRows).settle(spend)
    await store.turns.finish(agent, turn, end)


async def test_a_job_is_kept_once_for_each_call_and_each_name(store: Store) -> None:
    first = await store.of(CronRows).add(new_job(key="call-1"))
    assert await store.of(CronRows).add(new_job(key="call-1")) == await store.of(CronRows).get(first.no)
    with pytest.raises(ConflictError):
        await store.of(CronRows).add(new_job(key="call-2"))
    assert await store.of(CronRows).by_key("call-1") is not None
    await store.of(CronRows).remove(first.no, "over")
    assert await store.of(CronRows).at("/u1/cron/look") is None
    assert (await store.of(CronRows).add(new_job(key="call-2"))).no != first.no
    again = await store.of(CronRows).add(new_job(key="call-1"))
    assert again.no == first.no and again.removed_at is not None


async def test_a_user_has_a_bounded_number_of_jobs(store: Store) -> None:
    for number in range(CRON_JOBS_MAX):
        await store.of(CronRows).add(new_job(f"job{number}"))
    with pytest.raises(BusyError, match="the most there can be"):
        await store.of(CronRows).add(new_job("more"))


async def test_recording_posting_and_moving_on_are_one(store: Store) -> None:
    job = await store.of(CronRows).add(new_job())
    run = await fire(store)
    assert (run.state, run.attempt, run.due_at) == ("due", 1, EPOCH_MS + HOUR_MS)
    agent = await store.agents.at("/u1/cron/look")
    assert agent is not None and agent.id == run.agent_id
    assert [row.seq for row in await store.inbox.waiting(agent.id)] == [run.seq]
    assert (await job_of(store)).next_at == EPOCH_MS + 2 * HOUR_MS
    assert await store.of(CronRows).fire([due(job, EPOCH_MS + HOUR_MS)]) == []  # it has moved on
    assert await store.of(CronRows).next_due() == EPOCH_MS + 2 * HOUR_MS


async def test_a_time_that_is_in_the_ledger_is_never_posted_again(store: Store) -> None:
    await store.of(CronRows).add(new_job())
    run = await fire(store)
    job = await job_of(store)
    changed = await store.of(CronRows).change(
        job.no, job.revision, CronSpec(cron="30 * * * *", prompt="look"), run.due_at
    )
    assert await store.of(CronRows).fire([due(changed, run.due_at)]) == []
    assert len(await store.of(CronRows).runs()) == 1
    assert (await job_of(store)).next_at == run.due_at + HOUR_MS


async def test_an_edit_that_came_between_is_not_overrun(store: Store) -> None:
    job = await store.of(CronRows).add(new_job())
    await store.of(CronRows).change(
        job.no, job.revision, CronSpec(cron="0 5 * * *", prompt="look"), EPOCH_MS + 5 * HOUR_MS
    )
    assert await store.of(CronRows).fire([due(job, EPOCH_MS + HOUR_MS)]) == []
    with pytest.raises(ConflictError):
        await store.of(CronRows).change(job.no, job.revision, HOURLY, None)
    assert await store.of(CronRows).runs() == []


async def test_another_prompt_does_not_change_when_a_job_is_due(store: Store) -> None:
    job = await store.of(CronRows).add(new_job())
    changed = await store.of(CronRows).change(
        job.no, job.revision, CronSpec(cron="0 * * * *", prompt="read"), EPOCH_MS + 1
    )
    assert changed.next_at == job.next_at and changed.spec.prompt == "read"


async def test_the_end_of_a_run_comes_with_the_end_of_its_turn(store: Store, clock: HandClock) -> None:
    await store.of(CronRows).add(new_job())
    clock.ms = EPOCH_MS + HOUR_MS + 5_000
    run = await fire(store)
    clock.ms += 7_000
    await finish(store, run, "all is well", reply=True, cost=120)
    found = await store.of(CronRows).run(run.no)
    assert found is not None
    assert (found.state, found.tokens, found.cost_micros, found.answer) == ("ran", 15, 120, "all is well")
    assert (found.ended_at, found.delivery, found.connector) == (clock.ms, "waiting", "telegram")
    last = await store.of(CronRows).last_answer(found.job)
    assert last is not None and (last.due_at, last.text) == (run.due_at, "all is well")
    assert [row.text for row in await store.outbox.unread("/u1/telegram")] == ["all is well"]
    assert found.outbox is not None
    await store.outbox.give_up(found.outbox, "GONE", "nobody there")
    assert (await store.of(CronRows).runs())[0].delivery == "dead"
    [letter] = await store.dead.find()
    await store.dead.replay(letter.no)
    [again] = await store.of(CronRows).runs()
    assert (again.delivery, again.outbox) == ("waiting", found.outbox + 1)
    await store.outbox.start(found.outbox + 1)
    await store.outbox.give_up(found.outbox + 1, "TIMEOUT", "no answer")
    assert (await store.of(CronRows).runs())[0].delivery == "dead", "also after a try that may have arrived"


async def test_what_began_late_is_late(store: Store, clock: HandClock) -> None:
    await store.of(CronRows).add(new_job())
    clock.ms = EPOCH_MS + HOUR_MS + 61_000
    run = await fire(store)
    await finish(store, run)
    assert [each.state for each in await store.of(CronRows).runs()] == ["late"]


async def test_a_run_that_is_given_up_waits_for_as_many_attempts_as_its_job_says(
    store: Store, clock: HandClock
) -> None:
    await store.of(CronRows).add(new_job(spec=CronSpec(cron="0 * * * *", prompt="look", retry=1)))
    run = await fire(store)
    for attempt in (1, 2):
        agent = await store.agents.at(run.path)
        assert agent is not None
        turn = await store.turns.begin(agent, await store.inbox.waiting(agent.id))
        await store.turns.park(agent, turn, code="BAD", reason="it broke")
        [found] = await store.of(CronRows).runs()
        assert found.attempt == attempt
        if attempt == 1:
            assert found.state == "waiting" and found.post_at == clock.ms + 300_000
            assert await store.of(CronRows).waiting(clock.ms, 10) == []
            clock.ms += 300_000
            [waiting] = await store.of(CronRows).waiting(clock.ms, 10)
            job = await job_of(store)
            posted = await store.of(CronRows).post(waiting.no, message(job, waiting.due_at, waiting.attempt))
            assert posted is not None and posted.state == "due"
            assert await store.of(CronRows).post(waiting.no, message(job, waiting.due_at, waiting.attempt)) is None
    assert (found.state, found.reason) == ("failed", "it broke")


async def test_what_waits_for_longer_than_any_pause_is_due_because_the_clock_was_set_back(
    store: Store, clock: HandClock
) -> None:
    job = await store.of(CronRows).add(new_job())
    await store.of(CronRows).by_hand(job, clock.ms, {})
    assert len(await store.of(CronRows).waiting(clock.ms - 86_400_000, 10)) == 1


async def test_a_run_stands_in_the_way_of_the_next_one(store: Store) -> None:
    await store.of(CronRows).add(new_job())
    await fire(store)
    skipped = await fire(store)
    assert skipped.state == "skipped" and "overlap" in skipped.reason
    by_hand = await store.of(CronRows).by_hand(await job_of(store), EPOCH_MS, {"a": 1})
    assert by_hand.parameters == {"a": 1}
    posted = await store.of(CronRows).post(by_hand.no, message(await job_of(store), by_hand.due_at))
    assert posted is not None and posted.state == "due"


async def test_a_fresh_run_begins_a_session_unless_the_last_one_was_not_used(store: Store) -> None:
    await store.of(CronRows).add(new_job())
    sessions = []
    for _ in range(2):
        job = await job_of(store)
        assert job.next_at is not None
        [run] = await store.of(CronRows).fire([due(job, job.next_at, fresh=True)])
        await finish(store, run)
        agent = await store.agents.at("/u1/cron/look")
        assert agent is not None
        sessions.append(agent.session)
    assert sessions == [1, 2]


async def test_a_job_that_goes_after_its_run_goes_with_the_turn(store: Store) -> None:
    await store.of(CronRows).add(new_job(spec=CronSpec(cron="0 * * * *", prompt="look", delete_after_run=True)))
    await finish(store, await fire(store))
    assert await store.of(CronRows).find() == []
    assert [path for _, path, _ in await store.of(CronRows).orphans(10)] == ["/u1/cron/look"]
    assert [run.state for run in await store.of(CronRows).runs()] == ["ran"]


async def test_a_job_in_a_file_is_not_due_any_more_after_its_one_run(store: Store) -> None:
    spec = CronSpec(cron="0 * * * *", prompt="look", delete_after_run=True)
    await store.of(CronRows).reconcile("file", [new_job(source="file", spec=spec)], set())
    await finish(store, await fire(store))
    assert (await job_of(store)).next_at is None


async def test_many_missed_times_share_an_entry(store: Store) -> None:
    await store.of(CronRows).add(new_job())
    for begin in (0, 300, 600):
        job = await job_of(store)
        missed = [
            NewCronRun(due_at=EPOCH_MS + (begin + n + 1) * HOUR_MS, state="missed", reason="away") for n in range(300)
        ]
        firing = CronFiring(job=job, runs=tuple(missed), next_at=EPOCH_MS + (begin + 301) * HOUR_MS)
        await store.of(CronRows).fire([firing])
    found = await store.of(CronRows).runs(limit=1000)
    assert len(found) == CRON_MISSED_ROWS + 1 and sum(run.count for run in found) == 900
    assert found[0].until_at == EPOCH_MS + 900 * HOUR_MS


async def test_files_that_are_gone_take_their_jobs_along_and_broken_ones_do_not(store: Store) -> None:
    wanted = [new_job(name, source="file") for name in ("a", "b", "c")]
    assert await store.of(CronRows).reconcile("file", wanted, set()) == []
    await store.of(CronRows).add(new_job("d"))
    kept = await store.of(CronRows).reconcile("file", [wanted[0], new_job("d", source="file")], {"cron/b.md"})
    assert [(each.path, each.taken_by) for each in kept] == [("/u1/cron/d", "cli")]
    assert [job.id for job in await store.of(CronRows).find()] == ["a", "b", "d"]


async def test_an_unchanged_file_leaves_what_its_job_missed(store: Store) -> None:
    await store.of(CronRows).reconcile("file", [new_job("a", source="file")], set())
    later = NewCronJob(
        path="/u1/cron/a", user="u1", source="file", source_ref="cron/a.md", spec=HOURLY, next_at=EPOCH_MS + 9 * HOUR_MS
    )
    await store.of(CronRows).reconcile("file", [later], set())
    job = await job_of(store, "a")
    assert job.next_at == EPOCH_MS + HOUR_MS and job.revision == 1


async def test_a_paused_job_stays_paused_when_its_file_changes(store: Store) -> None:
    await store.of(CronRows).reconcile("file", [new_job("a", source="file")], set())
    job = await job_of(store, "a")
    assert (await store.of(CronRows).pause(job.no, True, None)).next_at is None
    changed = new_job("a", source="file", spec=CronSpec(cron="5 * * * *", prompt="look"))
    await store.of(CronRows).reconcile("file", [changed], set())
    job = await job_of(store, "a")
    assert job.paused and job.next_at is None
    assert (await store.of(CronRows).pause(job.no, False, EPOCH_MS + 9)).next_at == EPOCH_MS + 9
    assert (
        await store.of(CronRows).pause(job.no, False, EPOCH_MS + 10)
    ).next_at == EPOCH_MS + 9  # it was going on already


async def test_removing_a_job_skips_what_waits_of_it(store: Store) -> None:
    job = await store.of(CronRows).add(new_job())
    run = await store.of(CronRows).by_hand(job, EPOCH_MS, {})
    await store.of(CronRows).remove(job.no, "over")
    found = await store.of(CronRows).run(run.no)
    assert found is not None and (found.state, found.reason) == ("skipped", "over")
    with pytest.raises(ConflictError):
        await store.of(CronRows).by_hand(job, EPOCH_MS, {})
    with pytest.raises(NotFoundError):
        await store.of(CronRows).pause(job.no, True, None)


async def test_what_was_missed_in_a_future_that_was_none_is_taken_back(store: Store, clock: HandClock) -> None:
    job = await store.of(CronRows).add(new_job())
    clock.ms = EPOCH_MS + 10 * HOUR_MS
    times = [NewCronRun(due_at=EPOCH_MS + n * HOUR_MS, state="missed", reason="away") for n in range(1, 10)]
    await store.of(CronRows).fire([CronFiring(job=job, runs=tuple(times), next_at=EPOCH_MS + 11 * HOUR_MS)])
    other = await store.of(CronRows).add(new_job("other"))
    assert [it.no for it in await store.of(CronRows).ahead(clock.ms - 1, after=0, limit=10)] == [job.no, other.no]
    assert not await store.of(CronRows).was_ahead(clock.ms)
    clock.ms = EPOCH_MS + 2 * HOUR_MS
    assert await store.of(CronRows).was_ahead(clock.ms)
    assert [it.no for it in await store.of(CronRows).ahead(clock.ms, after=job.no, limit=10)] == [other.no]
    await store.of(CronRows).rewind(clock.ms, [(job.no, job.revision, EPOCH_MS + 3 * HOUR_MS)])
    assert [run.due_at for run in await store.of(CronRows).runs()] == [EPOCH_MS + 2 * HOUR_MS, EPOCH_MS + HOUR_MS]
    assert (await job_of(store)).next_at == EPOCH_MS + 3 * HOUR_MS


async def test_the_ledger_expires_and_is_bounded(store: Store, clock: HandClock) -> None:
    job = await store.of(CronRows).add(new_job())
    for begin in range(0, CRON_RUNS_KEPT + 200, 100):
        job = await job_of(store)
        missed = [
            NewCronRun(due_at=EPOCH_MS + (begin + n) * 1_000, state="missed", reason=f"{begin}") for n in range(100)
        ]
        await store.of(CronRows).fire(
            [CronFiring(job=job, runs=tuple(missed), next_at=EPOCH_MS + (begin + 100) * 1_000)]
        )
    while await store.of(CronRows).expire(0, 1_000):
        pass
    found = await store.of(CronRows).runs(limit=10_000)
    assert len(found) == CRON_RUNS_KEPT and found[-1].due_at == EPOCH_MS + 200 * 1_000
    clock.ms += HOUR_MS
    run = await fire(store)
    while await store.of(CronRows).expire(clock.ms, 1_000):
        pass
    assert [each.no for each in await store.of(CronRows).runs()] == [run.no]  # it has not ended
