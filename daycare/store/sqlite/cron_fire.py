"""A job's due times as the open transaction sees them: recorded, posted, moved on; taken back when the clock was."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from daycare.base.errors import ConflictError, DaycareError
from daycare.base.limits import CRON_MISSED_ROWS, CRON_QUEUE_MAX
from daycare.store.records_cron import CronFiring, CronJob, CronNews, CronPost, CronRun, NewCronRun
from daycare.store.sqlite import agents, cron_jobs, inbox, tasks
from daycare.store.sqlite.cron_ledger import OpenRuns, must_get, note
from daycare.store.sqlite.writer import Tx

_encode = msgspec.json.Encoder().encode


def fire(tx: Tx, firing: CronFiring) -> list[CronRun]:
    """Do what was decided for a job, if it is still as it was."""
    job = firing.job
    now = cron_jobs.must_get(tx, job.no)
    if (now.revision, now.next_at, now.removed_at) != (job.revision, job.next_at, None):
        return []
    tx.run("UPDATE cron_jobs SET next_at = ?, updated_at = ? WHERE no = ?", (firing.next_at, tx.now, job.no))
    news = tx.commit.add(CronNews)
    news.changed = True
    before = len(news.runs)
    missed = [run for run in firing.runs if run.state == "missed"]
    own = missed if len(missed) <= CRON_MISSED_ROWS else missed[:CRON_MISSED_ROWS]
    if missed and _goes_on(tx, job, missed):
        own = []
    for run in own:
        _insert(tx, job, run)
    if rest := missed[len(own) :]:
        _sum_up(tx, job, rest)
    for run in firing.runs:
        if run.state != "missed" and (no := _insert(tx, job, run)) is not None and run.post is not None:
            post(tx, no, job, run.post)
    return news.runs[before:]


def post_waiting(tx: Tx, no: int, message: CronPost) -> CronRun | None:
    """Post a run that waits."""
    it = must_get(tx, no)
    if it.state != "waiting":
        return None
    post(tx, no, cron_jobs.must_get(tx, it.job), message)
    return must_get(tx, no)


def post(tx: Tx, no: int, job: CronJob, message: CronPost) -> None:
    """Post a run's message, unless one that goes on stands in its way or its inbox refuses."""
    it = must_get(tx, no)
    in_the_way = _in_the_way(tx, job, it)
    if in_the_way:
        _end(tx, no, "skipped", in_the_way)
        return
    try:
        agent_id, seq, task = _begin(tx, it, message)
    except DaycareError as refused:
        _end(tx, no, "failed", refused.message)
        return
    if message.fresh and _has_turns(tx, agent_id):
        agents.new_session(tx, agent_id, "a scheduled run")
    tx.run(
        "UPDATE cron_runs SET state = 'due', post_at = NULL, attempt = attempt + 1, agent_id = ?, seq = ?, trace = ?,"
        " task = ?, after_turn = (SELECT coalesce(max(turn), 0) FROM turns) WHERE no = ?",
        (agent_id, seq, message.envelope.trace, task, no),
    )
    tx.of(OpenRuns).no[seq] = no
    note(tx, no)


def _begin(tx: Tx, it: CronRun, message: CronPost) -> tuple[str, int, str]:
    """Post a run's message, or start its task; return the agent's id, the message's number and the task's path."""
    if message.task is None:
        receipt = inbox.post(tx, message.envelope, message.create)
        return receipt.agent_id, receipt.seq, ""
    number = f"{it.no}-{it.attempt + 1}" if it.attempt else f"{it.no}"  # the attempt before may not have gone yet
    task = tasks.start(tx, replace(message.task, id=f"{message.task.id}-{number}"))
    return task.agent_id, task.seq, task.path


def by_hand(tx: Tx, job: CronJob, now_ms: int, parameters: dict[str, Any]) -> CronRun:
    """Add a run that somebody asked for."""
    if cron_jobs.must_get(tx, job.no).removed_at is not None:
        raise ConflictError("CRON_REMOVED", f"running {job.path}: it was removed", hint="daycare cron list")
    now_ms += now_ms % 1000 == 0  # whole seconds are the schedule's
    while tx.one("SELECT 1 FROM cron_runs WHERE job = ? AND due_at = ?", (job.no, now_ms)) is not None:
        now_ms += 1
    run = NewCronRun(due_at=now_ms, state="waiting", reason="by hand")
    no = _insert(tx, job, run, by_hand=True, parameters=parameters)
    assert no is not None
    tx.commit.add(CronNews).changed = True
    return must_get(tx, no)


