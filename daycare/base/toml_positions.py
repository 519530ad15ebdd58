"""Where the keys of a TOML text stand, which its parser does not tell. For messages that name a line."""

import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, Final

Key = tuple[str, ...]

_STATEMENT_MAX_LINES: Final = 300


def key_lines(text: str) -> dict[Key, int]:
    """Return the line in which each key of well-formed TOML begins; the second `[[rules]]` has the key `rules`, `2`.

    A statement is the fewest lines that are TOML of their own, so the parser itself tells where each one ends.
    """
    lines: dict[Key, int] = {}
    header: Key = ()
    repeats: dict[Key, int] = {}
    statement: list[str] = []
    for number, row in enumerate(text.split("\n"), 1):
        statement.append(row)
        try:
            table = tomllib.loads("\n".join(statement))
        except tomllib.TOMLDecodeError:
            if len(statement) == _STATEMENT_MAX_LINES:
                break  # each more would cost as much as all before it; what follows gets the line of its section
            continue  # it goes on in the next line
        first = number - len(statement) + 1
        keys = list(_keys(table))
        if statement[0].lstrip().startswith("["):
            header = keys[-1]
            if statement[0].lstrip().startswith("[["):
                repeats[header] = repeats.get(header, 0) + 1
                header = (*header, str(repeats[header]))
            keys = [header[: n + 1] for n in range(len(header))]
        else:
            keys = [(*header, *key) for key in keys]
        for key in keys:
            lines.setdefault(key, first)
        statement = []
    return lines


def line_of(lines: Mapping[Key, int], key: Key) -> int:
    """Return the line of a key, or of the section around it; the first if neither is there."""
    return next((lines[key[:n]] for n in range(len(key), 0, -1) if key[:n] in lines), 1)


def _keys(table: Mapping[str, Any]) -> Iterator[Key]:
    for name, value in table.items():
        yield (name,)
        inner = value[0] if isinstance(value, list) and value else value
        if isinstance(inner, dict):
            yield from ((name, *below) for below in _keys(inner))
