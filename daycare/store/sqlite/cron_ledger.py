"""The ledger of scheduled jobs as the open transaction sees it: how a run that was posted comes to its end."""

from collections.abc import Mapping
from typing import Any, Final

import apsw
import msgspec

from daycare.base.cron import CronSpec, is_silence
from daycare.base.limits import CRON_ON_TIME_S, CRON_RETRY_BASE_S, CRON_RETRY_MAX_S
from daycare.store.records_cron import CronNews, CronRun
from daycare.store.sqlite.facts import Follower, Heed, MessageEnded, TurnAnswered
from daycare.store.sqlite.sql import Select
from daycare.store.sqlite.writer import Tx

COLUMNS: Final = (
    "r.no, r.job, r.path, r.user, r.by_hand, r.due_at, r.until_at, r.count, r.state, r.reason, r.attempt, r.created_at,"
    " r.parameters, r.post_at, r.agent_id, r.seq, r.trace, r.turn, r.started_at, r.ended_at, r.tokens, r.cost_micros,"
    " r.outbox, r.task"
)

_decode_spec = msgspec.json.Decoder(CronSpec).decode
_decode_values = msgspec.json.Decoder(dict[str, Any]).decode


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
        return {MessageEnded: self._ended, TurnAnswered: _answered}

    def _ended(self, tx: Tx, it: MessageEnded) -> None:
        no = self.no.pop(it.seq, None)
        if no is not None:
            _ended(tx, no, it.turn, it.result, dead=it.dead)
            tx.commit.add(CronNews).ended[it.seq] = no


def _ended(tx: Tx, no: int, turn: int | None, result: str, *, dead: bool) -> None:
    """The message of a run is done, or was given up: the run has ended, or waits for another attempt."""
    it = must_get(tx, no)
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
            reason = _stopped(tx, must_get(tx, no)) or (it.result or "stopped").strip("[]")
            tx.run("UPDATE cron_runs SET state = 'failed', reason = ? WHERE no = ?", (reason, no))
        _charge(tx, no)
        news.runs = [run for run in news.runs if run.no != no]
        note(tx, no)


def note(tx: Tx, no: int) -> None:
    """Let observers know of a run."""
    tx.commit.add(CronNews).runs.append(must_get(tx, no))


def must_get(tx: Tx, no: int) -> CronRun:
    """Return a run that there is."""
    it = RUNS.one(tx.db, "r.no = ?", (no,))
    assert it is not None, f"no run {no}"
    return it


def run_of(row: tuple[Any, ...]) -> CronRun:
    """Return the struct of a row of `COLUMNS`."""
    values = dict(zip((name.removeprefix("r.") for name in COLUMNS.split(", ")), row, strict=True))
    values["by_hand"] = bool(values["by_hand"])
    values["parameters"] = _decode_values(values["parameters"]) if values["parameters"] else {}
    return CronRun(**values)


RUNS: Final = Select(COLUMNS, "cron_runs r", run_of)


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
