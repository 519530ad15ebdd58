"""Commands about scheduled jobs: list, add, change, pause, run and remove them; when they are due, what came of it."""

import sys
import time
from itertools import islice
from typing import Annotated, Any, Final

import typer

from daycare.api.client import Json
from daycare.base.durations import duration
from daycare.base.errors import InvalidError
from daycare.base.times import when
from daycare.base.zones import zone_of
from daycare.cli.agents import read_settings
from daycare.cli.command import Cli, command, default_command
from daycare.cli.operations import Given, ask, operation
from daycare.cli.render import one_line, pairs, table
from daycare.cli.spans import read_seconds
from daycare.features.cron import model

app = typer.Typer(rich_markup_mode=None)

NEXT_MAX: Final = 1_000_000  # two years of minutes

JobName = Annotated[str, typer.Argument(metavar="NAME", help="The job's name, or its path /USER/cron/NAME.")]
Whose = Annotated[str | None, typer.Option("--user", metavar="ID", help="Whose job it is; the operator's without it.")]


def _job(name: JobName, *, user: Whose = None) -> Json:
    return {"path": _path(name, user)}


def _when(
    at: Annotated[str, typer.Argument(metavar="WHEN", help='An expression such as "30 7 * * *", or a date and time.')],
) -> Json:
    return {"cron" if _is_expression(at) else "at": at}


def _prompt(
    prompt: Annotated[str, typer.Argument(metavar="PROMPT", help="What the agent is to do; - reads stdin.")],
) -> Json:
    return {"prompt": sys.stdin.read().strip() if prompt == "-" else prompt}


def _deadline(
    *,
    deadline: Annotated[
        str | None, typer.Option(metavar="TIME", help="When such a task is stopped: 90s, 30m, 2h, 3d; 1d without it.")
    ] = None,
) -> Json:
    return {"deadline_s": read_seconds(deadline, "--deadline")} if deadline else {}


def _runs_of(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Only this job's.", show_default=False)] = None,
    *,
    user: Annotated[str | None, typer.Option(metavar="ID", help="Only this user's.")] = None,
) -> Json:
    return {"path": _path(name, user) if name else None, "user": user}


def jobs_table(document: Json) -> Any:
    """Return jobs as a table, and below it what is wrong."""
    from rich.console import Group

    rows = (
        (
            job["id"] if job["path"].startswith(f"/{document['jobs'][0]['user']}/") else job["path"],
            job["spec"].get("cron") or job["spec"].get("at"),
            "paused"
            if job["paused"]
            else "running"
            if job["running"]
            else job["next"][0]
            if job["next"]
            else "not due",
            f"{job['last']['state']} {when(job['last']['due_at'])}" if job.get("last") else "",
            f"{job['source']} {job['source_ref']}".strip(),
            one_line(job["spec"].get("description") or job["spec"]["prompt"], 60),
        )
        for job in document["jobs"]
    )
    parts: list[Any] = [
        table(("job", "when", "next", "last", "source", "what"), rows) if document["jobs"] else "no scheduled jobs"
    ]
    parts += [f"broken: {each['source_ref']}:{each['line']}: {each['what']}" for each in document["problems"]]
    return Group(*parts) if len(parts) > 1 else parts[0]


def job_facts(job: Json) -> Any:
    """Return one job with all that is known of it."""
    facts = [(name, one_line(value, 300)) for name, value in job["spec"].items()]
    facts = [("path", job["path"]), ("source", f"{job['source']} {job['source_ref']}".strip()), *facts]
    facts += [("paused", "yes" if job["paused"] else "no"), ("next", ", ".join(job["next"]) or "not due")]
    if last := job.get("last"):
        facts.append(("last", f"{last['state']} {when(last['due_at'])} {last['reason']}".strip()))
    return pairs(facts)


def runs_table(document: Json) -> Any:
    """Return entries of the ledger as a table."""
    rows = (
        (
            run["no"],
            run["path"],
            when(run["due_at"]) + (f" to {when(run['until_at'])}" if run["count"] > 1 else ""),
            f"{run['state']} x {run['count']}" if run["count"] > 1 else run["state"],
            _took(run),
            f"{run.get('cost_micros', 0) / 1e6:.4f}" if run.get("cost_micros") else "",
            f"{run['delivery']} {run.get('connector', '')} {run.get('receipt') or ''}".strip()
            if run.get("delivery")
            else "",
            one_line(" ".join(filter(None, (run.get("task"), run["reason"] or run.get("answer")))), 60),
        )
        for run in document["runs"]
    )
    columns = ("run#", "job", "due", "state", "took", "usd#", "delivery", "why or what")
    return table(columns, rows) if document["runs"] else "nothing was due yet"


def _took(run: Json) -> str:
    started, ended = run.get("started_at"), run.get("ended_at")
    return duration((ended - started) / 1000) if started and ended else ""


