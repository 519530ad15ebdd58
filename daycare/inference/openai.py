"""Every model server that speaks OpenAI's Chat Completions: OpenAI, Ollama, OpenRouter, vLLM, LM Studio, ..."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final

import msgspec

from daycare.inference.chat import KIND, encode_request
from daycare.inference.chat_reply import ChatReply
from daycare.inference.embeddings import OpenAIEmbedder
from daycare.inference.http import ModelServer
from daycare.inference.section import extra_fields
from daycare.plugin import InferRequest, Plugin, ProviderConfig, StreamEvent

KNOWN_URLS: Final = {
    "openai": "https://api.openai.com/v1",
    "openrouter": "https://openrouter.ai/api/v1",
    "ollama": "http://127.0.0.1:11434/v1",
    "lmstudio": "http://127.0.0.1:1234/v1",
    "vllm": "http://127.0.0.1:8000/v1",
}
_PAID: Final = {"api.openai.com", "openrouter.ai"}


class _Model(msgspec.Struct):
    id: str


class _Models(msgspec.Struct):
    data: list[_Model]


class OpenAIProvider:
    """One `[providers.NAME]` section of kind `openai`. `server` is what it speaks to."""

    def __init__(self, config: ProviderConfig) -> None:
        self.name = config.name
        self._extra = extra_fields(config)
        self.server = ModelServer(config, config.base_url or KNOWN_URLS.get(config.name, ""), _bearer)
        self.needs_key = self.server.host in _PAID

    async def infer(self, request: InferRequest) -> AsyncGenerator[StreamEvent, None]:
        """Stream the model's answer; see `daycare.plugin.Provider`."""
        body = self._encode(request)
        async with aclosing(self.server.stream("/chat/completions", body, ChatReply(request))) as events:
            async for event in events:
                yield event

    async def models(self) -> list[str]:
        """Return the names of the server's models, sorted."""
        listed: _Models = await self.server.get("/models", _Models)
        return sorted(model.id for model in listed.data)

    async def aclose(self) -> None:
        """Close the connections; a later call opens new ones."""
        await self.server.aclose()

    def _encode(self, request: InferRequest) -> dict[str, Any]:
        body = encode_request(request)
        if request.max_output_tokens is not None:
            # OpenAI's newer models refuse the old name, most other servers know only that.
            field = "max_completion_tokens" if self.server.host == "api.openai.com" else "max_tokens"
            body[field] = request.max_output_tokens
        return body | self._extra


def _bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"} if key else {}


def _create(config: ProviderConfig) -> OpenAIProvider:
    return OpenAIProvider(config)


def _create_embedder(config: ProviderConfig) -> OpenAIEmbedder:
    return OpenAIEmbedder(config, config.base_url or KNOWN_URLS.get(config.name, ""), _bearer, _PAID)


plugin = Plugin(name=KIND, providers={KIND: _create}, embedders={KIND: _create_embedder})
