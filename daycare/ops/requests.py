"""What somebody wants of a home: answers, flags or a file, all under the same names. Secrets only by reference."""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from daycare.base.errors import InvalidError
from daycare.base.likeness import nearest_name
from daycare.base.problems import Problem, lower, placed, syntax
from daycare.base.toml_positions import Key
from daycare.observe.redact import looks_secret, names_secret

FILE_MAX_BYTES: Final = 256 * 1024

_Line = Annotated[str, Meta(min_length=1, max_length=500, pattern=r"^[^\x00-\x1f\x7f]+$")]
_Variable = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class SetupRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is wanted; what is left out stays, or is the default in a new home.

    `model` is PROVIDER/MODEL or `offline`, `model_url` the address of its server where daycare does not know it,
    `model_key_env` the environment variable that holds its key. `embedder` is `memory.embedder`. `connect` names
    plugins with a step in the wizard, `plugins` has their settings as in config.toml, `secrets_env` environment
    variables by the name of the secret that they hold. `test` false stores keys without trying them.
    """

    agent_name: _Line | None = None
    user_name: _Line | None = None
    user: _Line | None = None
    tone: _Line | None = None
    personality: _Line | None = None
    zone: _Line | None = None
    model: _Line | None = None
    model_url: _Line | None = None
    model_key_env: _Variable | None = None
    embedder: _Line | None = None
    connect: tuple[_Line, ...] = ()
    plugins: dict[str, dict[str, Any]] = {}
    secrets_env: dict[str, _Variable] = {}
    service: Literal["user", "system", "none"] | None = None
    test: bool | None = None


def read(file: Path) -> SetupRequest:
    """Return what a file wants. Raises `InvalidError` SETUP_FILE that lists every problem with file, line and key."""
    try:
        with file.open("rb") as opened:
            raw = opened.read(FILE_MAX_BYTES + 1)
        text = raw.decode("utf-8-sig").replace("\r\n", "\n")
    except OSError as error:
        raise _wrong([Problem(str(file), 1, "", f"cannot be read: {error.strerror or error}")]) from None
    except UnicodeDecodeError:
        raise _wrong([Problem(str(file), 1, "", "is not written in UTF-8")]) from None
    if len(raw) > FILE_MAX_BYTES:
        raise _wrong([Problem(str(file), 1, "", f"is longer than {FILE_MAX_BYTES} bytes")])
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _wrong([syntax(file, text, str(error))]) from None
    fields: dict[str, Any] = {}
    found = [*_fill(table, fields), *_secrets((), table)]
    if found:
        raise _wrong(placed(file, text, found))
    return SetupRequest(**fields)


def _fill(table: dict[str, Any], fields: dict[str, Any]) -> Iterator[tuple[Key, str]]:
    known = {field.name: field.type for field in msgspec.structs.fields(SetupRequest)}
    for name, value in table.items():
        if name not in known:
            near = nearest_name(name, known)
            told = f"did you mean `{near[0]}`?" if near else f"known are {', '.join(known)}"
            yield (name,), f"unknown key; {told}"
            continue
        try:
            fields[name] = msgspec.convert(value, known[name], strict=True)
        except msgspec.ValidationError as error:
            yield (name,), lower(str(error))


def _secrets(key: Key, value: Any) -> Iterator[tuple[Key, str]]:
    """Find secrets that were written out: the file is copied, shown and put under version control."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _secrets((*key, name), inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _secrets(key, inner)
    elif isinstance(value, str) and (looks_secret(value) or (key[0] == "plugins" and names_secret(key[-1]))):
        yield key, "secrets do not belong in this file: name the environment variable that holds it"


def _wrong(problems: list[Problem]) -> InvalidError:
    return InvalidError("SETUP_FILE", "\n".join(map(str, problems)), hint="doc/use/setup.md shows such a file")
