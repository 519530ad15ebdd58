"""`daycare agents build`: make an agent by talking, in the terminal."""

import sys
from typing import Annotated

import typer

from daycare.cli.chat import open_chat
from daycare.cli.command import Cli, command
from daycare.cli.render import plain


def register(app: typer.Typer) -> None:
    """Add the command to those about agents."""
    command(app, "build", examples="daycare agents build\ndaycare agents build --user ann")(build)


def build(
    cli: Cli,
    *,
    user: Annotated[str | None, typer.Option(metavar="ID", help="Whose agents; the operator's without it.")] = None,
) -> None:
    """Make an agent, or change one, by talking.

    Opens the conversation with your builder, /USER/agent/builder, and goes on where it was. It proposes; you see all of
    it as a difference, and decide. It needs a language model; `daycare agents create --from` makes agents without one.
    """
    with cli.connect() as client:
        opened = client.call("POST", "/v1/builder", {"user": user} if user else {})
    if opened["lacking"]:
        print(plain(opened["lacking"]), file=sys.stderr)
    open_chat(cli, opened["agent"]["path"], asks=True)
