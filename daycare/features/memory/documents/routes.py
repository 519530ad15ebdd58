"""Memory: the documents that agents and people keep, as files, and their exchange with the home's `memory/` folder.

What operators write here, they also approve, and so do persons what is theirs (`whose.py`).
"""

from typing import TYPE_CHECKING, Annotated

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daycare.api.callers import Caller, caller_of, persons
from daycare.api.described import described
from daycare.api.documents import Limit, Number, RequestDocument, answer, body, query
from daycare.base.connector import DIRECT
from daycare.base.documents import DocumentVersion
from daycare.base.limits import DOCUMENT_REASON_MAX_CHARS, DOCUMENT_SEARCH_MAX
from daycare.features.memory.documents.records import (
    Document,
    DocumentEntry,
    DocumentHit,
    DocumentReading,
    DocumentTotal,
    LayerState,
)
from daycare.features.memory.documents.sharing import Exchange
from daycare.features.memory.documents.whose import agent_of, by, check_change, check_versions, explained
from daycare.store.records import Agent

if TYPE_CHECKING:
    from daycare.features.memory.service import MemoryFeature

Reason = Annotated[str, msgspec.Meta(max_length=DOCUMENT_REASON_MAX_CHARS)]
Hash = Annotated[str, msgspec.Meta(pattern="^([0-9a-f]{64})?$")]


class Whose(RequestDocument, frozen=True, kw_only=True):
    """Whose view of the documents; without a path that of the operator's own agent, `/USER/direct`."""

    agent: str | None = None


class DocumentListing(Whose, frozen=True, kw_only=True):
    """What there is below a folder."""

    prefix: str = ""


class One(Whose, frozen=True, kw_only=True):
    """One document."""

    path: str


class OneVersion(One, frozen=True, kw_only=True):
    """One document, as it is now or as it was."""

    version: Number | None = None


class VersionsQuery(One, frozen=True, kw_only=True):
    """A page of a document's versions."""

    before: Number | None = None
    limit: Limit = 100


class Between(One, frozen=True, kw_only=True):
    """Two versions; 0 is the absence before the first."""

    old: Number | None = None
    new: Number | None = None


class Deletion(One, frozen=True, kw_only=True):
    """A deletion of what somebody saw."""

    base_hash: Hash
    reason: Reason = ""


class DocumentQuery(Whose, frozen=True, kw_only=True):
    """A search."""

    query: Annotated[str, msgspec.Meta(max_length=1_000)]
    limit: Annotated[int, msgspec.Meta(ge=1, le=DOCUMENT_SEARCH_MAX)] = 10


class NewText(RequestDocument, frozen=True, kw_only=True):
    """A text to write over what somebody saw; an empty hash says that there was nothing."""

    text: str
    base_hash: Hash
    reason: Reason = ""


class Undo(RequestDocument, frozen=True, kw_only=True):
    """`version`: only if that is the newest."""

    version: Number | None = None
    reason: Reason = ""


class Move(RequestDocument, frozen=True, kw_only=True):
    """Another path for what somebody saw, also in another layer; nothing may be there."""

    to: str
    base_hash: Hash
    reason: Reason = ""


