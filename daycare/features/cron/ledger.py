"""The ledger of scheduled jobs in the open transaction: how each due time is recorded, posted, and comes to its end."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import apsw
import msgspec
from msgspec.structs import replace

from daycare.base.cron import CronSpec, is_silence
from daycare.base.errors import ConflictError, DaycareError, NotFoundError
from daycare.base.events import CronChanged
from daycare.base.limits import CRON_ON_TIME_S, CRON_RETRY_MAX_S
from daycare.features.cron.model import CronFiring, CronJob, CronNews, CronPost, CronRun, NewCronRun
from daycare.features.tasks import rows as tasks
from daycare.features.tasks.records import TaskTold
from daycare.store.records import AgentConfig
from daycare.store.records_conversations import APART
from daycare.store.sqlite import agents, inbox, outbox
from daycare.store.sqlite.facts import Follower, Heed, MessageEnded, ReplyMoved, TurnAnswered
from daycare.store.sqlite.sql import Select
from daycare.store.sqlite.writer import Tx

CRON_MISSED_ROWS: Final = 100  # of a long absence with a row of their own; the others share one
CRON_QUEUE_MAX: Final = 10  # unfinished runs of one job that queues them
CRON_RETRY_BASE_S: Final = 300.0  # before a failed run's next attempt: it was tried for minutes; doubles each time

_JOB = "no, path, user, source, source_ref, spec, paused, next_at, revision, created_at, updated_at, removed_at, bounds"
_RUN = (
    "r.no, r.job, r.path, r.user, r.by_hand, r.due_at, r.until_at, r.count, r.state, r.reason, r.attempt, r.created_at,"
    " r.parameters, r.post_at, r.agent_id, r.seq, r.trace, r.turn, r.started_at, r.ended_at, r.tokens, r.cost_micros,"
    " r.outbox, r.task"
)
_encode = msgspec.json.Encoder().encode
_decode_spec = msgspec.json.Decoder(CronSpec).decode
_decode_bounds = msgspec.json.Decoder(AgentConfig).decode
_decode_values = msgspec.json.Decoder(dict[str, Any]).decode


def fire(tx: Tx, firing: CronFiring) -> list[CronRun]:
    """Do what was decided for a job, if it is still as it was."""
    job = firing.job
    now = must_get_job(tx, job.no)
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
    it = _must_get_run(tx, no)
    if it.state != "waiting":
        return None
    post(tx, no, must_get_job(tx, it.job), message)
    return _must_get_run(tx, no)


def post(tx: Tx, no: int, job: CronJob, message: CronPost) -> None:
    """Post a run's message, unless one that goes on stands in its way or its inbox refuses."""
    it = _must_get_run(tx, no)
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
    if must_get_job(tx, job.no).removed_at is not None:
        raise ConflictError("CRON_REMOVED", f"running {job.path}: it was removed", hint="daycare cron list")
    now_ms += now_ms % 1000 == 0  # whole seconds are the schedule's
    while tx.one("SELECT 1 FROM cron_runs WHERE job = ? AND due_at = ?", (job.no, now_ms)) is not None:
        now_ms += 1
    run = NewCronRun(due_at=now_ms, state="waiting", reason="by hand")
    no = _insert(tx, job, run, by_hand=True, parameters=parameters)
    assert no is not None
    tx.commit.add(CronNews).changed = True
    return _must_get_run(tx, no)


