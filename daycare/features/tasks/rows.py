"""Tasks in the store: begun whole, ended once with the message that is their work, told of once.

A task is `running` from its first turn on. Its end is written in the transaction that ends its message (a turn, a
dead letter), wherever that happens: `expired` or `cancelled` if its agent was dismissed, by its deadline or by
somebody, else `done` or `failed`.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, ClassVar, Final

import apsw
import msgspec
from msgspec.structs import replace

from daycare.base.causes import JobRun, TaskWork
from daycare.base.cron import is_silence
from daycare.base.errors import BusyError, ConflictError, DaycareError
from daycare.base.messages import Envelope, Origin, Origins, dismissal
from daycare.base.path import Kind, Path
from daycare.features.tasks.records import NewTask, Task, TaskNews, TaskProgress, TaskState, TaskTold
from daycare.store.records import ForwardedReply
from daycare.store.sqlite import agents, inbox, outbox, timers
from daycare.store.sqlite.facts import (
    Follower,
    Heed,
    MessageEnded,
    MessageForgotten,
    ReplyMoved,
    TimersMoved,
    TurnAnswered,
    TurnBegan,
    UserLeft,
)
from daycare.store.sqlite.rows import Rows, Table
from daycare.store.sqlite.sql import Select, marks
from daycare.store.sqlite.writer import Tx

TASKS_MAX: Final = 50  # of one user that have not ended; more is a program's work
TASK_PROGRESS_KEPT: Final = 20  # lines of one task, the newest: a screen

DEADLINE_KEY = "task:deadline"  # of the message that a task's deadline posts
_COLUMNS = (
    "t.no, t.path, t.user, t.origin, t.asker, t.prompt, t.parameters, t.deliver, t.connector, t.target, t.waits,"
    " t.state, t.reason, t.progress, t.agent_id, t.seq, t.trace, t.turn, t.created_at, t.deadline_at, t.started_at,"
    " t.ended_at, t.tokens, t.cost_micros, t.outbox"
)
_NAMES = tuple(name.strip().removeprefix("t.") for name in _COLUMNS.split(","))
_encode = msgspec.json.Encoder().encode
_decode_values = msgspec.json.Decoder(dict[str, Any]).decode
_decode_progress = msgspec.json.Decoder(tuple[TaskProgress, ...]).decode


class OpenTasks(Follower):
    """The tasks whose message has not ended: `no` by the message's number."""

    def __init__(self) -> None:
        self.no: dict[int, int] = {}

    def load(self, db: apsw.Connection) -> None:
        """Read them."""
        rows = db.execute("SELECT seq, no FROM tasks WHERE ended_at IS NULL")
        self.no = {int(str(seq)): int(str(no)) for seq, no in rows}

    def heeds(self) -> Mapping[type, Heed]:
        """Follow turns and messages."""
        return {
            TurnBegan: self._begun,
            MessageEnded: self._ended,
            TurnAnswered: _answered,
            ReplyMoved: _moved,
            TimersMoved: _sooner,
            MessageForgotten: _forget,
            UserLeft: _left,
        }

    def _begun(self, tx: Tx, it: TurnBegan) -> None:
        """A turn starts on these messages."""
        for seq in it.seqs:
            no = self.no.get(seq)
            if no is not None:
                tx.run(
                    "UPDATE tasks SET state = 'running', started_at = coalesce(started_at, ?) WHERE no = ?",
                    (tx.now, no),
                )
                _note(tx, no)

    def _ended(self, tx: Tx, it: MessageEnded) -> None:
        """The message of a task is done, or was given up."""
        no = self.no.pop(it.seq, None)
        if no is None:
            return
        reason = it.result if it.dead else "nothing to tell" if is_silence(it.result) else ""
        _end(tx, no, "failed" if it.dead else "done", reason, it.turn)
        tx.commit.add(TaskNews).ended[it.seq] = no


