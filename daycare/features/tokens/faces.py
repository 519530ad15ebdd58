"""Tokens, and browsers that are logged in, as routes."""

from typing import Any

from starlette.routing import Route

from daycare.api.browsers import LOGIN
from daycare.api.described import described
from daycare.api.operations import route
from daycare.base.api_settings import ApiSection
from daycare.base.errors import ConflictError
from daycare.features.tokens.operations import (
    API_CLOSED,
    AddToken,
    BrowserLink,
    LinkBrowser,
    ListTokens,
    LogOutBrowsers,
    MadeToken,
    RevokeToken,
)
from daycare.features.tokens.records import ApiToken
from daycare.features.tokens.service import LOGIN_CODE_S, ApiTokens
from daycare.settings import Live


class TokenOperations:
    """`/v1/tokens` and `/v1/browsers`. `reached` is whether this daemon listens where the settings say."""

    def __init__(self, tokens: ApiTokens, live: Live, *, reached: bool) -> None:
        self._tokens = tokens
        self._live = live
        self._reached = reached

    def routes(self) -> list[Route]:
        """Return the routes of tokens."""
        return [
            route(AddToken, self.add),
            route(ListTokens, self.find),
            route(RevokeToken, self.revoke),
            route(LinkBrowser, self.link),
            route(LogOutBrowsers, self.log_out),
        ]

    @described({201: MadeToken}, refuses=(409,))
    async def add(self, wish: AddToken) -> MadeToken:
        """Make a token."""
        made, text = await self._tokens.add(wish.name, wish.may, wish.user, wish.days, wish.paths)
        return MadeToken(
            name=made.name, user=made.user, may=made.may, paths=made.paths, expires_at=made.expires_at, token=text
        )

    @described({200: {"tokens": list[ApiToken]}})
    async def find(self, wish: ListTokens) -> dict[str, Any]:
        """List tokens."""
        return {"tokens": await self._tokens.find()}

    @described({200: {"revoked": ApiToken}})
    async def revoke(self, wish: RevokeToken) -> dict[str, Any]:
        """Revoke a token."""
        return {"revoked": await self._tokens.revoke(wish.name)}

    @described({201: BrowserLink}, refuses=(409,))
    async def link(self, wish: LinkBrowser) -> BrowserLink:
        """Make a link that logs a browser in."""
        if not self._reached:
            raise ConflictError("API_UNREACHED", "logging a browser in: no daemon is running", hint="daycare run")
        if not self._live.now.api.listen:
            raise ConflictError(
                API_CLOSED,
                "logging a browser in: the API answers on its socket only",
                hint="daycare config set api.listen 127.0.0.1:8686",
            )
        newcomer, code = await self._tokens.link(wish.user, wish.may)
        url = f"{_base(self._live.now.api)}{LOGIN}?code={code}"
        return BrowserLink(url=url, user=newcomer.user, may=newcomer.may, expires_in_s=LOGIN_CODE_S)

    @described({200: {"revoked": list[ApiToken]}})
    async def log_out(self, wish: LogOutBrowsers) -> dict[str, Any]:
        """Log all browsers out."""
        return {"revoked": await self._tokens.log_out_all()}


def _base(section: ApiSection) -> str:
    """Return where a browser finds the API: under its own name where there is one and the address says nothing."""
    host, port = section.addresses[0]
    anywhere = host in ("0.0.0.0", "::")  # noqa: S104 - as it was written
    if section.hosts and (anywhere or section.cert):
        host = section.hosts[0]
    elif anywhere:
        host = "127.0.0.1"
    return f"{'https' if section.cert else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"
