"""The command that removes a person completely."""

import os
import sys
import time
from typing import Annotated

import typer

from daycare.api.client import Json
from daycare.base.errors import InvalidError, UnavailableError
from daycare.cli.command import Cli, command
from daycare.cli.render import plain
from daycare.features.backups.cli import locked
from daycare.store.home import Home


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    command(app, "purge", examples="daycare stop; daycare purge --user ben")(purge)


def purge(
    cli: Cli,
    *,
    user: Annotated[str, typer.Option(metavar="NAME", help="Id of the user: the first part of their paths.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing.")] = False,
) -> None:
    """Remove a person completely and for good: agents, conversations, memory, files, jobs, accounts, sums of money.

    Also whoever they have let in. No daemon may run. Their words are overwritten on the disk, which takes some seconds
    for each GB. Names the backups that still hold them.
    """
    import msgspec

    from daycare.ops import purging

    home = Home(cli.home)
    os.umask(0o077)
    with locked(home, "purge"):
        if not yes:
            person = purging.look(home, user)
            there = ", ".join(f"{many:,} {what}" for what, many in person.counts.items()) or "nothing but the name"
            offer = f"purging {', '.join(person.users)}: {there}; nothing of it can be got back"
            if cli.json or not sys.stdin.isatty():
                raise InvalidError("NOT_CONFIRMED", offer, hint=f"daycare purge --user {user} --yes")
            print(plain(offer))
            if input(f"Type {user} to go on: ").strip() != user:
                raise typer.Abort
        try:
            done = purging.purge(home, user, round(time.time() * 1000))
        except OSError as error:
            what = f"purging {user}: {error.strerror or error}"
            raise UnavailableError("PURGE_UNFINISHED", what, hint="make it possible, and do it again") from error
    cli.out(msgspec.to_builtins(done), _lines)


def _lines(done: Json) -> str:
    lines = [f"purged {', '.join(done['users'])}"]
    lines += [f"{many:>8,} {what}" for what, many in done["removed"].items()]
    if done["objects_left"]:
        left = f"{done['objects_left']:,} of their files are still in the bucket, and the next daemon removes them"
        lines.append(f"{left}: {done['objects_why']}")
    if done["copies"]:
        lines += ["copies from before still hold them: delete these, or wait until they go", *done["copies"]]
    if done["named"]:
        lines += ["these lines still name them:", *done["named"]]
    return "\n".join(map(plain, lines))
