"""Tokens of the API in the store, by the hash of what is sent with a request."""

from typing import Any, ClassVar, Final

from daycare.api.callers import May
from daycare.base.errors import BusyError, ConflictError, NotFoundError
from daycare.base.events import TokenMade, TokenRevoked
from daycare.features.tokens.records import ApiToken, TokenKind
from daycare.store.sqlite.database import count
from daycare.store.sqlite.rows import Rows, Table
from daycare.store.sqlite.sql import Select
from daycare.store.sqlite.writer import Tx

TOKENS_MAX: Final = 1_000  # in force; each program has one

_COLUMNS = "no, name, user, may, kind, paths, created_at, expires_at, used_at, used_from, revoked_at"


class TokenRows(Rows):
    """Those that are in force, and those that were revoked or have expired, until they are swept."""

    tables: ClassVar = (
        Table(
            "api_tokens",
            called="tokens of the API",
            why="they open this installation and no other: make new ones there",
            number="no",
        ),
    )

    async def add(self, token: ApiToken, hash_: bytes) -> ApiToken:
        """Add a token. Raises `ConflictError` TOKEN_KNOWN while another one has its name, `BusyError` TOKENS_MAX."""

        def run(tx: Tx) -> ApiToken:
            if count(tx.db, "SELECT count(*) FROM api_tokens WHERE revoked_at IS NULL") >= TOKENS_MAX:
                raise BusyError(
                    "TOKENS_MAX", f"adding the token {token.name}: there are {TOKENS_MAX}", hint="daycare tokens revoke"
                )
            if tx.one("SELECT 1 FROM api_tokens WHERE name = ? AND revoked_at IS NULL", (token.name,)):
                raise ConflictError(
                    "TOKEN_KNOWN",
                    f"adding the token {token.name}: there is one of that name",
                    hint=f"daycare tokens revoke {token.name}, or choose another name",
                )
            tx.run(
                "INSERT INTO api_tokens (name, hash, user, origin, may, kind, paths, created_at, expires_at)"
                " VALUES (?, ?, ?, 'person', ?, ?, ?, ?, ?)",
                (token.name, hash_, token.user, token.may, token.kind, token.paths, tx.now, token.expires_at),
            )
            [made] = _TOKENS.find(tx.db, "no = ?", (tx.db.last_insert_rowid(),))
            tx.commit.events.append(
                TokenMade(
                    at_ms=tx.now, user=made.user, name=made.name, may=str(made.may), expires_at=made.expires_at or 0
                )
            )
            return made

        return await self._write(run)

    async def find(self) -> list[ApiToken]:
        """Return all tokens, the newest first."""
        return _TOKENS.find(self._reader, "no > 0 ORDER BY no DESC")

    async def by_hash(self, hash_: bytes) -> ApiToken | None:
        """Return the token with a hash, whether or not it is in force."""
        return _TOKENS.one(self._reader, "hash = ?", (hash_,))

    async def by_name(self, name: str) -> ApiToken | None:
        """Return the token of a name that was not revoked."""
        return _TOKENS.one(self._reader, "name = ? AND revoked_at IS NULL", (name,))

    async def in_force(self, kind: TokenKind, now_ms: int) -> list[ApiToken]:
        """Return those of a kind that open something, the newest first."""
        where = "kind = ? AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?) ORDER BY no DESC"
        return _TOKENS.find(self._reader, where, (kind, now_ms))

    async def revoke(self, name: str) -> ApiToken:
        """Let a token open nothing from now on. Raises `NotFoundError` TOKEN_UNKNOWN."""

        def run(tx: Tx) -> ApiToken:
            tx.run("UPDATE api_tokens SET revoked_at = ? WHERE name = ? AND revoked_at IS NULL", (tx.now, name))
            if not tx.db.changes():
                raise NotFoundError(
                    "TOKEN_UNKNOWN", f"revoking the token {name}: there is none", hint="daycare tokens list"
                )
            [revoked] = _TOKENS.find(tx.db, "name = ? ORDER BY no DESC LIMIT 1", (name,))
            tx.commit.events.append(TokenRevoked(at_ms=tx.now, user=revoked.user, name=name))
            return revoked

        return await self._write(run)

    async def used(self, no: int, address: str) -> None:
        """Note that a token was used just now."""
        await self._write(
            lambda tx: tx.run("UPDATE api_tokens SET used_at = ?, used_from = ? WHERE no = ?", (tx.now, address, no))
        )

    async def expire(self, before_ms: int, limit: int) -> int:
        """Delete some tokens that have opened nothing since `before_ms`; return how many."""

        def run(tx: Tx) -> int:
            tx.run(
                "DELETE FROM api_tokens WHERE no IN (SELECT no FROM api_tokens"
                " WHERE coalesce(revoked_at, expires_at) < ? LIMIT ?)",
                (before_ms, limit),
            )
            return tx.db.changes()

        return await self._write(run)


def _token(row: tuple[Any, ...]) -> ApiToken:
    no, name, user, may, kind, paths, created_at, expires_at, used_at, used_from, revoked_at = row
    return ApiToken(
        no=no,
        name=name,
        user=user,
        may=May(may),
        kind=TokenKind(kind),
        paths=paths,
        created_at=created_at,
        expires_at=expires_at,
        used_at=used_at,
        used_from=used_from or "",
        revoked_at=revoked_at,
    )


_TOKENS = Select(_COLUMNS, "api_tokens", _token)
