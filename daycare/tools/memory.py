"""The tools of memory: reading what an agent and its people keep, and proposing what is to be kept."""

from typing import Annotated, Final

import msgspec

from daycare.base.consent import IDENTITY_DOCUMENTS
from daycare.plugin import StructTool

Path = Annotated[str, msgspec.Meta(description="As memory_list shows it, such as MEMORY.md or knowledge/tea.md")]
NewPath = Annotated[
    str,
    msgspec.Meta(
        description="MEMORY.md, knowledge/NAME.md or skills/NAME.md, NAME of a-z, 0-9, - and _;"
        " shared/ before it: for all agents of the user"
    ),
]
Reason = Annotated[str, msgspec.Meta(min_length=1, description="Why, in a sentence for the person who decides")]


class MemoryRead(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Read a document of your memory whole, before you change it or when a search shows only a part."""

    path: Path


class MemoryList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """List the documents of your memory with their sizes."""

    prefix: Annotated[str, msgspec.Meta(description="Only below this folder, such as knowledge; empty: all")] = ""


class MemorySearch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Search your memory by words. Do it before you say that you do not know something about the user."""

    query: Annotated[str, msgspec.Meta(min_length=1, description="Words that the text may have, also synonyms")]


class MemoryWrite(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Replace a document of your memory by a new text, or begin one. Read it first and keep what still holds. As a rule
    a person has to approve: you are told later, so go on without it."""

    path: NewPath
    text: Annotated[str, msgspec.Meta(description="The whole new text, as Markdown")]
    reason: Reason


class MemoryAppend(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Add to a document of your memory what will matter in later conversations: a preference, a correction, a decision.
    As a rule a person has to approve: you are told later, so go on without it."""

    path: NewPath
    text: Annotated[str, msgspec.Meta(min_length=1, description="Only what is new")]
    reason: Reason


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
    text: Annotated[str, msgspec.Meta(min_length=1, description="The whole new text")]
    reason: Reason


TOOLS: Final = (
    StructTool("memory_read", MemoryRead, lambda context, it: context.memory.read(it.path), idempotent=True),
    StructTool("memory_list", MemoryList, lambda context, it: context.memory.listing(it.prefix), idempotent=True),
    StructTool("memory_search", MemorySearch, lambda context, it: context.memory.search(it.query), idempotent=True),
    StructTool(
        "memory_write",
        MemoryWrite,
        lambda context, it: context.memory.change("write", it.path, it.text, it.reason),
        idempotent=True,
    ),
    StructTool(
        "memory_append",
        MemoryAppend,
        lambda context, it: context.memory.change("append", it.path, it.text, it.reason),
        idempotent=True,
    ),
    StructTool(
        "memory_delete",
        MemoryDelete,
        lambda context, it: context.memory.change("delete", it.path, None, it.reason),
        idempotent=True,
    ),
    StructTool(
        "memory_append_daily", MemoryAppendDaily, lambda context, it: context.memory.log(it.text), idempotent=True
    ),
    StructTool(
        "identity_propose",
        IdentityPropose,
        lambda context, it: context.memory.propose_identity(it.path, it.text, it.reason),
        idempotent=True,
    ),
)
