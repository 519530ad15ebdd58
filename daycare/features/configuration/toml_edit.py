"""Changing `config.toml` for its owner: in place, with comments, order and every other key as they were."""

import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from daycare.base.errors import ConflictError
from daycare.base.toml_positions import Key, key_lines

Changes = Mapping[Key, Any]
"""What is to stand under which key, such as `("models", "default")`; None: nothing any more."""

_BOM = "\ufeff"


def edited(text: str, changes: Changes) -> str:
    """Return a TOML text with changes made, itself where they change nothing.

    Raises `ConflictError` CONFIG_UNEDITABLE for a text in which they cannot be made without changing anything else.
    """
    left = {key: value for key, value in changes.items() if _get(tomllib.loads(text.lstrip(_BOM)), key) != value}
    if not left:
        return text
    try:
        done = _changed(text.removeprefix(_BOM), left)
        fits = tomllib.loads(done) == _expected(tomllib.loads(text.removeprefix(_BOM)), left)
    except (KeyError, TypeError, ValueError):  # both parsers' errors, and values that cannot stand there
        fits = False
    if not fits:
        keys = ", ".join(".".join(key) for key in left)
        raise ConflictError(
            "CONFIG_UNEDITABLE",
            f"changing config.toml: {keys} cannot be changed where it stands",
            hint="change it with an editor, then: daycare config check",
        )
    return (_BOM if text.startswith(_BOM) else "") + done


def _changed(text: str, changes: Changes) -> str:
    import tomlkit  # a tenth of a second

    document = tomlkit.parse(text)
    new, rows = {}, ""
    for key, value in changes.items():
        now = _get(tomllib.loads(text), key)
        if _is_tables(value) and (now is None or _is_tables(now)):
            rows += "".join(
                f"\n[[{'.'.join(map(_bare, key))}]]\n{tomlkit.dumps(row)}" for row in _kept(document, key, now, value)
            )
            continue
        if now is None:
            new[key] = value
            continue
        if isinstance(now, dict):
            raise TypeError("a section would go with everything in it")
        table: Any = document
        for name in key[:-1]:
            table = table[name]
        if value is None:
            table.remove(key[-1])
        else:
            table[key[-1]] = value
    text = tomlkit.dumps(document)
    if rows:
        text = f"{text.rstrip()}\n{rows}".lstrip("\n")
    for key, value in new.items():
        text = _inserted(text, key[:-1], f"{_bare(key[-1])} = {tomlkit.item(value).as_string()}")
    return text


def _is_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, dict) for each in value)


def _kept(document: Any, key: Key, now: list[Any] | None, wanted: list[Any]) -> list[Any]:
    """Take those tables out of an array that are not wanted any more, and return those that are new at its end."""
    left, gone = list(wanted), []
    for place, each in enumerate(now or ()):
        if left and left[0] == each:
            left.pop(0)
        else:
            gone.append(place)
    if now is None or len(gone) == len(now) > 0:
        for name in key[:-1] if now else ():
            document = document[name]
        if now:
            document.remove(key[-1])
        return left
    for name in key:
        document = document[name]
    for place in reversed(gone):
        del document[place]
    return left


def _inserted(text: str, section: Key, line: str) -> str:
    """Put a line behind the last key of a section, which is made at the end of the text if it is not there."""
    lines = text.split("\n")
    end = "\r" if text.count("\r\n") > len(lines) // 2 else ""
    places = key_lines(text.replace("\r\n", "\n"))
    header = places.get(section, 0)
    if not header or _header(lines[header - 1]) != section:
        before = text.rstrip()
        apart = f"{before}{end}\n{end}\n" if before else ""
        return f"{apart}[{'.'.join(map(_bare, section))}]{end}\n{line}{end}\n"
    at = header
    for key, number in places.items():
        if key[: len(section)] == section and at < number and _whole(lines[number - 1]):
            between = lines[header : number - 1]
            at = number if not any(each.lstrip().startswith("[") for each in between) else at
    return "\n".join([*lines[:at], line + end, *lines[at:]])


def _header(line: str) -> Key | None:
    """Return the section that a line begins, None if it begins none."""
    if not line.lstrip().startswith("[") or line.lstrip().startswith("[["):
        return None
    found, table = [], tomllib.loads(line.rstrip("\r"))
    while table:
        [(name, table)] = table.items()
        found.append(name)
    return tuple(found)


def _whole(line: str) -> bool:
    """Whether a line is a key with its whole value."""
    try:
        return bool(tomllib.loads(line.rstrip("\r"))) and not line.lstrip().startswith("[")
    except tomllib.TOMLDecodeError:
        return False


def _bare(name: str) -> str:
    plain = name.replace("-", "_").isidentifier() and name.isascii()
    return name if plain else f'"{name}"'


def _get(table: Any, key: Key) -> Any:
    for name in key:
        if not isinstance(table, dict) or name not in table:
            return None
        table = table[name]
    return table


def _expected(table: dict[str, Any], changes: Changes) -> dict[str, Any]:
    for key, value in changes.items():
        _put(table, key, value)
    return table


def _put(table: dict[str, Any], key: Key, value: Any) -> None:
    if value is None and key[0] not in table:
        return
    if len(key) > 1:
        _put(table.setdefault(key[0], {}), key[1:], value)
    elif value is None:
        del table[key[0]]
    else:
        table[key[0]] = value


def changed_lines(before: str, after: str) -> Iterator[str]:
    """Yield what differs between two texts as `diff -u` has it, without names of files; `...` for what is left out."""
    import difflib

    found = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=1)
    hunks = 0
    for line in found:
        if line.startswith("@@"):
            hunks += 1
            if hunks > 1:
                yield "..."
        elif not line.startswith(("---", "+++")) or hunks:
            yield line
