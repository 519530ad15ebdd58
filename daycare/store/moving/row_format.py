"""A row as bytes, the same of both engines: that of PostgreSQL's binary COPY, with the primary key in front.

So two rows are equal if their bytes are, and what a server sends or takes needs no work here.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

from daycare.base.errors import BrokenError
from daycare.store.moving.tables import MovedTable

Nul = Literal["keep", "refuse", "replace"]  # what is done with a NUL character in a text
Key = tuple[Any, ...]

NUL_INSTEAD: Final = "\u2400"  # a picture of it

_NULL: Final = b"\xff\xff\xff\xff"
_SIZE: Final = struct.Struct(">i")
_NUMBER: Final = struct.Struct(">iq")
_COLUMNS: Final = struct.Struct(">h")
_TYPES: Final = {"INTEGER": int, "TEXT": str, "BLOB": bytes}
_DECODE: Final[dict[str, Callable[[bytes], Any]]] = {
    "INTEGER": lambda raw: int.from_bytes(raw, "big", signed=True),
    "TEXT": bytes.decode,
    "BLOB": bytes,
}


def encoder(table: MovedTable, location: str, nul: Nul) -> Callable[[Sequence[Any]], bytes]:
    """Return what makes bytes of a row. It raises `BrokenError` MOVE_UNFIT for a value that the column cannot hold."""
    head = _COLUMNS.pack(len(table.columns))
    types: list[Any] = [_TYPES[kind] for kind in table.kinds]
    size, number = _SIZE.pack, _NUMBER.pack

    def encode(row: Sequence[Any]) -> bytes:
        parts = [head]
        value: Any
        for value, kind in zip(row, types, strict=True):
            if value is None:
                parts.append(_NULL)
            elif type(value) is not kind:
                raise _unfit(table, location, row, value)
            elif kind is int:
                parts.append(number(8, value))
            else:
                data: Any = value
                if kind is str:
                    data = value.encode()
                    if nul != "keep" and b"\0" in data:
                        if nul == "refuse":
                            raise _unfit(table, location, row, value)
                        data = value.replace("\0", NUL_INSTEAD).encode()
                parts += (size(len(data)), data)
        return b"".join(parts)

    return encode


def decoder(table: MovedTable, *, key: bool = False) -> Callable[[bytes], Key]:
    """Return what makes values of bytes, all of a row's or those of its `key`."""
    decoders = [_DECODE[kind] for kind in table.kinds[: table.keys if key else None]]

    def decode(raw: bytes) -> Key:
        values: list[Any] = []
        at = 2
        for make in decoders:
            end = at + 4
            size = int.from_bytes(raw[at:end], "big", signed=True)
            if size < 0:
                values.append(None)
                at = end
            else:
                at = end + size
                values.append(make(raw[end:at]))
        return tuple(values)

    return decode


def _unfit(table: MovedTable, location: str, row: Sequence[Any], value: Any) -> BrokenError:
    place = row.index(value)
    what = "a text with a NUL character" if isinstance(value, str) else f"a value of type {type(value).__name__}"
    key = dict(zip(table.columns, row[: table.keys], strict=False))
    return BrokenError(
        "MOVE_UNFIT",
        f"moving {location}: the row {key} of {table.name} has {what} in {table.columns[place]}",
        hint="daycare migrate-store --dry-run lists all of these"
        if isinstance(value, str)
        else "this is a defect of daycare; please report it with the table and the column",
    )
