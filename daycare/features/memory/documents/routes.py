"""Memory: the documents that agents and people keep, as files, and their exchange with the home's `memory/` folder.

Whoever may use this API is the operator: what they write here, they also approve. What people keep whom a user has let
in (`/ann/subuser/bob`) is not read here, nor changed.
"""

from typing import TYPE_CHECKING, Annotated

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daycare.api.described import described
from daycare.api.documents import Limit, Number, RequestDocument, answer, body, query
from daycare.api.routes_agents import agent_at
from daycare.base.connector import DIRECT
from daycare.base.documents import Attribution, DocumentVersion
from daycare.base.errors import ForbiddenError
from daycare.base.limits import DOCUMENT_REASON_MAX_CHARS, DOCUMENT_SEARCH_MAX
from daycare.base.messages import Origin
from daycare.base.path import Path
from daycare.base.scope import is_subusers
from daycare.features.memory.documents.records import (
    Document,
    DocumentEntry,
    DocumentHit,
    DocumentReading,
    DocumentTotal,
    LayerState,
)
from daycare.features.memory.documents.sharing import Exchange
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
            Route("/v1/memory/export", self.export, methods=["POST"]),
            Route("/v1/memory/import", self.take, methods=["POST"]),
        ]

    @described({200: {"agent": str, "documents": list[DocumentEntry], "total": DocumentTotal}}, query=DocumentListing)
    async def find(self, request: Request) -> Response:
        """List documents, and how much the agent's own are together."""
        wish = query(request, DocumentListing)
        agent = await self._agent(wish)
        entries = await self._documents.listing(agent, wish.prefix)
        return answer({"agent": agent.path, "documents": entries, "total": await self._documents.total(agent)})

    @described({200: (DocumentReading, Document)}, query=OneVersion)
    async def read(self, request: Request) -> Response:
        """Return a document as it is, or one of its versions."""
        wish = query(request, OneVersion)
        agent = await self._agent(wish)
        if wish.version is None:
            return answer(await self._documents.read(agent, wish.path))
        return answer(await self._documents.at(agent, wish.path, wish.version))

    @described(
        {200: {"agent": str, "version": DocumentVersion, "total": DocumentTotal}},
        query=One,
        body=NewText,
        refuses=(409,),
    )
    async def write(self, request: Request) -> Response:
        """Write a document in place of what its writer saw."""
        wish = query(request, One)
        new = await body(request, NewText)
        agent = await self._agent(wish)
        by = self._by(new.reason)
        version = await self._documents.write(agent, wish.path, new.text, by, base_hash=new.base_hash)
        return answer({"agent": agent.path, "version": version, "total": await self._documents.total(agent)})

    @described({200: DocumentVersion}, query=Deletion, refuses=(409,))
    async def delete(self, request: Request) -> Response:
        """Delete a document of one layer; its versions stay."""
        wish = query(request, Deletion)
        agent = await self._agent(wish)
        return answer(await self._documents.delete(agent, wish.path, self._by(wish.reason), base_hash=wish.base_hash))

    @described({200: {"versions": list[DocumentVersion]}}, query=VersionsQuery)
    async def history(self, request: Request) -> Response:
        """List a document's versions, newest first, without their texts."""
        wish = query(request, VersionsQuery)
        agent = await self._agent(wish)
        found = await self._documents.history(agent, wish.path, before=wish.before, limit=wish.limit)
        return answer({"versions": found})

    @described({200: {"diff": str}}, query=Between)
    async def diff(self, request: Request) -> Response:
        """Show what changed between two versions; without numbers what the newest changed."""
        wish = query(request, Between)
        return answer({"diff": await self._documents.diff(await self._agent(wish), wish.path, wish.old, wish.new)})

    @described({200: {"layers": list[LayerState]}}, query=One)
    async def explain(self, request: Request) -> Response:
        """Say which layers have a document, and which of them is read."""
        wish = query(request, One)
        return answer({"layers": await self._documents.explain(await self._agent(wish), wish.path)})

    @described({200: {"found": list[DocumentHit]}}, query=DocumentQuery)
    async def search(self, request: Request) -> Response:
        """Find documents by their words."""
        wish = query(request, DocumentQuery)
        return answer({"found": await self._documents.search(await self._agent(wish), wish.query, wish.limit)})

    @described({200: DocumentVersion}, query=One, body=Undo, refuses=(409,))
    async def undo(self, request: Request) -> Response:
        """Make the text before the newest version the newest again."""
        wish = query(request, One)
        how = await body(request, Undo)
        agent = await self._agent(wish)
        by = self._by(how.reason or "undone")
        return answer(await self._documents.undo(agent, wish.path, by, version=how.version))

    @described({200: Exchange}, refuses=(409,))
    async def export(self, request: Request) -> Response:
        """Let the files in `memory/` follow the store."""
        return answer(await self._sharing.export(author=self._author, user=self._memory.owner))

    @described({200: Exchange}, refuses=(409,))
    async def take(self, request: Request) -> Response:
        """Let the store follow the files in `memory/`, and the files the store."""
        return answer(await self._sharing.take(author=self._author, user=self._memory.owner))

    def _by(self, reason: str) -> Attribution:
        return Attribution(origin=Origin.PERSON, author=self._author, approver=self._author, reason=reason)

    async def _agent(self, wish: Whose) -> Agent:
        return await agent_of(self._memory, wish.agent)


async def agent_of(memory: "MemoryFeature", at: str | None) -> Agent:
    """Return the agent whose memory is meant. Raises `ForbiddenError` for that of a person whom a user has let in."""
    if at is not None:
        agent = await agent_at(memory, at)
        if is_subusers(agent.path):
            raise ForbiddenError("OTHER_USER", f"using the memory of {agent.path}: it is theirs alone")
        return agent
    path = Path.connector(memory.owner, DIRECT)
    # Before the first word was said there is nobody whose documents could be written.
    return await memory.directory.find(str(path)) or await memory.directory.create(path, origin=Origin.PERSON)
