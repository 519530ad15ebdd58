"""What is wrong in a config file: with the line it is in, and in words for who wrote it."""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from daycare.base.toml_positions import Key, key_lines, line_of


class Problem(msgspec.Struct, frozen=True):
    """Something wrong in a config file. `key` is dotted, as `models.default`, and empty for the file as a whole."""

    file: str
    line: int
    key: str
    what: str

    def __str__(self) -> str:
        return ": ".join(part for part in (f"{self.file}:{self.line}", self.key, self.what) if part)


def located(file: Path, found: Iterable[tuple[Key, str]]) -> list[Problem]:
    """Return what was found in a file as problems, by line."""
    try:
        text = file.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError):  # gone since it was read
        text = ""
    return placed(file, text, found)


def placed(file: Path, text: str, found: Iterable[tuple[Key, str]]) -> list[Problem]:
    """Return what was found in a text as problems, by line."""
    lines = key_lines(text) if found else {}
    problems = [Problem(str(file), line_of(lines, key), ".".join(map(bare, key)), what) for key, what in found]
    return sorted(problems, key=lambda problem: (problem.line, problem.key))


def syntax(file: Path, text: str, message: str) -> Problem:
    """Return what the parser says of a text that is no TOML."""
    what, _, place = message.rpartition(" (at ")
    number = place.removeprefix("line ").partition(",")[0]
    return Problem(str(file), int(number) if number.isdigit() else text.count("\n") + 1, "", lower(what or message))


def bare(name: str) -> str:
    """Return a key as TOML has it: in quotes where it must be."""
    return name if name.replace("-", "_").isidentifier() or name.isdigit() else repr(name)


def lower(text: str) -> str:
    """Return a sentence as it stands behind a colon."""
    return text[:1].lower() + text[1:]
