"""The identity of the installation and the memory of a chat, each as `{"memory": {id, content, updatedAt}}`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daycare.agent.prompt import Persona
from daycare.api.callers import caller_of, persons
from daycare.api.described import described
from daycare.api.documents import RequestDocument, answer, body
from daycare.base.documents import Attribution
from daycare.base.errors import ConflictError
from daycare.base.limits import DOCUMENT_SEARCH_MAX
from daycare.base.messages import Origin
from daycare.features.memory.documents.records import DocumentReading
from daycare.features.memory.documents.routes import Hash
from daycare.features.memory.documents.service import NEW_MEMORY
from daycare.features.panels.subject import IF_MATCH, Subjects, changes, iso, seen, tagged
from daycare.rules.document_paths import IDENTITY, MEMORY
from daycare.store.records import Agent

if TYPE_CHECKING:
    from daycare.features.memory.service import MemoryFeature

PLACES = ("/v1/chats/{chatId}/memory", "/v1/projects/{projectId}/memory", "/v1/workspaces/{workspaceId}/memory")


_SHOWN: Final = {"memory": {"id": str, "content": str, "updatedAt": str | None}}
_PROCESSED: Final = {**_SHOWN, "chunks": int, "embedded": int}
_FOUND: Final = {"results": [{"content": str, "headings": list[str], "score": float, "similarity": float | None}]}


class NewContent(RequestDocument, frozen=True, kw_only=True):
    """A text in place of what is there; with `base_hash`, or `If-Match`, only of what had this hash."""

    content: str
    base_hash: Hash | None = None


class PassageQuery(RequestDocument, frozen=True, kw_only=True):
    """A question, and how many passages at most."""

    query: Annotated[str, msgspec.Meta(min_length=1, max_length=1_000)]
    limit: Annotated[int, msgspec.Meta(ge=1, le=DOCUMENT_SEARCH_MAX)] = 5


class _Page(NamedTuple):
    """A document as the memory of something: whose view it is in, where it is, and how it begins."""

    agent: Agent
    path: str
    text: str = NEW_MEMORY

    @property
    def id(self) -> str:
        return f"{self.agent.id}/{self.path}" if self.path == MEMORY else self.path


class MemoryPanel:
    """`/v1/identity`, and `memory` of chats, projects and workspaces."""

    def __init__(self, memory: "MemoryFeature", subjects: Subjects) -> None:
        self._memory = memory
        self._documents = memory.documents
        self._subjects = subjects

    def routes(self) -> list[Route]:
        """Return the routes of this file."""
        return [
            Route("/v1/identity", self.read),
            Route("/v1/identity", self.write_identity, methods=["PUT"]),
            Route("/v1/identity/process", self.process_identity, methods=["POST"]),
            *(Route(place, self.read) for place in PLACES),
            *(Route(place, self.write, methods=["PUT"]) for place in PLACES),
            *(Route(f"{place}/process", self.process, methods=["POST"]) for place in PLACES),
            *(Route(f"{place}/search", self.search, methods=["POST"]) for place in PLACES),
        ]

    @persons
    @described({200: _SHOWN})
    async def read(self, request: Request) -> Response:
        """Return a text, which begins when it is first read, also after it was deleted."""
        page = await self._meant(request)
        found = await self._begun(request, page)
        return tagged(answer(_memory(page, found)), found.hash)

    @persons
    @described({200: _SHOWN}, body=NewContent, headers=IF_MATCH, refuses=(409,))
    async def write(self, request: Request) -> Response:
        """Write a text in place of what is there."""
        return await self._write(request, await body(request, NewContent))

    @described({200: _SHOWN}, body=NewContent, headers=IF_MATCH, refuses=(409,))
    async def write_identity(self, request: Request) -> Response:
        """Write who the agents of this installation are, as it stands in each prompt."""
        return await self._write(request, await body(request, NewContent))

    @persons
    @described({200: _PROCESSED})
    async def process(self, request: Request) -> Response:
        """Make the passages of a text again, with their vectors."""
        page = await self._meant(request)
        found = await self._begun(request, page)
        done = await self._memory.passages.process(page.agent, page.path)
        return answer({**_memory(page, found), "chunks": done.chunks, "embedded": done.embedded})

    @described({200: _PROCESSED})
    async def process_identity(self, request: Request) -> Response:
        """Make the passages of the identity again, with their vectors."""
        return await self.process(request)

    @persons
    @described({200: _FOUND}, body=PassageQuery)
    async def search(self, request: Request) -> Response:
        """Find the passages of a text that fit a question, by words and meaning, the best first."""
        page, wish = await self._meant(request), await body(request, PassageQuery)
        await self._begun(request, page)
        found = await self._memory.passages.search(page.agent, page.path, wish.query, wish.limit)
        results = [
            {
                "content": each.chunk.text,
                "headings": each.chunk.headings,
                "score": round(each.score, 3),
                "similarity": None if each.similarity is None else round(each.similarity, 3),
            }
            for each in found
        ]
        return answer({"results": results})

    async def _write(self, request: Request, wish: NewContent) -> Response:
        page, by = await self._meant(request), self._subjects.by(request)
        base = wish.base_hash if wish.base_hash is not None else seen(request)
        await self._documents.write(page.agent, page.path, wish.content, by, base_hash=base)
        found = await self._documents.read(page.agent, page.path)
        return tagged(answer(_memory(page, found)), found.hash)

    async def _meant(self, request: Request) -> _Page:
        match request.path_params:
            case {"chatId": _}:
                return _Page(await self._subjects.named(request, "chatId"), MEMORY)
            case {"projectId": name}:
                return _Page(await self._subjects.own(request), f"project/{name}/memory.md")
            case {"workspaceId": name}:
                return _Page(await self._subjects.own(request), f"workspace/{name}.md")
        settings = self._memory.live.now.agent
        text = f"{Persona(settings.name, settings.tone).text}\n"  # what prompts have in its place until it is written
        return _Page(await self._subjects.own(request), IDENTITY, text)

    async def _begun(self, request: Request, page: _Page) -> DocumentReading:
        """Return a document, which begins with this if there is none; for who may not write it nothing is written."""
        if not any(state.wins for state in await self._documents.explain(page.agent, page.path)):
            caller = caller_of(request)
            if not changes(caller) or (page.path == IDENTITY and caller.own_only):
                return DocumentReading(path=page.path, layer="", text=page.text, hash="", version=0, updated_at=0)
            try:
                await self._documents.write(page.agent, page.path, page.text, self._first(request, page), base_hash="")
            except ConflictError:
                pass  # somebody wrote it meanwhile
        return await self._documents.read(page.agent, page.path)

    def _first(self, request: Request, page: _Page) -> Attribution:
        """Return who stands behind the first text: it is ours, but identity counts only with a person's word."""
        approver = self._subjects.by(request).author if page.path == IDENTITY else ""
        return Attribution(
            origin=Origin.SYSTEM, author="system", approver=approver, reason="created when it was first read"
        )


def _memory(page: _Page, found: DocumentReading) -> Mapping[str, Any]:
    return {"memory": {"id": page.id, "content": found.text, "updatedAt": iso(found.updated_at)}}
