"""The first `daycare` of all: five short questions, and the chat."""

import getpass
import sys
from collections.abc import Mapping
from pathlib import Path

from daycare.api.client import Json
from daycare.base.errors import ConflictError
from daycare.cli.asking import terminal
from daycare.cli.command import Cli
from daycare.cli.home import is_new
from daycare.config import load
from daycare.store.home import Home


def first_run(cli: Cli) -> None:
    """Set up the home directory on the way to the first chat; asks five questions in a terminal."""
    ask = not cli.json and terminal()
    if ask:
        print(f"Welcome. Setting up {cli.home}; Enter takes what stands in brackets.\n")
    initialise_plainly(cli.home, {}, ask=ask)
    print(f"set up {cli.home}", file=sys.stderr)


def initialise_plainly(home: Path, given: Mapping[str, str | None], *, ask: bool) -> Json:
    """Set up a home with names and nothing else; what is neither given nor asked for is the default."""
    from daycare.ops.setup import AGENT_NAME, PERSONALITY, TONE, initialise, local_zone, usual_embedder

    questions = (
        ("agent_name", "What is your agent called?", AGENT_NAME),
        ("user_name", "What should it call you?", login().capitalize()),
        ("tone", "How should it speak?", TONE),
        ("personality", "How should it be: default, professional, casual or creative?", PERSONALITY),
        ("zone", "Your time zone?", local_zone()),
    )
    answers = {
        name: given.get(name) or (_ask(question, usual) if ask else usual) for name, question, usual in questions
    }
    return dict(
        initialise(
            home,
            agent_name=answers["agent_name"],
            user_name=answers["user_name"],
            user_id=given.get("user"),
            tone=answers["tone"],
            personality=answers["personality"],
            zone=answers["zone"],
            embedder=usual_embedder(),
        )
    )


def begin_again(home: Path) -> Json:
    """Give a home whose database is gone an empty one; its settings and its key stay."""
    from daycare.ops.setup import initialise

    place = Home(home)
    if is_new(home) or Path(place.database(load(home).store.location)).exists():
        raise ConflictError(
            "HOME_EXISTS",
            f"begin again in {home}: its database is not gone",
            hint="daycare init; to begin again from nothing, choose another home: daycare --home DIR",
        )
    return dict(initialise(home, user_name=login().capitalize(), new=True))


def _ask(question: str, usual: str) -> str:
    try:
        return input(f"{question} [{usual}] ").strip() or usual
    except EOFError:
        print()
        return usual


def login() -> str:
    """Return the name of the account that runs this."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        return "me"
