"""What can be asked about memories; the search alone so far, others are routes by hand (`routes.py`)."""

from typing import Annotated, Final

import msgspec

from daycare.api.operations import Operation
from daycare.base.limits import DOCUMENT_SEARCH_MAX
from daycare.base.meaning import meaning
from daycare.base.memories import Tier

_MOST_MS: Final = 2**63 - 1

Words = Annotated[
    str, meaning("A question, or words that the text may have", metavar="WORDS...", min_length=1, max_length=1_000)
]
InTier = Annotated[Tier, meaning("Only of one tier: log, fact, entity or chunk", metavar="TIER", option="--in")]
Since = Annotated[int, meaning("Only what was said from this time on, in wall ms", ge=0, le=_MOST_MS)]
Until = Annotated[int, meaning("Only what was said before this time, in wall ms", ge=0, le=_MOST_MS)]
Entity = Annotated[str, meaning("Only what speaks of this person, place or thing", metavar="NAME", max_length=1_000)]
Place = Annotated[
    str,
    meaning(
        "Only of this agent, such as /ann/telegram, or of this document or folder", metavar="PATH", max_length=1_000
    ),
]
Whose = Annotated[str, meaning("Whose memory; your own agent's, /USER/direct, without it", metavar="PATH")]


class Filters(msgspec.Struct, frozen=True, kw_only=True):
    """What of memory is looked through; `entity` under any of its names, `path` with all at and below it."""

    tier: InTier | None = None
    since_ms: Since | None = None
    until_ms: Until | None = None
    path: Place = ""
    entity: Entity = ""
    all: Annotated[bool, meaning("Facts that hold no longer as well")] = False
    limit: Annotated[int, meaning("How many", metavar="N", ge=1, le=DOCUMENT_SEARCH_MAX)] = 10


class SearchMemories(Operation, Filters, frozen=True, kw_only=True):
    """Find what fits best: things that were said, facts, people and things, and passages of documents.

    The column "meaning" is what vectors add to a score; it is missing where there are none.
    """

    ROUTE = "GET /v1/memories/search"
    query: Words
    agent: Whose | None = None
