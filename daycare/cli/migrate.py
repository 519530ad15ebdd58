"""The command that takes over what another assistant keeps."""

import os
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from daycare.cli.command import Cli, command
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
