"""Commands that look for messages: what moved lately, and which trace somebody means."""

from typing import Annotated, Any

import typer

from daycare.api.client import Json
from daycare.base.times import when
from daycare.cli.command import Cli, command
from daycare.cli.render import one_line, table


def register(app: typer.Typer) -> None:
    """Add the commands."""
    examples = "daycare traffic\ndaycare traffic '/ann/**' --hours 24 --limit 500"
    command(app, "traffic", examples=examples)(traffic)
    command(app, "traces", examples="daycare traces /ann/direct\ndaycare traces 'timed out'")(traces)


def traffic(
    cli: Cli,
    path: Annotated[str | None, typer.Argument(help="Only to or from it; PATH/** also below it.")] = None,
    *,
    hours: Annotated[int, typer.Option(help="Of so many hours until now.", min=1, max=720)] = 1,
    limit: Annotated[int, typer.Option(help="At most so many.", min=1, max=1000)] = 100,
) -> None:
    """Show which messages moved between agents and the outside, the newest last."""
    with cli.connect() as client:
        cli.out(client.call("GET", "/v1/traffic", path=path, last_s=hours * 3600, limit=limit), _moved)


def traces(cli: Cli, text: Annotated[str, typer.Argument(help="What is looked for.", metavar="TEXT")]) -> None:
    """Find messages by number, repeat key or trace id, by an agent's path, or by words of an error."""
    with cli.connect() as client:
        cli.out(client.call("GET", "/v1/traces", query=text), _found)


def _moved(page: Json) -> Any:
    if not page["movements"]:
        return "nothing moved"
    rows = (
        (when(it["at_ms"]), it["source"], it["target"], f"{it['kind']} {it['seq']}", it["state"], it["trace"])
        for it in reversed(page["movements"])
    )
    return table(("at", "from", "to", "what", "state", "trace"), rows)


def _found(document: Json) -> Any:
    if not document["traces"]:
        return "nothing fits"
    rows = ((when(it["at_ms"]), it["path"], one_line(it["what"]), it["trace"]) for it in document["traces"])
    return table(("at", "path", "what", "trace"), rows)
