"""Commands about personalities: how agents can speak."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from daycare.api.client import Json
from daycare.base.errors import DaycareError, InvalidError
from daycare.cli.command import Cli, command, default_command
from daycare.cli.render import one_line, plain, table
from daycare.store.home import Home

if TYPE_CHECKING:
    from daycare.agent.personality import Personalities

app = typer.Typer(rich_markup_mode=None)


@default_command(app, examples="daycare personalities\ndaycare personalities show casual")
def personalities(cli: Cli) -> None:
    """List the ways in which agents can speak: those that come along, and the files of your own."""
    _list(cli)


@command(app, "list", examples="daycare personalities list\ndaycare personalities list --json")
def list_(cli: Cli) -> None:
    """List personalities; one whose file is wrong is listed with the reason."""
    _list(cli)


@command(
    app, "show", examples="daycare personalities show casual\ndaycare personalities show casual --json > mine.json"
)
def show(cli: Cli, name: Annotated[str, typer.Argument(metavar="NAME", help="Its name.")]) -> None:
    """Show a personality as a prompt tells it; with `--json` as a file, to begin one of your own with."""
    found = _all(cli).get(name)
    cli.out(msgspec.to_builtins(found), lambda _: plain(found.render()))


@command(app, "check", examples="daycare personalities check ~/.daycare/personalities/pirate.json")
def check(cli: Cli, file: Annotated[Path, typer.Argument(metavar="FILE", help="A file, wherever it is.")]) -> None:
    """Check a personality file; prints every wrong field with what was expected, and exits with 2 if there is one."""
    from daycare.agent.personality import check_file

    if not file.exists():
        raise InvalidError("FILE_UNREADABLE", f"checking {file}: there is no such file", hint="daycare personalities")
    found = check_file(file)
    cli.out({"file": str(file), "personality": msgspec.to_builtins(found)}, lambda _: f"{file}: no problem found")


def _all(cli: Cli) -> "Personalities":
    from daycare.agent.personality import Personalities

    return Personalities(Home(cli.home).personalities)


def _list(cli: Cli) -> None:
    known = _all(cli)
    rows: list[Json] = []
    for name in known.names():
        row: Json = {"name": name, "own": known.is_own(name), "description": "", "problem": ""}
        try:
            row["description"] = known.get(name).description
        except DaycareError as error:
            row["problem"] = error.message
        rows.append(row)
    cli.out({"personalities": rows}, _table)


def _table(document: Json) -> Any:
    rows = (
        (each["name"], "yours" if each["own"] else "", one_line(each["problem"] or each["description"], 200))
        for each in document["personalities"]
    )
    return table(("name", "file", "description"), rows)
