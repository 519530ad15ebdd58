"""Setting up a home directory, and what its configuration says."""

from typing import Final

import typer

from daycare.api.client import Client, Json
from daycare.base.errors import BrokenError, DaycareError
from daycare.cli.command import Cli, command, shown_below
from daycare.cli.init import init
from daycare.cli.process import running
from daycare.cli.render import plain
from daycare.features.configuration import cli as configuration
from daycare.store.home import Home

config_app = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Check the configuration, change or reload it, or show where it is.",
    epilog=shown_below("daycare config check\ndaycare config reload"),
)
_MISTAKES: Final = ("CONFIG_INVALID", "CONFIG_GONE", "PLUGIN_SETTINGS")
_RELOAD_S: Final = 60.0  # plugins may take some seconds each to end
configuration.register(config_app)


def register(app: typer.Typer) -> None:
    """Add the commands of this file to `app`."""
    from daycare.cli.doctor import doctor

    examples = """
    daycare init
    daycare init --yes --user-name Ann --personality casual
    daycare init --yes --model openai/gpt-5-mini --model-key-env OPENAI_API_KEY
    daycare init --from setup.toml --dry-run
    """
    command(app, "init", examples=examples)(init)
    command(app, "doctor", examples="daycare doctor --json")(doctor)


@command(config_app, "check", examples="daycare config check")
def check(cli: Cli) -> None:
    """Check the configuration; prints each problem with its file, line and key, and exits with 78 if there is one."""
    from daycare import config

    problems = config.check(cli.home)
    file = str(Home(cli.home).config)
    facts = [{"file": each.file, "line": each.line, "key": each.key, "what": each.what} for each in problems]
    told = "\n".join(plain(each) for each in problems) or f"{file}: no problem found"
    cli.out({"file": file, "problems": facts}, lambda _: told)
    if problems:
        raise typer.Exit(BrokenError.exit_code)


@command(config_app, "reload", examples="daycare config reload")
def reload(cli: Cli) -> None:
    """Let the running daemon take the configuration again, as it does by itself some seconds after a change.

    Tells what has changed, which plugins were started again for it, and what takes effect after a restart only. With a
    mistake in it all stays as it was, and the exit code is 78.
    """
    client = Client(Home(cli.home).socket)
    running(client, cli.home)
    try:
        found = client.call("POST", "/v1/config/reload", timeout_s=_RELOAD_S)
    except DaycareError as error:
        if error.code in _MISTAKES:
            raise BrokenError(error.code, error.message, hint=error.hint) from error
        raise
    cli.out(found, _reloaded)


def _reloaded(found: Json) -> str:
    lines = [f"changed: {', '.join(found['changed'])}" if found["changed"] else "nothing has changed"]
    lines += [f"restarted: {', '.join(found['restarted'])}"] if found["restarted"] else []
    lines += [f"after `daycare restart` only: {', '.join(found['pending'])}"] if found["pending"] else []
    return plain("\n".join(lines))


@command(config_app, "path", examples="daycare config path\ncat $(daycare config path)")
def path(cli: Cli) -> None:
    """Print where the configuration is."""
    cli.out({"file": str(Home(cli.home).config)}, lambda document: document["file"])
