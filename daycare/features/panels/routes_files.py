"""The documents that an agent reads, as files."""

from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daycare.api.callers import caller_of, persons
from daycare.api.described import described
from daycare.api.documents import RequestDocument, answer, query
from daycare.base.documents import Layer
from daycare.base.errors import ForbiddenError
from daycare.features.memory.documents.rows import DocumentRows
from daycare.features.memory.documents.service import VIEW, owner_in
from daycare.features.panels.subject import IF_MATCH, Subjects, iso, seen, tagged
from daycare.rules.document_paths import parse, spell
from daycare.store.records import Agent

if TYPE_CHECKING:
    from daycare.features.memory.service import MemoryFeature

_KNOWN: Final = {"path": str, "content_type": str, "updated_at": str | None}


class FilesQuery(RequestDocument, frozen=True, kw_only=True):
    """Only what is below a folder, such as `knowledge`."""

    prefix: str = ""


class FilePanel:
    """`/v1/agents/{id}/memory`."""

    def __init__(self, memory: "MemoryFeature", subjects: Subjects) -> None:
        self._documents = memory.documents
        self._rows = memory.store.of(DocumentRows)
        self._subjects = subjects

    def routes(self) -> list[Route]:
        """Return the routes of this file."""
        return [
            Route("/v1/agents/{id}/memory", self.find),
            Route("/v1/agents/{id}/memory/{path:path}", self.read),
            Route("/v1/agents/{id}/memory/{path:path}", self.delete, methods=["DELETE"]),
        ]

    @persons
    @described({200: {"files": [{**_KNOWN, "created_at": str, "size_bytes": int}]}}, query=FilesQuery)
    async def find(self, request: Request) -> Response:
        """List the files of an agent, with those that it shares with others: `shared/` and `global/`."""
        agent, wish = await self._subjects.named(request, "id"), query(request, FilesQuery)
        entries = await self._documents.listing(agent, wish.prefix)
        begun = {layer: await self._begun(agent, layer) for layer in {each.layer for each in entries} - {VIEW}}
        named = [(each, parse(each.path).name) for each in entries if each.layer != VIEW]
        files = [
            {
                "path": spell(Layer(each.layer), name),  # with its layer where that is not the first: it can be deleted
                "content_type": _type(name),
                "created_at": iso(begun[each.layer].get(name, each.updated_at)),
                "updated_at": iso(each.updated_at),
                "size_bytes": each.size,
            }
            for each, name in named
        ]
        return answer({"files": files})

    @persons
    @described({200: {**_KNOWN, "content": str}})
    async def read(self, request: Request) -> Response:
        """Return a file; `AGENTS.md` and `tools.json` are made when they are read."""
        agent = await self._subjects.named(request, "id")
        found = await self._documents.read(agent, request.path_params["path"])
        view: dict[str, Any] = {
            "path": found.path,
            "content": found.text,
            "content_type": _type(found.path),
            "updated_at": iso(found.updated_at),
        }
        return tagged(answer(view), found.hash)

    @persons
    @described({204: ()}, headers=IF_MATCH, refuses=(409,))
    async def delete(self, request: Request) -> Response:
        """Delete a file; its versions stay. What everybody reads is deleted by operators."""
        agent, path = await self._subjects.named(request, "id"), request.path_params["path"]
        draft = await self._documents.prepare(agent, path, None)
        if draft.approver == "operator" and caller_of(request).own_only:
            raise ForbiddenError("DOCUMENT_SHARED", f"deleting {path}: everybody reads it", hint="ask an operator")
        await self._documents.delete(agent, path, self._subjects.by(request), base_hash=seen(request))
        return Response(status_code=204)

    async def _begun(self, agent: Agent, layer: str) -> dict[str, int]:
        return await self._rows.begun(Layer(layer), owner_in(agent, Layer(layer)))


def _type(path: str) -> str:
    return "application/json" if path.endswith(".json") else "text/markdown"
