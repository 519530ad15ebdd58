"""Tokens of the API: made and shown once, known by their hash, revoked at once with all that is open.

A token is 32 random bytes, so its SHA-256 says nothing about it and need not be slow to compute. A browser has one as
its cookie, for which it gives the code of a link.
"""

import hashlib
import secrets
from collections.abc import Callable
from math import inf
from typing import Final, NamedTuple

import trio
from msgspec.structs import replace

from daycare.api.callers import Caller, May
from daycare.api.tickets import TICKET_S, opens
from daycare.base.clock import Clock
from daycare.base.errors import InvalidError, NotFoundError
from daycare.base.path import Pattern, check_name
from daycare.base.secrecy import hide
from daycare.features.tokens.one_time import OneTime
from daycare.features.tokens.records import ApiToken, TokenKind
from daycare.features.tokens.rows import TokenRows
from daycare.store.records import User
from daycare.store.sqlite.store import Store

TOKENS_EXPIRE_ROWS: Final = 1_000
LOGIN_CODE_S: Final = 300.0
BROWSERS_MAX: Final = 20  # logged in; the one that is so for the longest makes room
BROWSER_DAYS: Final = 30

_BEGINS: Final = "daycare_"  # so that people, and programs that look for leaked secrets, know what it is
_BYTES: Final = 32
_CHARS_MAX: Final = 200
_CODES_MAX: Final = 32
_TICKETS_MAX: Final = 10_000  # more than a token may ask for while they are good
_USED_EVERY_MS: Final = 60_000
_DAY_MS: Final = 86_400_000
_OPERATORS: Final = (May.OPERATOR, May.READ, May.SPEAK)  # for users who operate the installation


class Newcomer(NamedTuple):
    """Whose browser a link logs in, and what it may then."""

    user: str
    may: May


class TicketOwner(NamedTuple):
    """Whose ticket it is: a token's, which was not revoked since. `route` is what it is for, "" for any."""

    name: str
    ended: trio.Event
    route: str


