"""Tasks: begun with their agent, message and deadline in one transaction, told of once."""

from contextlib import suppress
from typing import Any, ClassVar, Final

import msgspec
from msgspec.structs import replace

from daycare.base.causes import JobRun, TaskWork
from daycare.base.errors import BusyError, ConflictError, DaycareError
from daycare.base.limits import TASK_PROGRESS_KEPT, TASKS_MAX
from daycare.base.messages import Envelope, Origins, dismissal
from daycare.base.path import Path
from daycare.store.records import Delivery
from daycare.store.records_tasks import NewTask, Task, TaskNews, TaskProgress
from daycare.store.sqlite import agents, inbox, outbox, timers
from daycare.store.sqlite.rows import Rows, Table
from daycare.store.sqlite.sql import Select, marks
from daycare.store.sqlite.task_ledger import COLUMNS, DEADLINE_KEY, OpenTasks, must_get, note, task_of
from daycare.store.sqlite.writer import Tx

_encode = msgspec.json.Encoder().encode


class TaskRows(Rows):
    """Reads and writes them."""

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
        """Make a task, or return the one that this call has made."""
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
        self, *, user: str | None = None, is_open: bool = False, before: int | None = None, limit: int = 100
    ) -> list[Task]:
        """Return tasks, newest first."""
        return _TASKS.find(
            self._reader,
            "(?1 IS NULL OR t.user = ?1) AND (NOT ?2 OR t.ended_at IS NULL) AND (?3 IS NULL OR t.no < ?3)"
            " ORDER BY t.no DESC LIMIT ?4",
            (user, is_open, before, limit),
        )

    async def progress(self, agent_id: str, text: str, key: str, origins: Origins) -> Task | None:
        """Note how far an agent is with its task."""
        return await self._write(lambda tx: _progress(tx, agent_id, text, key, origins), len(text))

    async def unsettled(self, limit: int) -> list[Task]:
        """Return tasks that have ended and are not settled."""
        return _TASKS.find(self._reader, "t.settled = 0 AND t.ended_at IS NOT NULL ORDER BY t.no LIMIT ?", (limit,))

    async def settle(self, no: int, dismissal: Envelope, told: Delivery | None, note: Envelope | None) -> bool:
        """Let whoever asked know how a task ended, and its agent go."""
        return await self._write(lambda tx: _settle(tx, no, dismissal, told, note))

    async def expire(self, before_ms: int, limit: int) -> int:
        """Delete a bounded number of old tasks; the last number is kept, so that it is not given out again."""

        def run(tx: Tx) -> int:
            tx.run(
                "DELETE FROM tasks WHERE no IN (SELECT no FROM tasks WHERE ended_at < ? AND settled = 1"
                " AND no < (SELECT max(no) FROM tasks) ORDER BY no LIMIT ?)",
                (before_ms, limit),
            )
            return tx.db.changes()

        return await self._write(run)


def _told(row: tuple[Any, ...]) -> Task:
    result, state, connector, receipt = row[-4:]
    delivery = "" if state is None else outbox.STATES[int(str(state))]
    return replace(task_of(row[:-4]), result=result, delivery=delivery, told_by=connector or "", receipt=receipt)


_TASKS: Final = Select(
    f"{COLUMNS}, i.result, o.state, o.connector, o.receipt",
    "tasks t LEFT JOIN inbox i ON i.seq = t.seq AND i.state = 1 LEFT JOIN outbox o ON o.seq = t.outbox",
    _told,
)


def start(tx: Tx, new: NewTask) -> Task:
    """Make a task, or return the one that this call has made."""
    known = tx.one("SELECT no FROM tasks WHERE key = ?", (new.key,))
    if known is not None:
        return must_get(tx, int(known[0]))
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
    note(tx, no)
    return must_get(tx, no)


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
    it = must_get(tx, int(row[0]))
    if any(line.key == key for line in it.progress):
        return it
    lines = (*it.progress, TaskProgress(tx.now, text, key, origins))[-TASK_PROGRESS_KEPT:]
    tx.run("UPDATE tasks SET progress = ? WHERE no = ?", (_encode(lines).decode(), it.no))
    note(tx, it.no)
    tx.commit.add(TaskNews).progress.append((it.no, text))
    return must_get(tx, it.no)


def _settle(tx: Tx, no: int, dismissal: Envelope, told: Delivery | None, about: Envelope | None) -> bool:
    tx.run("UPDATE tasks SET settled = 1 WHERE no = ? AND settled = 0 AND ended_at IS NOT NULL", (no,))
    if not tx.db.changes():
        return False
    it = must_get(tx, no)
    if told is not None:
        key = (told.agent.id, told.agent.path, told.agent.user, str(told.agent.origin))
        seq = outbox.insert(tx, key, it.turn, it.trace, told.reply)
        tx.run("UPDATE tasks SET outbox = ? WHERE no = ?", (seq, no))
        tx.run("UPDATE cron_runs SET outbox = ? WHERE seq = ? AND task = ?", (seq, it.seq, it.path))
    for envelope in (dismissal, *((about,) if about is not None else ())):
        with suppress(DaycareError):  # it has died meanwhile, or its inbox is full of more urgent things
            inbox.post(tx, envelope)
    return True
