"""Files that came with messages and replies."""

from pathlib import Path
from typing import Annotated

import typer

from daycare.base.errors import ConflictError, InvalidError
from daycare.cli.command import Cli, command, shown_below

app = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Save files that came with messages and replies.",
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
