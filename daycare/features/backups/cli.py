"""Commands that keep a home safe: back it up, restore it, go back to before an upgrade."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from daycare.api.client import RETRY_S, Client, Json, pause, segment
from daycare.base.english import plural
from daycare.base.errors import BusyError, ConflictError, InvalidError, NotFoundError
from daycare.base.limits import EXPORT_CHUNK_BYTES
from daycare.base.sizes import size
from daycare.base.store_location import refuse_server
from daycare.base.times import when
from daycare.cli.command import Cli, command
from daycare.cli.passphrases import PassphraseFile, ask_passphrase, read_passphrase
from daycare.cli.render import plain
from daycare.store.home import Home, HomeLock

_PATIENCE_S: Final = 15.0  # another command that has the home for a moment
_STAGES: Final = {
    "waiting": "waiting for another backup",
    "copying": "copying the database",
    "checking": "checking the copy",
    "packing": "packing",
}


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    command(
        app,
        "backup",
        examples="""
        daycare backup /media/disk            # now, into a folder or a file
        daycare backup /media/disk --every 24h --keep 14
        daycare backup --every off
        """,
    )(backup)
    command(
        app,
        "restore",
        examples="""
        daycare restore daycare-20260101T030000Z.daycare-backup --dry-run
        daycare restore daycare-20260101T030000Z.daycare-backup --to ~/elsewhere
        """,
    )(restore)
    command(app, "rollback", examples="daycare rollback\ndaycare rollback --yes")(rollback)


def backup(
    cli: Cli,
    path: Annotated[
        Path | None, typer.Argument(help="A new file, or a folder; default: backups/ in the home.", show_default=False)
    ] = None,
    *,
    every: Annotated[
        str | None,
        typer.Option(metavar="24h|7d|off", help="Do not make one now: have the daemon make one so often, into PATH."),
    ] = None,
    keep: Annotated[
        int | None, typer.Option(min=1, max=1_000, metavar="N", help="How many of the daemon's own stay; default: 7.")
    ] = None,
    encrypt: Annotated[bool, typer.Option("--encrypt", help="Ask for a passphrase, and encrypt with it.")] = False,
    passphrase_file: PassphraseFile = None,
    with_key: Annotated[
        bool,
        typer.Option("--with-key", help="Also daycare.key, which opens stored secrets. Encrypted ones have it anyway."),
    ] = False,
) -> None:
    """Make a backup, also while the daemon works: messages, memory, settings, files. It is read again before it counts.

    Without a passphrase it lacks the key file: keep that apart, else stored secrets have to be added anew after a
    restore.
    """
    if every is not None or keep is not None:
        if encrypt or with_key:
            raise InvalidError("USAGE", "backup --every: give --passphrase-file, which takes the key in, too")
        _schedule(cli, path, every, keep, passphrase_file)
        return
    from daycare.features.backups.backup_store import name_of, publish, writing
    from daycare.features.exports.sealed import check_passphrase

    passphrase = ""
    if passphrase_file is not None:
        passphrase = check_passphrase(read_passphrase(passphrase_file))
    elif encrypt:
        passphrase = check_passphrase(ask_passphrase(twice=True))
    os.umask(0o077)
    target = path or Home(cli.home).path / "backups"
    if path is None and Home(cli.home).path.is_dir():
        with writing(target):
            target.mkdir(mode=0o700, exist_ok=True)
    if target.is_dir():
        target /= name_of(round(time.time() * 1000), scheduled=False)
    if target.exists():
        raise ConflictError("FILE_EXISTS", f"writing {target}: there is one", hint="choose another name")
    with _made(cli, with_key=with_key or bool(passphrase)) as pieces:
        manifest = publish(pieces, target, passphrase)
    document = {
        "file": str(target),
        "bytes": target.stat().st_size,
        "encrypted": bool(passphrase),
        "with_key": manifest.with_key,
        "made_at": manifest.made_at,
        "number": manifest.number,
        "counts": manifest.counts,
        "files": len(manifest.entries) - 1,
        "left_out": [{"what": each.what, "why": each.why} for each in manifest.left_out],
    }
    cli.out(document, _made_lines)


def restore(
    cli: Cli,
    file: Annotated[Path, typer.Argument(help="What `daycare backup` has written.")],
    *,
    to: Annotated[Path | None, typer.Option(metavar="HOME", help="Into which home; default: this one.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only check it, and tell what is in it.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Put aside what is in the home; nothing is deleted.")] = False,
    passphrase_file: PassphraseFile = None,
) -> None:
    """Put a home back from a backup. No daemon may run in it, and without --force nothing may be there.

    Replies that waited when the backup was made may have been delivered since: they go out with a note that says so.
    """
    from daycare.features.backups import restoring

    def passphrase() -> str:
        return read_passphrase(passphrase_file) if passphrase_file else ask_passphrase(twice=False)

    home = Home(to or cli.home)
    os.umask(0o077)
    if dry_run:
        report = restoring.look(file, home, passphrase)
    else:
        home.prepare()
        with locked(home, "restore"):
            now_ms = round(time.time() * 1000)
            report = restoring.restore(file, home, passphrase, force=force, now_ms=now_ms)
    import msgspec

    cli.out(msgspec.to_builtins(report), _restored_lines)


def rollback(
    cli: Cli,
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing.")] = False,
) -> None:
    """Go back to the database of before the last upgrade. No daemon may run; the newer database is kept aside.

    Shows what would be lost, and asks. Install the older daycare for it, else the next start upgrades again.
    """
    import msgspec

    from daycare.config import load
    from daycare.features.backups.restoring import find_rollback, roll_back

    home = Home(cli.home)
    with locked(home, "roll back"):
        location = home.database(load(home.path).store.location)
        refuse_server(location, "rolling back", "restore the server's own backup of before the upgrade")
        found = find_rollback(location)
        if not yes:
            if cli.json or not sys.stdin.isatty():
                raise InvalidError("NOT_CONFIRMED", _offer(msgspec.to_builtins(found)), hint="daycare rollback --yes")
            print(_offer(msgspec.to_builtins(found)))
            if input("Go back? [y/N] ").strip().lower() not in ("y", "yes"):
                raise typer.Abort
        done = roll_back(found, round(time.time() * 1000))
    cli.out(msgspec.to_builtins(done), _rolled_lines)


# -- making one --------------------------------------------------------------------------------------------------------


@contextmanager
def _made(cli: Cli, *, with_key: bool) -> Iterator[Iterator[bytes]]:
    """Give the bytes of a new backup: of the daemon if one runs, else made here under the home's lock."""
    home = Home(cli.home)
    client, lock = Client(home.socket), HomeLock(home)
    give_up = time.monotonic() + _PATIENCE_S
    try:
        while True:
            if client.status() is not None:
                report = client.work("/v1/backups", {"key": with_key}, _progress())
                yield client.fetch(f"/v1/backups/{segment(report['id'])}")
                return
            try:
                _take(lock, home)
                break
            except BusyError:
                if time.monotonic() >= give_up:
                    raise
            pause(RETRY_S)
        with lock:
            yield from _by_hand(home, with_key=with_key)
    finally:
        client.close()


