"""Reads and writes config.toml for people: checked before it is written, taken back if the daemon does not take it."""

import hashlib
import os
import re
import tomllib
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import trio

from daycare.base.errors import BrokenError, ConflictError, DaycareError, InvalidError
from daycare.base.problems import Problem
from daycare.base.secrecy import SECRET, without_secrets
from daycare.config import parsed
from daycare.features.configuration import fields
from daycare.features.configuration.operations import Written
from daycare.features.configuration.toml_edit import edited
from daycare.observe.redact import names_secret
from daycare.store.home import Home

_NO_DAEMON: Final = "RELOAD_STOPPING"
_ASSIGNED: Final = re.compile(r"^(?P<key>\s*(?:[\w.-]+\.)?(?P<name>[\w-]+)\s*=\s*)\S.*$")


class ConfigText(msgspec.Struct, frozen=True, kw_only=True):
    """The file at a moment. `shown` is its text without secrets, `table` what it says, empty if it is no TOML."""

    text: str
    shown: str
    hash: str
    problems: tuple[Problem, ...]
    table: dict[str, Any]


class Configuration:
    """The config.toml of a home, changed by one at a time."""

    def __init__(self, home: Home, reload: Callable[[], Awaitable[object]]) -> None:
        self.file: Final = home.config
        self._reload = reload
        self._turn = trio.Lock()

    def read(self) -> ConfigText:
        """Return the file. Raises `BrokenError` CONFIG_UNREADABLE for one that cannot be read, or is no text."""
        try:
            raw = self.file.read_bytes() if self.file.exists() else b""
            text = raw.decode("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            why = "it is not written in UTF-8" if isinstance(error, UnicodeDecodeError) else error.strerror
            raise BrokenError("CONFIG_UNREADABLE", f"reading {self.file}: {why}", hint="daycare config check") from None
        problems = self.problems(text)
        try:
            table = tomllib.loads(text.lstrip("\ufeff"))
        except tomllib.TOMLDecodeError:
            table = {}
        found = ConfigText(text=text, shown=_shown(text, problems), hash=_hash(raw), problems=problems, table=table)
        return found if found.shown == text else msgspec.structs.replace(found, table=_scrubbed(table))

    def problems(self, text: str) -> tuple[Problem, ...]:
        """Return what is wrong in a text, by line; no secret stands in it."""
        found = parsed(text.encode("utf-8", "surrogatepass"), self.file)[1]
        return tuple(msgspec.structs.replace(each, what=without_secrets(each.what)) for each in found)

    async def write(self, text: str, base_hash: str) -> Written:
        """Replace the file.

        Raises `ConflictError` CONFIG_CHANGED if its hash is another one, `InvalidError` CONFIG_INVALID that lists every
        problem, and what the daemon says that does not take it: then the file is as it was.
        """
        async with self._turn:
            return await self._replace(self._at(base_hash), text)

    async def change(self, changes: Mapping[str, Any], base_hash: str | None = None) -> Written:
        """Change settings. Raises as `write`, and `ConflictError` CONFIG_UNEDITABLE where a text cannot be edited."""
        async with self._turn:
            now = self._at(base_hash)
            if now.problems:
                raise _invalid(now.problems)
            return await self._replace(now, edited(now.text, fields.read(changes)))

    def _at(self, base_hash: str | None) -> ConfigText:
        now = self.read()
        if base_hash not in (None, now.hash):
            raise ConflictError(
                "CONFIG_CHANGED",
                f"changing {self.file.name}: somebody has changed it since it was read",
                hint="load the page again, and make your change in the new text",
            )
        return now

    async def _replace(self, now: ConfigText, text: str) -> Written:
        if SECRET in text and SECRET not in now.text:
            raise InvalidError(
                "CONFIG_HIDDEN",
                f"changing {self.file.name}: {SECRET} stands for a secret that is not shown",
                hint="delete that line, and store the secret under Keys: daycare keys add NAME",
            )
        if problems := self.problems(text):
            raise _invalid(problems)
        if text == now.text:
            return Written(hash=now.hash, reloaded=True)
        write_config(self.file, text)
        try:
            found = msgspec.to_builtins(await self._reload())
        except DaycareError as error:
            if error.code == _NO_DAEMON:
                return Written(hash=_hash(text.encode()), reloaded=False)
            write_config(self.file, now.text)
            raise
        return Written(hash=_hash(text.encode()), reloaded=True, **found)


def write_config(file: Path, text: str) -> None:
    """Let config.toml be this text, all of it or none; a link stays one."""
    file = file.resolve()
    new = file.with_name(f".{file.name}.new")
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8", newline="") as opened:
        opened.write(text)
        opened.flush()
        os.fsync(opened.fileno())
    if file.exists():
        new.chmod(file.stat().st_mode & 0o777)
    new.replace(file)
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _shown(text: str, problems: tuple[Problem, ...]) -> str:
    """Return a text without secrets: a valid one has none, so that names matter only where something is wrong."""
    if problems:
        text = "\n".join(map(_without_value, text.split("\n")))
    return without_secrets(text)


def _without_value(line: str) -> str:
    found = _ASSIGNED.match(line)
    return f'{found["key"]}"{SECRET}"' if found and names_secret(found["name"]) else line


def _scrubbed(table: Any) -> Any:
    if isinstance(table, dict):
        return {name: SECRET if names_secret(name) else _scrubbed(value) for name, value in table.items()}
    if isinstance(table, list):
        return [_scrubbed(each) for each in table]
    return without_secrets(table) if isinstance(table, str) else table


def _hash(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def _invalid(problems: tuple[Problem, ...]) -> InvalidError:
    lines = (f"line {each.line}: {f'{each.key}: ' if each.key else ''}{each.what}" for each in problems)
    return InvalidError("CONFIG_INVALID", "\n".join(lines), hint="doc/operate/configuration.md")
