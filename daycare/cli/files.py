"""Files that came with messages and replies."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from daycare.api.client import Client, Json
from daycare.base.errors import ConflictError, InvalidError
from daycare.base.sizes import size
from daycare.cli.command import Cli, command, shown_below
from daycare.cli.operations import ask, operation
from daycare.cli.render import plain
from daycare.features.files.operations import MoveFiles

app = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Save files that came with messages and replies, and move them between the store and a bucket.",
    epilog=shown_below("daycare files save 3"),
)


@command(
    app,
    "save",
    examples="""
    daycare files save 3              # under its own name, in this directory
    daycare files save 3 plan.md
    """,
)
def save(
    cli: Cli,
    number: Annotated[int, typer.Argument(metavar="N", help="The file's number, as a chat shows it.")],
    file: Annotated[Path | None, typer.Argument(help="Where to; default: its own name, here.")] = None,
    *,
    user: Annotated[str | None, typer.Option(metavar="ID", help="Whose it is; default: the operator's.")] = None,
) -> None:
    """Save a file. One that is still with its messenger is fetched first."""
    with cli.connect() as client:
        name, data = client.download(number, user=user)
    target = file or Path(Path(name).name or f"file-{number}")
    try:
        with target.open("xb") as opened:
            opened.write(data)
    except FileExistsError as error:
        raise ConflictError(
            "FILE_EXISTS", f"saving {target}: there is one", hint=f"daycare files save {number} OTHER"
        ) from error
    except OSError as error:
        raise InvalidError("FILE_UNWRITABLE", f"saving {target}: {error.strerror or error}") from error
    cli.out({"saved": str(target), "bytes": len(data)}, lambda _: f"saved {target}, {len(data)} bytes")


def _moved(client: Client, wish: MoveFiles) -> Json:
    """Move all, some at a time: what was moved stays so wherever it ends."""
    moved, done, lost = 0, 0, list[int]()
    while True:
        step = ask(client, wish)
        moved, done, lost = moved + step["moved"], done + step["bytes"], [*lost, *step["lost"]]
        if sys.stderr.isatty():
            print(f"\r\x1b[K{moved:,} files, {size(done)}", end="", file=sys.stderr, flush=True)
        if step["after"] is None:
            break
        wish = MoveFiles(to=wish.to, after=step["after"], limit=wish.limit)
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    return {"to": step["to"], "moved": moved, "bytes": done, "lost": lost}


def _moved_lines(done: Json) -> Any:
    lines = [f"moved {done['moved']:,} files, {size(done['bytes'])}, to {done['to']}"]
    if done["lost"]:
        named = ", ".join(map(str, done["lost"][:20]))
        lines.append(f"{len(done['lost']):,} stay where they were, lost or changed in the bucket: {named}")
    return "\n".join(map(plain, lines))


operation(
    app,
    "move",
    MoveFiles,
    _moved_lines,
    examples="daycare files move --to s3\ndaycare files move --to store --json",
    hidden=("after", "limit"),
    do=_moved,
)
