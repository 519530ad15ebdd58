"""`daycare selftest`: the proof, on this machine, that nothing is lost when daycare dies or the power fails."""

import secrets
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from daycare.api.client import Json
from daycare.base.durations import duration
from daycare.base.errors import DaycareError, InvalidError, NotFoundError, UnavailableError
from daycare.cli.command import Cli, command
from daycare.cli.render import plain
from daycare.store.home import Home

if TYPE_CHECKING:
    from daycare.testing.selftest import SelfTest

_ROOM_BYTES: Final = 200 * 1024 * 1024  # it takes some 20 MB; a full disk would be what is tested
_SHOWN_MAX: Final = 10
_SEED_MAX: Final = 1_000_000
_MEANING: Final = {
    "lost": "was acknowledged and is gone, or was never answered",
    "doubled": "was there or was answered more than once",
    "torn": "was there by halves, or the database was damaged",
    "reordered": "was taken up or answered in another order than it was written",
    "broken": "the daemon did what it must not",
}


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    command(
        app,
        "selftest",
        examples="""
        daycare selftest
        daycare selftest --kills 200 --powercuts 2000  # more certain, some minutes
        daycare selftest --dir /mnt/disk --json
        """,
    )(selftest)


def selftest(
    cli: Cli,
    *,
    kills: Annotated[int, typer.Option("--kills", help="How often a daemon is killed.", min=0, max=10_000)] = 20,
    powercuts: Annotated[int, typer.Option("--powercuts", help="How many power cuts.", min=0, max=100_000)] = 200,
    seed: Annotated[
        int | None, typer.Option("--seed", help="Repeat the choices of an earlier test.", show_default=False)
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option("--dir", metavar="DIR", help="Where to test; default: next to the home.", show_default=False),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the folder of the test.")] = False,
) -> None:
    """Prove on this machine that no message is lost or doubled when daycare is killed or the power fails.

    Kills a daemon of its own again and again while messages are written to it, and cuts the power of a recorded disk.
    Your home and your daemon are not touched; it needs no network and no key. Exits with 0 if every promise was kept,
    else with 1, and keeps the folder of the test then.
    """
    from daycare.testing.selftest import SelfTest

    place = _usable(folder.absolute() if folder else _parent(cli.home))
    test = SelfTest(place, secrets.randbelow(_SEED_MAX) if seed is None else seed, kills, powercuts, keep)
    _say(f"self-test: {kills} kills and {powercuts} power cuts in a folder of its own in {place} (seed {test.seed})")
    _say("Your home and your daemon are not touched; nothing goes over the network. Ctrl-C ends it.")
    test.run(lambda mean_s, most_s: _say(f"It takes about {duration(mean_s)}, at most {duration(most_s)}."), _progress)
    cli.out(_document(test), lambda _: "\n".join(map(plain, _report(test))))
    if test.findings:
        raise typer.Exit(DaycareError.exit_code)


def _parent(home: Path) -> Path:
    """Return the folder of a home, or the nearest one above that exists: the home need not."""
    return next(each for each in home.absolute().parents if each.is_dir())


def _usable(place: Path) -> Path:
    """Raise what stands in the way of testing there."""
    from daycare.testing.selftest import PREFIX

    other = "daycare selftest --dir DIR"
    if not place.is_dir():
        raise NotFoundError("FOLDER_MISSING", f"test in {place}: there is no such folder", hint=other)
    try:
        assert Home(place / f"{PREFIX}12345678" / "h").socket  # where a daemon will listen
    except InvalidError as error:
        raise InvalidError(error.code, error.message, hint=f"choose a shorter path: {other}") from None
    try:
        free = shutil.disk_usage(place).free
        tempfile.TemporaryDirectory(prefix=PREFIX, dir=place).cleanup()
    except OSError as error:
        raise UnavailableError("FOLDER_REFUSES", f"test in {place}: {error.strerror}", hint=other) from error
    if free < _ROOM_BYTES:
        raise UnavailableError("DISK_FULL", f"test in {place}: {free >> 20} MB are free, 200 are needed", hint=other)
    return place


def _say(line: str) -> None:
    print(plain(line), file=sys.stderr, flush=True)


def _progress(part: str, done: int, whole: int) -> None:
    """Show how far it is: in place on a terminal, else a line for each quarter."""
    if sys.stderr.isatty():
        print(f"\r{part}: {done} of {whole}", end="\n" if done == whole else "\x1b[K", file=sys.stderr, flush=True)
    elif done * 4 // whole != (done - 1) * 4 // whole:
        _say(f"{part}: {done} of {whole}")


def _document(test: "SelfTest") -> Json:
    killed, cut = test.kill_figures, test.cut_figures
    return {
        "ok": not test.findings,
        "complete": test.complete,
        "seed": test.seed,
        "seconds": round(test.seconds, 1),
        "kills": {
            "kills": killed.kills,
            "while_starting": killed.while_starting,
            "acknowledged": killed.acknowledged,
            "answered": killed.answered,
            "receipts_taken": killed.receipts_taken,
            "repeated": killed.repeated,
            "interrupted": killed.interrupted,
            "set_aside": killed.set_aside,
            "start_s": round(killed.start_s, 2),
        },
        "power_cuts": {"cuts": cut.cuts, "promises": cut.promises},
        "broken_promises": dict(test.counts()),
        "findings": [{"kind": kind, "what": what} for kind, what in test.findings],
        "kept": None if test.kept is None else str(test.kept),
    }


def _report(test: "SelfTest") -> list[str]:
    killed, cut = test.kill_figures, test.cut_figures
    lines: list[Any] = []
    if test.kills:
        lines += [
            f"Kills: a daemon was killed {killed.kills} times, {killed.while_starting} of them while it started.",
            f"  {killed.acknowledged:>7,} messages were acknowledged meanwhile, in four conversations",
            f"  {killed.answered:>7,} of them were answered once, rightly and in order",
            f"  {killed.receipts_taken:>7,} were saved when a kill took the receipt; sent again, they were recognised",
            f"  {killed.repeated:>7,} were sent twice on purpose, and recognised",
            f"  {killed.interrupted:>7,} turns were at work at a kill, and went on after it",
            f"  {killed.start_s:>7.1f} s until a daemon answered after a kill (median)",
        ]
    if killed.set_aside:
        lines.append(f"  {killed.set_aside:>7,} were at work alone at five deaths and became dead letters, as promised")
    if test.power_cuts:
        lines += [
            f"Power cuts: {cut.cuts} disks as a power cut may leave them were opened again.",
            f"  {cut.promises:>7,} things that had been acknowledged before were looked for",
        ]
    lines.append("")
    if not test.complete:
        lines.append("There was no time for the rest of it: this machine is slow or busy.")
    if not test.findings:
        lines.append(f"Nothing was lost, doubled, torn or reordered ({duration(test.seconds)}).")
        if test.kept:
            lines.append(f"The folder was kept: {test.kept}")
        return lines
    lines.append("daycare broke what it promises on this machine:")
    lines += [f"  {count:>7,} {kind}: {_MEANING[kind]}" for kind, count in test.counts().items()]
    lines += [f"  - {kind}: {what}" for kind, what in test.findings[:_SHOWN_MAX]]
    if len(test.findings) > _SHOWN_MAX:
        lines.append(f"  ... and {len(test.findings) - _SHOWN_MAX} more: --json has all")
    lines += [
        f"The folder was kept: {test.kept}",
        f"Please report it with these lines and `daycare doctor --bundle FILE.tar.gz`; seed {test.seed}.",
    ]
    return lines
