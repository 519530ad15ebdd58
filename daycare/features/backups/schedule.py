"""Writing `[backup]` into config.toml, leaving every other line as it is."""

import os
import re
import tomllib
from collections.abc import Mapping
from typing import Any

import msgspec

from daycare.base.errors import BrokenError
from daycare.config import BackupSection, load
from daycare.store.home import Home
from daycare.store.sqlite.copies import sync_file, sync_folder

_HEAD = re.compile(r"^\s*\[\s*backup\s*\]\s*(#.*)?$")
_ANY_HEAD = re.compile(r"^\s*\[")


def set_backup(home: Home, wish: Mapping[str, Any]) -> BackupSection:
    """Change keys of the section, and return the whole of it. Raises `BrokenError` for settings that have problems."""
    load(home.path)
    before = home.config.read_text("utf-8-sig") if home.config.exists() else ""
    after = _edited(before, wish)
    table = tomllib.loads(before)
    expected = {**table, "backup": {**table.get("backup", {}), **wish}}
    try:
        right = tomllib.loads(after) == expected
    except tomllib.TOMLDecodeError:
        right = False
    if not right:
        keys = ", ".join(f"{key} = {_toml(value)}" for key, value in wish.items())
        raise BrokenError(
            "CONFIG_UNUSUAL",
            f"changing {home.config}: its [backup] is written in a way that cannot be changed by itself",
            hint=f"write under [backup]: {keys}",
        )
    new = home.config.with_name(".config.toml.part")
    new.unlink(missing_ok=True)
    with os.fdopen(
        os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w", encoding="utf-8"
    ) as to:
        to.write(after)
    sync_file(new)
    new.replace(home.config)
    sync_folder(home.path)
    return load(home.path).backup


def _edited(text: str, wish: Mapping[str, Any]) -> str:
    lines = text.splitlines(keepends=True)
    head = next((number for number, line in enumerate(lines) if _HEAD.match(line)), None)
    left = dict(wish)
    if head is None:
        gap = "\n" if text and not text.endswith("\n\n") else ""
        end = "\n" if text and not text.endswith("\n") else ""
        return f"{text}{end}{gap}[backup]\n" + "".join(f"{key} = {_toml(value)}\n" for key, value in left.items())
    end_of = next((n for n in range(head + 1, len(lines)) if _ANY_HEAD.match(lines[n])), len(lines))
    for number in range(head + 1, end_of):
        key = lines[number].partition("=")[0].strip()
        if key in left:
            lines[number] = f"{key} = {_toml(left.pop(key))}\n"
    if not lines[head].endswith("\n"):
        lines[head] += "\n"
    lines.insert(head + 1, "".join(f"{key} = {_toml(value)}\n" for key, value in left.items()))
    return "".join(lines)


def _toml(value: Any) -> str:
    return msgspec.json.encode(value).decode()
