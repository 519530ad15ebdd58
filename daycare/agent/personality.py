"""Personalities: how an agent speaks, as JSON files: four that come along, and the owner's own in the home.

A file is checked whole, so that every wrong field is told at once with what was expected and what was found. A file
that is missing or wrong costs no answer: the default one speaks.
"""

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args, get_origin

import msgspec
from msgspec import Meta

from daycare.base.bounded import Bounded
from daycare.base.errors import DaycareError, InvalidError, NotFoundError
from daycare.base.likeness import nearest_name
from daycare.base.path import check_name

PERSONALITY_MAX_BYTES: Final = 64 * 1024  # twenty traits with long descriptions have 12 KiB
PERSONALITIES_MAX: Final = 200  # files of the owner that are looked at

DEFAULT: Final = "default"
_SHIPPED: Final = Path(__file__).with_name("personalities")
_FOUND_MAX_CHARS: Final = 60  # of a wrong value that is shown

Style = Literal["formal", "casual", "technical", "creative", "professional"]
Tone = Literal["friendly", "professional", "playful", "empathetic", "direct"]
Words = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^\S")]
Sentence = Annotated[str, Meta(max_length=500)]


class Trait(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something about a character, and how strong it is."""

    name: Words
    description: Sentence
    intensity: Annotated[int, Meta(ge=1, le=10)]


class Preferences(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """The form of answers."""

    length: Literal["concise", "balanced", "detailed"] = "balanced"
    structure: Literal["narrative", "bulleted", "step-by-step"] = "narrative"
    examples: bool = True
    code_blocks: bool = True


class Personality(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How an agent speaks."""

    name: Words
    description: Sentence
    style: Style
    tone: Annotated[tuple[Tone, ...], Meta(min_length=1, max_length=5)]
    traits: Annotated[tuple[Trait, ...], Meta(max_length=20)] = ()
    preferences: Preferences = Preferences()

    def render(self) -> str:
        """Return it as a prompt tells it: a few lines, always the same."""
        likes = self.preferences
        lines = [f"{_flat(self.name)}: {_flat(self.description)}".rstrip(" :")]
        lines.append(f"Style: {self.style}. Tone: {', '.join(self.tone)}.")
        lines += [
            f"- {_flat(it.name)} ({it.intensity} of 10): {_flat(it.description)}".rstrip(" :") for it in self.traits
        ]
        lines.append(
            f"Answers: {likes.length}, {likes.structure}, {'with' if likes.examples else 'without'} examples, code "
            f"{'in blocks' if likes.code_blocks else 'within the text'}."
        )
        return "\n".join(lines)


def read(raw: bytes, where: str) -> Personality:
    """Read a personality file's content; raises `InvalidError` PERSONALITY_INVALID with every wrong field, one a line.

    `where` names the file in the error.
    """
    if len(raw) > PERSONALITY_MAX_BYTES:
        raise _invalid(where, [f"the file is longer than {PERSONALITY_MAX_BYTES} bytes"])
    try:
        found = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _invalid(where, [f"the file is no JSON: {error}"]) from None
    wrong = list(_wrong("", Personality, found))
    if wrong:
        raise _invalid(where, wrong)
    return msgspec.convert(found, Personality)


class Personalities:
    """The personalities that can be chosen; one of the owner's goes before one of the same name that comes along."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._read: Bounded[str, tuple[tuple[int, ...], Personality | DaycareError]] = Bounded(PERSONALITIES_MAX)

    def names(self) -> list[str]:
        """Return the names there are, in order."""
        found = {file.stem for file in _SHIPPED.glob("*.json")}
        try:
            own = sorted(entry.name.removesuffix(".json") for entry in self.folder.iterdir() if entry.suffix == ".json")
        except OSError:
            own = []
        return sorted(found.union(name for name in own[:PERSONALITIES_MAX] if _is_name(name)))

    def is_own(self, name: str) -> bool:
        """Tell whether a personality is a file of the owner."""
        return os.path.lexists(self.folder / f"{check_name(name, 'name of a personality')}.json")

    def get(self, name: str) -> Personality:
        """Read a personality, again only if its file has changed.

        Raises `NotFoundError` PERSONALITY_UNKNOWN, `InvalidError` PERSONALITY_INVALID.
        """
        check_name(name, "name of a personality")
        file = self.folder / f"{name}.json"
        if not os.path.lexists(file):
            file = _SHIPPED / file.name
        try:
            version, raw = _load(file, self._read[name][0] if name in self._read else None)
        except FileNotFoundError:
            near = nearest_name(name, self.names())
            raise NotFoundError(
                "PERSONALITY_UNKNOWN",
                f"reading the personality {name}: there is none of that name",
                hint=f"did you mean {near[0]}?" if near else f"known are {', '.join(self.names())}",
            ) from None
        except OSError as error:
            raise _invalid(str(file), [f"the file cannot be read: {error.strerror or error}"]) from None
        if raw is not None:
            try:
                self._read[name] = version, read(raw, str(file))
            except InvalidError as error:
                self._read[name] = version, error
        found = self._read[name][1]
        if isinstance(found, DaycareError):
            raise found
        return found

    def chosen(self, *names: str) -> Personality:
        """Return the first of these names that can be read, else the default one."""
        for name in (*names, DEFAULT):
            try:
                return self.get(name)
            except DaycareError:
                continue  # `daycare personalities` and `daycare doctor` tell
        return read((_SHIPPED / f"{DEFAULT}.json").read_bytes(), DEFAULT)  # the owner's own default is wrong


def check_file(file: Path) -> Personality:
    """Read a personality from any file; raises `InvalidError` with what is wrong with it."""
    try:
        _, raw = _load(file, None)
    except OSError as error:
        raise _invalid(str(file), [f"the file cannot be read: {error.strerror or error}"]) from None
    assert raw is not None
    return read(raw, str(file))


def _load(file: Path, known: tuple[int, ...] | None) -> tuple[tuple[int, ...], bytes | None]:
    """Return a file's version and content, None if the version is the known one; no link, pipe or device is read."""
    fd = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as opened:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise OSError("it is no regular file")
        version = (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size)
        return version, None if version == known else opened.read(PERSONALITY_MAX_BYTES + 1)


def _is_name(name: str) -> bool:
    try:
        return bool(check_name(name, "name of a personality"))
    except InvalidError:
        return False


def _flat(text: str) -> str:
    return " ".join((text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)).split())


