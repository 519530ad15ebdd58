"""daycare as an MCP server: `POST /mcp`, streamable HTTP in its simplest form, one answer to each request.

Its tools are calls of the API in the name of whoever sends the token, so they reach what that token reaches. What the
protocol needs for them is five methods of JSON-RPC; the library for it would cost the daemon 45 MB.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, Final, Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import daycare
from daycare.api.callers import Caller, May, caller_of
from daycare.api.described import described
from daycare.api.documents import answer, body
from daycare.api.inner import InnerAnswer, inner_call
from daycare.base.connector import DIRECT
from daycare.base.errors import InvalidError

VERSIONS: Final = ("2025-11-25", "2025-06-18", "2025-03-26")  # the newest first
ASKED_S: Final = 50.0  # many clients wait for a minute

_METHOD, _PARAMS = -32601, -32602

_Agent = Annotated[str, msgspec.Meta(max_length=500, description="Its path; yours, /USER/direct, without one")]
_Text = Annotated[str, msgspec.Meta(min_length=1, description="What to tell it")]


class SendTool(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Send a message to an agent, without waiting for its answer."""

    text: _Text
    agent: _Agent = ""


class AskTool(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Ask an agent and return its answer."""

    text: _Text
    agent: _Agent = ""
    wait_s: Annotated[float, msgspec.Meta(ge=1, le=600, description="How long to wait for it")] = ASKED_S


class MemorySearchTool(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Search what an agent remembers: things that were said, facts, people, and documents."""

    query: Annotated[str, msgspec.Meta(min_length=1, max_length=1_000)]
    agent: _Agent = ""
    limit: Annotated[int, msgspec.Meta(ge=1, le=50)] = 10


class ListAgentsTool(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """List the agents that can be asked, and what they are for."""


class RpcMessage(msgspec.Struct, frozen=True):
    """A request, or without `id` a notification, of JSON-RPC 2.0."""

    jsonrpc: Literal["2.0"]
    method: str
    id: int | str | None = None
    params: dict[str, Any] = {}


class RpcError(Exception):
    """What is answered in place of a result."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


Do = Callable[[Request, Any], Awaitable[str]]


def readers(endpoint: Callable[..., Any]) -> Callable[..., Any]:
    """Mark an endpoint as one for persons, and for tokens that only read: what it calls looks at who calls."""
    endpoint.callers = (May.PERSON, May.READ)  # type: ignore[attr-defined]
    return endpoint


class McpServing:
    """The route. `owner` is the operator, in whose name the socket speaks."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._tools: Mapping[str, tuple[type[msgspec.Struct], Do, bool]] = {
            "send": (SendTool, self._send, False),
            "ask": (AskTool, self._ask, False),
            "memory_search": (MemorySearchTool, self._search, True),
            "list_agents": (ListAgentsTool, self._agents, True),
        }

    def routes(self) -> list[Route]:
        """Return it."""
        return [Route("/mcp", self.serve, methods=["POST"])]

    @readers
    @described({200: dict[str, Any], 202: None}, body=RpcMessage)
    async def serve(self, request: Request) -> Response:
        """Answer one message of a client."""
        message = await body(request, RpcMessage)
        version = request.headers.get("mcp-protocol-version", VERSIONS[0])
        if message.method != "initialize" and version not in VERSIONS:
            told = f"asking over MCP: version {version[:40]!a} is not spoken"
            raise InvalidError("MCP_VERSION", told, hint=f"one of {', '.join(VERSIONS)}")
        if message.id is None:
            return Response(status_code=202)
        try:
            result = await self._result(request, message)
        except RpcError as error:
            return answer(_failed(message.id, error.code, str(error)))
        return answer({"jsonrpc": "2.0", "id": message.id, "result": result})

    async def _result(self, request: Request, message: RpcMessage) -> dict[str, Any]:
        match message.method:
            case "initialize":
                wanted = message.params.get("protocolVersion")
                return {
                    "protocolVersion": wanted if wanted in VERSIONS else VERSIONS[0],
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "daycare", "version": daycare.__version__},
                }
            case "ping":
                return {}
            case "tools/list":
                return {"tools": [_shown(name, kind, reads=reads) for name, (kind, _, reads) in self._tools.items()]}
            case "tools/call":
                return await self._called(request, message.params)
        raise RpcError(_METHOD, f"there is no method {message.method[:80]}")

    async def _called(self, request: Request, params: dict[str, Any]) -> dict[str, Any]:
        name = str(params.get("name"))
        if name not in self._tools:
            raise RpcError(_PARAMS, f"there is no tool {name[:80]}; there are: {', '.join(self._tools)}")
        kind, do, _ = self._tools[name]
        try:
            it = msgspec.convert(params.get("arguments") or {}, kind)
        except msgspec.ValidationError as error:
            raise RpcError(_PARAMS, f"wrong arguments for {name}: {error}") from None
        try:
            text = await do(request, it)
        except _RefusedError as refused:
            return {"content": [{"type": "text", "text": str(refused)}], "isError": True}
        return {"content": [{"type": "text", "text": text}]}

    # == the tools =====================================================================================================

    async def _send(self, request: Request, it: SendTool) -> str:
        sent = await _asked(request, "POST", "/v1/messages", {"text": it.text, "path": self._path(request, it.agent)})
        return f"message {sent['seq']} is with {sent['path']}"

    async def _ask(self, request: Request, it: AskTool) -> str:
        wish = {"text": it.text, "path": self._path(request, it.agent), "wait_s": it.wait_s}
        told = await _asked(request, "POST", "/v1/messages", wish)
        if told["state"] == "waiting":
            return f"no answer within {it.wait_s:g} s; message {told['seq']} goes on, and its answer stays in the chat"
        if seqs := [each["seq"] for each in told.get("replies", ())]:
            await _asked(request, "POST", "/v1/replies/ack", {"seqs": seqs})
        return str(told.get("result") or f"({told['state']}, without an answer)")

    async def _search(self, request: Request, it: MemorySearchTool) -> str:
        agent = self._path(request, it.agent)
        found = await _asked(request, "GET", "/v1/memories/search", query=it.query, agent=agent, limit=it.limit)
        return "\n\n".join(each["text"] for each in found["found"]) or "nothing is remembered that fits"

    async def _agents(self, request: Request, it: ListAgentsTool) -> str:
        found = await _asked(request, "GET", "/v1/agents", user=self._user(caller_of(request)))
        lines = [f"{each['path']}: {each['config'].get('description') or each['kind']}" for each in found["agents"]]
        return "\n".join(lines) or "there are none"

    def _user(self, caller: Caller) -> str:
        return caller.user or self._owner

    def _path(self, request: Request, agent: str) -> str:
        return agent or f"/{self._user(caller_of(request))}/{DIRECT}"


class _RefusedError(Exception):
    """The API has refused."""


async def _asked(request: Request, method: str, path: str, given: Any = None, **query: Any) -> Any:
    told: InnerAnswer = await inner_call(request, method, path, query, given)
    if told.refused:
        error = told.document["error"]
        raise _RefusedError(f"{error['message']}. Hint: {error['hint']}" if error.get("hint") else error["message"])
    return told.document


def _shown(name: str, kind: type[msgspec.Struct], *, reads: bool) -> dict[str, Any]:
    schema = msgspec.json.schema(kind)["$defs"][kind.__name__]
    description = " ".join(schema.pop("description", "").split())
    schema.pop("title", None)
    return {
        "name": name,
        "description": description,
        "inputSchema": schema,
        "annotations": {"readOnlyHint": reads, "openWorldHint": False},
    }


def _failed(number: int | str | None, code: int, message: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}}