def _path(name: str, user: str | None) -> str:
    if user and name.startswith("/"):
        raise InvalidError("USAGE", f"read {name} and --user {user}: a path says whose it is", hint="leave out --user")
    return f"/{user}/cron/{name}" if user else name


def _is_expression(text: str) -> bool:
    """Return whether a text is meant as an expression, not as a time or a name: it has fields, or begins with @."""
    return text.lstrip().startswith("@") or len(text.split()) > 2


def _next_line(job: Json) -> str:
    return f"next: {job['next'][0]}" if job["next"] else "it is not due"


@default_command(app, examples="daycare cron\ndaycare cron list --json")
def cron(cli: Cli) -> None:
    """List scheduled jobs, or work on one of them."""
    with cli.connect() as client:
        cli.out(ask(client, model.ListJobs()), jobs_table)


_JOB: Final = (Given(("path",), _job),)
operation(app, "list", model.ListJobs, jobs_table, examples="daycare cron list\ndaycare cron list --user ann")
operation(app, "show", model.ShowJob, job_facts, given=_JOB, examples="daycare cron show morning")
operation(
    app,
    "add",
    model.AddJob,
    lambda job: f"added {job['path']}\n{_next_line(job)}",
    given=(Given(("cron", "at"), _when), Given(("prompt",), _prompt), Given(("deadline_s",), _deadline)),
    hidden=["enabled"],
    examples="daycare cron add morning '30 7 * * MON-FRI' 'Summarise what is due today' --zone Europe/Berlin\n"
    "daycare cron add call 2027-03-01T15:00 'Remind me to call Ben'",
)


@command(
    app, "edit", examples="daycare cron edit morning 'cron=0 8 * * *' retry=2\ndaycare cron edit morning enabled=false"
)
def edit(
    cli: Cli,
    name: JobName,
    fields: Annotated[
        list[str],
        typer.Argument(metavar="FIELD=VALUE...", help="Fields as in doc/use/cron.md; {..} is JSON, null resets."),
    ],
    *,
    user: Whose = None,
) -> None:
    """Change fields of a job that was not written into a file."""
    changes = {key: None if value == "null" else value for key, value in read_settings(fields).items()}
    with cli.connect() as client:
        job = ask(client, model.ChangeJob(path=_path(name, user), changes=changes))
    cli.out(job, lambda it: f"changed {', '.join(changes)} of {it['path']}\n{_next_line(it)}")


operation(
    app,
    "rm",
    model.RemoveJob,
    lambda gone: f"removed {gone['removed']}",
    given=_JOB,
    examples="daycare cron rm morning\ndaycare cron rm morning --user ann",
)
operation(
    app,
    "pause",
    model.PauseJob,
    lambda job: f"{job['path']} is paused",
    given=_JOB,
    examples="daycare cron pause morning\ndaycare cron pause morning --user ann",
)
operation(
    app,
    "resume",
    model.ResumeJob,
    lambda job: f"{job['path']} goes on\n{_next_line(job)}",
    given=_JOB,
    examples="daycare cron resume morning\ndaycare cron resume morning --user ann",
)
operation(
    app,
    "run",
    model.RunJob,
    lambda it: f"{it['path']} runs now (run {it['no']})\nsee the result: daycare cron history {it['path']}",
    given=_JOB,
    examples="daycare cron run morning --set city=Bonn",
)


@command(
    app,
    "next",
    examples="daycare cron next '30 2 * * *' --zone Europe/Berlin --after 2027-03-27 --count 3 --json\n"
    "daycare cron next morning",
)
def next_(
    cli: Cli,
    what: Annotated[
        str, typer.Argument(metavar="EXPR", help='An expression such as "*/15 9-17 * * MON-FRI", or a job.')
    ],
    *,
    zone: Annotated[str, typer.Option(metavar="ZONE", help="IANA zone of an expression.")] = "UTC",
    after: Annotated[
        str | None, typer.Option(metavar="TIME", help="Later than this, in the zone; now without it.")
    ] = None,
    count: Annotated[int, typer.Option(min=1, max=NEXT_MAX, metavar="N", help="How many times.")] = 5,
    user: Whose = None,
) -> None:
    """Tell when an expression is due next, as local times with their offset; no job and no daemon is needed."""
    if not _is_expression(what):
        with cli.connect() as client:
            times = client.call("GET", "/v1/cron/job", path=_path(what, user))["next"][:count]
    else:
        from daycare.base import crontab  # late: it costs 10 ms

        here = zone_of(zone)
        after_ms = int(time.time() * 1000) if after is None else crontab.instant(after, here)
        found = crontab.occurrences(crontab.expression(what), here, after_ms)
        times = [crontab.local(at, here) for at in islice(found, count)]
    cli.out(times, lambda them: "\n".join(them) or "never")


operation(
    app,
    "history",
    model.ListRuns,
    runs_table,
    given=[Given(("user", "path"), _runs_of)],
    limit=30,
    examples="daycare cron history morning\ndaycare cron history --json | jq '.runs[] | .state'",
)
