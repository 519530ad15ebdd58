"""Long texts and files from outside: they are looked through in a thread, so that nobody else waits.

Taking known secrets out of five megabytes of escapes takes seconds.
"""

from collections.abc import Mapping
from itertools import islice
from typing import Final, TypeVar

import msgspec
import trio

from daycare.base import foreign

S = TypeVar("S", bound=msgspec.Struct)

_AT_ONCE: Final = 20_000  # characters or bytes: 20 ms at worst
_VALUES_AT_ONCE: Final = 200  # texts, numbers and tables; each text costs some 50 us, however short


async def text(value: object) -> str:
    """Return what `foreign.text` does."""
    if not isinstance(value, str) or len(value) <= _AT_ONCE:
        return foreign.text(value)
    return await trio.to_thread.run_sync(foreign.text, value)


async def piece(value: object) -> str:
    """Return what `foreign.piece` does."""
    if not isinstance(value, str) or len(value) <= _AT_ONCE:
        return foreign.piece(value)
    return await trio.to_thread.run_sync(foreign.piece, value)


async def content(value: object, most: int) -> bytes:
    """Return what `foreign.content` does."""
    if not isinstance(value, bytes | bytearray | memoryview) or len(value) <= _AT_ONCE:
        return foreign.content(value, most)
    return await trio.to_thread.run_sync(foreign.content, value, most)


async def struct(value: S, kind: type[S], most: int = foreign.TEXT_MAX_CHARS) -> S:
    """Return what `foreign.struct` does."""
    if _fits_at_once(value):
        return foreign.struct(value, kind, most)
    return await trio.to_thread.run_sync(foreign.struct, value, kind, most)


def _fits_at_once(value: object) -> bool:
    """Return whether all texts in a value are short together, and few; it stops counting at the bound."""
    chars, left, found = 0, _VALUES_AT_ONCE, [value]
    while found:
        left -= 1
        each = found.pop()
        match each:
            case str() | bytes():
                chars += len(each)
            case msgspec.Struct():
                found += [getattr(each, name) for name in each.__struct_fields__]
            case list() | tuple():
                found += each[: left + 1]
            case None | int() | float():
                pass
            case Mapping():
                found += islice((part for pair in each.items() for part in pair), left + 1)
        if chars > _AT_ONCE or len(found) > left:
            return False
    return True
