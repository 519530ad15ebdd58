"""Pairing: the code that a stranger is shown, an operator types and the store keeps a hash of; ids for newcomers."""

import hashlib
import re
import secrets
import unicodedata
from collections.abc import Iterator
from itertools import count
from typing import Final

from daycare.base.errors import InvalidError
from daycare.base.limits import PAIR_CODE_S, PAIR_TRIES_MAX

_DIGITS: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # Crockford's base 32: without I, L, O and U
_CODE: Final = re.compile(f"[{_DIGITS}]{{8}}")  # 40 bits
_READ_AS: Final = str.maketrans({"I": "1", "L": "1", "O": "0", "-": None, " ": None})
_TYPED_MAX_CHARS: Final = 32  # with every space somebody may put in
_ID_MAX_CHARS: Final = 32  # of a suggested user id: it stands in every path


def new_code() -> str:
    """Return a fresh code of 40 random bits, `ABCD-EFGH`."""
    digits = "".join(secrets.choice(_DIGITS) for _ in range(8))
    return f"{digits[:4]}-{digits[4:]}"


def code_hash(text: str) -> str:
    """Return the SHA-256 of a code as somebody typed it: case, hyphens and I, L or O for a digit make no difference.

    Raises `InvalidError` PAIR_CODE_MALFORMED for what can be no code; it does not repeat the text.
    """
    code = text.strip().upper().translate(_READ_AS) if len(text) <= _TYPED_MAX_CHARS else ""
    if not _CODE.fullmatch(code):
        raise InvalidError(
            "PAIR_CODE_MALFORMED",
            "reading a pairing code: it has eight letters and digits, and no U",
            hint="type it as it was shown, such as 7KQM-2XDA",
        )
    return hashlib.sha256(code.encode()).hexdigest()


def is_out(code_until_ms: int, tries: int, now_ms: int) -> bool:
    """Return whether a code that expires at a time, after so many wrong ones, would be taken now.

    One that seems to hold for longer than codes do was shown by a clock that was ahead, and holds no more.
    """
    return 0 < code_until_ms - now_ms <= PAIR_CODE_S * 1000 and tries < PAIR_TRIES_MAX


def suggested_ids(name: str, key: str, *, group: bool) -> Iterator[str]:
    """Yield user ids for a newcomer, the nicest first, without end. `key` is their address, for names without letters.

    A person is called by the first of their names if nobody else is.
    """
    whole = _slug(name)
    first = whole.partition("-")[0]
    if not group and len(first) > 1 and first != "system":
        yield first
    whole = whole or _slug(key) or "new"
    yield whole
    for number in count(2):
        yield f"{whole}-{number}"


def _slug(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", plain)[:_ID_MAX_CHARS].strip("-")
    return f"{slug}-user" if slug == "system" else slug
