"""`/embeddings`: vectors of texts, made by the embedder that memory uses."""

import base64
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daycare.agent import tokens
from daycare.api.described import described
from daycare.api.documents import answer, body
from daycare.base.connector import DIRECT
from daycare.base.errors import InvalidError, NotFoundError
from daycare.base.wellformed import well_formed
from daycare.features.memory.embed.service import EMBED_BATCH, EMBED_TEXT_MAX_CHARS, Embedding
from daycare.features.openai.models import MODEL, check_model
from daycare.features.openai.speakers import Speakers, talkers
from daycare.inference.metering import Payer

if TYPE_CHECKING:
    from daycare.features.memory.embed.arrays import Floats

EMBEDDINGS_MAX: Final = 512  # texts of one request: some seconds of a small model on one core


class EmbeddingRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What `/embeddings` takes: texts, not tokens. `model` is `daycare`, or the name of the embedder."""

    model: str
    input: str | list[str]
    encoding_format: Literal["float", "base64"] | None = "float"
    dimensions: int | None = None


class EmbeddingRoutes:
    """`/openai/v1/embeddings`; `embedding` is None where there is no embedder, `owner` is the operator."""

    def __init__(self, embedding: Embedding | None, speakers: Speakers, owner: str) -> None:
        self._embedding = embedding
        self._owner = owner
        self._speakers = speakers

    def routes(self) -> list[Route]:
        """Return the routes of vectors."""
        return [Route("/openai/v1/embeddings", self.embed, methods=["POST"])]

    @talkers
    @described(
        {200: {"object": str, "data": list[dict[str, Any]], "model": str, "usage": dict[str, int]}},
        body=EmbeddingRequest,
    )
    async def embed(self, request: Request) -> Response:
        """Make a vector of each text."""
        wish = await body(request, EmbeddingRequest)
        caller = await self._speakers.of(request)
        check_model(caller, "")
        embedding = self._chosen(wish.model)
        texts = _texts(wish.input)
        user = caller.user or self._owner
        payer = Payer(path=f"/{user}/{DIRECT}", user=user)
        rows: list[Any] = []
        for first in range(0, len(texts), EMBED_BATCH):
            rows += list(await embedding.vectors(texts[first : first + EMBED_BATCH], payer))
        if wish.dimensions not in (None, len(rows[0])):
            raise _invalid(f"dimensions: vectors of {embedding.name} have {len(rows[0])}; leave it out")
        shown = _packed if wish.encoding_format == "base64" else _listed
        data = [{"object": "embedding", "index": at, "embedding": shown(row)} for at, row in enumerate(rows)]
        used = sum(map(tokens.of_text, texts))
        usage = {"prompt_tokens": used, "total_tokens": used}
        return answer({"object": "list", "data": data, "model": wish.model, "usage": usage})

    def _chosen(self, model: str) -> Embedding:
        if self._embedding is None:
            raise InvalidError(
                "EMBEDDER_NONE",
                "embedding: this daemon has no embedder",
                hint='[memory] embedder = "local" in config.toml, then restart; doc/use/memory.md names others',
            )
        if model not in (MODEL, self._embedding.name):
            what = f"embedding: no embedder is called {model[:200]}"
            raise NotFoundError("MODEL_UNKNOWN", what, hint=f"{MODEL}, or {self._embedding.name}")
        return self._embedding


def _texts(given: str | list[str]) -> list[str]:
    texts = [well_formed(text) for text in ([given] if isinstance(given, str) else given)]
    if not 1 <= len(texts) <= EMBEDDINGS_MAX:
        raise _invalid(f"input: {len(texts)} texts; 1 to {EMBEDDINGS_MAX} fit")
    for at, text in enumerate(texts):
        if not text.strip():
            raise _invalid(f"input: text {at} is empty")
        if len(text) > EMBED_TEXT_MAX_CHARS:
            raise _invalid(f"input: text {at} has {len(text)} characters, {EMBED_TEXT_MAX_CHARS} fit; split it")
    return texts


def _listed(row: "Floats") -> list[float]:
    return [float(each) for each in row]


def _packed(row: "Floats") -> str:
    """Return a vector as clients unpack it: 32 bits a number, the least significant byte first."""
    return base64.b64encode(row.astype("<f4").tobytes()).decode()


def _invalid(what: str) -> InvalidError:
    return InvalidError("BODY_INVALID", f"embedding: {what}", hint="doc/extend/openai.md")
