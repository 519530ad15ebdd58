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
from daycare.cli.render import one_line, pairs, table
from daycare.cli.spans import read_seconds

app = typer.Typer(rich_markup_mode=None)

NEXT_MAX: Final = 1_000_000  # two years of minutes

JobName = Annotated[str, typer.Argument(metavar="NAME", help="The job's name, or its path /USER/cron/NAME.")]
Whose = Annotated[str | None, typer.Option("--user", metavar="ID", help="Whose job it is; the operator's without it.")]
Values = Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the prompt.")]


@default_command(app, examples="daycare cron\ndaycare cron list --json")
def cron(cli: Cli) -> None:
    """List scheduled jobs, or work on one of them."""
    _list(cli, None)


@command(app, "list", examples="daycare cron list\ndaycare cron list --user ann")
def list_(
    cli: Cli, *, user: Annotated[str | None, typer.Option(metavar="ID", help="Only this user's.")] = None
) -> None:
    """List scheduled jobs, when each is due, and how its last run went; and what is wrong in files."""
    _list(cli, user)


@command(app, "show", examples="daycare cron show morning")
def show(cli: Cli, name: JobName, *, user: Whose = None) -> None:
    """Show one job with its next times."""
    with cli.connect() as client:
        cli.out(client.call("GET", "/v1/cron/job", path=_path(name, user)), job_facts)


@command(
    app,
    "add",
    examples="daycare cron add morning '30 7 * * MON-FRI' 'Summarise what is due today' --zone Europe/Berlin\n"
    "daycare cron add call 2027-03-01T15:00 'Remind me to call Ben'",
)
def add(
    cli: Cli,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name: a-z, 0-9, - and _.")],
    at: Annotated[str, typer.Argument(metavar="WHEN", help='An expression such as "30 7 * * *", or a date and time.')],
    prompt: Annotated[str, typer.Argument(metavar="PROMPT", help="What the agent is to do; - reads stdin.")],
    *,
    zone: Annotated[str | None, typer.Option(metavar="ZONE", help="IANA zone; the user's without it.")] = None,
    target: Annotated[
        str | None, typer.Option(metavar="PATH", help="Who gets it; without it an agent of its own.")
    ] = None,
    deliver: Annotated[
        str | None, typer.Option(metavar="PATH", help='Where the answer goes, such as /ann/telegram, or "none".')
    ] = None,
    session: Annotated[
        str | None, typer.Option(metavar="KIND", help='"fresh" for each run (default), or "continue".')
    ] = None,
    task: Annotated[
        str | None, typer.Option(metavar="NAME", help="Each run is a task of this name and a number, for long work.")
    ] = None,
    deadline: Annotated[
        str | None, typer.Option(metavar="TIME", help="When such a task is stopped: 90s, 30m, 2h, 3d; 1d without it.")
    ] = None,
    misfire: Annotated[
        str | None, typer.Option(metavar="POLICY", help='When missed: "skip", "run_once" or "within MINUTES".')
    ] = None,
    overlap: Annotated[
        str | None, typer.Option(metavar="POLICY", help='While one is running: "skip" (default) or "queue".')
    ] = None,
    retry: Annotated[int | None, typer.Option(min=0, max=5, metavar="N", help="More attempts of a failed run.")] = None,
    values: Values = None,
    description: Annotated[str | None, typer.Option(metavar="TEXT", help="What it is for, in a line.")] = None,
    delete_after_run: Annotated[bool, typer.Option("--delete-after-run", help="It goes once it has run.")] = False,
    user: Whose = None,
) -> None:
    """Add a job."""
    spec: Json = {
        "zone": zone,
        "target": target,
        "deliver": deliver,
        "session": session,
        "task": task,
        "deadline_s": read_seconds(deadline, "--deadline") if deadline else None,
        "misfire": misfire,
        "overlap": overlap,
        "retry": retry,
        "description": description,
        "delete_after_run": delete_after_run or None,
        "parameters": read_settings(values) if values else None,
        "prompt": sys.stdin.read().strip() if prompt == "-" else prompt,
        "cron" if _is_expression(at) else "at": at,
    }
    body = {"id": name, "spec": {key: value for key, value in spec.items() if value is not None}, "user": user or ""}
    with cli.connect() as client:
        cli.out(client.call("POST", "/v1/cron", body), lambda job: f"added {job['path']}\n{_next_line(job)}")


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
        job = client.call("PATCH", "/v1/cron/job", changes, path=_path(name, user))
    cli.out(job, lambda it: f"changed {', '.join(changes)} of {it['path']}\n{_next_line(it)}")


