"""What a store takes and hands out of scheduled jobs and their ledger. Times are wall-clock milliseconds, UTC."""

from typing import Any, Literal

import msgspec

from daycare.base.cron import CronSpec
from daycare.base.messages import Envelope, Origins
from daycare.store.records import AgentConfig, NewAgent
from daycare.store.records_tasks import NewTask

Source = Literal["config", "file", "cli", "agent"]
RunState = Literal["waiting", "due", "ran", "late", "missed", "skipped", "failed"]


class NewCronJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job to be kept. `key` names the call that makes it: a repeat finds the first. `next_at` is when it is due.

    `bounds` are settings that narrow the job's own agent, or that of its tasks, as whoever made it was narrowed.
    """

    path: str
    user: str
    source: Source
    source_ref: str
    spec: CronSpec
    next_at: int | None
    key: str = ""
    bounds: AgentConfig = AgentConfig()


class CronCount(msgspec.Struct, frozen=True, kw_only=True):
    """How many jobs there are, how many of them are paused or running, and when the next one is due (None: none is)."""

    jobs: int
    paused: int
    running: int
    next_at: int | None


class CronJob(msgspec.Struct, frozen=True, kw_only=True):
    """A scheduled job. `revision` grows with each change of it; `next_at` None: it is not due any more, or for now."""

    no: int
    path: str
    user: str
    source: Source
    source_ref: str
    spec: CronSpec
    paused: bool
    next_at: int | None
    revision: int
    created_at: int
    updated_at: int
    removed_at: int | None = None
    bounds: AgentConfig = AgentConfig()
    last: "CronRun | None" = None
    running: bool = False

    @property
    def id(self) -> str:
        """The last part of its path."""
        return self.path.rsplit("/", 1)[-1]


class NewCronRun(msgspec.Struct, frozen=True, kw_only=True):
    """A time at which a job is due, as decided: to be posted at once (`due`), later (`waiting`), or not at all."""

    due_at: int
    state: Literal["due", "waiting", "missed"]
    reason: str = ""
    post: "CronPost | None" = None


class CronPost(msgspec.Struct, frozen=True, kw_only=True):
    """The message of a run. `create` makes the job's own agent with it; `fresh` begins a new session of it before.

    With `task` the run is that task, whose message the envelope is; its name gets the run's number.
    """

    envelope: Envelope
    create: NewAgent | None = None
    fresh: bool = False
    task: NewTask | None = None


class CronFiring(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of a job's due times: recorded, posted and passed over together, if the job is still as it was."""

    job: CronJob
    runs: tuple[NewCronRun, ...]
    next_at: int | None


class CronAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What a run said, and where the words of others came from that it had read."""

    due_at: int
    text: str
    origins: Origins = None


class CronRun(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An entry of the ledger. `count` above 1: so many times were missed, from `due_at` to `until_at`.

    `attempt` counts how often it was posted. `task` is the path of the task that it is, if it is one.

    `delivery` is the state of the answer's way to a person, with `connector`, `receipt` and `delivered_at`; empty when
    there is none.
    """

    no: int
    job: int
    path: str
    user: str
    by_hand: bool
    due_at: int
    until_at: int
    count: int
    state: RunState
    reason: str
    attempt: int
    created_at: int
    parameters: dict[str, Any] = msgspec.field(default_factory=dict)
    post_at: int | None = None
    agent_id: str | None = None
    seq: int | None = None
    trace: str = ""
    turn: int | None = None
    started_at: int | None = None
    ended_at: int | None = None
    tokens: int = 0
    cost_micros: int = 0
    task: str = ""
    answer: str | None = None
    outbox: int | None = None
    delivery: str = ""
    connector: str = ""
    receipt: str | None = None
    delivered_at: int | None = None


class CronConflict(msgspec.Struct, frozen=True, kw_only=True):
    """A job that could not be kept: its path is taken by one from elsewhere."""

    path: str
    source_ref: str
    taken_by: str


class CronNews(msgspec.Struct):
    """What a commit made of scheduled jobs: whether to look again, and the runs that came into another state.

    `ended` are messages with the runs that ended with them, until their turn is complete.
    """

    changed: bool = False
    runs: list[CronRun] = []  # msgspec gives each its own
    ended: dict[int, int] = {}
