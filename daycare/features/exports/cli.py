"""Commands that move agents: export one into a file, import it elsewhere, clone it."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from daycare.api.client import Json, segment
from daycare.base.english import plural
from daycare.base.errors import ConflictError, InvalidError
from daycare.base.limits import EXPORT_CHUNK_BYTES, EXPORT_MAX_BYTES
from daycare.base.sizes import size
from daycare.base.times import when
from daycare.cli.agents import AgentPath
from daycare.cli.command import Cli, command
from daycare.cli.passphrases import PassphraseFile, ask_passphrase, read_passphrase
from daycare.cli.render import plain, table

_PROGRESS: Final = {
    "waiting": "waiting for another export or import",
    "reading": "records read",
    "packing": "bytes of files packed",
    "checking": "records checked",
    "files": "bytes of files kept",
    "writing": "records written",
}


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    command(app, "export", examples="daycare export /ann/agent/work work.daycare --encrypt")(export)
    command(
        app,
        "import",
        examples="""
        daycare import work.daycare --as /bob/agent/work --dry-run   # what would come of it
        daycare import work.daycare --as /bob/agent/work
        """,
    )(import_)
    command(app, "clone", examples="daycare clone /ann/agent/work /ann/agent/work-2")(clone)


def export(
    cli: Cli,
    path: AgentPath,
    file: Annotated[Path, typer.Argument(help="Where to; it must not be there yet.")],
    *,
    with_shared: Annotated[
        bool, typer.Option("--with-shared", help="Also the documents that all agents of its person read.")
    ] = False,
    encrypt: Annotated[bool, typer.Option("--encrypt", help="Ask for a passphrase, and encrypt with it.")] = False,
    passphrase_file: PassphraseFile = None,
) -> None:
    """Write an agent into a file: it, all below it, what was said, remembered and is planned, and its documents.

    Keys and other secrets, what waits for an answer, and what it may spend are never in it.
    """
    from daycare.features.exports.sealed import check_passphrase, seal

    passphrase = ""
    if passphrase_file is not None:
        passphrase = check_passphrase(read_passphrase(passphrase_file))
    elif encrypt:
        passphrase = check_passphrase(ask_passphrase(twice=True))
    with _new_file(file) as target, cli.connect() as client:
        report = client.work("/v1/exports", {"path": path, "shared": with_shared}, _progress())
        pieces: Iterable[bytes] = client.fetch(f"/v1/exports/{segment(report['id'])}")
        for piece in seal(pieces, passphrase) if passphrase else pieces:
            target.write(piece)
        target.done()
    made = {name: value for name, value in report.items() if name != "id"}
    made |= {"file": str(file), "bytes": file.stat().st_size, "encrypted": bool(passphrase)}
    cli.out(made, lambda _: _report(report, f"exported {path} into {file}, {size(made['bytes'])}"))


def import_(
    cli: Cli,
    file: Annotated[Path, typer.Argument(help="What `daycare export` has written.")],
    *,
    as_: Annotated[
        str,
        typer.Option("--as", metavar="PATH", help="As which agent: of any user who is there, at a path that is free."),
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only check it, and tell what would come of it.")] = False,
    approve: Annotated[
        bool, typer.Option("--approve", help="Stand behind what it says of who it is: you have read that.")
    ] = False,
    passphrase_file: PassphraseFile = None,
) -> None:
    """Bring an exported agent to life, all of it or nothing.

    What it says of who it is (SOUL.md, STYLE.md, ...) is in no prompt until you stand behind it. Its scheduled jobs are
    paused.
    """
    with cli.connect() as client:
        uploaded = client.send("/v1/imports", _plain(file, passphrase_file))
        wish = {"path": as_, "dry_run": dry_run, "approve": approve}
        report = client.work(f"/v1/imports/{segment(uploaded['id'])}", wish, _progress())
    what = f"would import {report['source']} as {as_}" if dry_run else f"imported {report['source']} as {as_}"
    cli.out(report, lambda _: _report(report, what))


def clone(
    cli: Cli,
    path: AgentPath,
    new_path: Annotated[str, typer.Argument(metavar="NEWPATH", help="As which agent: at a path that is free.")],
) -> None:
    """Make another agent like one that is there, with all below it. Its scheduled jobs are paused."""
    with cli.connect() as client:
        report = client.work("/v1/clones", {"path": path, "to": new_path}, _progress())
    cli.out(report, lambda _: _report(report, f"cloned {path} as {new_path}"))


def _report(report: Json, what: str) -> Any:
    """Return what was taken, and what was not and why."""
    from rich.console import Group

    taken = ", ".join(f"{count} {plural(kind, count)}" for kind, count in report["taken"].items())
    parts: list[Any] = [plain(what), plain(f"made {when(report['made_at'])}: {taken or 'nothing'}")]
    if left := report["left_out"]:
        rows = ((each["count"], plain(each["what"]), plain(each["why"])) for each in left)
        parts += ["", table(("left out#", "what", "why"), rows)]
    if held := report.get("held"):
        parts += ["", plain(f"in no prompt until you approve it (--approve, or edit it): {', '.join(held)}")]
    return Group(*parts)


def _progress() -> Callable[[Json], None]:
    """Return what tells how far it is, to people at a terminal."""
    if not sys.stderr.isatty():
        return lambda _: None

    def tell(progress: Json) -> None:
        what = _PROGRESS.get(progress.get("stage", ""), "")
        print(f"\r\x1b[K{progress.get('done', 0):,} {what}", end="\r", file=sys.stderr, flush=True)

    return tell


class _new_file:  # noqa: N801 - used like a function
    """A file that is there whole, or not at all: what is not `done` goes away."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._done = False

    def __enter__(self) -> "_new_file":
        try:
            self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError as error:
            raise ConflictError(
                "FILE_EXISTS", f"exporting into {self._path}: there is one", hint="choose another name"
            ) from error
        except OSError as error:
            raise _unwritable(self._path, error) from error
        self._file = os.fdopen(self._fd, "wb")
        return self

    def write(self, data: bytes) -> None:
        """Write some more."""
        try:
            self._file.write(data)
        except OSError as error:
            raise _unwritable(self._path, error) from error

    def done(self) -> None:
        """Let it stay."""
        try:
            self._file.flush()
            os.fsync(self._fd)
        except OSError as error:
            raise _unwritable(self._path, error) from error
        self._done = True

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # what could not be written goes away
            self._file.close()
        if not self._done:
            self._path.unlink(missing_ok=True)


def _plain(file: Path, passphrase_file: Path | None) -> Iterator[bytes]:
    """Yield an export as it is when it is not encrypted."""
    from daycare.features.exports.sealed import is_sealed, unseal

    try:
        with file.open("rb") as opened:
            if os.fstat(opened.fileno()).st_size > 2 * EXPORT_MAX_BYTES:
                raise InvalidError("EXPORT_TOO_LARGE", f"importing {file}: it has over {EXPORT_MAX_BYTES} bytes")
            begin = opened.read(16)
            opened.seek(0)
            pieces = iter(lambda: opened.read(EXPORT_CHUNK_BYTES), b"")
            if is_sealed(begin):
                passphrase = read_passphrase(passphrase_file) if passphrase_file else ask_passphrase(twice=False)
                pieces = unseal(pieces, passphrase)
            yield from pieces
    except OSError as error:
        raise InvalidError("FILE_UNREADABLE", f"importing {file}: {error.strerror or error}") from error


def _unwritable(path: Path, error: OSError) -> InvalidError:
    return InvalidError(
        "FILE_UNWRITABLE", f"exporting into {path}: {error.strerror or error}", hint="choose another place"
    )
