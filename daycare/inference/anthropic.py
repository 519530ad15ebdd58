"""Anthropic's models, and every server that speaks its Messages API."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final
from urllib.parse import quote

import msgspec

from daycare.inference.http import ModelServer
from daycare.inference.messages_api import KIND, encode_request
from daycare.inference.messages_reply import MessagesReply
from daycare.inference.section import extra_fields
from daycare.plugin import InferRequest, Plugin, ProviderConfig, StreamEvent

MODEL_LIST_PAGES_MAX: Final = 16  # of a server's list of models, up to 1,000 each

_HOST: Final = "api.anthropic.com"
_VERSION: Final = "2023-06-01"


class _Model(msgspec.Struct):
    id: str


class _Page(msgspec.Struct):
    data: list[_Model]
    has_more: bool = False
    last_id: str | None = None


class AnthropicProvider:
    """One `[providers.NAME]` section of kind `anthropic`. `server` is what it speaks to."""

    def __init__(self, config: ProviderConfig) -> None:
        self.name = config.name
        self._extra = extra_fields(config)
        url = config.base_url.rstrip("/").removesuffix("/v1") if config.base_url else f"https://{_HOST}"
        self.server = ModelServer(config, url, _headers)
        self.needs_key = self.server.host == _HOST

    async def infer(self, request: InferRequest) -> AsyncGenerator[StreamEvent, None]:
        """Stream the model's answer; see `daycare.plugin.Provider`."""
        body = encode_request(request, self._extra)
        async with aclosing(self.server.stream("/v1/messages", body, MessagesReply(request))) as events:
            async for event in events:
                yield event

    async def models(self) -> list[str]:
        """Return the names of the server's models, sorted."""
        found: set[str] = set()
        path = first = "/v1/models?limit=1000"
        for _ in range(MODEL_LIST_PAGES_MAX):
            page: _Page = await self.server.get(path, _Page)
            found.update(model.id for model in page.data)
            if not (page.has_more and page.last_id):
                break
            path = f"{first}&after_id={quote(page.last_id, safe='')}"
        return sorted(found)

    async def aclose(self) -> None:
        """Close the connections; a later call opens new ones."""
        await self.server.aclose()


def _headers(key: str) -> dict[str, str]:
    version = {"anthropic-version": _VERSION}
    return version | {"x-api-key": key} if key else version


def _create(config: ProviderConfig) -> AnthropicProvider:
    return AnthropicProvider(config)


plugin = Plugin(name=KIND, providers={KIND: _create})