@command(app, "rm", examples="daycare cron rm morning\ndaycare cron rm morning --user ann")
def rm(cli: Cli, name: JobName, *, user: Whose = None) -> None:
    """Remove a job; its history stays for a while."""
    with cli.connect() as client:
        cli.out(
            client.call("DELETE", "/v1/cron/job", path=_path(name, user)), lambda gone: f"removed {gone['removed']}"
        )


@command(app, "pause", examples="daycare cron pause morning\ndaycare cron pause morning --user ann")
def pause(cli: Cli, name: JobName, *, user: Whose = None) -> None:
    """Pause a job, wherever it was written."""
    with cli.connect() as client:
        cli.out(client.call("POST", "/v1/cron/pause", path=_path(name, user)), lambda job: f"{job['path']} is paused")


@command(app, "resume", examples="daycare cron resume morning\ndaycare cron resume morning --user ann")
def resume(cli: Cli, name: JobName, *, user: Whose = None) -> None:
    """Let a paused job go on from now."""
    with cli.connect() as client:
        cli.out(
            client.call("POST", "/v1/cron/resume", path=_path(name, user)),
            lambda job: f"{job['path']} goes on\n{_next_line(job)}",
        )


@command(app, "run", examples="daycare cron run morning --set city=Bonn")
def run(cli: Cli, name: JobName, *, values: Values = None, user: Whose = None) -> None:
    """Let a job run now, beside its schedule."""
    body = {"parameters": read_settings(values or [])}
    with cli.connect() as client:
        done = client.call("POST", "/v1/cron/run", body, path=_path(name, user))
    cli.out(done, lambda it: f"{it['path']} runs now (run {it['no']})\nsee the result: daycare cron history {name}")


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


@command(app, "history", examples="daycare cron history morning\ndaycare cron history --json | jq '.runs[] | .state'")
def history(
    cli: Cli,
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Only this job's.", show_default=False)] = None,
    *,
    limit: Annotated[int, typer.Option(min=1, max=1000, metavar="N", help="How many entries, the newest.")] = 30,
    user: Annotated[str | None, typer.Option(metavar="ID", help="Only this user's.")] = None,
) -> None:
    """Show the result of each run: ran, late, missed, skipped or failed, why, and where the answer went."""
    path = _path(name, user) if name else None
    with cli.connect() as client:
        cli.out(client.call("GET", "/v1/cron/runs", path=path, user=user, limit=limit), runs_table)


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


def _list(cli: Cli, user: str | None) -> None:
    with cli.connect() as client:
        cli.out(client.call("GET", "/v1/cron", user=user), jobs_table)


def _took(run: Json) -> str:
    started, ended = run.get("started_at"), run.get("ended_at")
    return duration((ended - started) / 1000) if started and ended else ""


def _next_line(job: Json) -> str:
    return f"next: {job['next'][0]}" if job["next"] else "it is not due"


def _path(name: str, user: str | None) -> str:
    if user and name.startswith("/"):
        raise InvalidError("USAGE", f"read {name} and --user {user}: a path says whose it is", hint="leave out --user")
    return f"/{user}/cron/{name}" if user else name


def _is_expression(text: str) -> bool:
    """Return whether a text is meant as an expression, not as a time or a name: it has fields, or begins with @."""
    return text.lstrip().startswith("@") or len(text.split()) > 2