def rewind(tx: Tx, now_ms: int, sooner: Sequence[tuple[int, int, int]]) -> None:
    """Forget what was missed in a future that is to come again, and let jobs be due in it."""
    tx.run(
        "DELETE FROM cron_runs WHERE state IN ('missed', 'skipped') AND due_at > ? AND created_at > ?", (now_ms, now_ms)
    )
    for no, revision, next_at in sooner:
        tx.run(
            "UPDATE cron_jobs SET next_at = ?, updated_at = ?"
            " WHERE no = ? AND revision = ? AND NOT paused AND removed_at IS NULL",
            (next_at, tx.now, no, revision),
        )
    tx.commit.add(CronNews).changed = True


def _insert(
    tx: Tx, job: CronJob, run: NewCronRun, *, by_hand: bool = False, parameters: dict[str, Any] | None = None
) -> int | None:
    """Add an entry of one due time; None if it has one."""
    tx.run(
        "INSERT INTO cron_runs (job, path, user, origin, by_hand, due_at, until_at, count, state, reason, parameters,"
        " created_at, post_at, ended_at) VALUES (?, ?, ?, 'cron', ?, ?, ?, 1, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (
            job.no,
            job.path,
            job.user,
            int(by_hand),
            run.due_at,
            run.due_at,
            run.state,
            run.reason,
            _encode(parameters).decode() if parameters else None,
            tx.now,
            tx.now if run.state == "waiting" else None,
            tx.now if run.state == "missed" else None,
        ),
    )
    if not tx.db.changes():
        return None
    no = tx.db.last_insert_rowid()
    if run.state != "due":
        note(tx, no)
    return no


def _goes_on(tx: Tx, job: CronJob, missed: Sequence[NewCronRun]) -> bool:
    """Return whether these were missed in the same absence as those that share the job's newest entry."""
    row = _newest(tx, job)
    return row is not None and row[1] > 1 and row[2] == missed[0].reason


def _sum_up(tx: Tx, job: CronJob, missed: Sequence[NewCronRun]) -> None:
    """Let many that were missed share an entry."""
    row = _newest(tx, job)
    if row is not None and row[1] > 1 and row[2] == missed[0].reason:
        no = int(row[0])
        tx.run(
            "UPDATE cron_runs SET count = count + ?, until_at = ?, ended_at = ? WHERE no = ?",
            (len(missed), missed[-1].due_at, tx.now, no),
        )
        note(tx, no)
    elif (no_ := _insert(tx, job, missed[0])) is not None:
        tx.run("UPDATE cron_runs SET count = ?, until_at = ? WHERE no = ?", (len(missed), missed[-1].due_at, no_))
        tx.commit.add(CronNews).runs[-1] = must_get(tx, no_)


def _newest(tx: Tx, job: CronJob) -> tuple[Any, ...] | None:
    return tx.one("SELECT no, count, reason FROM cron_runs WHERE job = ? ORDER BY due_at DESC LIMIT 1", (job.no,))


def _in_the_way(tx: Tx, job: CronJob, it: CronRun) -> str:
    if it.by_hand:
        return ""
    rows = tx.db.execute(
        "SELECT due_at FROM cron_runs WHERE job = ? AND state IN ('waiting', 'due') AND no <> ? AND NOT by_hand"
        " ORDER BY due_at LIMIT ?",
        (job.no, it.no, CRON_QUEUE_MAX),
    ).fetchall()
    if rows and job.spec.overlap == "skip":
        return "the run before it had not ended (overlap: skip)"
    if len(rows) >= CRON_QUEUE_MAX:
        return f"{CRON_QUEUE_MAX} runs before it had not ended"
    return ""


def _end(tx: Tx, no: int, state: str, reason: str) -> None:
    tx.run(
        "UPDATE cron_runs SET state = ?, reason = ?, post_at = NULL, ended_at = ? WHERE no = ?",
        (state, reason, tx.now, no),
    )
    note(tx, no)


def _has_turns(tx: Tx, agent_id: str) -> bool:
    agent = agents.must_get(tx, agent_id)
    newest = tx.one("SELECT session FROM turns WHERE agent_id = ? ORDER BY turn DESC LIMIT 1", (agent_id,))
    return newest is not None and newest[0] == agent.session
