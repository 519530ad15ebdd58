"""Tokens as routes."""

from typing import Any

from starlette.routing import Route

from daycare.api.operations import route
from daycare.features.tokens.operations import AddToken, ListTokens, MadeToken, RevokeToken
from daycare.features.tokens.service import ApiTokens


class TokenOperations:
    """`/v1/tokens`."""

    def __init__(self, tokens: ApiTokens) -> None:
        self._tokens = tokens

    def routes(self) -> list[Route]:
        """Return the routes of tokens."""
        return [route(AddToken, self.add), route(ListTokens, self.find), route(RevokeToken, self.revoke)]

    async def add(self, wish: AddToken) -> MadeToken:
        """Make a token."""
        made, text = await self._tokens.add(wish.name, wish.may, wish.user, wish.days)
        return MadeToken(name=made.name, user=made.user, may=made.may, expires_at=made.expires_at, token=text)

    async def find(self, wish: ListTokens) -> dict[str, Any]:
        """List tokens."""
        return {"tokens": await self._tokens.find()}

    async def revoke(self, wish: RevokeToken) -> dict[str, Any]:
        """Revoke a token."""
        return {"revoked": await self._tokens.revoke(wish.name)}
