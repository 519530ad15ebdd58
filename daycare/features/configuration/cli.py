"""`daycare config set`: change a setting without opening the file."""

import tomllib
from typing import Annotated, Any

import typer

from daycare.api.client import Json
from daycare.cli.command import Cli, command
from daycare.cli.operations import ask
from daycare.cli.render import plain
from daycare.features.configuration.operations import ChangeConfig


def register(app: typer.Typer) -> None:
    """Add `set` to the commands of the configuration."""
    examples = """
    daycare config set daemon.log_level debug
    daycare config set backup.every 24h
    daycare config set daemon.log_level
    """
    command(app, "set", examples=examples)(set_)


def set_(
    cli: Cli,
    key: Annotated[str, typer.Argument(metavar="KEY", help="Section and key, such as daemon.log_level.")],
    value: Annotated[
        str | None,
        typer.Argument(metavar="VALUE", help="Its new value; without one its default holds.", show_default=False),
    ] = None,
) -> None:
    """Change a setting in config.toml; comments and every other line stay. A daemon that runs goes by it at once.

    What is not valid is refused, and nothing is written. Secrets do not belong there: `daycare keys add`.
    """
    *way, last = key.split(".")
    changes: Any = {last: None if value is None else _value(value)}
    for name in reversed(way):
        changes = {name: changes}
    with cli.connect() as client:
        cli.out(ask(client, ChangeConfig(changes=changes)), _told)


def _value(text: str) -> Any:
    """Return a value as TOML has it, else the words as they are."""
    try:
        return tomllib.loads(f"value = {text}")["value"] if "\n" not in text else text
    except tomllib.TOMLDecodeError:
        return text


def _told(done: Json) -> str:
    if not done["reloaded"]:
        return "written: it holds from the next start on"
    lines = [f"changed: {', '.join(done['changed'])}" if done["changed"] else "nothing has changed"]
    lines += [f"restarted: {', '.join(done['restarted'])}"] if done["restarted"] else []
    lines += [f"after `daycare restart` only: {', '.join(done['pending'])}"] if done["pending"] else []
    return plain("\n".join(lines))
