"""Reading a safetensors file: a header in JSON that says where each array lies, and the arrays, mapped and not read.

What of a model is never used, such as most words of its vocabulary, never gets into memory.
"""

import struct
from pathlib import Path
from typing import Any, Final

import msgspec

from daycare.base.errors import BrokenError
from daycare.features.memory.embed.arrays import NDArray, np

HEADER_MAX_BYTES: Final = 16 * 1024 * 1024  # names and places of arrays; those of the largest models have 1 MB
_LENGTH: Final = struct.Struct("<Q")
_TYPES: Final = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "U8": "u1"}

Tensor = NDArray[Any]


class _Entry(msgspec.Struct):
    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]


def read_tensors(file: Path) -> dict[str, Tensor]:
    """Return the arrays of a file by name; those of types that no model here has are left out. Raises `BrokenError`."""
    try:
        mapped = np.memmap(file, np.uint8, "r")
        (length,) = _LENGTH.unpack(mapped[: _LENGTH.size].tobytes())
        if length > min(HEADER_MAX_BYTES, len(mapped)):
            raise ValueError(f"its header would have {length} bytes")
        begin = _LENGTH.size + length
        header = msgspec.json.decode(mapped[_LENGTH.size : begin].tobytes(), type=dict[str, msgspec.Raw])
        header.pop("__metadata__", None)
        entries = {name: msgspec.json.decode(raw, type=_Entry) for name, raw in header.items()}
        return {name: _tensor(mapped[begin:], name, entry) for name, entry in entries.items() if entry.dtype in _TYPES}
    except (OSError, ValueError, OverflowError, struct.error, msgspec.MsgspecError) as error:
        raise BrokenError("MODEL_UNREADABLE", f"reading {file}: {error}", hint="get the file again") from error


def _tensor(data: Tensor, name: str, entry: _Entry) -> Tensor:
    first, last = entry.data_offsets
    if not 0 <= first <= last <= len(data):
        raise ValueError(f"{name} lies outside of the file, which is cut off")
    flat = np.frombuffer(data[first:last], _TYPES[entry.dtype])
    if entry.dtype == "BF16":  # the upper half of a float32
        flat = (flat.astype(np.uint32) << 16).view(np.float32)
    return flat.reshape(entry.shape)
