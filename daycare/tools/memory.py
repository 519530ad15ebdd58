"""The tools of memory: reading what an agent and its people keep, and proposing what is to be kept."""

from typing import Annotated, Final

import msgspec

from daycare.base.consent import IDENTITY_DOCUMENTS
from daycare.plugin import StructTool, ToolContext

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


async def _read(context: ToolContext, arguments: MemoryRead) -> str:
    return await context.memory.read(arguments.path)


async def _list(context: ToolContext, arguments: MemoryList) -> str:
    return await context.memory.listing(arguments.prefix)


async def _search(context: ToolContext, arguments: MemorySearch) -> str:
    return await context.memory.search(arguments.query)


async def _write(context: ToolContext, arguments: MemoryWrite) -> str:
    return await context.memory.change("write", arguments.path, arguments.text, arguments.reason)


async def _append(context: ToolContext, arguments: MemoryAppend) -> str:
    return await context.memory.change("append", arguments.path, arguments.text, arguments.reason)


async def _delete(context: ToolContext, arguments: MemoryDelete) -> str:
    return await context.memory.change("delete", arguments.path, None, arguments.reason)


async def _append_daily(context: ToolContext, arguments: MemoryAppendDaily) -> str:
    return await context.memory.log(arguments.text)


async def _propose(context: ToolContext, arguments: IdentityPropose) -> str:
    return await context.memory.propose_identity(arguments.path, arguments.text, arguments.reason)


TOOLS: Final = (
    StructTool("memory_read", MemoryRead, _read, idempotent=True),
    StructTool("memory_list", MemoryList, _list, idempotent=True),
    StructTool("memory_search", MemorySearch, _search, idempotent=True),
    StructTool("memory_write", MemoryWrite, _write, idempotent=True),
    StructTool("memory_append", MemoryAppend, _append, idempotent=True),
    StructTool("memory_delete", MemoryDelete, _delete, idempotent=True),
    StructTool("memory_append_daily", MemoryAppendDaily, _append_daily, idempotent=True),
    StructTool("identity_propose", IdentityPropose, _propose, idempotent=True),
)