class ApiTokens:
    """Makes, finds and revokes tokens; `owner` is whose they are if nobody else is named."""

    def __init__(self, store: Store, clock: Clock, owner: str) -> None:
        self._rows = store.of(TokenRows)
        self._people = store.people
        self._clock = clock
        self._owner = owner
        self._open: dict[int, tuple[str, trio.Event]] = {}  # of tokens that were used: whose, and what ends their calls
        self._removed = trio.Event()
        self._added = trio.Event()
        self._codes: OneTime[Newcomer] = OneTime(clock, LOGIN_CODE_S, _CODES_MAX)
        self._tickets: OneTime[TicketOwner] = OneTime(clock, TICKET_S, _TICKETS_MAX)

    async def add(
        self, name: str, may: May, user: str | None, days: int | None, paths: str = ""
    ) -> tuple[ApiToken, str]:
        """Make a token and return it with its text, which nobody can find out again.

        `paths` are the agents that it is for, a path or `<path>/**` of its user's.
        """
        whose = await self._whose(user, may)
        if paths:
            _check_paths(paths, whose.id, may)
        return await self._make(check_name(name, "name of a token"), whose.id, may, days, paths, TokenKind.PROGRAM)

    async def _make(
        self, name: str, user: str, may: May, days: int | None, paths: str, kind: TokenKind
    ) -> tuple[ApiToken, str]:
        text = f"{_BEGINS}{secrets.token_urlsafe(_BYTES)}"
        hide(text)
        now = self._clock.now_ms()
        expires_at = None if days is None else now + days * _DAY_MS
        token = ApiToken(
            no=0, name=name, user=user, may=may, kind=kind, paths=paths, created_at=now, expires_at=expires_at
        )
        made = await self._rows.add(token, _hash(text))
        self._tell_added()
        return made, text

    async def _whose(self, user: str | None, may: May) -> User:
        user = self._owner if user is None else user
        known = await self._people.get(user)
        if known is None:
            raise NotFoundError("USER_UNKNOWN", f"adding a token for {user}: no user has this id", hint="daycare users")
        if may in _OPERATORS and not known.operator:
            raise InvalidError(
                "TOKEN_NOT_OPERATOR",
                f"adding a token for {user} that may do as {may}: {user} operates nothing",
                hint="daycare tokens add NAME --may person",
            )
        return known

    async def find(self) -> list[ApiToken]:
        """Return all tokens, the newest first."""
        return await self._rows.find()

    async def revoke(self, name: str) -> ApiToken:
        """Let a token open nothing from now on, and end what is open with it."""
        revoked = await self._rows.revoke(name)
        self._end(revoked.no)
        return revoked

    async def link(self, user: str | None, may: May | None) -> tuple[Newcomer, str]:
        """Return whose browser may be logged in, and the code that does it: once, within LOGIN_CODE_S."""
        whose = await self._whose(user, May.PERSON if may is None else may)
        newcomer = Newcomer(whose.id, may or (May.OPERATOR if whose.operator else May.PERSON))
        code = self._codes.make(newcomer)
        hide(code)
        self._tell_added()
        return newcomer, code

    async def log_in(self, code: str) -> tuple[ApiToken, str] | None:
        """Return a browser's token and what it has as a cookie; None if the code is good no longer."""
        newcomer = self._codes.take(code)
        if newcomer is None:
            return None
        known = await self._whose(newcomer.user, newcomer.may)  # perhaps no longer
        browsers = await self._rows.in_force(TokenKind.BROWSER, self._clock.now_ms())
        for each in browsers[BROWSERS_MAX - 1 :]:
            await self.revoke(each.name)
        name = f"browser-{secrets.token_hex(4)}"
        return await self._make(name, known.id, newcomer.may, BROWSER_DAYS, "", TokenKind.BROWSER)

    async def log_out_all(self) -> list[ApiToken]:
        """Log all browsers out, also those that have a link only; return their tokens."""
        self._codes.forget()
        browsers = await self._rows.in_force(TokenKind.BROWSER, self._clock.now_ms())
        return [await self.revoke(each.name) for each in browsers]

    def ticket(self, caller: Caller, route: str = "") -> str:
        """Return what stands for a token in a URL: once, within TICKET_S, of a `route` only if one is given.

        Raises `InvalidError` TICKET_NEEDLESS.
        """
        if caller.ended is None:
            raise InvalidError("TICKET_NEEDLESS", "making a ticket: on the socket none is needed")
        return self._tickets.make(TicketOwner(caller.name, caller.ended, route))

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

    async def wait_for_one(self, missing: Callable[[], None]) -> None:
        """Wait until there is a token in force, or a link for a browser; `missing` is called if there is none yet."""
        while True:
            added, now = self._added, self._clock.now_ms()
            if self._codes.some or any([await self._rows.in_force(kind, now) for kind in TokenKind]):
                return
            missing()
            await added.wait()

    def _tell_added(self) -> None:
        self._added.set()
        self._added = trio.Event()

    def _end(self, no: int) -> None:
        if (known := self._open.pop(no, None)) is not None:
            known[1].set()

    async def caller(self, text: str, address: str) -> Caller | None:
        """Return who sends a token, None if it opens nothing. `address` is where from."""
        return await self._opened(await self._sent(text, TokenKind.PROGRAM), address)

    async def browser(self, session: str, address: str) -> Caller | None:
        """Return whose browser sends a cookie, None if it opens nothing."""
        caller = await self._opened(await self._sent(session, TokenKind.BROWSER), address)
        return None if caller is None else replace(caller, session=session)

    async def ticket_holder(self, ticket: str, path: str, address: str) -> Caller | None:
        """Return whose ticket it is, None if it opens nothing at this path. It is used up."""
        held = self._tickets.take(ticket)
        if held is None or held.ended.is_set() or not opens(held.route, path):
            return None
        return await self._opened(await self._rows.by_name(held.name), address)

    async def _sent(self, text: str, kind: TokenKind) -> ApiToken | None:
        if len(text) > _CHARS_MAX:
            return None
        token = await self._rows.by_hash(_hash(text))  # equal hashes, not equal texts: timing tells nothing of use
        if token is None or token.kind is not kind:
            return None
        hide(text)
        return token

    async def _opened(self, token: ApiToken | None, address: str) -> Caller | None:
        """Return who calls with a token, None if it is in force no longer."""
        now = self._clock.now_ms()
        if token is None or token.revoked_at is not None or (token.expires_at is not None and token.expires_at <= now):
            return None
        # Before anything is waited for: who revokes it meanwhile ends this call, too.
        _, ended = self._open.setdefault(token.no, (token.user, trio.Event()))
        known = await self._people.get(token.user)
        if known is None or (token.may in _OPERATORS and not known.operator):
            return None
        if token.used_at is None or abs(now - token.used_at) >= _USED_EVERY_MS or token.used_from != address:
            await self._rows.used(token.no, address)
        left_s = inf if token.expires_at is None else (token.expires_at - now) / 1_000
        return Caller(name=token.name, may=token.may, user=token.user, paths=token.paths, ended=ended, left_s=left_s)

    async def expire(self, before_ms: int) -> int:
        """Delete some tokens that have opened nothing for long; return how many."""
        return await self._rows.expire(before_ms, TOKENS_EXPIRE_ROWS)


def _check_paths(paths: str, user: str, may: May) -> None:
    """Raise `InvalidError` for a pattern that a token cannot be for."""
    Pattern(paths, None)
    if paths.endswith("/*") or not f"{paths}/".startswith(f"/{user}/"):
        raise InvalidError(
            "TOKEN_PATHS",
            f"adding a token for {paths}: expected agents of {user}, as a path or <path>/**",
            hint=f"--paths '/{user}/agent/NAME/**'",
        )
    if may is May.OPERATOR:
        raise InvalidError(
            "TOKEN_PATHS",
            f"adding a token for {paths} that may do as operator: an operator's is for everything",
            hint="--may person, or --may read",
        )


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
