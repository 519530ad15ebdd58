"""The commands that move what is kept: from another assistant, and the store from one engine to another."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from daycare.api.client import Json
from daycare.base.english import plural
from daycare.base.errors import InvalidError
from daycare.base.sizes import size
from daycare.base.times import when
from daycare.cli.command import Cli, command
from daycare.cli.process import end_daemon
from daycare.cli.render import plain
from daycare.features.backups.cli import locked
from daycare.store.home import Home


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    command(
        app,
        "migrate-from",
        examples="""
        daycare migrate-from openclaw ~/.openclaw --dry-run
        daycare migrate-from hermes ~/.hermes --history
        daycare migrate-from daycare-ts ~/.daycare-ts --me telegram:123456
        """,
    )(migrate_from)
    command(
        app,
        "migrate-store",
        examples="""
        daycare migrate-store --to postgresql://daycare@db.example/agents --dry-run
        daycare migrate-store --to postgresql://daycare@db.example/agents --stop --switch
        daycare migrate-store --to sqlite --stop --switch
        """,
    )(migrate_store)


def migrate_from(
    cli: Cli,
    product: Annotated[Literal["openclaw", "hermes", "daycare-ts"], typer.Argument(help="Which assistant it is.")],
    path: Annotated[Path, typer.Argument(help="Its folder, such as ~/.openclaw. Nothing is written there.")],
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would come of it.")] = False,
    user: Annotated[
        str, typer.Option(metavar="ID", help="Whose it becomes; default: the operator's.", show_default=False)
    ] = "",
    me: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY", help="An account of theirs, such as telegram:42; may be given several times."),
    ] = None,
    history: Annotated[
        bool, typer.Option("--history", help="Also take old conversations, into daily logs that can be searched.")
    ] = False,
    workspace: Annotated[
        Path | None, typer.Option(metavar="DIR", help="OpenClaw's workspace, where it lies elsewhere.")
    ] = None,
    approve: Annotated[
        bool,
        typer.Option("--approve", help="Stand behind SOUL.md, USER.md and the like, so that they stand in prompts."),
    ] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Let documents of the same name make room; they stay as older versions.")
    ] = False,
    with_keys: Annotated[
        bool, typer.Option("--with-keys", help="Also take API keys and bot tokens, encrypted; else they are named.")
    ] = False,
    pause_jobs: Annotated[
        bool, typer.Option("--pause-jobs", help="Let scheduled jobs wait until you resume them.")
    ] = False,
) -> None:
    """Take over what another assistant keeps: identity, memory, scheduled jobs, who may write, its agents.

    No daemon may run, but for --dry-run. A backup is made before; what is there already is not overwritten, and a
    repeat takes nothing twice. End the other program first, else jobs run in both.
    """
    from daycare.ops.importers import report, running

    home = Home(cli.home)
    os.umask(0o077)
    wish = running.ImportRequest(
        product=product,
        path=path,
        user=user,
        me=tuple(me or ()),
        workspace=workspace,
        history=history,
        replace=replace,
        approve=approve,
        with_keys=with_keys,
        pause_jobs=pause_jobs,
    )
    if dry_run:
        done = running.dry_run(home, wish)
    else:
        with locked(home, f"migrate from {product}"):
            done = running.migrate(home, wish)

    def shown(document: Any) -> str:
        return "\n".join(map(plain, report.lines(document)))

    cli.out(done.document(), shown)


def migrate_store(
    cli: Cli,
    *,
    to: Annotated[
        str,
        typer.Option(
            metavar="LOCATION",
            help='Where to, as in [store] location: "postgresql://...", a file, or "sqlite" for the home\'s own.',
            show_default=False,
        ),
    ] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only check, and tell what would be moved.")] = False,
    stop: Annotated[
        bool, typer.Option("--stop", help="Stop the daemon for the last step; else you are asked, or do it yourself.")
    ] = False,
    switch: Annotated[bool, typer.Option("--switch", help="Let config.toml name the new place at the end.")] = False,
    replace_nul: Annotated[
        bool,
        typer.Option("--replace-nul", help="NUL characters, which PostgreSQL does not take, become U+2400."),
    ] = False,
    undo: Annotated[
        bool, typer.Option("--undo", help="Go on with the old store, as it was when it was moved away.")
    ] = False,
) -> None:
    """Move the store to PostgreSQL, back to a file, or to another place; compared row by row at the end.

    The daemon may run: all is copied meanwhile, and it is stopped for the last step, which copies only what has changed
    since. Interrupted, do the same again: it goes on from where it was. The old store stays as it is, and says that it
    was moved when a daemon is started on it.
    """
    import msgspec

    from daycare.ops import moving

    home = Home(cli.home)
    os.umask(0o077)
    if undo:
        if to or dry_run or stop or switch or replace_nul:
            raise InvalidError("USAGE", "--undo goes with no other option", hint="daycare migrate-store --undo")
        with locked(home, "undo a move"):
            undone = moving.undo(home)
        cli.out(msgspec.to_builtins(undone), _undone_lines)
        return
    if not to:
        raise InvalidError("USAGE", "Missing option '--to'", hint="daycare migrate-store --help")
    wish = moving.MoveRequest(to=to, dry_run=dry_run, switch=switch, replace_nul=replace_nul)

    def may_stop() -> bool:
        if not stop and not _asked(cli):
            return False
        end_daemon(cli.home, "daycare migrate-store")
        return True

    report = moving.move(home, wish, stop=may_stop, tell=_progress())
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    cli.out(msgspec.to_builtins(report), _moved_lines)


def _asked(cli: Cli) -> bool:
    if cli.json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    print("\r\x1b[KEverything is copied so far. Stop the daemon for the last step? [y/N] ", end="", file=sys.stderr)
    return input().strip().lower() in ("y", "yes")


def _progress() -> Callable[[str, str, int, int], None]:
    if not sys.stderr.isatty():
        return lambda *_: None

    def tell(doing: str, table: str, done: int, known: int) -> None:
        print(f"\r\x1b[K{doing}: {table} {done:,} of {known:,}", end="", file=sys.stderr, flush=True)

    return tell


def _moved_lines(report: Json) -> str:
    rows = f"{report['rows']:,} {plural('row', report['rows'])}, {size(report['bytes'])}"
    if report["dry_run"]:
        lines = [f"would move {report['source']} to {report['target']}: {rows}"]
        lines += [
            f"a NUL character, which PostgreSQL does not take: {each['column']} of {each['table']} {each['key']}"
            for each in report["unfit"]
        ]
        if report["unfit"]:
            lines.append("with --replace-nul they become U+2400")
        return "\n".join(map(plain, lines))
    lines = [
        f"moved {report['source']} to {report['target']}: {rows}, each read from both and the same",
        f"it took {report['took_s']:.1f} s",
    ]
    if report["stopped_s"] is not None:
        lines[-1] += (
            f", the daemon was stopped for {report['stopped_s']:.1f} s of it: {report['early']:,} rows were copied"
            f" before, {report['late']:,} then"
        )
    if report["aside"]:
        lines.append(f"the file that was left there before is {report['aside']}")
    if report["switched"]:
        lines.append("config.toml names the new place; now: daycare run")
    else:
        lines.append(f"now write under [store] in config.toml: {report['line']}")
    lines.append("the old one stays as it is; to go on with it: name it there again, and daycare migrate-store --undo")
    return "\n".join(map(plain, lines))


def _undone_lines(undone: Json) -> str:
    return plain(
        f"{undone['location']} can be used again, as of {when(undone['at'])};"
        f" what came into {undone['other']} since is only there"
    )
