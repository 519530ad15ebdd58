"""doc/use/cli.md tells of every command and option, and of no other."""

import re
import shlex
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import typer.main

from daycare.base.errors import DaycareError
from daycare.cli.main import app

DOC = (Path(__file__).parents[2] / "doc" / "use" / "cli.md").read_text()
SHARED = {"--home", "--json", "--help", "--version", "--install-completion", "--show-completion"}


def commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    below = getattr(command, "commands", {})
    if getattr(command, "hidden", False):
        return  # another name of one that has its section
    if name != "daycare" and not getattr(command, "no_args_is_help", False):
        yield name, command
    for word, inner in below.items():
        yield from commands(inner, f"{name} {word}")


ALL = dict(commands(typer.main.get_command(app), "daycare"))
SECTIONS = {
    part.split("`", 2)[1]: part for part in re.split(r"^### ", DOC, flags=re.MULTILINE) if part.startswith("`daycare")
}


def test_each_command_has_its_section_and_no_section_lacks_its_command() -> None:
    assert sorted(SECTIONS) == sorted(ALL)


def test_each_option_is_told_in_its_commands_section() -> None:
    options = {
        (name, option)
        for name, command in ALL.items()
        for parameter in command.params
        for option in parameter.opts
        if option.startswith("--")
    }
    assert [(name, option) for name, option in sorted(options) if option not in SHARED | set(_words(name))] == []


def test_each_command_has_help_in_whole_sentences() -> None:
    for name, command in ALL.items():
        assert command.help and command.help.split("\n\n")[0].endswith("."), name


def test_each_exit_code_of_an_error_is_told() -> None:
    codes = {kind.exit_code for kind in _below(DaycareError)}
    assert {code for code in codes if f"\n| {code} |" not in DOC} == set()


def _words(name: str) -> list[str]:
    return re.findall(r"--[a-z-]+", SECTIONS[name])


def _below(kind: type[DaycareError]) -> Iterator[type[DaycareError]]:
    yield kind
    for inner in kind.__subclasses__():
        yield from _below(inner)


def test_what_people_try_instead_of_a_command_does_the_same() -> None:
    every: Any = typer.main.get_command(app)
    groups = {name: inner.commands for name, inner in every.commands.items() if hasattr(inner, "commands")}
    listing = set(groups) - {"service", "config", "files"}
    assert [name for name in sorted(listing) if not {"list", "ls"} <= set(groups[name])] == []
    removing = {name for name, inner in groups.items() if {"rm", "remove", "delete"} & set(inner)}
    assert "agents" in removing and "keys" in removing
    assert [name for name in sorted(removing) if not {"rm", "remove", "delete"} <= set(groups[name])] == []


def pages(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    if not getattr(command, "hidden", False):
        yield name, command
        for word, inner in getattr(command, "commands", {}).items():
            yield from pages(inner, f"{name} {word}")


PAGES = dict(pages(typer.main.get_command(app), "daycare"))


def examples_of(command: Any) -> list[list[str]]:
    """Return the calls of daycare that the examples of a help page show, without what a shell does around them."""
    shown = (command.epilog or "").partition("Examples:\n")[2].partition("\n\n")[0]
    found = []
    for line in shown.splitlines():
        read = shlex.shlex(line.partition("  #")[0], posix=True, punctuation_chars=True)
        read.whitespace_split = True
        words = list(read)
        last = max(at for at, word in enumerate(words) if f"/{word}".endswith("/daycare"))
        found.append(list(takewhile(lambda word: not set(word) <= set("|<>&;()"), words[last + 1 :])))
    return found


@pytest.mark.parametrize("name", PAGES)
def test_each_help_page_has_examples_and_they_can_be_given(name: str) -> None:
    examples = examples_of(PAGES[name])
    assert examples, "none"
    for words in examples:
        context = PAGES["daycare"].make_context("daycare", list(words))
        while hasattr(context.command, "commands") and (rest := [*context._protected_args, *context.args]):
            word, command, rest = context.command.resolve_command(context, rest)
            context = command.make_context(word, rest, parent=context)
        assert context.command_path.startswith(name), words
