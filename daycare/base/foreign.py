"""Values of code that is not ours: made such that nothing can stumble over them, or refused with what is wrong.

Whatever a plugin returns or hands in passes one of these functions first. Each raises `TypeError` or `ValueError` in
words for the plugin's author; whoever calls foreign code has it turned into an error that names
the plugin (`error_boundary`).
"""

import math
from collections.abc import Iterable, Mapping
from enum import Enum
from itertools import islice
from typing import Any, Final, TypeVar

import msgspec

from daycare.base.secrecy import names_known, without_known
from daycare.base.veil import ESCAPES
from daycare.base.wellformed import well_formed

S = TypeVar("S", bound=msgspec.Struct)

TEXT_MAX_CHARS: Final = 2_000_000  # of what one call gives: longer than any book that a tool may read
LINE_MAX_CHARS: Final = 1_000  # of a name, a key or a receipt: those of all platforms have under 300
REASON_MAX_CHARS: Final = 2_000  # of why something is as it is: a person reads a paragraph
ITEMS_MAX: Final = 1_000  # of one list: the parts of the longest reply, in messages of 200 characters
_VALUES_MAX: Final = 100_000  # in one answer, however nested: taking them apart takes some 50 ms
_DEPTH_MAX: Final = 64  # tables within tables; past it encoders give up
_INTEGER_MAX: Final = 2**63 - 1  # what a column of the store holds


def text(value: object, most: int = TEXT_MAX_CHARS) -> str:
    """Return a text without NUL, halves of surrogate pairs and known secrets, cut to `most` characters.

    This is the one door for text from outside: what passes it is stored, shown and put into prompts.
    """
    return without_known(_plain(value, most))[:most]


def piece(value: object) -> str:
    """Return a piece of a text that comes in pieces, as `text` does, but for secrets that stand there as they are.

    Whoever shows the pieces looks for these in what they make together (`Veil`), which takes as long again.
    """
    found = _plain(value, TEXT_MAX_CHARS)
    return text(found) if any(sign in found for sign in ESCAPES) else found


def line(value: object, most: int = LINE_MAX_CHARS) -> str:
    """Return a text that names something, such as an id. Cut it would name another thing: a longer one is refused.

    So is one that holds a secret: without it, it would name another thing, too.
    """
    name = _plain(value, most + 1)
    if len(name) > most:
        raise ValueError(f"it gave a name of over {most} characters")
    if names_known(name):
        raise ValueError("it gave a secret as a name")
    return name


def _plain(value: object, most: int) -> str:
    if not isinstance(value, str):
        raise TypeError(f"it gave {_kind(value)}, expected text")
    # One of our own type: others may redefine its methods.
    return well_formed(str.__str__(value)[:most]).replace("\x00", "")


def seconds(value: object, most: float) -> float:
    """Return a time to wait in seconds, at most `most`. Raises for one that is negative, endless or no number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"it gave {_kind(value)}, expected seconds")
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"it gave {value:g} seconds, expected a time of 0 or more")
    return float(min(value, most))


def data(value: object, most: int) -> bytes:
    """Return bytes, `most` of them at most."""
    if not isinstance(value, bytes | bytearray | memoryview):
        raise TypeError(f"it gave {_kind(value)}, expected bytes")
    size = value.nbytes if isinstance(value, memoryview) else len(value)
    if size > most:
        raise ValueError(f"it gave {size} bytes, at most {most}")
    return bytes(value)


def content(value: object, most: int) -> bytes:
    """Return the bytes of a file, `most` of them at most; what is text holds no known secret."""
    found = data(value, most)
    try:
        written = found.decode()
    except UnicodeDecodeError:
        return found
    clean = without_known(written)
    return found if clean is written else clean.encode()


def items(value: object, most: int) -> list[Any]:
    """Return the members of a list, tuple or generator; raises past `most`, so that none goes on for ever."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise TypeError(f"it gave {_kind(value)}, expected a list")
    found = list(islice(value, most + 1))
    if len(found) > most:
        raise ValueError(f"it gave over {most} items")
    return found


def struct(value: object, kind: type[S], most: int = TEXT_MAX_CHARS) -> S:
    """Return a `kind` whose fields have the types they declare and hold texts that can be written and finite numbers.

    All its texts together have `most` characters at most.
    """
    if not isinstance(value, kind):
        raise TypeError(f"it gave {_kind(value)}, expected a {kind.__name__}")
    return msgspec.convert(_Plain(most).of(value), kind)


class _Plain:
    """Takes a value apart into tables, lists, texts and numbers, as far as the bounds reach."""

    def __init__(self, chars: int) -> None:
        self._chars = chars
        self._values = _VALUES_MAX

    def of(self, value: Any, depth: int = 0) -> Any:
        self._values -= 1
        if self._values < 0 or depth > _DEPTH_MAX:
            raise ValueError(f"it gave over {_VALUES_MAX} values, or nested them over {_DEPTH_MAX} deep")
        match value:
            case None | bool():
                return value
            case Enum():
                return value.value
            case str() | bytes():
                self._chars -= len(value)
                if self._chars < 0:
                    raise ValueError("it gave too much text")
                return text(value) if isinstance(value, str) else value
            case int():
                if abs(value) > _INTEGER_MAX:
                    raise ValueError("it gave a number that fits into no 64 bits")
                return value
            case float():
                if not math.isfinite(value):
                    raise ValueError(f"it gave {value:g}, expected a number")
                return value
            case msgspec.Struct():
                config = value.__struct_config__
                fields = {name: self.of(getattr(value, name), depth + 1) for name in value.__struct_fields__}
                return fields | ({str(config.tag_field): config.tag} if config.tag is not None else {})
            case list() | tuple():
                return [self.of(each, depth + 1) for each in value]
            case Mapping():
                return {self._name(name): self.of(each, depth + 1) for name, each in value.items()}
        raise TypeError(f"it gave {_kind(value)} within it")

    def _name(self, name: object) -> str:
        return str(self.of(text(name)))


def _kind(value: object) -> str:
    return f"a {type(value).__name__}"
