"""Values as PostgreSQL's protocol has them: whole numbers, text, bytes and NULL, as SQLite knows them."""

import struct
from collections.abc import Callable
from typing import Any, Final

from daycare.base.errors import InvalidError

BIGINT: Final = 20
TEXT: Final = 25

_int8 = struct.Struct(">q").pack
_int4 = struct.Struct(">i").pack
_float8 = struct.Struct(">d")
_NUMERIC: Final = struct.Struct(">hhHH")

Encode = Callable[[Any], bytes | None]
Decode = Callable[[bytes], Any]


def _text(value: Any) -> bytes | None:
    if value is None:
        return None
    if not isinstance(value, str):
        return str(int(value)).encode()
    if "\0" in value:
        raise InvalidError("TEXT_NUL", "storing a text: it has a NUL character", hint="leave it out")
    return value.encode()


def _bigint(value: Any) -> bytes | None:
    return None if value is None else _int8(value if isinstance(value, int) else int(value))


def _integer(value: Any) -> bytes | None:
    return None if value is None else _int4(value if isinstance(value, int) else int(value))


def _truth(value: Any) -> bytes | None:
    return None if value is None else b"\x01" if value else b"\0"


def _real(value: Any) -> bytes | None:
    return None if value is None else _float8.pack(value)


def _numbers(value: Any) -> bytes | None:
    """Return an array of numbers; see `sql.those`."""
    packed = b"".join(b"\0\0\0\x08" + _int8(each) for each in value)
    many = len(packed) // 12
    return struct.pack(">iiiii", 1, 0, BIGINT, many, 1) + packed if many else struct.pack(">iii", 0, 0, BIGINT)


def _texts(value: Any) -> bytes | None:
    """Return an array of texts."""
    packed = [each.encode() for each in value]
    if not packed:
        return struct.pack(">iii", 0, 0, TEXT)
    return struct.pack(">iiiii", 1, 0, TEXT, len(packed), 1) + b"".join(
        struct.pack(">i", len(each)) + each for each in packed
    )


def _number(raw: bytes) -> int | float:
    """Return a `numeric`, which sums of whole numbers are."""
    digits, weight, sign, scale = _NUMERIC.unpack_from(raw)
    value = 0
    for at in range(digits):
        value = value * 10_000 + int.from_bytes(raw[8 + 2 * at : 10 + 2 * at], "big")
    value = -value if sign else value
    power = int(weight - digits + 1)
    if power >= 0:
        return value * int(10_000**power)
    below = int(10_000**-power)
    return value / below if scale else value // below


def _whole(raw: bytes) -> int:
    return int.from_bytes(raw, "big", signed=True)


ENCODERS: Final[dict[int, Encode]] = {
    16: _truth,
    BIGINT: _bigint,
    23: _integer,
    21: lambda value: None if value is None else struct.pack(">h", value),
    TEXT: _text,
    1043: _text,
    19: _text,
    17: lambda value: value,
    701: _real,
    1016: _numbers,
    1009: _texts,
}
DECODERS: Final[dict[int, Decode]] = {
    16: _whole,
    BIGINT: _whole,
    23: _whole,
    21: _whole,
    26: _whole,
    TEXT: bytes.decode,
    705: bytes.decode,
    1043: bytes.decode,
    19: bytes.decode,
    17: bytes,
    701: lambda raw: _float8.unpack(raw)[0],
    1700: _number,
    2278: lambda raw: None,
}


def type_of(value: Any) -> int:
    """Return of what type a value is, where the statement does not say."""
    if isinstance(value, int):
        return BIGINT
    if isinstance(value, bytes | memoryview | bytearray):
        return 17
    if isinstance(value, list):
        return 1016
    if isinstance(value, float):
        return 701
    return TEXT
