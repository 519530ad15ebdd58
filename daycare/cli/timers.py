"""Commands about timers: what comes to an agent at a time, such as a reminder."""

from typing import Annotated, Any

import typer

from daycare.api.client import Json
from daycare.base.times import when
from daycare.cli.command import Cli, command, default_command
from daycare.cli.render import one_line, table

app = typer.Typer(rich_markup_mode=None)

OfPath = Annotated[str | None, typer.Option("--path", metavar="PATH", help="Only those of this agent.")]
OfUser = Annotated[str | None, typer.Option("--user", metavar="ID", help="Only those of this user.")]
Limit = Annotated[int, typer.Option(help="At most so many.", min=1, max=1000)]


@default_command(app, examples="daycare timers\ndaycare timers list --path /ann/direct")
def timers(cli: Cli) -> None:
    """List reminders and deadlines that are still to come, or cancel a reminder."""
    _list(cli, None, None, 50)


@command(app, "list", examples="daycare timers list --path /ann/direct")
def list_(cli: Cli, *, path: OfPath = None, user: OfUser = None, limit: Limit = 50) -> None:
    """List reminders and deadlines that are still to come, the soonest first."""
    _list(cli, path, user, limit)


@command(app, "cancel", examples="daycare timers cancel 12")
def cancel(cli: Cli, no: Annotated[int, typer.Argument(metavar="NO", help="Number of the timer.")]) -> None:
    """Cancel a reminder. A deadline ends with what it is the deadline of."""
    with cli.connect() as client:
        done = client.call("DELETE", f"/v1/timers/{no}")
    cli.out(done, lambda it: f"cancelled the reminder {no} of {it['cancelled']['path']}")


def timers_table(document: Json) -> Any:
    """Return timers as a table."""
    rows = (
        (
            each["no"],
            when(each["due_at"]),
            each["path"],
            "deadline" if each["deadline"] else "reminder",
            one_line(each["envelope"]["text"]),
        )
        for each in document["timers"]
    )
    return table(("no#", "due", "path", "is", "text"), rows) if document["timers"] else "no timers"


def _list(cli: Cli, path: str | None, user: str | None, limit: int) -> None:
    with cli.connect() as client:
        cli.out(client.call("GET", "/v1/timers", path=path, user=user, limit=limit), timers_table)
