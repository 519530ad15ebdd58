"""Exports under a passphrase. It never leaves the program that asks for it: the daemon neither sees nor keeps it.

    8 bytes    b"daycare\\x01"
    16 bytes   salt
    16 bytes   check, by which a wrong passphrase is told from a changed file
    chunks     AES-256-GCM of 64 KiB each, the last one shorter, maybe empty; 16 bytes of tag behind each

Key and check are scrypt (N = 2^17, r = 8, p = 1) of the passphrase as UTF-8 in normal form C. The nonce of a chunk is
its number from 0, in 11 bytes, and a byte that is 1 for the last one; with it goes the head of 40 bytes. So no chunk
can be changed, left out, moved or come from another file, and a file that was cut off is not taken for a whole one.
"""

import hmac
import os
import unicodedata
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from daycare.base.errors import InvalidError
from daycare.base.limits import EXPORT_CHUNK_BYTES

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # imported late: a tenth of a second

MAGIC: Final = b"daycare\x01"
PASSPHRASE_MIN_CHARS: Final = 8  # scrypt makes each guess cost 0.3 s, which saves no shorter one
_SALT_BYTES: Final = 16
_CHECK_BYTES: Final = 16
_HEAD_BYTES: Final = len(MAGIC) + _SALT_BYTES + _CHECK_BYTES
_TAG_BYTES: Final = 16
_N: Final = 2**17  # 128 MiB of memory and some 0.3 s for each guess


def is_sealed(begin: bytes) -> bool:
    """Return whether a file that begins like this is encrypted, by this version or another."""
    return begin.startswith(MAGIC[:-1])


def check_passphrase(passphrase: str) -> str:
    """Return a passphrase that may seal. Raises `InvalidError` PASSPHRASE_SHORT."""
    if len(passphrase) < PASSPHRASE_MIN_CHARS:
        raise InvalidError(
            "PASSPHRASE_SHORT",
            f"encrypting: the passphrase has fewer than {PASSPHRASE_MIN_CHARS} characters",
            hint="use four words or more that nobody guesses",
        )
    return passphrase


def seal(data: Iterable[bytes], passphrase: str) -> Iterator[bytes]:
    """Yield the encrypted form of pieces of any size."""
    salt = os.urandom(_SALT_BYTES)
    cipher, check = _derived(passphrase, salt)
    head = MAGIC + salt + check
    yield head
    for number, (chunk, last) in enumerate(_chunks(data, EXPORT_CHUNK_BYTES)):
        yield cipher.encrypt(_nonce(number, last=last), chunk, head)


def unseal(data: Iterable[bytes], passphrase: str) -> Iterator[bytes]:
    """Yield what was encrypted. Each piece is authentic; that it is all is certain at the end.

    Raises `InvalidError` PASSPHRASE_WRONG, EXPORT_DAMAGED for a file that was changed or cut off.
    """
    from cryptography.exceptions import InvalidTag

    pieces = iter(data)
    begin = bytearray()
    while len(begin) < _HEAD_BYTES and (piece := next(pieces, None)) is not None:
        begin += piece
    head, rest = bytes(begin[:_HEAD_BYTES]), bytes(begin[_HEAD_BYTES:])
    if len(head) < _HEAD_BYTES:
        raise _damaged("it is cut off")
    if not head.startswith(MAGIC):
        raise InvalidError(
            "EXPORT_FROM_FUTURE", "decrypting: it was encrypted by another version", hint="upgrade daycare"
        )
    cipher, check = _derived(passphrase, head[len(MAGIC) : len(MAGIC) + _SALT_BYTES])
    if not hmac.compare_digest(check, head[-_CHECK_BYTES:]):
        raise InvalidError(
            "PASSPHRASE_WRONG",
            "decrypting: the passphrase is wrong, or the first bytes of the file were changed",
            hint="type it again; nobody can open the file without it",
        )
    for number, (chunk, last) in enumerate(_chunks(_behind(rest, pieces), EXPORT_CHUNK_BYTES + _TAG_BYTES)):
        try:
            yield cipher.decrypt(_nonce(number, last=last), chunk, head)
        except InvalidTag:
            raise _damaged(f"chunk {number} was changed, or the file is cut off there") from None
        except ValueError:  # shorter than a tag
            raise _damaged("it is cut off") from None


def _derived(passphrase: str, salt: bytes) -> tuple["AESGCM", bytes]:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

    text = unicodedata.normalize("NFC", passphrase).encode(errors="surrogateescape")
    key = Scrypt(salt=salt, length=32 + _CHECK_BYTES, n=_N, r=8, p=1).derive(text)
    return AESGCM(key[:32]), key[32:]


def _nonce(number: int, *, last: bool) -> bytes:
    return number.to_bytes(11, "big") + (b"\x01" if last else b"\x00")


def _behind(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest


def _chunks(data: Iterable[bytes], size: int) -> Iterator[tuple[bytes, bool]]:
    """Yield pieces of one size, the last one with what is left, which may be nothing."""
    waiting = bytearray()
    for piece in data:
        waiting += piece
        while len(waiting) > size:
            yield bytes(waiting[:size]), False
            del waiting[:size]
    yield bytes(waiting), True


def _damaged(how: str) -> InvalidError:
    return InvalidError("EXPORT_DAMAGED", f"decrypting: {how}", hint="copy the file again from where it was made")
