"""What a search agent is told of its question, in lines that a program can read as well as a model."""

from collections.abc import Sequence
from typing import Final

SEARCHER: Final = "You search memory for another agent."  # how the prompt of a search agent begins
_NAME: Final = "It knows of: "
_TIME: Final = "The question names the time from "
_TO: Final = ", up to and without "


def clues(names: Sequence[str], times: Sequence[tuple[str, str]]) -> str:
    """Return the lines: names that memory knows, and days that the question's times mean."""
    lines = [f"{_TIME}{begin}{_TO}{end}." for begin, end in times]
    return "\n".join((*lines, *(f"{_NAME}{name}" for name in names)))


def names_in(system: str) -> list[str]:
    """Return the names in a prompt with such lines."""
    return [each.removeprefix(_NAME) for each in system.splitlines() if each.startswith(_NAME)]


def times_in(system: str) -> list[tuple[str, str]]:
    """Return the begins and ends of the times in a prompt with such lines."""
    lines = (each.removeprefix(_TIME).removesuffix(".") for each in system.splitlines() if each.startswith(_TIME))
    return [(begin, end) for begin, _, end in (each.partition(_TO) for each in lines)]
