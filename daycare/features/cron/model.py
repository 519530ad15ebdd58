"""Scheduled jobs and their ledger: as they are kept, as a file has one, and what can be asked about them.

Times are wall-clock milliseconds, UTC.
"""

from typing import Annotated, Any, Final, Literal

import msgspec

from daycare.api.documents import Limit, Number
from daycare.api.operations import Operation
from daycare.base.cron import CronSection, CronSpec, Value
from daycare.base.meaning import meaning
from daycare.base.messages import Envelope, Origins
from daycare.features.tasks.records import NewTask
from daycare.store.records import AgentConfig, NewAgent

_FENCE: Final = "---"
PREVIEW_TIMES_MAX: Final = 50  # of a job that is not there yet
_FIELDS_MAX_CHARS: Final = 8_000  # read in some 50 ms

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


class CronProblem(msgspec.Struct, frozen=True):
    """A job in a file or in config.toml that cannot be kept as it is written; what was kept of it before stays."""

    source_ref: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.source_ref}:{self.line}: {self.what}"


class UnreadableError(Exception):
    """Why a file is no job, and in which line."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(what)
        self.line = line
        self.what = what


def section_of(text: str) -> CronSection:
    """Read a file: fields between two lines `---`, then the prompt. Raises `UnreadableError`."""
    import yaml  # late: it costs 20 ms, and most homes have no such file

    lines = text.split("\n")
    if lines[0].rstrip() != _FENCE:
        raise UnreadableError(1, "begins with a line ---, then fields such as `cron: 0 7 * * *`, then another ---")
    end = next((n for n, line in enumerate(lines[1:], 1) if line.rstrip() == _FENCE), None)
    if end is None:
        raise UnreadableError(1, "has no second line ---: nobody knows where its fields end")
    if sum(map(len, lines[1:end])) > _FIELDS_MAX_CHARS:
        raise UnreadableError(2, f"has fields of over {_FIELDS_MAX_CHARS} characters")
    try:
        # Every value is text, as it stands there: `07:30` is no number and `no` is no false.
        found: Any = yaml.load("\n".join(lines[1:end]), Loader=yaml.BaseLoader)  # noqa: S506 - it makes no objects
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        what = f"{getattr(error, 'problem', None) or 'its fields cannot be read'}"
        if "alias" in f"{getattr(error, 'context', '')}{what}":
            what = 'a value that begins with * stands in quotes: cron: "*/15 * * * *"'
        raise UnreadableError(mark.line + 2 if mark is not None else 1, what) from error
    except RecursionError as error:
        raise UnreadableError(1, "its fields are nested too deeply") from error
    if not isinstance(found, dict):
        raise UnreadableError(2, "has no fields, such as `cron: 0 7 * * *`")
    if "prompt" in found:
        raise UnreadableError(_line(lines, "prompt"), "prompt is what stands below the second ---")
    prompt = "\n".join(lines[end + 1 :]).strip()
    try:
        return msgspec.convert(found | {"prompt": prompt}, CronSection, strict=False)
    except msgspec.ValidationError as error:
        what = str(error)
        field = (
            (what.rpartition("`$.")[2] if "`$." in what else what.partition("`")[2]).partition("`")[0].partition(".")[0]
        )
        raise UnreadableError(_line(lines, field), what[:1].lower() + what[1:]) from error


def _line(lines: list[str], field: str) -> int:
    return next((n for n, line in enumerate(lines, 1) if line.split(":")[0].strip() == field), 1)


# -- what can be asked ---------------------------------------------------------------------------------------------

JobPath = Annotated[str, meaning("The job's name, or its path /USER/cron/NAME", metavar="NAME")]
OneUser = Annotated[str, meaning("Only this user's", metavar="ID")]


class ListJobs(Operation, frozen=True, kw_only=True):
    """List scheduled jobs, when each is due, and how its last run went; and what is wrong in files."""

    ROUTE = "GET /v1/cron"
    user: OneUser | None = None
    after: Annotated[str, meaning("Only jobs behind this path, to go on behind a page", metavar="PATH")] = ""
    limit: Annotated[Limit, meaning("How many jobs", metavar="N")] = 1_000


class PreviewJob(Operation, frozen=True, kw_only=True):
    """Tell what a job would be: when it is due next, in words, too, and what is wrong with which of its fields.

    Nothing is kept. A prompt that is missing is no mistake yet: somebody is typing.
    """

    ROUTE = "POST /v1/cron/preview"
    spec: Annotated[dict[str, Any], meaning("Its fields, as far as they are typed")]
    id: Annotated[str, meaning("Its name, as far as it is typed")] = ""
    user: Annotated[str, meaning("Whose job it is; the operator's without it")] = ""
    count: Annotated[int, msgspec.Meta(ge=1, le=PREVIEW_TIMES_MAX), meaning("How many times to tell")] = 5


class CronFieldProblem(msgspec.Struct, frozen=True):
    """What is wrong with a field of a job."""

    field: str
    what: str
    hint: str = ""


class CronPreview(msgspec.Struct, frozen=True, kw_only=True):
    """What a job would be. `next` are local times with their offset, `next_at` the same in wall milliseconds."""

    zone: str
    words: str
    next: tuple[str, ...]
    next_at: tuple[int, ...]
    problems: tuple[CronFieldProblem, ...]


class AddJob(Operation, frozen=True, kw_only=True):
    """Add a job."""

    ROUTE = "POST /v1/cron"
    STATUS = 201
    id: Annotated[str, meaning("Its name: a-z, 0-9, - and _", metavar="NAME")]
    spec: CronSpec
    user: Annotated[str, meaning("Whose job it is; the operator's without it", metavar="ID")] = ""


class ShowJob(Operation, frozen=True, kw_only=True):
    """Show one job with its next times."""

    ROUTE = "GET /v1/cron/job"
    path: JobPath


class ChangeJob(Operation, frozen=True, kw_only=True):
    """Change fields of a job that was not written into a file; null sets one back to its default."""

    ROUTE = "PATCH /v1/cron/job"
    QUERY = ("path",)
    BODY = "changes"
    path: JobPath
    changes: dict[str, Any]


class RemoveJob(Operation, frozen=True, kw_only=True):
    """Remove a job; its history stays for a while."""

    ROUTE = "DELETE /v1/cron/job"
    path: JobPath


class PauseJob(Operation, frozen=True, kw_only=True):
    """Pause a job, wherever it was written."""

    ROUTE = "POST /v1/cron/pause"
    QUERY = ("path",)
    path: JobPath


class ResumeJob(Operation, frozen=True, kw_only=True):
    """Let a paused job go on from now."""

    ROUTE = "POST /v1/cron/resume"
    QUERY = ("path",)
    path: JobPath


class RunJob(Operation, frozen=True, kw_only=True):
    """Let a job run now, alongside its schedule."""

    ROUTE = "POST /v1/cron/run"
    STATUS = 202
    QUERY = ("path",)
    path: JobPath
    parameters: Annotated[
        dict[str, Value], meaning("A parameter of the prompt, for this run only", metavar="NAME=VALUE", option="--set")
    ] = msgspec.field(default_factory=dict)


class ListRuns(Operation, frozen=True, kw_only=True):
    """Show the result of each run: ran, late, missed, skipped or failed, why, and where the answer went."""

    ROUTE = "GET /v1/cron/runs"
    user: OneUser | None = None
    path: Annotated[str, meaning("Only this job's", metavar="NAME")] | None = None
    state: Annotated[RunState, meaning("Only runs that came to this")] | None = None
    before: (
        Annotated[Number, meaning("Only runs with a smaller number, to go on behind a page", metavar="RUN")] | None
    ) = None
    limit: Annotated[Limit, meaning("How many entries, the newest", metavar="N")] = 100
