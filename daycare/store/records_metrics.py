"""What a store can tell of itself in numbers."""

import msgspec


class Queue(msgspec.Struct, frozen=True):
    """Rows that wait, and since when the oldest of them (wall ms, 0 for none)."""

    depth: int = 0
    oldest_at: int = 0


class StoreMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """How much of everything there is; `inbox` by kind of message, `outbox` by connector, `agents` by state.

    `uncurated` are agents whose log has entries that no memory worker has seen, `uncurated_at` when the oldest of these
    entries was made, `cron_next_at` when the next scheduled run is due. No queue is counted beyond some rows.
    """

    inbox: dict[str, Queue]
    outbox: dict[str, Queue]
    agents: dict[str, int]
    dead_letters: int
    approvals: int
    cron_jobs: int
    cron_next_at: int
    bytes: int
    free_bytes: int
    uncurated: int = 0
    uncurated_at: int = 0


class Vectors(msgspec.Struct, frozen=True):
    """An embedder of which there are vectors."""

    model: str
    dimensions: int
    vectors: int
