"""Commands about signals: which agents get which, send one, and what became of those that were sent."""

import sys
from typing import Annotated, Any

import typer

from daycare.api.client import Json, new_key
from daycare.base.times import when
from daycare.cli.command import Cli, command, default_command
from daycare.cli.render import one_line, table
from daycare.cli.spans import read_seconds

app = typer.Typer(rich_markup_mode=None)

AgentPath = Annotated[str, typer.Argument(metavar="PATH", help="Path of the agent that gets them.")]
PatternText = Annotated[
    str, typer.Argument(metavar="PATTERN", help='Such as deploy:done or "agent:*:idle"; * is any one segment.')
]
Whose = Annotated[str | None, typer.Option("--user", metavar="ID", help="Only this user's.")]


@default_command(app, examples="daycare signals\ndaycare signals list")
def signals(cli: Cli) -> None:
    """List subscriptions and what waits, or work with signals."""
    _list(cli, None)


@command(app, "list", examples="daycare signals list --json | jq '.subscriptions[] | .pattern'")
def list_(cli: Cli, *, user: Whose = None) -> None:
    """List which agents get which signals, and signals that are not due yet."""
    _list(cli, user)


@command(
    app,
    "send",
    examples="daycare signals send deploy:shop:done --data 'version 3.1'\n"
    "daycare signals send tea:ready --after 4m --repeat tea",
)
def send(
    cli: Cli,
    type_: Annotated[str, typer.Argument(metavar="TYPE", help="What happened: segments of a-z, 0-9, _ - . / with :.")],
    *,
    data: Annotated[str, typer.Option(metavar="TEXT", help="Details, read as data; - reads stdin.")] = "",
    after: Annotated[str, typer.Option(metavar="TIME", help="When it goes out: 90s, 30m, 2h, 3d from now.")] = "0",
    repeat: Annotated[str, typer.Option(metavar="K", help="It replaces one of this type and key that waits.")] = "",
    key: Annotated[str, typer.Option(metavar="K", help="Idempotency key: a repeat sends nothing.")] = "",
    user: Annotated[
        str | None, typer.Option("--user", metavar="ID", help="To whose agents; the operator's without it.")
    ] = None,
) -> None:
    """Send a signal to all agents that have subscribed to it."""
    body = {
        "type": type_,
        "data": sys.stdin.read() if data == "-" else data,
        "after_s": read_seconds(after, "--after"),
        "repeat": repeat,
        "user": user or "",
        "key": key or new_key(),
    }
    with cli.connect(work=True) as client:
        sent = client.call("POST", "/v1/signals", body)
    cli.out(sent, lambda it: f"signal {it['no']} {'goes out ' + when(it['due_at']) if body['after_s'] else 'is out'}")


@command(app, "subscribe", examples="daycare signals subscribe /ann/agent/scribe 'agent:*:idle'")
def subscribe(
    cli: Cli,
    path: AgentPath,
    pattern: PatternText,
    *,
    silent: Annotated[
        bool, typer.Option("--silent", help="Only note them in its conversation, without a turn.")
    ] = False,
) -> None:
    """Let an agent have signals of its user."""
    with cli.connect() as client:
        made = client.call("POST", "/v1/signals/subscriptions", {"path": path, "pattern": pattern, "silent": silent})
    cli.out(made, lambda it: f"{it['path']} gets {it['pattern']}{' as notes' if it['silent'] else ''}")


@command(app, "unsubscribe", examples="daycare signals unsubscribe /ann/agent/scribe 'agent:*:idle'")
def unsubscribe(cli: Cli, path: AgentPath, pattern: PatternText) -> None:
    """Let an agent have no more signals of a pattern."""
    with cli.connect() as client:
        gone = client.call("DELETE", "/v1/signals/subscriptions", path=path, pattern=pattern)
    cli.out(gone, lambda it: f"{it['path']} gets {it['pattern']} no more")


@command(app, "history", examples="daycare signals history --limit 5")
def history(
    cli: Cli,
    *,
    limit: Annotated[int, typer.Option(min=1, max=1000, metavar="N", help="How many, the newest.")] = 30,
    user: Whose = None,
) -> None:
    """Show signals, which agents got each, and why others did not."""
    with cli.connect() as client:
        cli.out(client.call("GET", "/v1/signals", user=user, limit=limit), history_table)


def signals_tables(document: Json) -> Any:
    """Return subscriptions and waiting signals as tables."""
    from rich.console import Group

    parts: list[Any] = []
    if subscriptions := document["subscriptions"]:
        rows = (
            (each["path"], each["pattern"], "note" if each["silent"] else "turn", "dead" if each["dead"] else "")
            for each in subscriptions
        )
        parts.append(table(("agent", "gets", "as", ""), rows))
    if waiting := document["waiting"]:
        rows_ = (
            (each["no"], each["type"], when(each["due_at"]), each["key"], each["sender"] or each["user"])
            for each in waiting
        )
        parts += [*([""] if parts else []), table(("signal#", "type", "due", "repeat", "from"), rows_)]
    return Group(*parts) if parts else "no subscriptions, and no signal waits"


def history_table(document: Json) -> Any:
    """Return signals with what became of them as a table."""
    rows = (
        (
            each["no"],
            when(each["due_at"]),
            each["type"],
            each["sender"] or each["user"],
            each["state"] if each["state"] != "fired" else f"{each['sent']} got it",
            one_line("; ".join(_refusals(each)), 80),
            one_line(each["data"], 60),
        )
        for each in document["signals"]
    )
    columns = ("signal#", "due", "type", "from", "state", "refused", "data")
    return table(columns, rows) if document["signals"] else "no signals"


def _refusals(it: Json) -> list[str]:
    return [f"{each['path']}: {each['reason']}" for each in it["deliveries"] if not each.get("seq")]


def _list(cli: Cli, user: str | None) -> None:
    with cli.connect() as client:
        document = client.call("GET", "/v1/signals/subscriptions", user=user)
        document["waiting"] = client.call("GET", "/v1/signals", user=user, waiting="true", limit=1000)["signals"]
    cli.out(document, signals_tables)
