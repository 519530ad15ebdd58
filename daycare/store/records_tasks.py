"""What a store takes and hands out of tasks. Times are wall-clock milliseconds, UTC."""

from typing import Any, Literal

import msgspec

from daycare.base.messages import Envelope, Origin, Origins
from daycare.store.records import NewAgent

TaskState = Literal["waiting", "running", "done", "failed", "cancelled", "expired"]


class NewTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task to be begun. `id` is its name, empty: its number. `key` names the call: a repeat finds the first.

    `create` and `message` get the path that comes of it. `deadline_at` is when it is stopped. What it spends counts for
    the path `payer`, too: of the agent that asked, or of the scheduled job whose run it is.
    """

    user: str
    id: str
    key: str
    prompt: str
    create: NewAgent
    message: Envelope
    deadline_at: int
    asker: str = ""
    payer: str = ""
    parameters: dict[str, Any] = msgspec.field(default_factory=dict)
    deliver: str = ""
    connector: str = ""
    target: str | None = None
    waits: bool = False


class TaskProgress(msgspec.Struct, frozen=True):
    """How far a task was at a time. `key` names the call that told it, `origins` whose words are in it."""

    at: int
    text: str
    key: str = ""
    origins: Origins = None


class Task(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A task. `asker` is the agent that asked, empty for a person; `result` is what it came to, or had when it stopped.

    `delivery` is the state of what a person is told, with `told_by` and `receipt`; empty when there is nothing.
    """

    no: int
    path: str
    user: str
    origin: Origin
    asker: str
    prompt: str
    parameters: dict[str, Any]
    deliver: str
    connector: str
    target: str | None
    waits: bool
    state: TaskState
    reason: str
    progress: tuple[TaskProgress, ...]
    agent_id: str
    seq: int
    trace: str
    turn: int | None
    created_at: int
    deadline_at: int
    started_at: int | None
    ended_at: int | None
    tokens: int
    cost_micros: int
    outbox: int | None
    result: str | None = None
    delivery: str = ""
    told_by: str = ""
    receipt: str | None = None

    @property
    def id(self) -> str:
        """The last part of its path."""
        return self.path.rsplit("/", 1)[-1]


class TaskNews(msgspec.Struct):
    """What a commit made of tasks: those that changed, as they are now, and (number, text) of what they told.

    `ended` are messages with the tasks that ended with them, until their turn is complete.
    """

    tasks: list[Task] = []  # msgspec gives each its own
    progress: list[tuple[int, str]] = []
    ended: dict[int, int] = {}
