"""Commands about tasks: start, list, show, watch and cancel work that goes on in the background."""

import re
import sys
import time
from typing import Annotated, Any, Final

import typer

from daycare.api.client import WAIT_SLICE_S, Client, Json, new_key
from daycare.base.durations import duration
from daycare.base.errors import BusyError, DaycareError, InvalidError
from daycare.base.times import when
from daycare.cli.command import Cli, command, default_command
from daycare.cli.command import show as print_out
from daycare.cli.render import clock, one_line, pairs, plain, table
from daycare.cli.spans import read_seconds

app = typer.Typer(rich_markup_mode=None)

TaskName = Annotated[
    str, typer.Argument(metavar="NAME", help="The task's name or number, or its path /USER/task/NAME.")
]
Whose = Annotated[str | None, typer.Option("--user", metavar="ID", help="Whose task it is; the operator's without it.")]
Timeout = Annotated[float, typer.Option("--timeout", metavar="S", help="How many seconds to wait at most.", min=0)]

_WAIT_S: Final = 86_400.0
_PARAMETER: Final = re.compile(
    r"([a-z][a-z0-9_]{0,31})(?::(text|number|whole|yes_no|choice\(([^)]*)\)))?=(.*)", re.DOTALL
)


@default_command(app, examples="daycare task\ndaycare task list --all")
def task(cli: Cli) -> None:
    """List tasks, or work on one of them."""
    _list(cli, None, all_=False, limit=30)


@command(
    app,
    "start",
    examples="daycare task start 'Compare three quiet keyboards' --wait\n"
    "daycare task start 'Plan {{days}} days in {{city}}' --param city=Bonn --param days:whole=3 --deadline 2h\n"
    "daycare task start - --name notes < notes.txt",
)
def start(
    cli: Cli,
    prompt: Annotated[str, typer.Argument(metavar="TEXT", help="What is to be done; - reads stdin.")],
    *,
    name: Annotated[str, typer.Option(metavar="NAME", help="Its name; without it a number.")] = "",
    param: Annotated[
        list[str] | None,
        typer.Option("--param", metavar="NAME[:TYPE]=VALUE", help="text, number, whole, yes_no or choice(A|B)."),
    ] = None,
    deadline: Annotated[str, typer.Option(metavar="TIME", help="After that it is stopped: 90s, 30m, 2h, 3d.")] = "1d",
    deliver: Annotated[
        str, typer.Option(metavar="PATH", help='Where the answer goes, such as /ann/telegram, or "none".')
    ] = "",
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for the answer and print it; then it goes nowhere else.")
    ] = (False),
    timeout: Timeout = _WAIT_S,
    key: Annotated[str, typer.Option(metavar="K", help="Idempotency key: a repeat starts nothing.")] = "",
    user: Whose = None,
) -> None:
    """Start a task. What it comes to is told in your last conversation."""
    spec = {
        "prompt": sys.stdin.read().strip() if prompt == "-" else prompt,
        "parameters": dict(map(_parameter, param or ())),
        "deadline_s": read_seconds(deadline, "--deadline"),
    }
    deliver = deliver or ("none" if wait else "")
    body = {"id": name, "spec": spec, "user": user or "", "deliver": deliver, "key": key or new_key()}
    with cli.connect(work=wait) as client:
        begun = client.call("POST", "/v1/tasks", body)
        if wait:
            _finish(cli, _waited(client, begun, timeout))
        else:
            cli.out(begun, lambda it: f"started {it['path']}\nhow far it is: daycare task watch {it['id']}")


