"""What is kept of a file that stays with Telegram: its reference is written when it comes, and read to fetch it."""

import msgspec

from daycare.base.errors import NotFoundError


class _Reference(msgspec.Struct, frozen=True):
    file_id: str


def reference_of(file_id: str) -> str:
    """Return the reference of a file."""
    return msgspec.json.encode(_Reference(file_id)).decode()


def file_id_of(reference: str) -> str:
    """Return the file that a reference names. Raises `NotFoundError` FILE_GONE."""
    try:
        return msgspec.json.decode(reference, type=_Reference).file_id
    except msgspec.DecodeError:
        raise NotFoundError("FILE_GONE", "downloading a file: its reference cannot be read") from None
