"""OpenAI's protocol, for programs that speak it: agents as models, what they answered, vectors of texts."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from daycare.base.limits import FILE_MAX_BYTES
from daycare.feature import Feature

if TYPE_CHECKING:
    import trio
    from starlette.routing import Route

    from daycare.actors.router import Router
    from daycare.base.clock import Clock
    from daycare.features.memory.embed.service import Embedding
    from daycare.observe.bus import Bus
    from daycare.plugin import Inbound
    from daycare.settings import Live
    from daycare.store.records import Receipt
    from daycare.store.sqlite.store import Store

    Accept = Callable[[Inbound], Awaitable[Receipt]]

OPENAI_BODY_MAX_BYTES: Final = FILE_MAX_BYTES * 4 // 3 + 1024 * 1024  # a file in base64, and a long conversation

_EXPIRE_ROWS: Final = 1_000


class OpenAIFeature(Feature):
    """All of it. `accept` takes a message in, `embedding` makes vectors if anything does, `owner` is the operator."""

    name = "openai"
    bodies: ClassVar = dict.fromkeys(("/openai/v1/chat/completions", "/openai/v1/responses"), OPENAI_BODY_MAX_BYTES)

    def __init__(
        self,
        store: "Store",
        router: "Router",
        bus: "Bus",
        clock: "Clock",
        live: "Live",
        accept: "Accept",
        embedding: "Embedding | None",
        owner: str,
    ) -> None:
        self._store = store
        self._live = live
        self._embedding = embedding
        self._owner = owner
        self._parts = (store, router, bus, clock, accept, owner)

    def routes(self, closing: "trio.Event") -> "Sequence[Route]":
        """Return `/openai/v1`."""
        from daycare.features.openai.chat import ChatRoutes
        from daycare.features.openai.embeddings import EmbeddingRoutes
        from daycare.features.openai.models import OpenAIModelRoutes
        from daycare.features.openai.responses import ResponseRoutes
        from daycare.features.openai.speakers import Speakers
        from daycare.features.openai.talking import Talking

        speakers = Speakers(self._store.people)
        talking = Talking(*self._parts, speakers, closing)
        return [
            *OpenAIModelRoutes(self._store.agents, speakers).routes(),
            *ChatRoutes(talking).routes(),
            *ResponseRoutes(talking).routes(),
            *EmbeddingRoutes(self._embedding, speakers, self._owner).routes(),
        ]

    def sweeps(self) -> Mapping[str, Callable[[int], Awaitable[int]]]:
        """Return what deletes what programs cannot go on from any longer."""

        async def expire(now_ms: int) -> int:
            from daycare.features.openai.rows import ExchangeRows

            return await self._store.of(ExchangeRows).expire(now_ms - self._live.now.store.keep_ms, _EXPIRE_ROWS)

        return {"exchanges with programs": expire}
