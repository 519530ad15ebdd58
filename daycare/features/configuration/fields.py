"""Settings for people: each with what it means, its default, bounds and choices.

Types, defaults and bounds are those of the settings' own structs; what a key means stands above it in
`config.example.toml`, which has every key. Of sections under names of one's own there are those of providers that the
file has; jobs and plugins' own settings are for the text.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_origin

import msgspec
from msgspec import inspect

from daycare.base.errors import InvalidError
from daycare.base.problems import lower
from daycare.base.toml_positions import Key
from daycare.settings import Config, ProviderSection

_EXAMPLE: Final = Path(__file__).parent / "config.example.toml"
_EXAMPLE_PROVIDER: Final = "ollama"  # whose keys say what those of all mean
_HEADER: Final = re.compile(r"#?\s*\[{1,2}(?P<name>[^\]]+)\]{1,2}\s*$")
_SETTING: Final = re.compile(r"#(?P<name>\w+)\s*=")

Kind = Literal["text", "number", "choice", "list"]


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One key. `value` is what the file says, None where it says nothing; numbers are within `low` and `high`."""

    key: str
    name: str
    kind: Kind
    default: Any
    value: Any = None
    about: str = ""
    choices: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None


class SettingsSection(msgspec.Struct, frozen=True, kw_only=True):
    """One section, such as `memory.retrieval`."""

    name: str
    settings: tuple[Setting, ...]


class _Place(msgspec.Struct, frozen=True):
    """Where a setting stands, and its type as it is declared and as msgspec reads it."""

    key: Key
    declared: Any
    read: inspect.Type
    default: Any


def sections(table: Mapping[str, Any]) -> list[SettingsSection]:
    """Return the settings that a form can show, with what a file says in `table`."""
    found: dict[str, list[Setting]] = {}
    for place in (*_places(), *_providers(table)):
        if setting := _setting(place, table):
            found.setdefault(".".join(place.key[:-1]), []).append(setting)
    return [SettingsSection(name=name, settings=tuple(each)) for name, each in found.items()]


def _providers(table: Mapping[str, Any]) -> Iterator[_Place]:
    there = table.get("providers")
    for name in there if isinstance(there, Mapping) else ():
        if "." not in name:  # it would be two names in a form
            yield from _within(("providers", name), ProviderSection, ProviderSection())


def read(changes: Mapping[str, Any]) -> dict[Key, Any]:
    """Return values by key, each as its setting's type: text that a form or a command line gave is converted.

    What no setting of a form has is taken as it is. Raises `InvalidError` SETTING_INVALID with the key.
    """
    known = {place.key: place for place in _places()}
    return {key: value if value is None else _typed(known.get(key), key, value) for key, value in _flat((), changes)}


def _typed(place: _Place | None, key: Key, value: Any) -> Any:
    if place is None:
        return value
    if _kind(place.read)[0] == "list" and isinstance(value, str):
        value = [line.strip() for line in value.splitlines() if line.strip()]
    try:
        typed = msgspec.to_builtins(msgspec.convert(value, place.declared, strict=False))
    except msgspec.ValidationError as error:
        name = ".".join(key)
        hint = f"daycare config set {name} VALUE; without VALUE its default holds"
        raise InvalidError("SETTING_INVALID", f"setting {name}: {lower(str(error))}", hint=hint) from None
    return list(typed) if isinstance(typed, tuple) else typed  # as TOML has it


def _flat(at: Key, changes: Mapping[str, Any]) -> Iterator[tuple[Key, Any]]:
    for name, value in changes.items():
        if isinstance(value, Mapping):
            yield from _flat((*at, name), value)
        else:
            yield (*at, name), value


# -- what the structs say ----------------------------------------------------------------------------------------------


@cache
def _places() -> tuple[_Place, ...]:
    return tuple(_within((), Config, Config()))


def _within(at: Key, kind: type[msgspec.Struct], usual: msgspec.Struct) -> Iterator[_Place]:
    """Yield the keys of a section before those of the sections in it."""
    read_types = inspect.type_info(kind)
    assert isinstance(read_types, inspect.StructType)
    inner = []
    for field, seen in zip(msgspec.structs.fields(kind), read_types.fields, strict=True):
        key, default = (*at, field.encode_name), getattr(usual, field.name)
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            inner.append((key, field.type, default))
        elif at:
            yield _Place(key, field.type, seen.type, msgspec.to_builtins(default))
    for key, section, default in inner:
        yield from _within(key, section, default)


def _setting(place: _Place, table: Mapping[str, Any]) -> Setting | None:
    kind, choices, low, high = _kind(place.read)
    if kind is None:
        return None
    if get_origin(place.declared) is Literal:
        choices = tuple(map(str, get_args(place.declared)))  # in the order that somebody has thought of
    value: Any = table
    for name in place.key:
        value = value.get(name) if isinstance(value, Mapping) else None
    return Setting(
        key=".".join(place.key),
        name=place.key[-1],
        kind=kind,
        default=place.default,
        value=value,
        about=_abouts().get(
            ("providers", _EXAMPLE_PROVIDER, place.key[-1]) if place.key[0] == "providers" else place.key, ""
        ),
        choices=choices,
        low=low,
        high=high,
    )


def _kind(read: inspect.Type) -> tuple[Kind | None, tuple[str, ...], float | None, float | None]:
    """Return how a setting is shown, its choices and its bounds; None for what only the text can say."""
    match read:
        case inspect.BoolType():
            return "choice", ("true", "false"), None, None
        case inspect.LiteralType(values=values):
            return "choice", tuple(map(str, values)), None, None
        case inspect.EnumType(cls=cls):
            return "choice", tuple(str(each.value) for each in _members(cls)), None, None
        case inspect.IntType(ge=low, le=high) | inspect.FloatType(ge=low, le=high):
            return "number", (), low, high
        case inspect.StrType():
            return "text", (), None, None
        case inspect.VarTupleType(item_type=inspect.StrType() | inspect.LiteralType()):
            return "list", (), None, None
        case inspect.UnionType(types=types):
            [*some] = (each for each in types if not isinstance(each, inspect.NoneType))
            return _kind(some[0]) if len(some) == 1 else ("text", (), None, None)
        case _:
            return None, (), None, None


def _members(cls: type[Enum]) -> Sequence[Enum]:
    return list(cls)


# -- what they mean ----------------------------------------------------------------------------------------------------


@cache
def _abouts() -> dict[Key, str]:
    """Return what stands above each key of the example; a comment that goes on is one text."""
    found: dict[Key, str] = {}
    section: Key = ()
    said: list[str] = []
    for line in _EXAMPLE.read_text("utf-8").splitlines():
        if header := _HEADER.match(line):
            section, said = tuple(header["name"].split(".")), []
        elif setting := _SETTING.match(line):
            found[(*section, setting["name"])] = "".join(said).strip()
            said = []
        elif line.startswith("# "):
            said.append(f"\n{line[2:]}" if line.startswith("#   ") else f" {line[2:].strip()}")  # a list stays one
        else:
            said = []
    return found
