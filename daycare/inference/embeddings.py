"""Every server that speaks OpenAI's Embeddings: OpenAI (`text-embedding-3-small`), Ollama (`nomic-embed-text`), ..."""

from collections.abc import Callable, Collection, Sequence

import msgspec

from daycare.base.errors import UnavailableError
from daycare.inference.http import ModelServer
from daycare.plugin import ProviderConfig, vectors


class _Embedding(msgspec.Struct):
    index: int
    embedding: list[float]


class _Embeddings(msgspec.Struct):
    data: list[_Embedding]


class OpenAIEmbedder:
    """One `[providers.NAME]` section of kind `openai`, for vectors; `paid` are hosts that want a key."""

    def __init__(
        self, config: ProviderConfig, url: str, keyed: Callable[[str], dict[str, str]], paid: Collection[str]
    ) -> None:
        self.name = config.name
        self.server = ModelServer(config, url, keyed)
        self.needs_key = self.server.host in paid

    async def embed(self, model: str, texts: Sequence[str]) -> memoryview:
        """Return a vector for each text; see `daycare.plugin.Embedder`."""
        content = {"model": model, "input": list(texts), "encoding_format": "float"}
        answer: _Embeddings = await self.server.post("/embeddings", content, _Embeddings)
        found = {each.index: each.embedding for each in answer.data}
        if len(answer.data) != len(texts) or set(found) != set(range(len(texts))):
            raise UnavailableError(
                "EMBEDDING_COUNT", f"Embedding with {self.name}: {len(answer.data)} vectors came for {len(texts)} texts"
            )
        return vectors([found[at] for at in range(len(texts))])

    async def aclose(self) -> None:
        """Close the connections; a later call opens new ones."""
        await self.server.aclose()