def rewind(tx: Tx, now_ms: int, sooner: Sequence[tuple[int, int, int]]) -> None:
    """Forget what was missed in a future that is to come again, and let jobs be due in it."""
    tx.run(
        "DELETE FROM cron_runs WHERE state IN ('missed', 'skipped') AND due_at > ? AND created_at > ?"
        " /* nodes: AND mine(user) */",
        (now_ms, now_ms),
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
        tx.commit.add(CronNews).runs[-1] = _must_get_run(tx, no_)


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
    newest = tx.one(
        "SELECT session FROM turns WHERE agent_id = ? AND session > ? ORDER BY turn DESC LIMIT 1", (agent_id, APART)
    )
    return newest is not None and newest[0] == agent.session


class OpenRuns(Follower):
    """The runs whose message has not ended: `no` by the message's number. To be told behind the tasks they may be."""

    def __init__(self) -> None:
        self.no: dict[int, int] = {}

    def load(self, db: apsw.Connection) -> None:
        """Read them."""
        rows = db.execute("SELECT seq, no FROM cron_runs WHERE state = 'due'")
        self.no = {int(str(seq)): int(str(no)) for seq, no in rows}

    def heeds(self) -> Mapping[type, Heed]:
        """Follow messages."""
        return {MessageEnded: self._ended, TurnAnswered: _answered, ReplyMoved: _moved, TaskTold: _told}

    def _ended(self, tx: Tx, it: MessageEnded) -> None:
        no = self.no.pop(it.seq, None)
        if no is not None:
            _ended(tx, no, it.turn, it.result, dead=it.dead)
            tx.commit.add(CronNews).ended[it.seq] = no


def _ended(tx: Tx, no: int, turn: int | None, result: str, *, dead: bool) -> None:
    """The message of a run is done, or was given up: the run has ended, or waits for another attempt."""
    it = _must_get_run(tx, no)
    row = tx.one("SELECT spec, source, removed_at FROM cron_jobs WHERE no = ?", (it.job,))
    assert row is not None, "a job stays as long as its ledger"
    spec = _decode_spec(row[0])
    started = tx.one("SELECT min(started_at) FROM turns WHERE agent_id = ? AND turn > ? AND trace = ?", _began(tx, it))
    started_at = started[0] if started is not None else None
    stopped = _stopped(tx, it)
    if dead and row[2] is None and it.attempt <= spec.retry and not stopped:  # what somebody stopped stays so
        wait_s = min(CRON_RETRY_BASE_S * 2 ** (it.attempt - 1), CRON_RETRY_MAX_S)
        tx.run(
            "UPDATE cron_runs SET state = 'waiting', reason = ?, post_at = ?, turn = ?, started_at = ? WHERE no = ?",
            (f"attempt {it.attempt} failed: {result}", tx.now + int(wait_s * 1000), turn, started_at, no),
        )
        tx.commit.add(CronNews).changed = True
        note(tx, no)
        return
    late = not it.by_hand and (started_at or tx.now) - it.due_at > CRON_ON_TIME_S * 1000
    state = "failed" if dead else "late" if late else "ran"
    reason = (stopped or result) if dead else "nothing to tell" if is_silence(result) else it.reason
    tx.run(
        "UPDATE cron_runs SET state = ?, reason = ?, turn = ?, started_at = ?, ended_at = ? WHERE no = ?",
        (state, reason, turn, started_at, tx.now, no),
    )
    _charge(tx, no)
    if not dead and row[2] is None and spec.delete_after_run and not it.by_hand:
        gone = tx.now if row[1] in ("cli", "agent") else None  # of what stands in a file only its person disposes
        tx.run("UPDATE cron_jobs SET next_at = NULL, removed_at = ? WHERE no = ?", (gone, it.job))
        tx.commit.add(CronNews).changed = True
    note(tx, no)


def _answered(tx: Tx, it: TurnAnswered) -> None:
    """The turn that ended runs is complete: note what it has cost, and which reply carries the answer."""
    news = tx.commit.news_of(CronNews)
    if news is None:
        return
    for no in [news.ended.pop(seq) for seq in it.seqs if seq in news.ended]:
        if it.sent:
            tx.run("UPDATE cron_runs SET outbox = ? WHERE no = ?", (it.sent[0], no))
        if it.stopped:
            reason = _stopped(tx, _must_get_run(tx, no)) or (it.result or "stopped").strip("[]")
            tx.run("UPDATE cron_runs SET state = 'failed', reason = ? WHERE no = ?", (reason, no))
        _charge(tx, no)
        news.runs = [run for run in news.runs if run.no != no]
        note(tx, no)


def _moved(tx: Tx, it: ReplyMoved) -> None:
    tx.run("UPDATE cron_runs SET outbox = ? WHERE outbox = ?", (it.to, it.seq))


def _told(tx: Tx, it: TaskTold) -> None:
    tx.run("UPDATE cron_runs SET outbox = ? WHERE seq = ? AND task = ?", (it.reply, it.seq, it.path))


def skip_waiting(tx: Tx, no: int, reason: str) -> None:
    """Give up the runs of a job that wait to be posted."""
    rows = tx.db.execute("SELECT no FROM cron_runs WHERE job = ? AND state = 'waiting'", (no,)).fetchall()
    for (run,) in rows:
        tx.run(
            "UPDATE cron_runs SET state = 'skipped', reason = ?, post_at = NULL, ended_at = ? WHERE no = ?",
            (reason, tx.now, run),
        )
        note(tx, int(str(run)))


def tell(tx: Tx, job: CronJob, change: str) -> None:
    """Let the schedule look again, and observers know what somebody has done to a job."""
    tx.commit.add(CronNews).changed = True
    tx.commit.events.append(CronChanged(at_ms=tx.now, path=job.path, user=job.user, change=change))


def note(tx: Tx, no: int) -> None:
    """Let observers know of a run."""
    tx.commit.add(CronNews).runs.append(_must_get_run(tx, no))


def _must_get_run(tx: Tx, no: int) -> CronRun:
    it = RUNS.one(tx.db, "r.no = ?", (no,))
    assert it is not None, f"no run {no}"
    return it


def _run(row: tuple[Any, ...]) -> CronRun:
    values = dict(zip((name.removeprefix("r.") for name in _RUN.split(", ")), row, strict=True))
    values["by_hand"] = bool(values["by_hand"])
    values["parameters"] = _decode_values(values["parameters"]) if values["parameters"] else {}
    return CronRun(**values)


RUNS: Final = Select(_RUN, "cron_runs r", _run)


def _stopped(tx: Tx, it: CronRun) -> str:
    """Return why the task of a run was stopped, by its deadline or by somebody; empty if it was not, or is none."""
    row = tx.one("SELECT state, reason FROM tasks WHERE seq = ?", (it.seq,)) if it.task else None
    return f"{row[0]}: {row[1]}" if row is not None and row[0] in ("cancelled", "expired") else ""


def _began(tx: Tx, it: CronRun) -> tuple[str | None, int, str]:
    row = tx.one("SELECT after_turn FROM cron_runs WHERE no = ?", (it.no,))
    assert row is not None
    return it.agent_id, int(row[0]), it.trace


def _charge(tx: Tx, no: int) -> None:
    """Sum up what all turns of the run's trace have cost, those of helpers and parts that waited among them."""
    tx.run(
        "UPDATE cron_runs SET (tokens, cost_micros) = (SELECT coalesce(sum(s.input_tokens + s.output_tokens), 0),"
        " coalesce(sum(s.cost_micros), 0) FROM turns t JOIN spend s ON s.turn = t.turn"
        " WHERE t.turn > cron_runs.after_turn AND t.trace = cron_runs.trace) WHERE no = ?",
        (no,),
    )


def _job(row: tuple[Any, ...]) -> CronJob:
    values = dict(zip(_JOB.split(", "), row, strict=True))
    values["spec"] = _decode_spec(values["spec"])
    values["bounds"] = _decode_bounds(values["bounds"])
    values["paused"] = bool(values["paused"])
    return CronJob(**values)


JOBS: Final = Select(_JOB, "cron_jobs", _job)


def must_get_job(tx: Tx, no: int) -> CronJob:
    """Return a job, removed or not; raises `NotFoundError`."""
    job = JOBS.one(tx.db, "no = ?", (no,))
    if job is None:
        raise NotFoundError("CRON_UNKNOWN", f"there is no scheduled job number {no}", hint="daycare cron list")
    return job


def _with_delivery(row: tuple[Any, ...]) -> CronRun:
    answer, state, connector, receipt, sent_at = row[-5:]
    return replace(
        _run(row[:-5]),
        answer=answer,
        delivery="" if state is None else outbox.STATES[int(str(state))],
        connector=connector or "",
        receipt=receipt,
        delivered_at=sent_at,
    )


DELIVERED: Final = Select(
    f"{_RUN}, unpacked(i.result), o.state, o.connector, o.receipt, o.sent_at",
    "cron_runs r LEFT JOIN inbox i ON i.seq = r.seq AND i.state = 1 LEFT JOIN outbox o ON o.seq = r.outbox",
    _with_delivery,
)
