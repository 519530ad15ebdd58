"""What can be asked about scheduled jobs; service and wire are in `faces.py`, commands in `cli.py`."""

from typing import Annotated, Any

import msgspec

from daycare.api.documents import Limit, Number
from daycare.api.operations import Operation
from daycare.base.cron import CronSpec, Value
from daycare.base.meaning import meaning

JobPath = Annotated[str, meaning("The job's name, or its path /USER/cron/NAME", metavar="NAME")]
User = Annotated[str, meaning("Only this user's", metavar="ID")]


class ListJobs(Operation, frozen=True, kw_only=True):
    """List scheduled jobs, when each is due, and how its last run went; and what is wrong in files."""

    ROUTE = "GET /v1/cron"
    user: User | None = None


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
    user: User | None = None
    path: Annotated[str, meaning("Only this job's", metavar="NAME")] | None = None
    before: (
        Annotated[Number, meaning("Only runs with a smaller number, to go on behind a page", metavar="RUN")] | None
    ) = None
    limit: Annotated[Limit, meaning("How many entries, the newest", metavar="N")] = 100
