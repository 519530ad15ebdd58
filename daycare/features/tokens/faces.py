"""Tokens as routes."""

from typing import Any

from starlette.routing import Route

from daycare.api.described import described
from daycare.api.operations import route
from daycare.features.tokens.operations import AddToken, ListTokens, MadeToken, RevokeToken
from daycare.features.tokens.records import ApiToken
from daycare.features.tokens.service import ApiTokens


class TokenOperations:
    """`/v1/tokens`."""

    def __init__(self, tokens: ApiTokens) -> None:
        self._tokens = tokens

    def routes(self) -> list[Route]:
        """Return the routes of tokens."""
        return [route(AddToken, self.add), route(ListTokens, self.find), route(RevokeToken, self.revoke)]

    @described({201: MadeToken}, refuses=(409,))
    async def add(self, wish: AddToken) -> MadeToken:
        """Make a token."""
        made, text = await self._tokens.add(wish.name, wish.may, wish.user, wish.days)
        return MadeToken(name=made.name, user=made.user, may=made.may, expires_at=made.expires_at, token=text)

    @described({200: {"tokens": list[ApiToken]}})
    async def find(self, wish: ListTokens) -> dict[str, Any]:
        """List tokens."""
        return {"tokens": await self._tokens.find()}

    @described({200: {"revoked": ApiToken}})
    async def revoke(self, wish: RevokeToken) -> dict[str, Any]:
        """Revoke a token."""
        return {"revoked": await self._tokens.revoke(wish.name)}