class TaskRows(Rows):
    """Reads and writes them."""

    news: ClassVar = (TaskNews(),)
    tables: ClassVar = (
        Table(
            "tasks",
            "tasks",
            why="who asked waits for them here",
            what="tasks that have not ended",
            query="SELECT count(*) FROM tasks WHERE ended_at IS NULL AND agent_id IN (SELECT id FROM exported)",
        ),
    )
    followers: ClassVar = (OpenTasks,)

    async def start(self, new: NewTask) -> Task:
        """Make a task, its agent, its message and the timer of its deadline, together, once for each `key`.

        Raises `ConflictError` TASK_EXISTS for a name that is at work, `BusyError` TASKS_MAX at so many of its user.
        """
        return await self._write(lambda tx: start(tx, new), len(new.message.text))

    async def by_key(self, key: str) -> Task | None:
        """Return the task that a call has made."""
        return _TASKS.one(self._reader, "t.key = ?", (key,))

    async def at(self, path: str) -> Task | None:
        """Return the newest task of a path."""
        return _TASKS.one(self._reader, "t.path = ? ORDER BY t.no DESC LIMIT 1", (path,))

    async def get(self, no: int) -> Task | None:
        """Return a task."""
        return _TASKS.one(self._reader, "t.no = ?", (no,))

    async def find(
        self,
        *,
        user: str | None = None,
        is_open: bool = False,
        state: TaskState | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> list[Task]:
        """Return tasks, newest first, beginning below number `before`; `is_open`: only those that have not ended."""
        return _TASKS.find(
            self._reader,
            "(?1 IS NULL OR t.user = ?1) AND (NOT ?2 OR t.ended_at IS NULL) AND (?3 IS NULL OR t.no < ?3)"
            " AND (?4 IS NULL OR t.state = ?4) ORDER BY t.no DESC LIMIT ?5",
            (user, is_open, before, state, limit),
        )

    async def progress(self, agent_id: str, text: str, key: str, origins: Origins) -> Task | None:
        """Note how far an agent is with its task, once for each `key`; None if it has none that has not ended."""
        return await self._write(lambda tx: _progress(tx, agent_id, text, key, origins), len(text))

    async def unsettled(self, limit: int) -> list[Task]:
        """Return tasks of this node's users that have ended and are not settled, oldest first."""
        return _TASKS.find(
            self._reader,
            "t.settled = 0 AND t.ended_at IS NOT NULL /* nodes: AND mine(t.user) */ ORDER BY t.no LIMIT ?",
            (limit,),
        )

    async def settle(self, no: int, dismissal: Envelope, told: ForwardedReply | None, note: Envelope | None) -> bool:
        """Let whoever asked know how a task ended, and its agent go, together; once: False if that was done before."""
        return await self._write(lambda tx: _settle(tx, no, dismissal, told, note))

    async def expire(self, before_ms: int, limit: int) -> int:
        """Delete a bounded number of tasks that ended before `before_ms`."""

        def run(tx: Tx) -> int:
            tx.run(
                "DELETE FROM tasks WHERE no IN (SELECT no FROM tasks WHERE ended_at < ? AND settled = 1"
                " AND no < (SELECT max(no) FROM tasks) ORDER BY no LIMIT ?)",
                (before_ms, limit),
            )
            return tx.db.changes()

        return await self._write(run)


def start(tx: Tx, new: NewTask) -> Task:
    """Make a task, or return the one that this call has made."""
    known = tx.one("SELECT no FROM tasks WHERE key = ?", (new.key,))
    if known is not None:
        return _must_get(tx, int(known[0]))
    count = tx.one("SELECT count(*) FROM tasks WHERE user = ? AND ended_at IS NULL", (new.user,))
    if count and count[0] >= TASKS_MAX:
        raise BusyError(
            "TASKS_MAX",
            f"starting a task of {new.user}: {count[0]} have not ended",
            hint="wait for some, or cancel one: daycare task list",
        )
    path = str(Path.task(new.user, new.id)) if new.id else _free_path(tx, new.user)
    if new.id and _is_taken(tx, path):
        raise ConflictError("TASK_EXISTS", f"starting {path}: one of this name is at work", hint=f"daycare task {path}")
    agent = agents.create(tx, replace(new.create, path=path))
    assert isinstance(new.message.cause, JobRun | TaskWork), "of a task's message"
    cause = replace(new.message.cause, task=path)
    receipt = inbox.post(tx, replace(new.message, to=path, agent_id=agent.id, cause=cause))
    values: dict[str, Any] = {
        "path": path,
        "user": new.user,
        "origin": str(new.message.origin),
        "asker": new.asker,
        "payer": new.payer or new.asker,
        "key": new.key,
        "prompt": new.prompt,
        "parameters": _encode(new.parameters).decode(),
        "deliver": new.deliver,
        "connector": new.connector,
        "target": new.target,
        "waits": int(new.waits),
        "state": "waiting",
        "agent_id": agent.id,
        "seq": receipt.seq,
        "trace": new.message.trace,
        "created_at": tx.now,
        "deadline_at": new.deadline_at,
    }
    tx.run(
        f"INSERT INTO tasks ({', '.join(values)}, after_turn)"
        f" SELECT {marks(values)}, coalesce(max(turn), 0) FROM turns",
        tuple(values.values()),
    )
    no = tx.db.last_insert_rowid()
    timers.insert(tx, agent.id, DEADLINE_KEY, new.deadline_at, _deadline(path, agent.id, new))
    tx.of(OpenTasks).no[receipt.seq] = no
    _note(tx, no)
    return _must_get(tx, no)


def payer_of(db: apsw.Connection, path: str) -> str:
    """Return who asked for the task at or above a path, or the job that did; "" where there is none."""
    user, *below = path[1:].split("/")
    if len(below) < 2 or below[0] != Kind.TASK:
        return ""
    task = f"/{user}/{Kind.TASK}/{below[1]}"
    row = db.execute("SELECT payer FROM tasks WHERE path = ? ORDER BY no DESC LIMIT 1", (task,)).fetchone()
    return "" if row is None else str(row[0])


def _free_path(tx: Tx, user: str) -> str:
    row = tx.one("SELECT coalesce(max(no), 0) + 1 FROM tasks")
    assert row is not None
    number = int(row[0])
    while _is_taken(tx, path := str(Path.task(user, str(number)))):
        number += 1
    return path


def _is_taken(tx: Tx, path: str) -> bool:
    """Return whether a task of this path has not ended, or its agent has not gone yet."""
    row = tx.one(
        "SELECT EXISTS (SELECT 1 FROM tasks WHERE path = ?1 AND ended_at IS NULL)"
        " OR EXISTS (SELECT 1 FROM agents WHERE path = ?1 AND state <> 'dead')",
        (path,),
    )
    return bool(row and row[0])


def _deadline(path: str, agent_id: str, new: NewTask) -> Envelope:
    reason, trace = "its deadline has passed", new.message.trace
    return dismissal(path, agent_id, new.user, key=DEADLINE_KEY, reason=reason, trace=trace, quiet=True)


def _progress(tx: Tx, agent_id: str, text: str, key: str, origins: Origins) -> Task | None:
    row = tx.one("SELECT no FROM tasks WHERE agent_id = ? AND ended_at IS NULL", (agent_id,))
    if row is None:
        return None
    it = _must_get(tx, int(row[0]))
    if any(line.key == key for line in it.progress):
        return it
    lines = (*it.progress, TaskProgress(tx.now, text, key, origins))[-TASK_PROGRESS_KEPT:]
    tx.run("UPDATE tasks SET progress = ? WHERE no = ?", (_encode(lines).decode(), it.no))
    _note(tx, it.no)
    tx.commit.add(TaskNews).progress.append((it.no, text))
    return _must_get(tx, it.no)


def _settle(tx: Tx, no: int, dismissal: Envelope, told: ForwardedReply | None, about: Envelope | None) -> bool:
    tx.run("UPDATE tasks SET settled = 1 WHERE no = ? AND settled = 0 AND ended_at IS NOT NULL", (no,))
    if not tx.db.changes():
        return False
    it = _must_get(tx, no)
    if told is not None:
        key = (told.agent.id, told.agent.path, told.agent.user, str(told.agent.origin))
        seq = outbox.insert(tx, key, it.turn, it.trace, told.reply)
        tx.run("UPDATE tasks SET outbox = ? WHERE no = ?", (seq, no))
        tx.tell(TaskTold(it.seq, it.path, seq))
    for envelope in (dismissal, *((about,) if about is not None else ())):
        with suppress(DaycareError):  # it has died meanwhile, or its inbox is full of more urgent things
            inbox.post(tx, envelope)
    return True


def _answered(tx: Tx, it: TurnAnswered) -> None:
    """The turn that ended tasks is complete: note what they have cost, and which reply carries the answer."""
    news = tx.commit.news_of(TaskNews)
    if news is None:
        return
    for no in [news.ended.pop(seq) for seq in it.seqs if seq in news.ended]:
        if it.sent:
            tx.run("UPDATE tasks SET outbox = ? WHERE no = ?", (it.sent[0], no))
        task = _must_get(tx, no)
        _end(tx, no, "failed" if it.stopped else task.state, "stopped" if it.stopped else task.reason, task.turn)


def _moved(tx: Tx, it: ReplyMoved) -> None:
    tx.run("UPDATE tasks SET outbox = ? WHERE outbox = ?", (it.to, it.seq))


def _sooner(tx: Tx, it: TimersMoved) -> None:
    """The deadline is what its timer says."""
    tx.run(
        "UPDATE tasks SET deadline_at = t.due_at FROM timers t"
        " WHERE t.agent_id = tasks.agent_id AND t.key = ? AND tasks.ended_at IS NULL AND tasks.deadline_at > t.due_at",
        (DEADLINE_KEY,),
    )


def _forget(tx: Tx, it: MessageForgotten) -> None:
    tx.run("UPDATE tasks SET prompt = ?, parameters = '{}', progress = '[]' WHERE seq = ?", (it.instead, it.seq))


def _left(tx: Tx, it: UserLeft) -> None:
    tx.run("UPDATE tasks SET settled = 1 WHERE user = ? AND settled = 0", (it.user,))  # nobody is left to be told


def _end(tx: Tx, no: int, state: str, reason: str, turn: int | None) -> None:
    if state != "done" and (stop := _stopped_by(tx, no)) is not None:
        state, reason = stop
    tx.run(
        "UPDATE tasks SET state = ?, reason = ?, turn = ?, ended_at = ?, (tokens, cost_micros) ="
        " (SELECT coalesce(sum(s.input_tokens + s.output_tokens), 0), coalesce(sum(s.cost_micros), 0)"
        " FROM turns u JOIN agents a ON a.id = u.agent_id JOIN spend s ON s.turn = u.turn"
        " WHERE u.turn > tasks.after_turn AND u.trace = tasks.trace"  # its asker's have the same trace
        " AND (a.path = tasks.path OR (a.path > tasks.path || '/' AND a.path < tasks.path || '0'))) WHERE no = ?",
        (state, reason, turn, tx.now, no),
    )
    _note(tx, no)


def _stopped_by(tx: Tx, no: int) -> tuple[str, str] | None:
    """Return how and why a task's agent was told to stop; its words are where they are kept once it has obeyed."""
    row = tx.one(
        "SELECT i.key, coalesce(i.text, unpacked(i.result), '') FROM tasks t JOIN inbox i ON i.agent_id = t.agent_id"
        " WHERE t.no = ? AND i.kind = 'dismiss' ORDER BY i.seq LIMIT 1",
        (no,),
    )
    return None if row is None else ("expired" if row[0] == DEADLINE_KEY else "cancelled", str(row[1]))


def _note(tx: Tx, no: int) -> None:
    """Let observers know of a task: each state it comes into, and its end as it is at last."""
    it = _must_get(tx, no)
    news = tx.commit.add(TaskNews)
    before = [each for each in news.tasks if each.no != no or (each.state != it.state and each.ended_at is None)]
    news.tasks = [*before, it]


def _must_get(tx: Tx, no: int) -> Task:
    it = _PLAIN.one(tx.db, "t.no = ?", (no,))
    assert it is not None, f"no task {no}"
    return it


def _task(row: tuple[Any, ...]) -> Task:
    values = dict(zip(_NAMES, row, strict=True))
    values["origin"] = Origin(values["origin"])
    values["waits"] = bool(values["waits"])
    values["parameters"] = _decode_values(values["parameters"])
    values["progress"] = _decode_progress(values["progress"])
    return Task(**values)


_PLAIN: Final = Select(_COLUMNS, "tasks t", _task)


def _told(row: tuple[Any, ...]) -> Task:
    result, state, connector, receipt = row[-4:]
    delivery = "" if state is None else outbox.STATES[int(str(state))]
    return replace(_task(row[:-4]), result=result, delivery=delivery, told_by=connector or "", receipt=receipt)


_TASKS: Final = Select(
    f"{_COLUMNS}, unpacked(i.result), o.state, o.connector, o.receipt",
    "tasks t LEFT JOIN inbox i ON i.seq = t.seq AND i.state = 1 LEFT JOIN outbox o ON o.seq = t.outbox",
    _told,
)