def _by_hand(home: Home, *, with_key: bool) -> Iterator[Iterator[bytes]]:
    from daycare.config import load
    from daycare.features.backups.making import Making
    from daycare.features.exports.stored import anonymous

    location = home.database(load(home.path).store.location)
    with anonymous(home.path) as file:
        Making(home, location, round(time.time() * 1000), with_key, pause=False).write(file)
        file.seek(0)
        yield iter(partial(file.read, EXPORT_CHUNK_BYTES), b"")


def _take(lock: HomeLock, home: Home) -> None:
    if not home.path.is_dir():
        raise NotFoundError(
            "HOME_MISSING", f"open the home directory {home.path}: it does not exist", hint="daycare init"
        )
    lock.acquire("tool", round(time.time() * 1000))


@contextmanager
def locked(home: Home, what: str) -> Iterator[None]:
    """Have the home for oneself."""
    with HomeLock(home) as lock:
        try:
            _take(lock, home)
        except BusyError as error:
            raise BusyError(
                "HOME_LOCKED", f"{what}: {error.message}", hint="stop it first: daycare stop, or leave the chat"
            ) from error
        yield


def _schedule(cli: Cli, path: Path | None, every: str | None, keep: int | None, passphrase_file: Path | None) -> None:
    """Write down what the daemon is to do; it looks there each minute."""
    import msgspec

    from daycare.config import BackupSection
    from daycare.features.backups.backup_store import writing
    from daycare.features.backups.engine import folder_of
    from daycare.features.backups.schedule import set_backup

    wish: dict[str, Any] = {"every": every, "keep": keep}
    try:
        msgspec.convert({key: value for key, value in wish.items() if value is not None}, BackupSection)
    except msgspec.ValidationError as error:
        raise InvalidError("USAGE", f"backup --every {every}: {error}", hint="such as 24h, 7d or off") from None
    if path is not None:
        with writing(path):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        wish["folder"] = str(path.absolute())
    if passphrase_file is not None:
        from daycare.features.exports.sealed import check_passphrase

        check_passphrase(read_passphrase(passphrase_file))
        wish["passphrase_file"] = str(passphrase_file.absolute())
    home = Home(cli.home)
    section = set_backup(home, {key: value for key, value in wish.items() if value is not None})
    document = {**msgspec.to_builtins(section), "folder": str(folder_of(home, section))}
    cli.out(document, _scheduled_lines)