@command(app, "list", examples="daycare task list --all --json | jq '.tasks[] | .state'")
def list_(
    cli: Cli,
    *,
    all_: Annotated[bool, typer.Option("--all", help="Also those that have ended.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=1000, metavar="N", help="How many, the newest.")] = 30,
    user: Annotated[str | None, typer.Option(metavar="ID", help="Only this user's.")] = None,
) -> None:
    """List tasks that have not ended, and how far they are."""
    _list(cli, user, all_=all_, limit=limit)


@command(app, "show", examples="daycare task show 7")
def show(cli: Cli, name: TaskName, *, user: Whose = None) -> None:
    """Show one task with its progress and result."""
    with cli.connect() as client:
        cli.out(client.call("GET", "/v1/tasks/task", path=_path(name, user)), task_facts)


@command(app, "watch", examples="daycare task watch 7")
def watch(cli: Cli, name: TaskName, *, timeout: Timeout = _WAIT_S, user: Whose = None) -> None:
    """Show how far a task is until it has ended, then its result."""
    with cli.connect(work=True) as client:
        begun = client.call("GET", "/v1/tasks/task", path=_path(name, user))
        _finish(cli, _waited(client, begun, timeout, watched=cli))


@command(app, "cancel", examples="daycare task cancel report\ndaycare task cancel report --user ann")
def cancel(cli: Cli, name: TaskName, *, user: Whose = None) -> None:
    """Stop a task; the asker gets what it had."""
    with cli.connect(work=True) as client:
        stopped = client.call("POST", "/v1/tasks/cancel", path=_path(name, user))
        cli.out(stopped, lambda it: f"{it['path']} is being stopped")


def tasks_table(document: Json) -> Any:
    """Return tasks as a table."""
    rows = (
        (
            each["path"],
            each["state"],
            when(each["created_at"]),
            "" if each["ended"] else when(each["deadline_at"]),
            duration((each["ended_at"] - each["created_at"]) / 1000) if each["ended"] else "",
            one_line(each["prompt"], 60),
            one_line(_news(each), 60),
        )
        for each in document["tasks"]
    )
    columns = ("task", "state", "since", "until", "took", "what", "news")
    return table(columns, rows) if document["tasks"] else "no tasks"


def task_facts(it: Json) -> Any:
    """Return one task with all that is known of it."""
    facts = [("path", it["path"]), ("state", f"{it['state']} {it['reason']}".strip())]
    facts += [("asked by", it["asker"] or it["user"]), ("what", one_line(it["prompt"], 300))]
    facts += [(name, plain(str(value))) for name, value in it["parameters"].items()]
    facts += [("since", when(it["created_at"])), ("until", when(it["deadline_at"]))]
    if it["ended"]:
        facts.append(("ended", when(it["ended_at"])))
    if it["tokens"]:
        facts.append(("cost", f"{it['tokens']} tokens, {it['cost_micros'] / 1e6:.4f} usd"))
    if it.get("delivery"):
        facts.append(("told", f"{it['delivery']} {it['told_by']} {it.get('receipt') or ''}".strip()))
    facts.append(("trace", it["trace"]))
    facts += [(clock(line["at"]), one_line(line["text"], 200)) for line in it["progress"]]
    if it.get("result"):
        facts.append(("result", plain(it["result"])))
    return pairs(facts)


def _news(it: Json) -> str:
    said = it["progress"][-1]["text"] if it["progress"] else ""
    return str(it["reason"] or it.get("result") or said) if it["ended"] else said


def _list(cli: Cli, user: str | None, *, all_: bool, limit: int) -> None:
    with cli.connect() as client:
        cli.out(client.call("GET", "/v1/tasks", user=user, open=None if all_ else "true", limit=limit), tasks_table)


def _waited(client: Client, it: Json, timeout_s: float, *, watched: Cli | None = None) -> Json:
    """Return a task when it has ended, showing its progress if it is watched. Raises BusyError NO_ANSWER_YET."""
    deadline = time.monotonic() + timeout_s
    shown = 0
    while True:
        for line in it["progress"]:
            if watched is not None and line["at"] > shown:
                _show_progress(watched, it, line)
        shown = max((line["at"] for line in it["progress"]), default=0)
        if it["ended"]:
            return it
        left = deadline - time.monotonic()
        if left <= 0:
            raise BusyError(
                "NO_ANSWER_YET",
                f"wait for {it['path']}: it has not ended within {timeout_s:g} s",
                hint=f"daycare task watch {it['path']}",
            )
        it = client.call("GET", "/v1/tasks/task", path=it["path"], wait_s=min(left, WAIT_SLICE_S), progress=shown)


def _show_progress(cli: Cli, it: Json, line: Json) -> None:
    if cli.json:
        cli.line(
            {"event": "task.progress", "task": it["no"], "path": it["path"], "at_ms": line["at"], "text": line["text"]}
        )
    else:
        print_out(f"{clock(line['at'])}  {one_line(line['text'], 200)}")


def _finish(cli: Cli, it: Json) -> None:
    """Print what a task came to; the exit code is 0 only if it is done."""
    cli.out(it, _outcome)
    if it["state"] != "done":
        raise typer.Exit(DaycareError.exit_code)


def _outcome(it: Json) -> str:
    if it["state"] == "done":
        return plain(it.get("result") or "(no answer)")
    had = f"\n{plain(it['result'])}" if it.get("result") else ""
    return f"{it['path']} {it['state']}: {plain(it['reason'])}{had}"


def _parameter(text: str) -> tuple[str, Any]:
    found = _PARAMETER.fullmatch(text)
    if found is None:
        raise InvalidError(
            "USAGE", f"read --param {text}: expected NAME=VALUE or NAME:TYPE=VALUE", hint="daycare task start --help"
        )
    name, kind, choices, value = found.groups()
    if kind is None:
        return name, value
    if choices is None:
        return name, {"value": value, "type": kind}
    return name, {"value": value, "type": "choice", "choices": [each.strip() for each in choices.split("|")]}


def _path(name: str, user: str | None) -> str:
    if user and name.startswith("/"):
        raise InvalidError("USAGE", f"read {name} and --user {user}: a path says whose it is", hint="leave out --user")
    return f"/{user}/task/{name}" if user else name
