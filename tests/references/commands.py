"""The help of commands that are made from operations: read it when it changes, as a person does who is stuck."""

from pathlib import Path
from typing import Any, Final

import typer.main

from daycare.cli.main import app

PAGE: Final = Path(__file__).parent / "commands.txt"
MADE: Final = ("cron", "memory search")
_WIDTH: Final = 110


def page() -> str:
    """Return the help of each of these commands and of those below them."""
    return "\n\n".join(text for name in MADE for text in _pages(name.split()))


def _pages(words: list[str]) -> list[str]:
    command: Any = typer.main.get_command(app)
    context = command.make_context("daycare", ["--help"], resilient_parsing=True, terminal_width=_WIDTH)
    for word in words:
        command = command.commands[word]
        context = command.make_context(word, ["--help"], parent=context, resilient_parsing=True, terminal_width=_WIDTH)
    below = [name for name, inner in getattr(command, "commands", {}).items() if not inner.hidden]
    return [command.get_help(context), *(text for name in below for text in _pages([*words, name]))]