class DocumentRoutes:
    """`/v1/memory`."""

    def __init__(self, memory: "MemoryFeature") -> None:
        self._memory = memory
        self._documents = memory.documents
        self._sharing = memory.sharing
        self._author = f"{DIRECT}:{memory.owner}"

    def routes(self) -> list[Route]:
        """Return the routes of this file."""
        return [
            Route("/v1/memory", self.find),
            Route("/v1/memory/document", self.read),
            Route("/v1/memory/document", self.write, methods=["PUT"]),
            Route("/v1/memory/document", self.delete, methods=["DELETE"]),
            Route("/v1/memory/history", self.history),
            Route("/v1/memory/diff", self.diff),
            Route("/v1/memory/explain", self.explain),
            Route("/v1/memory/search", self.search),
            Route("/v1/memory/undo", self.undo, methods=["POST"]),
            Route("/v1/memory/move", self.move, methods=["POST"]),
            Route("/v1/memory/export", self.export, methods=["POST"]),
            Route("/v1/memory/import", self.take, methods=["POST"]),
        ]

    @persons
    @described({200: {"agent": str, "documents": list[DocumentEntry], "total": DocumentTotal}}, query=DocumentListing)
    async def find(self, request: Request) -> Response:
        """List documents, and how much the agent's own are together."""
        wish = query(request, DocumentListing)
        agent = await self._agent(wish, caller_of(request))
        entries = await self._documents.listing(agent, wish.prefix)
        return answer({"agent": agent.path, "documents": entries, "total": await self._documents.total(agent)})

    @persons
    @described({200: (DocumentReading, Document)}, query=OneVersion)
    async def read(self, request: Request) -> Response:
        """Return a document as it is, or one of its versions."""
        wish, caller = query(request, OneVersion), caller_of(request)
        agent = await self._agent(wish, caller)
        if wish.version is None:
            return answer(await self._documents.read(agent, wish.path))
        await check_versions(self._memory, agent, wish.path, caller)
        return answer(await self._documents.at(agent, wish.path, wish.version))

    @persons
    @described(
        {200: {"agent": str, "version": DocumentVersion, "total": DocumentTotal}},
        query=One,
        body=NewText,
        refuses=(409,),
    )
    async def write(self, request: Request) -> Response:
        """Write a document in place of what its writer saw."""
        wish, caller = query(request, One), caller_of(request)
        new = await body(request, NewText)
        agent = await self._agent(wish, caller)
        check_change(caller, wish.path)
        author = by(self._memory, caller, new.reason)
        version = await self._documents.write(agent, wish.path, new.text, author, base_hash=new.base_hash)
        return answer({"agent": agent.path, "version": version, "total": await self._documents.total(agent)})

    @persons
    @described({200: DocumentVersion}, query=Deletion, refuses=(409,))
    async def delete(self, request: Request) -> Response:
        """Delete a document of one layer; its versions stay."""
        wish, caller = query(request, Deletion), caller_of(request)
        agent = await self._agent(wish, caller)
        check_change(caller, wish.path)
        author = by(self._memory, caller, wish.reason)
        return answer(await self._documents.delete(agent, wish.path, author, base_hash=wish.base_hash))

    @persons
    @described({200: {"versions": list[DocumentVersion]}}, query=VersionsQuery)
    async def history(self, request: Request) -> Response:
        """List a document's versions, newest first, without their texts."""
        wish, caller = query(request, VersionsQuery), caller_of(request)
        agent = await self._agent(wish, caller)
        await check_versions(self._memory, agent, wish.path, caller)
        found = await self._documents.history(agent, wish.path, before=wish.before, limit=wish.limit)
        return answer({"versions": found})

    @persons
    @described({200: {"diff": str}}, query=Between)
    async def diff(self, request: Request) -> Response:
        """Show what changed between two versions; without numbers what the newest changed."""
        wish, caller = query(request, Between), caller_of(request)
        agent = await self._agent(wish, caller)
        await check_versions(self._memory, agent, wish.path, caller)
        return answer({"diff": await self._documents.diff(agent, wish.path, wish.old, wish.new)})

    @persons
    @described({200: {"layers": list[LayerState]}}, query=One)
    async def explain(self, request: Request) -> Response:
        """Say which layers have a document, and which of them is read."""
        wish, caller = query(request, One), caller_of(request)
        agent = await self._agent(wish, caller)
        return answer({"layers": explained(caller, await self._documents.explain(agent, wish.path))})

    @persons
    @described({200: {"found": list[DocumentHit]}}, query=DocumentQuery)
    async def search(self, request: Request) -> Response:
        """Find documents by their words."""
        wish = query(request, DocumentQuery)
        agent = await self._agent(wish, caller_of(request))
        return answer({"found": await self._documents.search(agent, wish.query, wish.limit)})

    @persons
    @described({200: DocumentVersion}, query=One, body=Undo, refuses=(409,))
    async def undo(self, request: Request) -> Response:
        """Make the text before the newest version the newest again."""
        wish, caller = query(request, One), caller_of(request)
        how = await body(request, Undo)
        agent = await self._agent(wish, caller)
        check_change(caller, wish.path)
        author = by(self._memory, caller, how.reason or "undone")
        return answer(await self._documents.undo(agent, wish.path, author, version=how.version))

    @persons
    @described({200: DocumentVersion}, query=One, body=Move, refuses=(409,))
    async def move(self, request: Request) -> Response:
        """Give a document another path; its versions stay at the old one."""
        wish, caller = query(request, One), caller_of(request)
        how = await body(request, Move)
        agent = await self._agent(wish, caller)
        for path in (wish.path, how.to):
            check_change(caller, path)
        author = by(self._memory, caller, how.reason or f"moved from {wish.path}"[:DOCUMENT_REASON_MAX_CHARS])
        return answer(await self._documents.move(agent, wish.path, how.to, author, base_hash=how.base_hash))

    @described({200: Exchange}, refuses=(409,))
    async def export(self, request: Request) -> Response:
        """Let the files in `memory/` follow the store."""
        return answer(await self._sharing.export(author=self._author, user=self._memory.owner))

    @described({200: Exchange}, refuses=(409,))
    async def take(self, request: Request) -> Response:
        """Let the store follow the files in `memory/`, and the files the store."""
        return answer(await self._sharing.take(author=self._author, user=self._memory.owner))

    async def _agent(self, wish: Whose, caller: Caller) -> Agent:
        return await agent_of(self._memory, wish.agent, caller)
