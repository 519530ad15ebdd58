"""Logging in to a server by OAuth, as the library does it; the daemon seals what is to be kept of it.

A person follows a link once; from then on tokens are renewed. Without a person there is no link to follow, so whoever
connects is told that a login is wanted.
"""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from mcp.client.auth.oauth2 import OAuthClientProvider
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl

from daycare.features.mcp.frames import McpOpen

_NOWHERE = "http://127.0.0.1/callback"  # where nobody comes back to, as no login is begun


class LoginWantedError(Exception):
    """The server wants a login, and nobody is there to follow a link."""


class KeptLogin:
    """What a login leaves, as the library stores it. `keep` hears of each change, as one text."""

    def __init__(self, kept: str, keep: Callable[[str], Awaitable[None]]) -> None:
        self._kept: dict[str, Any] = json.loads(kept) if kept else {}
        self._keep = keep
        self.provider: OAuthClientProvider

    def restore(self) -> None:
        """Let the provider know what the library does not store itself: where tokens are renewed, and until when."""
        context, kept = self.provider.context, self._kept
        if kept.get("metadata"):
            context.oauth_metadata = OAuthMetadata.model_validate(kept["metadata"])
        if kept.get("resource"):
            context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(kept["resource"])
        context.auth_server_url = kept.get("server")
        context.token_expiry_time = kept.get("expires_at")

    async def get_tokens(self) -> OAuthToken | None:
        """Return the tokens."""
        return OAuthToken.model_validate(self._kept["tokens"]) if "tokens" in self._kept else None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Keep tokens, and what renewing them needs."""
        context = self.provider.context
        self._kept |= {
            "tokens": _plain(tokens),
            "metadata": _plain(context.oauth_metadata),
            "resource": _plain(context.protected_resource_metadata),
            "server": context.auth_server_url,
            "expires_at": context.token_expiry_time,
        }
        await self._keep(json.dumps(self._kept))

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return what the server knows this client by."""
        return OAuthClientInformationFull.model_validate(self._kept["client"]) if "client" in self._kept else None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Keep what the server knows this client by; it is handed on with the tokens."""
        self._kept["client"] = _plain(client_info)


def login(
    told: McpOpen,
    keep: Callable[[str], Awaitable[None]],
    show: Callable[[str], Awaitable[None]],
    come_back: Callable[[], Awaitable[AuthorizationCodeResult]],
) -> OAuthClientProvider:
    """Return what adds tokens to requests; `show` gets a link for a person, who comes back with a code."""

    async def follow(link: str) -> None:
        if not told.redirect:
            raise LoginWantedError
        await show(link)

    kept = KeptLogin("" if told.redirect else told.login, keep)
    kept.provider = OAuthClientProvider(
        told.url,
        OAuthClientMetadata(client_name="daycare", redirect_uris=[AnyUrl(told.redirect or _NOWHERE)]),
        kept,
        redirect_handler=follow,
        callback_handler=come_back,
    )
    kept.restore()
    return kept.provider


def _plain(value: Any) -> Any:
    return None if value is None else value.model_dump(mode="json", exclude_none=True)
