"""Tokens of the API: made and shown once, known by their hash, revoked at once with all that is open.

A token is 32 random bytes, so its SHA-256 says nothing about it and need not be slow to compute.
"""

import hashlib
import secrets
from math import inf
from typing import Final

import trio

from daycare.api.callers import Caller, May
from daycare.base.clock import Clock
from daycare.base.errors import InvalidError, NotFoundError
from daycare.base.path import check_name
from daycare.base.secrecy import hide
from daycare.features.tokens.records import ApiToken
from daycare.features.tokens.rows import TokenRows
from daycare.store.sqlite.store import Store

_BEGINS: Final = "daycare_"  # so that people, and programs that look for leaked secrets, know what it is
TOKENS_EXPIRE_ROWS: Final = 1_000

_BYTES: Final = 32
_CHARS_MAX: Final = 200
_USED_EVERY_MS: Final = 60_000
_DAY_MS: Final = 86_400_000


class ApiTokens:
    """Makes, finds and revokes tokens; `owner` is whose they are if nobody else is named."""

    def __init__(self, store: Store, clock: Clock, owner: str) -> None:
        self._rows = store.of(TokenRows)
        self._people = store.people
        self._clock = clock
        self._owner = owner
        self._open: dict[int, tuple[str, trio.Event]] = {}  # of tokens that were used: whose, and what ends their calls
        self._removed = trio.Event()

    async def add(self, name: str, may: May, user: str | None, days: int | None) -> tuple[ApiToken, str]:
        """Make a token and return it with its text, which nobody can find out again."""
        user = self._owner if user is None else user
        known = await self._people.get(user)
        if known is None:
            raise NotFoundError("USER_UNKNOWN", f"adding a token for {user}: no user has this id", hint="daycare users")
        if may in (May.OPERATOR, May.READ) and not known.operator:
            raise InvalidError(
                "TOKEN_NOT_OPERATOR",
                f"adding a token for {user} that may do as {may}: {user} operates nothing",
                hint="daycare tokens add NAME --may person",
            )
        text = f"{_BEGINS}{secrets.token_urlsafe(_BYTES)}"
        hide(text)
        now = self._clock.now_ms()
        token = ApiToken(
            no=0,
            name=check_name(name, "name of a token"),
            user=user,
            may=may,
            created_at=now,
            expires_at=None if days is None else now + days * _DAY_MS,
        )
        return await self._rows.add(token, _hash(text)), text

    async def find(self) -> list[ApiToken]:
        """Return all tokens, the newest first."""
        return await self._rows.find()

    async def revoke(self, name: str) -> ApiToken:
        """Let a token open nothing from now on, and end what is open with it."""
        revoked = await self._rows.revoke(name)
        self._end(revoked.no)
        return revoked

    def people_removed(self) -> None:
        """Hear that somebody was removed."""
        self._removed.set()

    async def run(self) -> None:
        """End what is open of people who were removed, until cancelled."""
        while True:
            await self._removed.wait()
            self._removed = trio.Event()
            for no, (user, _) in list(self._open.items()):
                if await self._people.get(user) is None:
                    self._end(no)

    def _end(self, no: int) -> None:
        if (known := self._open.pop(no, None)) is not None:
            known[1].set()

    async def caller(self, text: str, address: str) -> Caller | None:
        """Return who sends a token, None if it opens nothing. `address` is where from."""
        if len(text) > _CHARS_MAX:
            return None
        token = await self._rows.by_hash(_hash(text))  # equal hashes, not equal texts: timing tells nothing of use
        now = self._clock.now_ms()
        if token is None or token.revoked_at is not None or (token.expires_at is not None and token.expires_at <= now):
            return None
        # Before anything is waited for: who revokes it meanwhile ends this call, too.
        _, ended = self._open.setdefault(token.no, (token.user, trio.Event()))
        known = await self._people.get(token.user)
        if known is None or (token.may in (May.OPERATOR, May.READ) and not known.operator):
            return None
        hide(text)
        if token.used_at is None or abs(now - token.used_at) >= _USED_EVERY_MS or token.used_from != address:
            await self._rows.used(token.no, address)
        left_s = inf if token.expires_at is None else (token.expires_at - now) / 1_000
        return Caller(name=token.name, may=token.may, user=token.user, ended=ended, left_s=left_s)

    async def expire(self, before_ms: int) -> int:
        """Delete some tokens that have opened nothing for long; return how many."""
        return await self._rows.expire(before_ms, TOKENS_EXPIRE_ROWS)


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
