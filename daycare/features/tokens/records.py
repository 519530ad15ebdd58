"""Tokens of the API as they are stored and shown: who has one, what it is good for, when it was used last."""

from enum import StrEnum

import msgspec

from daycare.api.callers import May


class TokenKind(StrEnum):
    """Who has a token."""

    PROGRAM = "program"  # sends it in a header
    BROWSER = "browser"  # has it as a cookie


class ApiToken(msgspec.Struct, frozen=True, kw_only=True):
    """A token, without the token: that is shown once, when it is made. Times are wall ms.

    `used_at` is known to the minute, `used_from` is the address of that time. `paths` narrows what
    of the user's it is for. A token that was revoked or has expired
    opens nothing.
    """

    no: int
    name: str
    user: str
    may: May
    kind: TokenKind = TokenKind.PROGRAM
    paths: str = ""
    created_at: int
    expires_at: int | None = None
    used_at: int | None = None
    used_from: str = ""
    revoked_at: int | None = None
