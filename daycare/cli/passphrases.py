"""How a passphrase is given: asked for in a terminal, or in a file."""

import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from daycare.base.errors import InvalidError
from daycare.base.secrecy import hide

_MAX_BYTES: Final = 4_096
PassphraseFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Read the passphrase from the first line of a file instead of asking for it."),
]


def read_passphrase(file: Path) -> str:
    """Return the first line of a file."""
    try:
        with file.open("rb") as opened:
            line = opened.readline(_MAX_BYTES)
    except OSError as error:
        raise InvalidError("FILE_UNREADABLE", f"reading the passphrase {file}: {error.strerror or error}") from error
    try:
        passphrase = line.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise InvalidError("NOT_TEXT", f"reading the passphrase {file}: it is not text in UTF-8") from None
    hide(passphrase)
    return passphrase


def ask_passphrase(*, twice: bool) -> str:
    """Ask for one, which is not shown; `twice` for a new one."""
    import getpass

    if not sys.stdin.isatty():
        raise InvalidError(
            "PASSPHRASE_MISSING", "asking for the passphrase: there is no terminal", hint="--passphrase-file FILE"
        )
    passphrase = getpass.getpass("passphrase (not shown): ")
    if twice and getpass.getpass("again: ") != passphrase:
        raise InvalidError("PASSPHRASE_DIFFERS", "asking for the passphrase: both are not the same", hint="try again")
    hide(passphrase)
    return passphrase
