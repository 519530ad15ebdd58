"""What is remembered, how long, and how much of it comes back into prompts: `[memory]` in config.toml."""

from collections.abc import Iterator
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

NO_EMBEDDER: Final = "none"
LOCAL_EMBEDDER: Final = "local"
FOLDER_EMBEDDER: Final = "dir"

TEXT_WEIGHT: Final = 0.7
VECTOR_WEIGHT: Final = 0.3
SIMILAR: Final = {LOCAL_EMBEDDER: 0.25, FOLDER_EMBEDDER: 0.35}  # from which on texts are about the same
SIMILAR_ELSEWHERE: Final = 0.5  # by the embedders of servers
Share = Annotated[float, Meta(ge=0, le=10)]
RecallFor = Literal["people", "steered", "cron", "tasks", "helpers"]


class IngestionSection(msgspec.Struct, frozen=True, kw_only=True):
    """`[memory.ingestion]`: what is kept of conversations, and when memory workers look at it.

    `background` false: only `daycare memory process` wakes them. They are woken after `every_turns` turns, once a
    conversation was quiet for `idle_minutes`, when it ends or is summed up, and each night.
    """

    daily_logs: bool = True
    entities: bool = True
    facts: bool = True
    background: bool = True
    every_turns: Annotated[int, Meta(ge=1, le=1_000)] = 20
    idle_minutes: Annotated[float, Meta(ge=0.1, le=10_080)] = 30.0


class Weights(msgspec.Struct, frozen=True, kw_only=True):
    """`[memory.retrieval.weights]`: what counts how much. `recency` is for a memory of this minute, halved each month.

    `text` and `vector` are shares, as against each other: of words and vectors under `merge = "plain"`; under
    `structure` twice as much of one counts twice as much as was measured to be best.
    """

    logs: Share = 1.0
    facts: Share = 1.0
    entities: Share = 1.0
    recency: Share = 0.0
    text: Share = TEXT_WEIGHT
    vector: Share = VECTOR_WEIGHT


class RetrievalSection(msgspec.Struct, frozen=True, kw_only=True):
    """`[memory.retrieval]`: what comes back into a prompt before the model is asked.

    `merge`: by structure (who said it, what stands around it), or `plain`, a weighted sum of words and vectors.
    `min_score`: of memories, under `structure`. `recall_for`: what is looked up: messages of people, those that arrive
    while a turn runs, jobs of cron, tasks, and what helpers are asked.
    """

    enabled: bool = True
    max_results: Annotated[int, Meta(ge=1, le=200)] = 50
    max_tokens: Annotated[int, Meta(ge=50, le=100_000)] = 2_000
    include_entities: bool = True
    include_facts: bool = True
    include_logs: bool = True
    deadline_ms: Annotated[int, Meta(ge=1, le=10_000)] = 150
    min_score: Annotated[float, Meta(ge=0, le=50)] = 3.5
    recall_for: tuple[RecallFor, ...] = ("people", "steered", "cron", "tasks")
    merge: Literal["structure", "plain"] = "structure"
    weights: Weights = Weights()


class DocumentsSection(msgspec.Struct, frozen=True, kw_only=True):
    """`[memory.documents]`: what of documents stands in a prompt.

    `identity`: IDENTITY.md, SOUL.md, STYLE.md and USER.md whole, or so many passages of each. MEMORY.md stands whole
    up to `chat_max_tokens`; of a longer one the `chat_top` passages that fit, as of other documents, each with a word
    of what was said or, where there are vectors, at least `min_similarity`, None for what suits the embedder.
    """

    identity: Literal["whole"] | Annotated[int, Meta(ge=1, le=50)] = "whole"
    chat_max_tokens: Annotated[int, Meta(ge=0, le=12_000)] = 4_000
    chat_top: Annotated[int, Meta(ge=0, le=50)] = 5
    min_similarity: Annotated[float, Meta(ge=-1, le=1)] | None = None

    def similar(self, embedder: str) -> float:
        """Return from which similarity on a passage fits, for an embedder: static vectors are further apart."""
        least = self.min_similarity
        return SIMILAR.get(embedder, SIMILAR_ELSEWHERE) if least is None else least


class RedisSection(msgspec.Struct, frozen=True, kw_only=True):
    """`[memory.redis]`: where memory is searched with `backend = "redis"`.

    `key` names the stored key that is its password, if it has one. All its keys begin with `prefix`. It is waited for
    `timeout_ms` at each call.
    """

    url: Annotated[str, Meta(min_length=1, max_length=500)] = "redis://127.0.0.1:6379/0"
    key: Annotated[str, Meta(max_length=64)] = "redis"
    prefix: Annotated[str, Meta(pattern=r"^[A-Za-z0-9:_.-]{1,64}$")] = "daycare"
    timeout_ms: Annotated[int, Meta(ge=10, le=10_000)] = 1_000


class MemorySection(msgspec.Struct, frozen=True, kw_only=True):
    """`[memory]`: what is remembered of conversations.

    `embedder`: `none`, `local`, `dir` (of `model_dir`), or PROVIDER/MODEL. Entries of the log are kept for `keep_days`
    once a memory worker has looked at them. `backend`: it is searched in the store, or in a copy in Redis.
    """

    backend: Literal["store", "redis"] = "store"
    embedder: Annotated[str, Meta(min_length=1, max_length=200)] = NO_EMBEDDER
    model_dir: str = ""
    keep_days: Annotated[int, Meta(ge=1, le=36_500)] = 30
    ingestion: IngestionSection = IngestionSection()
    retrieval: RetrievalSection = RetrievalSection()
    documents: DocumentsSection = DocumentsSection()
    redis: RedisSection = RedisSection()


def flaws(section: MemorySection) -> Iterator[tuple[tuple[str, ...], str]]:
    """Return what is wrong in it, by key."""
    if not section.redis.url.startswith(("redis://", "rediss://", "unix://")):
        yield ("memory", "redis", "url"), 'expected "redis://HOST:6379/0", "rediss://..." or "unix:///PATH"'
