"""The program `daycare`: its commands, and the one place where errors become messages and exit codes.

Nothing heavy is imported here or by the command files at import time: `daycare --help` and shell completion are quick.
"""

import os
import signal
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from daycare import __version__
from daycare.base.errors import DaycareError, InvalidError
from daycare.cli import (
    agents,
    bridge,
    chat,
    dead,
    files,
    keys,
    memory,
    messages,
    migrate,
    personalities,
    plugins,
    process,
    purge,
    selftest,
    service,
    setup,
    timers,
)
from daycare.cli.command import EXIT_CODES, Cli, default_command, fail
from daycare.cli.first_run import first_run
from daycare.cli.home import is_new
from daycare.features.approvals import cli as approvals
from daycare.features.backups import cli as backups
from daycare.features.budgets import cli as budgets
from daycare.features.budgets import cli_spend as spend
from daycare.features.builder import cli as builder
from daycare.features.credentials import cli as credentials
from daycare.features.cron import cli as cron
from daycare.features.exports import cli as exports
from daycare.features.health import cli as health
from daycare.features.history import cli as history
from daycare.features.hooks import cli as hooks
from daycare.features.mcp import cli as mcp
from daycare.features.models import cli as models
from daycare.features.pairing import cli as pairing
from daycare.features.people import cli_can as can
from daycare.features.people import cli_users as users
from daycare.features.signals import cli as signals
from daycare.features.skills import cli as skills
from daycare.features.tasks import cli as task
from daycare.features.tokens import cli as tokens
from daycare.features.traffic import cli as traffic
from daycare.features.voice import cli as voice
from daycare.features.workspaces import cli as workspaces

_UsageError: type[Exception] = typer.BadParameter.__mro__[1]  # typer exports this base only in some versions

app = typer.Typer(
    name="daycare",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"daycare {__version__}")
        raise typer.Exit


@default_command(
    app, lists=False, examples="daycare\ndaycare init\ndaycare send --wait hello", below=f"\n\n{EXIT_CODES}"
)
def daycare(
    cli: Cli,
    *,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Personal AI agents with durable inboxes, on your own machine.

    Called alone, `daycare` opens a chat with your agent; the first time it sets up a home directory before. A command
    that needs the daemon uses the running one (`daycare run`), or one that lives as long as the command.
    """
    if is_new(cli.home):
        first_run(cli)
    chat.open_chat(cli, None)


messages.register(app)
chat.register(app)
can.register(app)
process.register(app)
health.register(app)
history.register(app)
traffic.register(app)
spend.register(app)
setup.register(app)
exports.register(app)
backups.register(app)
purge.register(app)
selftest.register(app)
migrate.register(app)
tokens.register(app)
builder.register(agents.app)
app.add_typer(agents.app, name="agents")
app.add_typer(approvals.app, name="approvals")
app.add_typer(bridge.app, name="bridge")
app.add_typer(credentials.app, name="credentials")
app.add_typer(cron.app, name="cron")
app.add_typer(budgets.app, name="budget")
app.add_typer(dead.app, name="dead")
app.add_typer(timers.app, name="timers")
app.add_typer(files.app, name="files")
app.add_typer(hooks.app, name="hooks")
app.add_typer(keys.app, name="keys")
app.add_typer(mcp.app, name="mcp")
app.add_typer(voice.app, name="voice")
app.add_typer(memory.app, name="memory")
app.add_typer(models.app, name="models")
app.add_typer(pairing.app, name="pair")
app.add_typer(personalities.app, name="personalities")
app.add_typer(plugins.app, name="plugins")
app.add_typer(service.app, name="service")
app.add_typer(signals.app, name="signals")
app.add_typer(task.app, name="task")
app.add_typer(tokens.app, name="tokens")
app.add_typer(users.app, name="users")
app.add_typer(workspaces.app, name="workspace")
app.add_typer(skills.app, name="skills")
app.add_typer(setup.config_app, name="config")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command line and leave the process with its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _leave)
    sys.exit(_run(given, as_json="--json" in given))


def _leave(number: int, _frame: object) -> None:
    """End in order, so that a daemon in this process is stopped and not cut off."""
    raise SystemExit(128 + number)


def _run(given: list[str], *, as_json: bool) -> int:
    try:
        code = app(given, prog_name="daycare", standalone_mode=False)
        sys.stdout.flush()
    except _UsageError as error:
        return fail(_usage(error), as_json=as_json)
    except DaycareError as error:
        return fail(error, as_json=as_json)
    except (KeyboardInterrupt, typer.Abort):
        print(file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader (`head`) has seen enough; the interpreter must not stumble over the rest when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code if isinstance(code, int) else 0


def _usage(error: Exception) -> DaycareError:
    context = getattr(error, "ctx", None)
    message = error.format_message() if hasattr(error, "format_message") else str(error)
    path = context.command_path if context else "daycare"
    return InvalidError("USAGE", message.strip().rstrip("."), hint=f"{path} --help")
