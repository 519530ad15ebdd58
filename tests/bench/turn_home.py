"""Homes for `turn`: people, what they have said before, and the settings of one variant."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import trio

from daycare.base.clock import SystemClock
from daycare.features import open_store
from daycare.features.memory.store.rows import MemoryRows
from daycare.store.sqlite.database import open_writer
from daycare.store.sqlite.store import Store

from . import memories, product
from .turn_servers import ASKS_FOR_A_TOOL, FIRST_PERSON

PEOPLE: Final = 16
_ASKED: Final = 50  # different questions of each client
_CONFIG: Final = """\
[models]
default = "bench/{model}"

[budgets]
person = []

[providers.bench]
kind = "openai"
base_url = "{url}"
key = "none"
"""
_FORGETS: Final = """
[memory.retrieval]
enabled = false

[memory.ingestion]
daily_logs = false
entities = false
facts = false
background = false
"""


@dataclass(frozen=True)
class Variant:
    """What is measured. `memories` are those of each person, or with `shared` of the one whose agents all talk to."""

    remembers: bool = True
    memories: int = 0
    shared: bool = False
    model: str = "fake-large"

    def path(self, client: int) -> str:
        """Return the agent that a client talks to."""
        return f"/u0/agent/c{client}" if self.shared else f"/u{client}/direct"

    def user(self, client: int) -> str:
        """Return who a client is."""
        return "u0" if self.shared else f"u{client}"

    def texts(self, client: int) -> Sequence[str]:
        """Return what a client says, over and over: questions about something that was said before."""
        first = 0 if self.shared or not self.memories else client * self.memories
        step = max(self.memories, memories.PAGE) // _ASKED
        return [_asked(first + (n * step + 7 * client) % max(self.memories, memories.PAGE)) for n in range(_ASKED)]


VARIANTS: Final = {
    "memory_off": Variant(remembers=False),
    "memory_1k": Variant(memories=1_000),
    "memory_100k": Variant(memories=100_000, shared=True),
    "tool": Variant(memories=1_000, model=ASKS_FOR_A_TOOL),
}


def build(home: Path, variant: Variant) -> None:
    """Make a home with people and their memories, without settings."""
    home.mkdir(mode=0o700)
    location = product.database(home)
    scopes = ["u0"] if variant.shared else [f"u{n}" for n in range(PEOPLE)]
    memories.open_turns(location, variant.memories * len(scopes))
    now = SystemClock().now_ms()
    with closing(open_writer(str(location))) as db, db:
        db.executemany(
            "INSERT INTO users (id, name, zone, kind, operator, origin, created_at)"
            " VALUES (?, ?, 'UTC', 'person', 0, 'system', ?)",
            ((f"u{n}", f"User {n}", now) for n in range(PEOPLE)),
        )
        db.executemany(
            "INSERT INTO user_connector_keys (connector_key, user, origin, created_at) VALUES (?, ?, 'person', ?)",
            ((f"{kind}:{key}", f"u{n}", now) for n in range(PEOPLE) for kind, key in _keys(n)),
        )
    if variant.memories:
        trio.run(_fill, location, variant.memories, scopes)
        with closing(open_writer(str(location))) as db, db:  # memory workers have seen all of it
            db.execute("UPDATE memory_marks SET through = newest").fetchall()


def furnish(home: Path, template: Path, variant: Variant, url: str, more: str = "") -> None:
    """Copy a home that was built, and write the settings for a model's server at `url`."""
    shutil.copytree(template, home)
    config = _CONFIG.format(url=url, model=variant.model) + ("" if variant.remembers else _FORGETS) + more
    (home / "config.toml").write_text(config)


def _keys(number: int) -> Iterator[tuple[str, str]]:
    yield "direct", f"u{number}"
    yield "telegram", str(FIRST_PERSON + number)


async def _fill(location: Path, count: int, scopes: Sequence[str]) -> None:
    async with open_store(str(location)) as store:
        for number, scope in enumerate(scopes):
            for begin in range(number * count, (number + 1) * count, memories.PAGE):
                page = _page(begin // memories.PAGE)[: (number + 1) * count - begin]
                await _keep(store, begin, page, scope)


async def _keep(store: Store, begin: int, page: Sequence[str], scope: str) -> None:
    turns, entries = [], []
    for number, text in enumerate(page, begin + 1):
        turn, entry = memories.said(number, text, scope)
        turns.append(turn)
        entries.append(entry)
    await store.of(MemoryRows).log(turns, entries)


@cache
def _page(number: int) -> Sequence[str]:
    return memories.texts(number)


@cache
def _asked(place: int) -> str:
    return memories.asked(place)