def _invalid(where: str, wrong: list[str]) -> InvalidError:
    return InvalidError(
        "PERSONALITY_INVALID",
        "\n".join(f"{where}: {what}" for what in wrong),
        hint="doc/use/prompt.md shows a whole file; daycare personalities check FILE",
    )


# -- what is wrong with a file ----------------------------------------------------------------------------------------


def _wrong(at: str, kind: Any, value: Any) -> Iterator[str]:
    """Yield what is wrong with a value of a declared type, field by field."""
    inner = _inner(kind)
    if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
        yield from _wrong_object(at, inner, value)
        return
    items = get_args(inner)[0] if get_origin(inner) is tuple else None
    if items is not None and isinstance(value, list):
        most, least = _meta(kind, "max_length"), _meta(kind, "min_length")
        if (most is not None and len(value) > most) or (least is not None and len(value) < least):
            yield f"{at}: expected {_expected(kind)}, found {len(value)}"
        for number, item in enumerate(value[: most or None]):
            yield from _wrong(f"{at}[{number}]", items, item)
        return
    try:
        msgspec.convert(value, kind, strict=True)
    except msgspec.ValidationError:
        yield f"{at}: expected {_expected(kind)}, found {_shown(value)}"


def _wrong_object(at: str, kind: type[msgspec.Struct], value: Any) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{at or 'the file'}: expected an object, found {_shown(value)}"
        return
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    for name, inner in value.items():
        if name in fields:
            yield from _wrong(_below(at, name), fields[name].type, inner)
        else:
            near = nearest_name(name, fields)
            known = f"did you mean {near[0]}?" if near else f"known are {', '.join(fields)}"
            yield f"{_below(at, _flat(name)[:_FOUND_MAX_CHARS])}: unknown field; {known}"
    for name, field in fields.items():
        if field.required and name not in value:
            yield f"{_below(at, name)}: expected {_expected(field.type)}, found nothing"


def _below(at: str, name: str) -> str:
    return f"{at}.{name}" if at else name


def _inner(kind: Any) -> Any:
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def _meta(kind: Any, name: str) -> int | None:
    found: Iterator[int | None] = (getattr(each, name, None) for each in getattr(kind, "__metadata__", ()))
    return next((each for each in found if each is not None), None)


def _expected(kind: Any) -> str:
    """Say in words what a field takes."""
    inner = _inner(kind)
    if get_origin(inner) is Literal:
        *most, last = get_args(inner)
        return f"{', '.join(most)} or {last}"
    if inner is bool:
        return "true or false"
    if inner is int:
        return f"a whole number from {_meta(kind, 'ge')} to {_meta(kind, 'le')}"
    if inner is str:
        least = _meta(kind, "min_length") or 0
        return f"text of {least} to {_meta(kind, 'max_length')} characters"
    if get_origin(inner) is tuple:
        least, most_items = _meta(kind, "min_length") or 0, _meta(kind, "max_length")
        item = get_args(inner)[0]
        of = f", each {_expected(item)}" if get_origin(item) is Literal else ""
        return f"a list of {least} to {most_items}{of}"
    return "an object"


def _shown(value: Any) -> str:
    words: Mapping[type, str] = {dict: "an object", list: "a list", type(None): "null"}
    text = words.get(type(value)) or msgspec.json.encode(value).decode(errors="replace")
    return text if len(text) <= _FOUND_MAX_CHARS else text[: _FOUND_MAX_CHARS - 3] + "..."
