"""The tools of memory: finding what is kept, having questions answered from it, and proposing what is to be kept."""

from typing import Annotated, Final, Literal, cast

import msgspec

from daycare.base.consent import IDENTITY_DOCUMENTS
from daycare.base.limits import LOOKUP_MAX, QUESTION_MAX_CHARS, SEARCH_DEADLINE_S, WAIT_MAX_S
from daycare.base.tool import READS, STAYS
from daycare.features.memory.operations import Entity, Place, Words
from daycare.plugin import StructTool, ToolContext, Waiting
from daycare.tools.context import ToolCallContext

Path = Annotated[str, msgspec.Meta(description="As memory_list shows it, such as MEMORY.md or knowledge/tea.md")]
NewPath = Annotated[
    str,
    msgspec.Meta(
        description="MEMORY.md or knowledge/NAME.md, NAME of a-z, 0-9, - and _;"
        " shared/ before it: for all agents of the user"
    ),
]
Reason = Annotated[str, msgspec.Meta(min_length=1, description="Why, in a sentence for the person who decides")]


class MemoryRead(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Read a document of your memory whole, before you change it or when a search shows only a part. With a number of a
    search, such as memory 12, it shows that memory and where it came from."""

    path: Annotated[
        str,
        msgspec.Meta(description="As memory_list shows it, such as MEMORY.md or knowledge/tea.md; or memory NUMBER"),
    ]


class MemoryList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """List the documents of your memory with their sizes."""

    prefix: Annotated[str, msgspec.Meta(description="Only below this folder, such as knowledge; empty: all")] = ""


class MemorySearch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Search all that you remember: earlier conversations, facts, people and things, documents. Do it before you say
    that you do not know something about the user."""

    query: Words
    tier: Annotated[
        Literal["", "log", "fact", "entity", "chunk"],
        msgspec.Meta(description="Only what was said (log), facts, people and things (entity) or documents (chunk)"),
    ] = ""
    since: Annotated[str, msgspec.Meta(description="Only from this day on, such as 2026-03-01")] = ""
    until: Annotated[str, msgspec.Meta(description="Only before this day")] = ""
    entity: Entity = ""
    path: Place = ""
    limit: Annotated[int, msgspec.Meta(ge=1, le=LOOKUP_MAX)] = 10


class MemoryAsk(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Have a harder question answered from memory: somebody searches it several times, and names the sources. Use it
    when one search is not enough, such as for what changed over months, or for something put together from many
    conversations."""

    question: Annotated[
        str,
        msgspec.Meta(
            min_length=1, max_length=QUESTION_MAX_CHARS, description="Complete in itself, with names and times"
        ),
    ]
    deadline_s: Annotated[float, msgspec.Meta(ge=1, le=WAIT_MAX_S, description="Seconds to wait")] = SEARCH_DEADLINE_S


class MemoryWrite(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Replace a document of your memory by a new text, or begin one. Read it first and keep what still holds. As a rule
    a person has to approve: you are told later, so go on without it."""

    path: NewPath
    text: Annotated[str, msgspec.Meta(description="The whole new text, as Markdown")]
    reason: Reason


Section = Annotated[
    str,
    msgspec.Meta(
        description="The heading it goes below, such as Preferences; made where it is missing. Empty: the end"
    ),
]


class MemoryAppend(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Add to a document of your memory what will matter in later conversations: a preference, a correction, a decision.
    As a rule a person has to approve: you are told later, so go on without it."""

    path: NewPath
    text: Annotated[str, msgspec.Meta(min_length=1, description="Only what is new")]
    reason: Reason
    section: Section = ""


class MemoryDelete(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Delete a document of your memory that is wrong or of no more use. As a rule a person has to approve."""

    path: Path
    reason: Reason


class MemoryAppendDaily(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Note in today's log, on one line, what happened: what was done, decided or promised. Needs no approval; you see
    today's and yesterday's log in every conversation."""

    text: Annotated[str, msgspec.Meta(min_length=1, description="One line, without the time")]


class IdentityPropose(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Propose a new text for who you are (SOUL.md), how you write (STYLE.md), your name (IDENTITY.md) or what you know
    of the user (USER.md). Only the owner's yes changes it. Do it rarely, when the user wishes it or corrected you
    repeatedly."""

    path: Annotated[str, msgspec.Meta(extra_json_schema={"enum": list(IDENTITY_DOCUMENTS)})]
    text: Annotated[str, msgspec.Meta(min_length=1, description="The whole new text, or what a section gets")]
    reason: Reason
    section: Annotated[str, msgspec.Meta(description="The heading to add the text below; the rest stays as it is")] = ""


async def _search(context: ToolContext, it: MemorySearch) -> str:
    return await context.memory.search(
        it.query, tier=it.tier, since=it.since, until=it.until, entity=it.entity, path=it.path, limit=it.limit
    )


async def _ask(context: ToolContext, it: MemoryAsk) -> Waiting:
    return await cast(ToolCallContext, context).ask_memory(it.question, it.deadline_s)  # no plugin's to do


TOOLS: Final = (
    StructTool("memory_read", MemoryRead, lambda context, it: context.memory.read(it.path), idempotent=True, **READS),
    StructTool(
        "memory_list",
        MemoryList,
        lambda context, it: context.memory.listing(it.prefix),
        idempotent=True,
        group="memory",
        **READS,
    ),
    StructTool("memory_search", MemorySearch, _search, idempotent=True, **READS),
    StructTool("memory_ask", MemoryAsk, _ask, idempotent=True, group="memory", **READS),
    StructTool(
        "memory_write",
        MemoryWrite,
        lambda context, it: context.memory.change("write", it.path, it.text, it.reason),
        idempotent=True,
        group="memory",
        **STAYS,
    ),
    StructTool(
        "memory_append",
        MemoryAppend,
        lambda context, it: context.memory.change("append", it.path, it.text, it.reason, it.section),
        idempotent=True,
        **STAYS,
    ),
    StructTool(
        "memory_delete",
        MemoryDelete,
        lambda context, it: context.memory.change("delete", it.path, None, it.reason),
        idempotent=True,
        group="memory",
        **STAYS,
    ),
    StructTool(
        "memory_append_daily",
        MemoryAppendDaily,
        lambda context, it: context.memory.log(it.text),
        idempotent=True,
        **STAYS,
    ),
    StructTool(
        "identity_propose",
        IdentityPropose,
        lambda context, it: context.memory.propose_identity(it.path, it.text, it.reason, it.section),
        idempotent=True,
        group="memory",
        **STAYS,
    ),
)