# -- telling -----------------------------------------------------------------------------------------------------------


def backup_facts(found: Json) -> str:
    """Return how backups are, for `daycare status`."""
    last = f"the last one {when(found['last_at'])}" if found.get("last_at") else "none yet"
    if found.get("failure"):
        last += f"; the last try failed: {plain(found['failure'])}"
    if found.get("every", "off") == "off":
        text = "none is scheduled: daycare backup --every 24h"
    else:
        text = f"every {found['every']}, {last}"
    if restored := found.get("restored"):
        text += f"\nthis home was restored {when(restored['restored_at'])}, as of {when(restored['made_at'])}"
    return text


def _progress() -> Callable[[Json], None]:
    if not sys.stderr.isatty():
        return lambda _: None

    def tell(progress: Json) -> None:
        what = _STAGES.get(progress.get("stage", ""), "")
        done = f" {size(progress['done'])}" if progress.get("done") else ""
        print(f"\r\x1b[K{what}{done}", end="\r", file=sys.stderr, flush=True)

    return tell


def _counts(counts: Json) -> str:
    singular = {"people": "person", "replies": "reply", "memories": "memory"}
    words = ((many, singular.get(what, what.removesuffix("s")) if many == 1 else what) for what, many in counts.items())
    return ", ".join(f"{many:,} {what}" for many, what in words)


def _made_lines(made: Json) -> str:
    sealed = "encrypted" if made["encrypted"] else "not encrypted: anyone who has it can read it"
    lines = [f"{made['file']}: {size(made['bytes'])}, {sealed}", f"in it: {_counts(made['counts'])}"]
    lines[-1] += f"; {made['files']} {plural('file', made['files'])} of the home"
    lines += [f"not in it: {each['what']} ({each['why']})" for each in made["left_out"]]
    return "\n".join(map(plain, lines))


def _restored_lines(report: Json) -> str:
    manifest = report["manifest"]
    newest = f", the newest row of {when(manifest['newest_at'])}" if manifest["newest_at"] else ""
    lines = [
        f"made {when(manifest['made_at'])} by daycare {manifest['daycare']} of {manifest['home']}{newest}",
        f"{'would restore' if report['dry_run'] else 'restored'}: {_counts(manifest['counts'])}",
        f"with {', '.join(sorted({each['path'].split('/')[0] for each in manifest['entries']}))}",
    ]
    if not report["dry_run"]:
        lines.append(f"into {report['home']}, the database is {report['database']}")
    if report["replies"]:
        lines.append(f"{report['replies']} replies waited then: they say that they may come twice")
    if report["aside"]:
        lines.append(f"what was there before is in {report['aside']}")
    if report["keys"]:
        lines.append(f"no key file opens these secrets: daycare keys add {', '.join(report['keys'])}")
    if report["problem"]:
        lines.append(f"its settings have to be corrected: {report['problem']}")
    lines += [f"not in it: {each['what']} ({each['why']})" for each in manifest["left_out"]]
    return "\n".join(map(plain, lines))


def _offer(found: Json) -> str:
    number = f"number {found['number']}" if found["number"] is not None else "damaged"
    lost = _counts(found["lost"]) if found["lost"] else "what is newer"
    return (
        f"going back from schema {number} to number {found['snapshot_number']}, of {when(found['made_at'])}:"
        f" {lost} would be lost"
    )


def _rolled_lines(done: Json) -> str:
    return "\n".join(
        (
            f"{done['database']} has schema number {done['snapshot_number']} again, as of {when(done['made_at'])}",
            f"the newer one is {done['aside']}",
            "now install the daycare that you had then: this one would upgrade it again at the next start",
        )
    )


def _scheduled_lines(section: Json) -> str:
    if section["every"] == "off":
        return "no backups are made by themselves"
    sealed = ", encrypted" if section["passphrase_file"] else ""
    return f"every {section['every']} into {section['folder']}, {section['keep']} stay{sealed}: while a daemon runs"
