"""Setting up a home directory, and what its configuration says."""

import getpass
import sys
from pathlib import Path
from typing import Annotated

import typer

from daycare.base.errors import BrokenError, ConflictError
from daycare.cli.client import Json
from daycare.cli.command import Cli, command
from daycare.cli.home import is_new
from daycare.cli.render import pairs, plain
from daycare.store.home import Home

config_app = typer.Typer(
    rich_markup_mode=None, no_args_is_help=True, help="Check the configuration, or tell where it is."
)


def register(app: typer.Typer) -> None:
    """Add the commands of this file to `app`."""
    from daycare.cli.doctor import doctor

    command(app, "init", examples="daycare init\ndaycare init --yes --user-name Ann --personality casual")(init)
    command(app, "doctor", examples="daycare doctor --json")(doctor)


def init(
    cli: Cli,
    *,
    agent_name: Annotated[str | None, typer.Option(metavar="NAME", help="What your agent is called.")] = None,
    user_name: Annotated[str | None, typer.Option(metavar="NAME", help="What it calls you.")] = None,
    user: Annotated[str | None, typer.Option(metavar="ID", help="Your user id; default: made of your name.")] = None,
    tone: Annotated[str | None, typer.Option(help="How it speaks, in a few words.")] = None,
    personality: Annotated[
        str | None, typer.Option(metavar="NAME", help="How it is: default, professional, casual or creative.")
    ] = None,
    zone: Annotated[str | None, typer.Option(help="Your IANA time zone; default: the machine's.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing, take defaults.")] = False,
) -> None:
    """Set up a home directory: configuration, you as its operator, and your agent's identity.

    In a terminal, asks for what the options leave open.
    """
    if not is_new(cli.home):
        raise ConflictError(
            "HOME_EXISTS", f"set up {cli.home}: it has a configuration already", hint="daycare config path"
        )
    given = {
        "agent_name": agent_name,
        "user_name": user_name,
        "tone": tone,
        "personality": personality,
        "zone": zone,
    }
    made = _initialise(cli.home, given, user, ask=not yes and not cli.json and _terminal())
    cli.out(made, lambda facts: pairs((name.replace("_", " "), fact) for name, fact in facts.items()))
    if not cli.json:
        print("\nnext: daycare chat")


def first_run(cli: Cli) -> None:
    """Set up the home directory on the way to the first chat; asks five questions in a terminal."""
    ask = not cli.json and _terminal()
    if ask:
        print(f"Welcome. Setting up {cli.home}; Enter takes what stands in brackets.\n")
    _initialise(cli.home, {}, None, ask=ask)
    print(f"set up {cli.home}", file=sys.stderr)


def _initialise(home: Path, given: dict[str, str | None], user: str | None, *, ask: bool) -> Json:
    from daycare.ops.setup import AGENT_NAME, PERSONALITY, TONE, initialise, local_zone

    questions = (
        ("agent_name", "What is your agent called?", AGENT_NAME),
        ("user_name", "What should it call you?", _login().capitalize()),
        ("tone", "How should it speak?", TONE),
        ("personality", "How should it be: default, professional, casual or creative?", PERSONALITY),
        ("zone", "Your time zone?", local_zone()),
    )
    answers = {
        name: given.get(name) or (_ask(question, usual) if ask else usual) for name, question, usual in questions
    }
    return dict(initialise(home, user_id=user, **answers))


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        return "me"


def _terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _ask(question: str, usual: str) -> str:
    try:
        return input(f"{question} [{usual}] ").strip() or usual
    except EOFError:
        print()
        return usual


@command(config_app, "check")
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


@command(config_app, "path")
def path(cli: Cli) -> None:
    """Print where the configuration is."""
    cli.out({"file": str(Home(cli.home).config)}, lambda document: document["file"])
